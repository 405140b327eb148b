//! Search: lists the jobs that match a filter, from the indexes of the store where they can serve the filter, and by
//! a bounded scan otherwise.

use std::sync::Arc;

use crore_core::filter::TimeRange;
use crore_core::{Code, Invalid, Job, JobId, Name, Restriction, SearchFilter, Span, State, Time};
use crore_store::jobs::JobSelector;
use crore_store::views::{Cursor, ListQuery};

use crate::engine::{Engine, EngineInner};
use crate::error::Error;

/// Jobs read at once while scanning. Other calls wait while they are read.
const PAGE: usize = 200;
/// Maximum number of lists that a search visits one after the other. Beyond it, kinds and then queues are tested job
/// by job.
const MAX_PARTS: usize = 256;

/// A search for jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSearch {
    /// Selects the jobs.
    pub filter: SearchFilter,
    /// Only jobs covered by this restriction.
    pub within: Option<Arc<Restriction>>,
    /// Where the previous page ended; `None`: the first page.
    pub after: Option<SearchPosition>,
    /// Maximum number of jobs.
    pub n: usize,
    /// Bounds the work of this page.
    pub budget: SearchBudget,
}

/// Bounds the work of one page. It ends early, and has a successor, when one of them is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchBudget {
    /// Maximum number of jobs read.
    pub jobs: usize,
    /// Maximum time, checked after each 200 jobs.
    pub time: Span,
}

impl Default for SearchBudget {
    fn default() -> Self {
        Self { jobs: 10_000, time: Span::from_secs(1) }
    }
}

/// Where a page ended. Valid for the same filter. Jobs that change between pages may or may not appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SearchPosition {
    /// The part of the search, from 0: a state with a queue and a kind, or an id.
    pub part: u16,
    /// The last job that was read in this part.
    pub after: Option<Cursor>,
}

/// A page of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchPage {
    /// The jobs that match: state by state, each in the order of [`Engine::list`]; or by id, if the filter names ids.
    pub jobs: Vec<Job>,
    /// Where the next page begins; `None`: there are no more jobs.
    pub next: Option<SearchPosition>,
    /// Number of jobs read for this page, without those outside the restriction.
    pub scanned: usize,
}

/// How a search reads the jobs that can match its filter.
#[derive(Debug)]
pub(crate) struct SearchPlan {
    filter: SearchFilter,
    access: SearchAccess,
}

/// The lookups of a plan, in order.
#[derive(Debug)]
enum SearchAccess {
    Ids(Vec<JobId>),
    Lists(Vec<SearchPart>),
}

impl SearchPlan {
    pub(crate) fn of(filter: &SearchFilter) -> Self {
        let access = match filter.ids() {
            Some(ids) => SearchAccess::Ids(ids),
            None => SearchAccess::Lists(parts(filter)),
        };
        Self { filter: filter.clone(), access }
    }

    fn len(&self) -> usize {
        match &self.access {
            SearchAccess::Ids(ids) => ids.len(),
            SearchAccess::Lists(parts) => parts.len(),
        }
    }
}

/// One list that a search visits.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SearchPart {
    state: State,
    queue: Option<Name>,
    kind: Option<Name>,
}

impl Engine {
    /// Searches for jobs. State, queue and kind, ids, the end of ended jobs and the due time of scheduled ones are
    /// looked up in indexes; other terms are tested on each job that the indexes select.
    ///
    /// ```
    /// use crore::core::SearchFilter;
    /// use crore::search::{JobSearch, SearchBudget};
    /// use crore::{Engine, block_on};
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// engine.push("mail", r#"{"to": "ada"}"#).attempts(1).wait()?;
    /// engine.pop_blocking("mail", |_| Err::<(), _>("timeout after 30s"))?;
    ///
    /// let filter = SearchFilter::parse("filter", "state:dead error~timeout age<1h")?;
    /// let budget = SearchBudget::default();
    /// let search = JobSearch { filter, within: None, after: None, n: 10, budget };
    /// let page = block_on(engine.search(&search))?;
    /// assert_eq!((page.jobs.len(), page.next), (1, None));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn search(&self, search: &JobSearch) -> Result<SearchPage, Error> {
        let max = self.inner.caps.page;
        if search.n == 0 || search.n > max {
            let message = format!("`{}` is out of range: 1 to {max}", search.n);
            return Err(Invalid::new(Code::CountRange, "n", message).into());
        }
        let plan = SearchPlan::of(&search.filter);
        let start = self.inner.now();
        let mut scan = Scan { search, now: start, jobs: Vec::new(), read: 0, scanned: 0 };
        let mut position = Some(search.after.unwrap_or_default());
        while let Some(at) = position {
            let is_spent = scan.read >= search.budget.jobs
                || (scan.read > 0 && self.inner.now().since(start) >= search.budget.time);
            if scan.jobs.len() >= search.n || is_spent {
                return Ok(SearchPage { next: Some(at), ..scan.page() });
            }
            position = self.inner.scan(&mut scan, &plan, at).await?;
        }
        Ok(scan.page())
    }
}

impl EngineInner {
    /// Reads the next jobs of a search. Returns where they end, or `None` if there are no more.
    async fn scan(
        &self,
        scan: &mut Scan<'_>,
        plan: &SearchPlan,
        at: SearchPosition,
    ) -> Result<Option<SearchPosition>, Error> {
        let room = scan.search.n - scan.jobs.len();
        let mut n = if scan.search.is_indexed() { room } else { PAGE };
        n = n.min(scan.search.budget.jobs - scan.read).max(1);
        // A page with more matching jobs than there is room for is read again up to the last of them, because only
        // the store knows the cursor of a job.
        loop {
            let (jobs, next) = self.planned_page(plan, at, n, scan.now).await?;
            match scan.excess(&jobs, room) {
                Some(fewer) => n = fewer,
                None => {
                    scan.take(jobs);
                    return Ok(next);
                }
            }
        }
    }

