//! Lists: newest first, in parts, and with no more work than what they give and a bounded rest.
//!
//! A store lists the jobs of one state in an order of its own. Where few jobs can be meant, their numbers are gathered
//! and sorted first. Where there are many, that would cost as much as there are jobs, whatever is asked for; so they
//! come as the store has them: those that have ended by when, newest first, and the others as they will be run. In
//! both cases jobs are read a few at a time, as the caller takes them.

use std::collections::{BTreeSet, VecDeque};

use crore::Engine;
use crore::store::jobs::Which;
use crore::store::views::{Count, Query};
use crore_core::{Code, Invalid, Job, JobId, Name, State};
use futures_util::stream::{self, StreamExt};
use tonic::Status;

use super::Answers;
use crate::Doors;
use crate::grpc::{as_named as invalid, failed};

/// How many jobs are read at once.
const AT_ONCE: usize = 100;
/// So many jobs, and no more, are listed in the order of their numbers.
pub(super) const SORTED: u64 = 10_000;
/// So many jobs are passed over in one list: those that give nothing, and those before its `offset`.
const IN_VAIN: usize = 100_000;
/// With more kinds than these, all jobs are looked at, and those of others passed over.
const FEW: usize = 20;

/// The states of jobs that have not ended, in the order in which many are listed.
pub(super) const LIVE: [State; 4] =
    [State::Running, State::Ready, State::Scheduled, State::Waiting];
/// The states of jobs that have.
const ENDED: [State; 3] = [State::Done, State::Dead, State::Cancelled];

/// A part of a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    skip: usize,
    take: usize,
}

impl Part {
    pub(super) const ALL: Self = Self { skip: 0, take: usize::MAX };

    pub(super) fn read(limit: Option<i32>, offset: Option<i64>) -> Result<Self, Invalid> {
        let number = |field: &str, number: i64| {
            let below =
                |_| Invalid::new(Code::CountRange, field, format!("`{number}` is below zero"));
            usize::try_from(number).map_err(below)
        };
        let take = limit.map(|limit| number("limit", limit.into())).transpose()?;
        let skip = offset.map(|offset| number("offset", offset)).transpose()?;
        Ok(Self { skip: skip.unwrap_or(0), take: take.unwrap_or(usize::MAX) })
    }

    pub(super) fn of<T>(self, all: Vec<T>) -> Vec<T> {
        all.into_iter().skip(self.skip).take(self.take).collect()
    }
}

/// Which jobs a list is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Among {
    /// Those that have not ended.
    Live,
    /// All; of very many, those that have ended.
    Any,
}

/// Jobs, a few at a time, until there are no more.
#[derive(Debug)]
pub(super) struct Looking {
    engine: Engine,
    at: At,
}

#[derive(Debug)]
enum At {
    /// The rest of the numbers, newest first.
    Sorted(std::vec::IntoIter<JobId>),
    /// The rest of these lists, one after the other.
    InTurn(VecDeque<Source>),
    /// The rest of these lists, each by when its jobs ended, newest first; and so all together.
    ByEnd(Vec<Source>),
}

/// A list of the store, read a page at a time.
#[derive(Debug)]
struct Source {
    query: Query,
    page: VecDeque<Job>,
    is_over: bool,
}

impl Source {
    fn new(state: State, kind: Option<Name>) -> Self {
        let query = Query { state, queue: None, kind, after: None, n: AT_ONCE };
        Self { query, page: VecDeque::new(), is_over: false }
    }

    /// Reads on, if there is nothing left of what was read.
    async fn fill(&mut self, engine: &Engine) -> Result<(), crore::Error> {
        while self.page.is_empty() && !self.is_over {
            let page = engine.list(self.query.clone()).await?;
            self.page.extend(page.jobs);
            self.is_over = page.next.is_none();
            self.query.after = page.next;
        }
        Ok(())
    }
}

impl Looking {
    /// Begins to look at jobs of the kinds that are wanted.
    pub(super) async fn begin(
        doors: &Doors,
        among: Among,
        is_wanted: impl Fn(&Name) -> bool,
    ) -> Result<Self, Status> {
        let engine = doors.engine().clone();
        let mut counts = engine.jobs().counts(None).await.map_err(failed)?;
        counts.retain(|count| is_wanted(&count.kind));
        let at = match among {
            _ if meant(&counts, among) <= SORTED => {
                At::Sorted(sorted(doors, among, counts).await.map_err(failed)?.into_iter())
            }
            Among::Live => At::InTurn(sources(&LIVE, &counts).into()),
            Among::Any => At::ByEnd(sources(&ENDED, &counts)),
        };
        Ok(Self { engine, at })
    }

