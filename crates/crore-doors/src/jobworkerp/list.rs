//! Lists: newest first, paged, with a bounded amount of work.
//!
//! A store lists the jobs of one state in its own order. If few jobs match, their ids are collected and sorted
//! first. If many match, sorting would cost as much as there are jobs, so they come in the store's order: ended jobs
//! by their end, newest first, and the others in the order in which they will run. Either way jobs are read in small
//! pages, as the caller consumes them.

use std::collections::{BTreeSet, VecDeque};

use crore::Engine;
use crore::store::jobs::JobSelector;
use crore::store::views::{JobCount, ListQuery};
use crore_api::Grant;
use crore_core::{Code, Invalid, Job, JobId, Name, State};
use futures_util::stream::{self, StreamExt};
use tonic::Status;

use super::JobworkerpStream;
use crate::Doors;
use crate::grpc::{failed, invalid_unmapped as invalid};

/// Page size of reads from the store.
const PAGE_JOBS: usize = 100;
/// Up to this many jobs are listed in the order of their ids.
pub(super) const MAX_SORTED: u64 = 10_000;
/// Maximum number of jobs skipped in one list: those that yield nothing, and those before its `offset`.
const MAX_SKIPPED: usize = 100_000;
/// Above this number of kinds, all jobs are read and those of other kinds skipped.
const MAX_KIND_LISTS: usize = 20;

/// States of jobs that have not ended, in the order in which long lists show them.
pub(super) const LIVE: [State; 4] =
    [State::Running, State::Ready, State::Scheduled, State::Waiting];
/// States of jobs that have ended.
const ENDED: [State; 3] = [State::Done, State::Dead, State::Cancelled];

/// A page of a list: offset and limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct OffsetPage {
    skip: usize,
    take: usize,
}

impl OffsetPage {
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

/// Which jobs a list reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListedJobs {
    /// Jobs that have not ended.
    Live,
    /// All jobs; if there are many, those that have ended.
    Any,
}

/// A cursor over jobs, a page at a time.
#[derive(Debug)]
pub(super) struct JobCursor {
    engine: Engine,
    grant: Grant,
    position: CursorPosition,
}

#[derive(Debug)]
enum CursorPosition {
    /// Remaining ids, newest first.
    Sorted(std::vec::IntoIter<JobId>),
    /// Remaining lists, one after the other.
    Sequential(VecDeque<StoreList>),
    /// Remaining lists of ended jobs, merged by their end, newest first.
    MergedByEnd(Vec<StoreList>),
}

/// A list of the store, read a page at a time.
#[derive(Debug)]
struct StoreList {
    query: ListQuery,
    page: VecDeque<Job>,
    is_over: bool,
}

impl StoreList {
    fn new(state: State, kind: Option<Name>) -> Self {
        let query = ListQuery { state, queue: None, kind, key: None, after: None, n: PAGE_JOBS };
        Self { query, page: VecDeque::new(), is_over: false }
    }

    /// Reads the next page if the current one is used up.
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

impl JobCursor {
    /// Opens a cursor over jobs of the wanted kinds that the caller may see.
    pub(super) async fn open(
        (doors, grant): (&Doors, &Grant),
        among: ListedJobs,
        is_wanted: impl Fn(&Name) -> bool,
    ) -> Result<Self, Status> {
        let engine = doors.engine().clone();
        let mut counts = doors.api().counts(grant, None).await?;
        counts.retain(|count| is_wanted(&count.kind));
        let at = match among {
            _ if count_listed(&counts, among) <= MAX_SORTED => CursorPosition::Sorted(
                sorted_ids(doors, among, counts).await.map_err(failed)?.into_iter(),
            ),
            ListedJobs::Live => CursorPosition::Sequential(sources(&LIVE, &counts).into()),
            ListedJobs::Any => CursorPosition::MergedByEnd(sources(&ENDED, &counts)),
        };
        Ok(Self { engine, grant: grant.clone(), position: at })
    }

