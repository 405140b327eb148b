//! What a child says, one line each: what it is about to ask for, and what it was told.
//!
//! A line is written whole and at once. What was told is said before anything else is done with it,
//! so that whatever a child knew is known, but for the last line of each of its hands.

use std::fmt::{self, Display, Formatter};
use std::io::Write;

use super::draft::Tag;

/// Lines of others, such as a test runner's, do not begin so.
const MARK: &str = "said ";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// The store is open.
    Ready,
    /// It pushes this and so many that follow, as one batch.
    Push(Tag, u64),
    /// That push was answered: for each job its number, and whether it is new.
    Pushed(Tag, Vec<(u64, bool)>),
    /// That push was refused, and nothing was stored.
    Refused(Tag),
    /// It was handed a job: its number, delivery, attempt.
    Grant(Tag, u64, u64, u32),
    /// The n-th write: what it makes of a job that was last handed over as this delivery.
    Write(u64, Tag, u64, To),
    /// Whether the n-th write was applied.
    Wrote(u64, bool),
    /// The store has given up; nothing was said ok since.
    Over(String),
    /// The child itself saw a promise broken.
    Broken(String),
}

/// What a write makes of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum To {
    /// It goes on.
    Live,
    /// It has ended and is kept.
    Ended,
    /// It is removed.
    Gone,
}

impl Said {
    /// Says it, at once.
    pub(crate) fn say(&self) {
        let line = format!("{MARK}{self}\n");
        let mut out = std::io::stdout().lock();
        // Nobody to tell means that the parent is gone, and then this process ends anyway.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }

    /// What a line says; `None` if it is somebody else's.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let (word, rest) = line.strip_prefix(MARK)?.split_once(' ')?;
        let said = read(word, rest);
        Some(said.unwrap_or_else(|| Self::Broken(format!("nobody understands `{line}`"))))
    }
}

impl Display for Said {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready "),
            Self::Push(tag, n) => write!(f, "push {} {n}", tag.0),
            Self::Pushed(tag, ids) => {
                write!(f, "pushed {}", tag.0)?;
                ids.iter().try_for_each(|(id, new)| write!(f, " {id} {}", u8::from(*new)))
            }
            Self::Refused(tag) => write!(f, "refused {}", tag.0),
            Self::Grant(tag, id, delivery, attempt) => {
                write!(f, "grant {} {id} {delivery} {attempt}", tag.0)
            }
            Self::Write(no, tag, delivery, to) => {
                write!(f, "write {no} {} {delivery} {}", tag.0, *to as u8)
            }
            Self::Wrote(no, applied) => write!(f, "wrote {no} {}", u8::from(*applied)),
            Self::Over(why) => write!(f, "over {}", why.replace('\n', " ")),
            Self::Broken(what) => write!(f, "broken {}", what.replace('\n', " ")),
        }
    }
}

fn read(word: &str, rest: &str) -> Option<Said> {
    match word {
        "ready" => return Some(Said::Ready),
        "over" => return Some(Said::Over(rest.to_owned())),
        "broken" => return Some(Said::Broken(rest.to_owned())),
        _ => {}
    }
    let numbers: Option<Vec<u64>> = rest.split(' ').map(|n| n.parse().ok()).collect();
    match (word, numbers?.as_slice()) {
        ("push", [tag, n]) => Some(Said::Push(Tag(*tag), *n)),
        ("pushed", [tag, ids @ ..]) => {
            let ids = ids.chunks(2).map(|pair| Some((*pair.first()?, *pair.get(1)? == 1)));
            Some(Said::Pushed(Tag(*tag), ids.collect::<Option<_>>()?))
        }
        ("refused", [tag]) => Some(Said::Refused(Tag(*tag))),
        ("grant", [tag, id, delivery, attempt]) => {
            Some(Said::Grant(Tag(*tag), *id, *delivery, u32::try_from(*attempt).ok()?))
        }
        ("write", [no, tag, delivery, to]) => {
            let to = [To::Live, To::Ended, To::Gone].get(usize::try_from(*to).ok()?);
            Some(Said::Write(*no, Tag(*tag), *delivery, *to?))
        }
        ("wrote", [no, applied]) => Some(Said::Wrote(*no, *applied == 1)),
        _ => None,
    }
}