    /// Reads up to `n` jobs of a plan, and where the next ones begin. The jobs need not match the filter.
    pub(crate) async fn planned_page(
        &self,
        plan: &SearchPlan,
        at: SearchPosition,
        n: usize,
        now: Time,
    ) -> Result<(Vec<Job>, Option<SearchPosition>), Error> {
        let part = usize::from(at.part);
        let (jobs, next) = match &plan.access {
            SearchAccess::Ids(ids) => {
                let some = ids.get(part..).unwrap_or_default();
                let some = some.get(..n).unwrap_or(some);
                let which = some.iter().map(|id| JobSelector::Id(*id)).collect();
                let found = self.store.get(which).await?;
                (found.into_iter().flatten().collect(), part + some.len())
            }
            SearchAccess::Lists(parts) => {
                let Some(list) = parts.get(part) else { return Ok((Vec::new(), None)) };
                let range = list.range(&plan.filter, now);
                let after = at.after.or_else(|| list.start(range));
                let SearchPart { state, queue, kind } = list.clone();
                let page = self.store.list(ListQuery { state, queue, kind, after, n }).await?;
                let is_past = page.jobs.last().is_some_and(|job| list.is_past(job, range));
                if let Some(after) = page.next.filter(|_| !is_past) {
                    return Ok((page.jobs, Some(SearchPosition { after: Some(after), ..at })));
                }
                (page.jobs, part + 1)
            }
        };
        let next = u16::try_from(next).ok().filter(|_| next < plan.len());
        Ok((jobs, next.map(|part| SearchPosition { part, after: None })))
    }
}

/// A search in progress.
struct Scan<'a> {
    search: &'a JobSearch,
    now: Time,
    jobs: Vec<Job>,
    /// Number of jobs read.
    read: usize,
    /// Number of them inside the restriction.
    scanned: usize,
}

impl Scan<'_> {
    /// How many jobs of a page to read instead, if more of them match than there is room for.
    fn excess(&self, jobs: &[Job], room: usize) -> Option<usize> {
        let matching = jobs.iter().enumerate();
        let mut matching = matching.filter(|(_, job)| self.search.matches(job, self.now));
        let (last, _) = matching.nth(room - 1)?;
        matching.next().map(|_| last + 1)
    }

    /// Keeps the matching jobs of a page.
    fn take(&mut self, jobs: Vec<Job>) {
        self.read += jobs.len();
        self.scanned += jobs.iter().filter(|job| self.search.covers(job)).count();
        let matching = jobs.into_iter().filter(|job| self.search.matches(job, self.now));
        self.jobs.extend(matching);
    }

    fn page(self) -> SearchPage {
        SearchPage { jobs: self.jobs, next: None, scanned: self.scanned }
    }
}

impl JobSearch {
    fn matches(&self, job: &Job, now: Time) -> bool {
        self.covers(job) && self.filter.matches(job, now)
    }

    fn covers(&self, job: &Job) -> bool {
        let within = self.within.as_ref();
        within.is_none_or(|within| within.covers(&job.spec.queue, &job.spec.kind))
    }

    /// Whether every job of the visited lists matches.
    fn is_indexed(&self) -> bool {
        self.within.is_none() && self.filter.is_indexed()
    }
}

impl SearchPart {
    /// The range of the time by which the part is ordered.
    fn range(&self, filter: &SearchFilter, now: Time) -> TimeRange {
        match self.state {
            State::Scheduled => filter.due_range(now),
            state if state.has_ended() => filter.ended_range(now),
            _ => TimeRange { from: Time::ZERO, to: Time::MAX },
        }
    }

    /// The cursor before the first job in the range; `None`: the start of the list.
    fn start(&self, range: TimeRange) -> Option<Cursor> {
        let before = |at| Some(Cursor { priority: 0, at, id: JobId(i64::MAX as u64) });
        match self.state {
            State::Scheduled if range.from > Time::ZERO => {
                before(range.from.before(Span::from_millis(1)))
            }
            state if state.has_ended() && range.to < Time::MAX => before(range.to),
            _ => None,
        }
    }

    /// Whether no job after this one is in the range.
    fn is_past(&self, job: &Job, range: TimeRange) -> bool {
        match self.state {
            State::Scheduled => job.live.due > range.to,
            state if state.has_ended() => job.live.ended_at.is_some_and(|at| at < range.from),
            _ => false,
        }
    }
}

/// The lists that can have matching jobs, in order.
fn parts(filter: &SearchFilter) -> Vec<SearchPart> {
    let some = |names: Option<Vec<Name>>| match names {
        Some(names) => names.into_iter().map(Some).collect(),
        None => vec![None],
    };
    let states = filter.states();
    let (mut queues, mut kinds) = (some(filter.queues()), some(filter.kinds()));
    if states.len() * queues.len() * kinds.len() > MAX_PARTS {
        kinds = vec![None];
    }
    if states.len() * queues.len() > MAX_PARTS {
        queues = vec![None];
    }
    let mut parts = Vec::new();
    for state in states {
        for queue in &queues {
            let part = |kind: &Option<Name>| SearchPart {
                state,
                queue: queue.clone(),
                kind: kind.clone(),
            };
            parts.extend(kinds.iter().map(part));
        }
    }
    parts
}