    /// The next jobs; `None`: the end.
    async fn next_jobs(&mut self) -> Result<Option<Vec<Job>>, crore::Error> {
        match &mut self.position {
            CursorPosition::Sorted(ids) => {
                let which: Vec<_> = ids.take(PAGE_JOBS).map(JobSelector::Id).collect();
                if which.is_empty() {
                    return Ok(None);
                }
                Ok(Some(self.engine.jobs().get_all(which).await?.into_iter().flatten().collect()))
            }
            CursorPosition::Sequential(sources) => {
                while let Some(source) = sources.front_mut() {
                    source.fill(&self.engine).await?;
                    if !source.page.is_empty() {
                        return Ok(Some(source.page.drain(..).collect()));
                    }
                    sources.pop_front();
                }
                Ok(None)
            }
            CursorPosition::MergedByEnd(sources) => {
                let mut jobs = Vec::new();
                while jobs.len() < PAGE_JOBS {
                    for source in sources.iter_mut() {
                        source.fill(&self.engine).await?;
                    }
                    let end = |source: &&mut StoreList| {
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

/// Number of jobs to read.
pub(super) fn count_listed(counts: &[JobCount], among: ListedJobs) -> u64 {
    let is_meant = |count: &&JobCount| among == ListedJobs::Any || LIVE.contains(&count.state);
    counts.iter().filter(is_meant).map(|count| count.n).sum()
}

fn sources(states: &[State], counts: &[JobCount]) -> Vec<StoreList> {
    let kinds: BTreeSet<&Name> = counts.iter().map(|count| &count.kind).collect();
    let kinds: Vec<Option<Name>> = match kinds.len() {
        0..=MAX_KIND_LISTS => kinds.into_iter().cloned().map(Some).collect(),
        _ => vec![None],
    };
    let mut sources = Vec::with_capacity(states.len() * kinds.len());
    for state in states {
        sources.extend(kinds.iter().map(|kind| StoreList::new(*state, kind.clone())));
    }
    sources
}

/// Ids of the counted jobs, newest first.
async fn sorted_ids(
    doors: &Doors,
    among: ListedJobs,
    counts: Vec<JobCount>,
) -> Result<Vec<JobId>, crore::Error> {
    let states: &[State] = if among == ListedJobs::Live { &LIVE } else { &State::ALL };
    // Read in every state: a job may change its state meanwhile.
    let mut places: Vec<_> =
        counts.into_iter().map(|JobCount { queue, kind, .. }| (queue, kind)).collect();
    places.dedup();
    let mut ids = Vec::new();
    for (queue, kind) in places {
        for state in states {
            ids.extend(job_ids(doors, *state, &queue, &kind).await?);
        }
    }
    ids.sort_unstable_by(|one, other| other.cmp(one));
    ids.dedup();
    Ok(ids)
}

async fn job_ids(
    doors: &Doors,
    state: State,
    queue: &Name,
    kind: &Name,
) -> Result<Vec<JobId>, crore::Error> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let (queue, kind) = (Some(queue.clone()), Some(kind.clone()));
        let query = ListQuery { state, queue, kind, key: None, after, n: PAGE_JOBS };
        let page = doors.engine().list(query).await?;
        ids.extend(page.jobs.iter().map(|job| job.id));
        after = page.next;
        if after.is_none() {
            return Ok(ids);
        }
    }
}

/// Streams the items that `items_of` makes from each job, in order.
pub(super) fn stream_items<T: Send + 'static>(
    jobs: JobCursor,
    page: OffsetPage,
    items_of: impl Fn(&Job) -> Vec<T> + Send + 'static,
) -> JobworkerpStream<T> {
    let cursor = ItemCursor { jobs, page, skips_left: MAX_SKIPPED, items_of };
    let all = stream::unfold(Some(cursor), |cursor| async {
        let mut cursor = cursor.filter(|cursor| cursor.page.take > 0)?;
        match cursor.next_items().await {
            Ok(some) => Some((some?.into_iter().map(Ok).collect(), Some(cursor))),
            Err(status) => Some((vec![Err(status)], None)),
        }
    });
    Box::pin(all.flat_map(stream::iter))
}

/// A list in progress.
struct ItemCursor<F> {
    jobs: JobCursor,
    /// Items still to skip and to return.
    page: OffsetPage,
    /// Number of jobs that may still be skipped.
    skips_left: usize,
    items_of: F,
}

impl<F> ItemCursor<F> {
    /// The next items; `None`: the end.
    async fn next_items<T>(&mut self) -> Result<Option<Vec<T>>, Status>
    where
        F: Fn(&Job) -> Vec<T>,
    {
        if self.skips_left == 0 {
            let why = format!("a list skips at most {MAX_SKIPPED} jobs; use a smaller offset");
            return Err(invalid(Invalid::new(Code::CountRange, "offset", why)));
        }
        let Some(jobs) = self.jobs.next_jobs().await.map_err(failed)? else { return Ok(None) };
        let mut page = Vec::new();
        for job in jobs {
            if self.page.take == 0 {
                break;
            }
            let is_shown = self.jobs.grant.covers_job(&job.spec);
            let mut items = if is_shown { (self.items_of)(&job) } else { Vec::new() };
            let passed = self.page.skip.min(items.len());
            self.page.skip -= passed;
            items.drain(..passed);
            if items.is_empty() {
                self.skips_left = self.skips_left.saturating_sub(1);
            }
            items.truncate(self.page.take);
            self.page.take -= items.len();
            page.append(&mut items);
        }
        Ok(Some(page))
    }
}

#[cfg(test)]
mod tests;
