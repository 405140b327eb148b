//! Search: lists the jobs that match a filter, from the indexes of the store where they can serve the filter, and by
//! a bounded scan otherwise.

use std::sync::Arc;

use crore_core::filter::{IndexLookup, TimeRange};
use crore_core::{
    Code, IndexKey, Invalid, Job, JobId, Name, Restriction, SearchFilter, Span, State, Time,
};
use crore_store::jobs::JobSelector;
use crore_store::views::{Cursor, ListQuery};

use crate::bug::planted;
use crate::engine::{Engine, EngineInner};
use crate::error::Error;

/// Jobs read at once while scanning. Other calls wait while they are read.
const PAGE: usize = 200;
/// Minimum number of jobs read at once by index key: some may not match.
const LEAST_PAGE: usize = 32;
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
    /// The term of the filter whose index keys the search reads, from 1; 0: it reads whole lists.
    pub term: u8,
    /// The part of the search, from 0: a state with a queue, a kind and an index key, or an id.
    pub part: u16,
    /// The last job that was read in this part.
    pub after: Option<Cursor>,
}

/// A page of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchPage {
    /// The jobs that match: state by state (and value by value, if an index is read for several values), each in the order
    /// of [`Engine::list`]; or by id, if the filter names ids.
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
    lookup: Option<IndexLookup>,
}

/// The lookups of a plan, in order.
#[derive(Debug)]
enum SearchAccess {
    Ids(Vec<JobId>),
    Lists(Vec<SearchPart>),
}

impl SearchPlan {
    fn of(filter: &SearchFilter, lookup: Option<IndexLookup>) -> Self {
        let access = match filter.ids() {
            Some(ids) => SearchAccess::Ids(ids),
            None => SearchAccess::Lists(parts(filter, lookup.as_ref())),
        };
        Self { filter: filter.clone(), access, lookup }
    }

    /// Where the plan begins.
    pub(crate) fn start(&self) -> SearchPosition {
        SearchPosition { term: term_number(self.lookup.as_ref()), ..SearchPosition::default() }
    }

    /// Whether a job that is found in a part is not found in an earlier part with another key, too.
    fn is_first(&self, part: u16, job: &Job) -> bool {
        let (SearchAccess::Lists(parts), Some(lookup)) = (&self.access, &self.lookup) else {
            return true;
        };
        let key = parts.get(usize::from(part)).and_then(|part| part.key);
        let earlier = lookup.keys.iter().take_while(|it| Some(**it) != key);
        if lookup.keys.len() < 2 || earlier.clone().next().is_none() {
            return true;
        }
        let of_job = IndexKey::of_job(job);
        !earlier.clone().any(|key| of_job.contains(key)) || planted!("bug-34")
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
    key: Option<IndexKey>,
}

impl Engine {
    /// Searches for jobs. State, queue and kind, ids, the end of ended jobs and the due time of scheduled ones are
    /// looked up in indexes, and so are values of labels, fingerprints of errors, and payload fields that all named
    /// queues [index](crore_core::QueueIndex). Other terms are tested on each job that the indexes select.
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
        let plan = self.inner.search_plan(&search.filter, search.after).await?;
        let start = self.inner.now();
        let mut scan = Scan { search, now: start, jobs: Vec::new(), read: 0, scanned: 0 };
        let mut position = Some(search.after.unwrap_or_else(|| plan.start()));
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
    /// The plan of a search, or of its continuation behind a position.
    pub(crate) async fn search_plan(
        &self,
        filter: &SearchFilter,
        after: Option<SearchPosition>,
    ) -> Result<SearchPlan, Error> {
        if filter.ids().is_some() || !self.store.has_index() {
            return Ok(SearchPlan::of(filter, None));
        }
        self.ensure_limits_current().await?;
        let mut lookups = filter.lookups().into_iter();
        let lookup = match after {
            None => lookups.find(|lookup| self.can_look_up(filter, lookup)),
            Some(SearchPosition { term: 0, .. }) => None,
            Some(SearchPosition { term, .. }) => {
                let same = lookups.find(|lookup| term_number(Some(lookup)) == term);
                let same = same.filter(|lookup| self.can_look_up(filter, lookup));
                Some(same.ok_or_else(|| {
                    let message =
                        "the index that the search used has been changed; start the search again";
                    Invalid::new(Code::CursorInvalid, "cursor", message)
                })?)
            }
        };
        Ok(SearchPlan::of(filter, lookup))
    }

