//! Runs operations on both stores and finds the first response that differs.

use std::error::Error as _;
use std::fmt::{self, Write as _};

use crore_core::{JobId, State};
use crore_store::Error;
use crore_store::jobs::JobSelector;
use crore_store::views::ListQuery;
use crore_testkit::FakeClock;

use super::compared_store::{ComparedStore, StoreTraits};
use super::normalize::{self, NormalResponse};
use super::op::ModelOp;
use super::shrink::SeenCounts;

/// Number of operations between two comparisons of the whole state.
const OPS_PER_FULL_COMPARE: usize = 8;

/// Maximum printed lines of a response.
const MAX_LINES: usize = 20;

/// The first response that differs.
#[derive(Debug)]
pub(super) struct Difference {
    /// The compared value.
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

/// Applies the same operations to both stores at the same times. `tallies` receives the counts of everything
/// seen before each operation; it survives a panic.
pub(super) async fn compare(
    ops: &[ModelOp],
    subject: StoreTraits<'_>,
    mut model: StoreTraits<'_>,
    clock: &FakeClock,
    tallies: &mut Vec<SeenCounts>,
) -> Result<(), Difference> {
    model.rest = model.rest.filter(|_| subject.rest.is_some());
    let mut subject = ComparedStore::new(subject, clock);
    let mut model = ComparedStore::new(model, clock);
    for (index, op) in ops.iter().enumerate() {
        tallies.push(model.counts());
        if let ModelOp::Advance(span) = op {
            clock.advance(*span);
        }
        let responses = (subject.run(op).await, model.run(op).await);
        compare_responses("the response", responses)?;
        if (index + 1) % OPS_PER_FULL_COMPARE == 0 || index + 1 == ops.len() {
            compare_everything(&mut subject, &mut model).await?;
        }
    }
    Ok(())
}

/// Compares the whole visible state.
async fn compare_everything(
    subject: &mut ComparedStore<'_>,
    model: &mut ComparedStore<'_>,
) -> Result<(), Difference> {
    match (subject.read_everything().await, model.read_everything().await) {
        (Ok(subject), Ok(model)) => {
            subject.into_iter().zip(model).try_for_each(|((what, subject), (_, model))| {
                compare_responses(&what, (Ok(subject), Ok(model)))
            })
        }
        (subject, model) => {
            let nothing =
                |response: Result<Vec<_>, Error>| response.map(|_| NormalResponse::Nothing);
            compare_responses("reading the whole state", (nothing(subject), nothing(model)))
        }
    }
}

type NormalResult = Result<NormalResponse, Error>;

fn compare_responses(
    what: &str,
    responses: (NormalResult, NormalResult),
) -> Result<(), Difference> {
    let (subject, model) = match responses {
        (Ok(NormalResponse::Wrong(what)), other) => (format!("    {what}"), outcome(other)),
        (other, Ok(NormalResponse::Wrong(what))) => (outcome(other), format!("    {what}")),
        (Ok(subject), Ok(model)) if subject == model => return Ok(()),
        (Ok(subject), Ok(model)) => diff_text(&subject, &model),
        (subject, model) => (outcome(subject), outcome(model)),
    };
    Err(Difference { what: what.to_owned(), subject, model })
}

/// Both responses as text, without their common lines.
fn diff_text(subject: &NormalResponse, model: &NormalResponse) -> (String, String) {
    let (subject, model) = (format!("{subject:#?}"), format!("{model:#?}"));
    if subject == model {
        return (indent(&subject), "    the same except for the bytes of a payload".to_owned());
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

fn outcome(result: NormalResult) -> String {
    match result {
        Ok(response) => indent(&format!("{response:#?}")),
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

impl ComparedStore<'_> {
    /// The whole visible state of a store, item by item.
    async fn read_everything(&mut self) -> Result<Vec<(String, NormalResponse)>, Error> {
        let now = self.now();
        let jobs = self.traits.jobs.get(JobSelector::all(&self.ids())).await?;
        let mut seen = vec![("the length of a get".to_owned(), NormalResponse::Number(jobs.len()))];
        for (n, job) in (1..).zip(jobs) {
            let job = job.map(|job| self.observed.job(job, now));
            seen.push((format!("job {:?}", JobId(n)), NormalResponse::Job(Box::new(job))));
        }
        for (n, id) in (1..).zip(self.observed.groups.all().to_vec()) {
            let group = self.traits.registry.group(id).await?;
            seen.push((format!("group g{n}"), normalize::group(group)));
        }
        if let Some((_, views, events)) = self.traits.rest {
            let events = events.events(None, 100).await?;
            seen.push(("the kept events".to_owned(), self.observed.kept(events)));
            seen.push(("the counts".to_owned(), NormalResponse::Counts(views.counts(None).await?)));
            let required = NormalResponse::RequiredVersions(views.required_versions(None).await?);
            seen.push(("the required versions".to_owned(), required));
            for state in State::ALL {
                let query =
                    ListQuery { state, queue: None, kind: None, key: None, after: None, n: 100 };
                let list = self.list(views, query).await?;
                seen.push((format!("the list of {state:?} jobs"), list));
            }
        }
        Ok(seen)
    }
}