    /// The next few; `None`: that was all.
    async fn some(&mut self) -> Result<Option<Vec<Job>>, crore::Error> {
        match &mut self.at {
            At::Sorted(ids) => {
                let which: Vec<_> = ids.take(AT_ONCE).map(Which::Id).collect();
                if which.is_empty() {
                    return Ok(None);
                }
                Ok(Some(self.engine.jobs().get_all(which).await?.into_iter().flatten().collect()))
            }
            At::InTurn(sources) => {
                while let Some(source) = sources.front_mut() {
                    source.fill(&self.engine).await?;
                    if !source.page.is_empty() {
                        return Ok(Some(source.page.drain(..).collect()));
                    }
                    sources.pop_front();
                }
                Ok(None)
            }
            At::ByEnd(sources) => {
                let mut jobs = Vec::new();
                while jobs.len() < AT_ONCE {
                    for source in sources.iter_mut() {
                        source.fill(&self.engine).await?;
                    }
                    let end = |source: &&mut Source| {
                        source.page.front().map(|job| (job.live.ended_at, job.id))
                    };
                    let Some(newest) = sources.iter_mut().max_by_key(end) else { break };
                    let Some(job) = newest.page.pop_front() else { break };
                    jobs.push(job);
                }
                Ok((!jobs.is_empty()).then_some(jobs))
            }
        }
    }
}

/// How many jobs there are to look at.
pub(super) fn meant(counts: &[Count], among: Among) -> u64 {
    let is_meant = |count: &&Count| among == Among::Any || LIVE.contains(&count.state);
    counts.iter().filter(is_meant).map(|count| count.n).sum()
}

fn sources(states: &[State], counts: &[Count]) -> Vec<Source> {
    let kinds: BTreeSet<&Name> = counts.iter().map(|count| &count.kind).collect();
    let kinds: Vec<Option<Name>> = match kinds.len() {
        0..=FEW => kinds.into_iter().cloned().map(Some).collect(),
        _ => vec![None],
    };
    let mut sources = Vec::with_capacity(states.len() * kinds.len());
    for state in states {
        sources.extend(kinds.iter().map(|kind| Source::new(*state, kind.clone())));
    }
    sources
}

/// The numbers of the jobs that are counted, newest first.
async fn sorted(
    doors: &Doors,
    among: Among,
    counts: Vec<Count>,
) -> Result<Vec<JobId>, crore::Error> {
    let states: &[State] = if among == Among::Live { &LIVE } else { &State::ALL };
    // A job may go from one state to another meanwhile, so all of them are looked at.
    let mut places: Vec<_> =
        counts.into_iter().map(|Count { queue, kind, .. }| (queue, kind)).collect();
    places.dedup();
    let mut ids = Vec::new();
    for (queue, kind) in places {
        for state in states {
            ids.extend(numbers(doors, *state, &queue, &kind).await?);
        }
    }
    ids.sort_unstable_by(|one, other| other.cmp(one));
    ids.dedup();
    Ok(ids)
}

async fn numbers(
    doors: &Doors,
    state: State,
    queue: &Name,
    kind: &Name,
) -> Result<Vec<JobId>, crore::Error> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let (queue, kind) = (Some(queue.clone()), Some(kind.clone()));
        let query = Query { state, queue, kind, after, n: AT_ONCE };
        let page = doors.engine().list(query).await?;
        ids.extend(page.jobs.iter().map(|job| job.id));
        after = page.next;
        if after.is_none() {
            return Ok(ids);
        }
    }
}

/// What there is to say about jobs, in their order.
pub(super) fn told<T: Send + 'static>(
    looking: Looking,
    part: Part,
    tell: impl Fn(&Job) -> Vec<T> + Send + 'static,
) -> Answers<T> {
    let begun = Telling { looking, part, vain: IN_VAIN, tell };
    let all = stream::unfold(Some(begun), |telling| async {
        let mut telling = telling.filter(|telling| telling.part.take > 0)?;
        match telling.some().await {
            Ok(some) => Some((some?.into_iter().map(Ok).collect(), Some(telling))),
            Err(status) => Some((vec![Err(status)], None)),
        }
    });
    Box::pin(all.flat_map(stream::iter))
}

/// A list that is being told.
struct Telling<F> {
    looking: Looking,
    /// What is still to be passed over, and to be given.
    part: Part,
    /// How many more may be passed over.
    vain: usize,
    tell: F,
}

impl<F> Telling<F> {
    /// The next few; `None`: that was all.
    async fn some<T>(&mut self) -> Result<Option<Vec<T>>, Status>
    where
        F: Fn(&Job) -> Vec<T>,
    {
        if self.vain == 0 {
            let why = format!("a list goes past {IN_VAIN} jobs and no more: ask for less");
            return Err(invalid(Invalid::new(Code::CountRange, "offset", why)));
        }
        let Some(jobs) = self.looking.some().await.map_err(failed)? else { return Ok(None) };
        let mut given = Vec::new();
        for job in jobs {
            if self.part.take == 0 {
                break;
            }
            let mut said = (self.tell)(&job);
            let passed = self.part.skip.min(said.len());
            self.part.skip -= passed;
            said.drain(..passed);
            if said.is_empty() {
                self.vain = self.vain.saturating_sub(1);
            }
            said.truncate(self.part.take);
            self.part.take -= said.len();
            given.append(&mut said);
        }
        Ok(Some(given))
    }
}

#[cfg(test)]
mod tests;