    /// Whether all jobs that can match are under the keys of a lookup.
    fn can_look_up(&self, filter: &SearchFilter, lookup: &IndexLookup) -> bool {
        if filter.states().len() * lookup.keys.len() > MAX_PARTS {
            return false;
        }
        let Some(field) = &lookup.field else { return true };
        let is_complete = |queue: &Name| {
            let index = self.limits.index(queue);
            index.is_some_and(|index| index.is_complete_for(field) || planted!("bug-63"))
        };
        filter.queues().is_some_and(|queues| queues.iter().all(is_complete))
    }

    /// Reads the next jobs of a search. Returns where they end, or `None` if there are no more.
    async fn scan(
        &self,
        scan: &mut Scan<'_>,
        plan: &SearchPlan,
        at: SearchPosition,
    ) -> Result<Option<SearchPosition>, Error> {
        let room = scan.search.n - scan.jobs.len();
        let mut n = match scan.search.is_indexed(plan) {
            true if plan.lookup.is_some() => room.max(LEAST_PAGE),
            true => room,
            false => PAGE,
        };
        n = n.min(scan.search.budget.jobs - scan.read).max(1);
        // A page with more matching jobs than there is room for is read again up to the last of them, because only
        // the store knows the cursor of a job.
        loop {
            let (jobs, next) = self.planned_page(plan, at, n, scan.now).await?;
            let is_new = |job: &Job| plan.is_first(at.part, job);
            match scan.excess(&jobs, room, is_new) {
                Some(fewer) => n = fewer,
                None => {
                    scan.take(jobs, is_new);
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
                let SearchPart { state, queue, kind, key } = list.clone();
                let page = self.store.list(ListQuery { state, queue, kind, key, after, n }).await?;
                let is_past = page.jobs.last().is_some_and(|job| list.is_past(job, range));
                if let Some(after) = page.next.filter(|_| !is_past) {
                    return Ok((page.jobs, Some(SearchPosition { after: Some(after), ..at })));
                }
                (page.jobs, part + 1)
            }
        };
        let next = u16::try_from(next).ok().filter(|_| next < plan.len());
        Ok((jobs, next.map(|part| SearchPosition { part, after: None, ..at })))
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
    fn excess(&self, jobs: &[Job], room: usize, is_new: impl Fn(&Job) -> bool) -> Option<usize> {
        let matching = jobs.iter().enumerate();
        let mut matching =
            matching.filter(|(_, job)| self.search.matches(job, self.now) && is_new(job));
        let (last, _) = matching.nth(room - 1)?;
        matching.next().map(|_| last + 1)
    }

    /// Keeps the matching jobs of a page.
    fn take(&mut self, jobs: Vec<Job>, is_new: impl Fn(&Job) -> bool) {
        self.read += jobs.len();
        self.scanned += jobs.iter().filter(|job| self.search.covers(job)).count();
        let matching =
            jobs.into_iter().filter(|job| self.search.matches(job, self.now) && is_new(job));
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

    /// Whether nearly every job of the visited lists matches.
    fn is_indexed(&self, plan: &SearchPlan) -> bool {
        let lookup = plan.lookup.as_ref().map(|lookup| lookup.term);
        self.within.is_none() && self.filter.is_indexed(lookup)
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

/// The number of a lookup in a [position](SearchPosition).
fn term_number(lookup: Option<&IndexLookup>) -> u8 {
    lookup.map_or(0, |lookup| u8::try_from(lookup.term + 1).unwrap_or(u8::MAX))
}

/// The lists that can have matching jobs, in order.
fn parts(filter: &SearchFilter, lookup: Option<&IndexLookup>) -> Vec<SearchPart> {
    let keys = lookup.map_or(vec![None], |lookup| lookup.keys.iter().copied().map(Some).collect());
    let some = |names: Option<Vec<Name>>| match names {
        Some(names) => names.into_iter().map(Some).collect(),
        None => vec![None],
    };
    let states = filter.states();
    let (mut queues, mut kinds) = (some(filter.queues()), some(filter.kinds()));
    let lists = states.len() * keys.len();
    if lists * queues.len() * kinds.len() > MAX_PARTS {
        kinds = vec![None];
    }
    if lists * queues.len() > MAX_PARTS {
        queues = vec![None];
    }
    let mut parts = Vec::new();
    for state in states {
        for queue in &queues {
            for kind in &kinds {
                let part = |key: &Option<IndexKey>| SearchPart {
                    state,
                    queue: queue.clone(),
                    kind: kind.clone(),
                    key: *key,
                };
                parts.extend(keys.iter().map(part));
            }
        }
    }
    parts
}
