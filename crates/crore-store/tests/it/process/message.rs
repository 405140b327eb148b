//! Messages of a child to its parent, one line each: requests before they are made, and answers.
//!
//! A line is written atomically. A child reports an answer before it acts on it, so its parent
//! knows everything but the last answer of each thread.

use std::fmt::{self, Display, Formatter};
use std::io::Write;

use super::draft::Tag;

/// Prefix that tells messages from lines of others, such as a test runner.
const MARK: &str = "said ";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChildMessage {
    /// The store is open.
    Ready,
    /// Begins a push of one batch: first tag, number of jobs.
    Push(Tag, u64),
    /// Answer to that push: for each job its id, and whether it is new.
    Pushed(Tag, Vec<(u64, bool)>),
    /// The push was refused; nothing was stored.
    Refused(Tag),
    /// Claimed a job: id, delivery, attempt.
    Grant(Tag, u64, u64, u32),
    /// Begins write number n on a job last seen under this delivery, with its target.
    Write(u64, Tag, u64, WriteTarget),
    /// Whether write number n was applied.
    Wrote(u64, bool),
    /// The store has failed; nothing was acknowledged since.
    GaveUp(String),
    /// The child itself saw a broken promise.
    Broken(String),
}

/// The state of a job after a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WriteTarget {
    Live,
    /// Ended and kept.
    Ended,
    /// Removed.
    Gone,
}

impl ChildMessage {
    /// Prints the message at once.
    pub(crate) fn send(&self) {
        let line = format!("{MARK}{self}\n");
        let mut out = std::io::stdout().lock();
        // A failure means that the parent is gone, and then this process exits anyway.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }

    /// Parses a line; `None` if it is not a message.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let (word, rest) = line.strip_prefix(MARK)?.split_once(' ')?;
        let message = read(word, rest);
        Some(message.unwrap_or_else(|| Self::Broken(format!("unknown message `{line}`"))))
    }
}

impl Display for ChildMessage {
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
            Self::GaveUp(why) => write!(f, "over {}", why.replace('\n', " ")),
            Self::Broken(what) => write!(f, "broken {}", what.replace('\n', " ")),
        }
    }
}

fn read(word: &str, rest: &str) -> Option<ChildMessage> {
    match word {
        "ready" => return Some(ChildMessage::Ready),
        "over" => return Some(ChildMessage::GaveUp(rest.to_owned())),
        "broken" => return Some(ChildMessage::Broken(rest.to_owned())),
        _ => {}
    }
    let numbers: Option<Vec<u64>> = rest.split(' ').map(|n| n.parse().ok()).collect();
    match (word, numbers?.as_slice()) {
        ("push", [tag, n]) => Some(ChildMessage::Push(Tag(*tag), *n)),
        ("pushed", [tag, ids @ ..]) => {
            let ids = ids.chunks(2).map(|pair| Some((*pair.first()?, *pair.get(1)? == 1)));
            Some(ChildMessage::Pushed(Tag(*tag), ids.collect::<Option<_>>()?))
        }
        ("refused", [tag]) => Some(ChildMessage::Refused(Tag(*tag))),
        ("grant", [tag, id, delivery, attempt]) => {
            Some(ChildMessage::Grant(Tag(*tag), *id, *delivery, u32::try_from(*attempt).ok()?))
        }
        ("write", [no, tag, delivery, to]) => {
            let to = [WriteTarget::Live, WriteTarget::Ended, WriteTarget::Gone]
                .get(usize::try_from(*to).ok()?);
            Some(ChildMessage::Write(*no, Tag(*tag), *delivery, *to?))
        }
        ("wrote", [no, applied]) => Some(ChildMessage::Wrote(*no, *applied == 1)),
        _ => None,
    }
}
