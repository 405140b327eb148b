//! Runs operations on both stores, and finds the first answer in which they differ.

use std::error::Error as _;
use std::fmt::{self, Write as _};

use crore_core::{JobId, State};
use crore_store::Error;
use crore_store::jobs::Which;
use crore_testkit::FakeClock;

use super::normal::{self, Said};
use super::op::Op;
use super::shrink::Tally;
use super::side::{Parts, Side};

/// How many operations there are between two looks at everything.
const STRIDE: usize = 8;

/// How much of an answer is printed.
const MAX_LINES: usize = 20;

/// The first answer in which the stores differ.
#[derive(Debug)]
pub(super) struct Difference {
    /// What was asked.
    what: String,
    subject: String,
    model: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, subject, model } = self;
        writeln!(f, "{what}")?;
        writeln!(f, "  of the store under test:\n{}", subject.trim_end())?;
        write!(f, "  of the memory store:\n{}", model.trim_end())
    }
}

/// Gives both stores the same operations at the same times. `tallies` is how much had been seen
/// before each operation that was begun; it outlives a panic.
pub(super) async fn compare(
    ops: &[Op],
    subject: Parts<'_>,
    mut model: Parts<'_>,
    clock: &FakeClock,
    tallies: &mut Vec<Tally>,
) -> Result<(), Difference> {
    model.rest = model.rest.filter(|_| subject.rest.is_some());
    let mut subject = Side::new(subject, clock);
    let mut model = Side::new(model, clock);
    for (place, op) in ops.iter().enumerate() {
        tallies.push(model.tally());
        if let Op::Advance(span) = op {
            clock.advance(*span);
        }
        let said = (subject.run(op).await, model.run(op).await);
        differ("the answer", said)?;
        if (place + 1) % STRIDE == 0 || place + 1 == ops.len() {
            look(&mut subject, &mut model).await?;
        }
    }
    Ok(())
}

/// Compares everything that can be seen of both.
async fn look(subject: &mut Side<'_>, model: &mut Side<'_>) -> Result<(), Difference> {
    match (subject.everything().await, model.everything().await) {
        (Ok(subject), Ok(model)) => subject
            .into_iter()
            .zip(model)
            .try_for_each(|((what, subject), (_, model))| differ(&what, (Ok(subject), Ok(model)))),
        (subject, model) => {
            let nothing = |said: Result<Vec<_>, Error>| said.map(|_| Said::Nothing);
            differ("a look at everything", (nothing(subject), nothing(model)))
        }
    }
}

type Answered = Result<Said, Error>;

fn differ(what: &str, said: (Answered, Answered)) -> Result<(), Difference> {
    let (subject, model) = match said {
        (Ok(Said::Wrong(what)), other) => (format!("    {what}"), outcome(other)),
        (other, Ok(Said::Wrong(what))) => (outcome(other), format!("    {what}")),
        (Ok(subject), Ok(model)) if subject == model => return Ok(()),
        (Ok(subject), Ok(model)) => apart(&subject, &model),
        (subject, model) => (outcome(subject), outcome(model)),
    };
    Err(Difference { what: what.to_owned(), subject, model })
}

/// Both answers as text, without what is the same in both.
fn apart(subject: &Said, model: &Said) -> (String, String) {
    let (subject, model) = (format!("{subject:#?}"), format!("{model:#?}"));
    if subject == model {
        return (indent(&subject), "    the same but for the bytes of a payload".to_owned());
    }
    let (one, other): (Vec<_>, Vec<_>) = (subject.lines().collect(), model.lines().collect());
    if one.len() == other.len() {
        let unlike = || one.iter().zip(&other).filter(|(one, other)| one != other);
        let text = |line: &str| format!("    … {}\n", line.trim());
        return (
            unlike().map(|(one, _)| text(one)).collect(),
            unlike().map(|(_, o)| text(o)).collect(),
        );
    }
    let head = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let tails = one.iter().rev().zip(other.iter().rev());
    let tail = tails.take_while(|(one, other)| one == other).count();
    let tail = tail.min(one.len().min(other.len()) - head);
    let middle = |lines: &[&str]| {
        let unlike = lines.iter().take(lines.len() - tail).skip(head);
        let shown: String =
            unlike.clone().take(MAX_LINES).map(|line| format!("    {line}\n")).collect();
        let more = unlike.count().saturating_sub(MAX_LINES);
        if more > 0 { format!("{shown}    … and {more} more lines\n") } else { shown }
    };
    (middle(&one), middle(&other))
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn outcome(answered: Answered) -> String {
    match answered {
        Ok(said) => indent(&format!("{said:#?}")),
        Err(error) => {
            let mut text = format!("    the error `{error}`");
            let mut cause = error.source();
            while let Some(error) = cause {
                let _ = write!(text, ", because of `{error}`");
                cause = error.source();
            }
            text
        }
    }
}

impl Side<'_> {
    /// All that can be seen of a store, piece by piece.
    async fn everything(&mut self) -> Result<Vec<(String, Said)>, Error> {
        let now = self.now();
        let jobs = self.parts.jobs.get(Which::all(&self.ids())).await?;
        let mut seen = vec![("the length of a get".to_owned(), Said::Number(jobs.len()))];
        for (n, job) in (1..).zip(jobs) {
            let job = job.map(|job| self.known.job(job, now));
            seen.push((format!("job {:?}", JobId(n)), Said::Job(Box::new(job))));
        }
        for (n, id) in (1..).zip(self.known.groups.all().to_vec()) {
            let group = self.parts.registry.group(id).await?;
            seen.push((format!("group g{n}"), normal::group(group)));
        }
        if let Some((_, views)) = self.parts.rest {
            seen.push(("the counts".to_owned(), Said::Counts(views.counts(None).await?)));
            for state in State::ALL {
                let list = self.list(views, (state, None, None), 100).await?;
                seen.push((format!("the list of {state:?} jobs"), list));
            }
        }
        Ok(seen)
    }
}
