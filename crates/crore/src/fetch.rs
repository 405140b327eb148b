//! Fetch: leases the next jobs, and waits for the first one if the caller wants to.

use std::collections::BTreeMap;
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use crore_core::version::KindVersions;
use crore_core::{Code, EventWait, Invalid, Job, Name, Restriction, Span, Time};
use crore_store::jobs::{Claim, QueueOrder};

use crate::bug::planted;
use crate::deliveries::Deliveries;
use crate::drop_guard::DropGuard;
use crate::engine::{Engine, EngineInner};
use crate::error::Error;
use crate::events::{EngineEvent, EventType};
use crate::timers::Sleep;
use crate::upkeep::Duty;
use crate::wait_list::WaitingFetch;

/// Maximum (queue, kind) combinations of a fetch, as a multiple of the maximum number of kinds.
const MAX_KINDS_FACTOR: usize = 10;

/// Minimum jobs per claim on a remote store.
const MIN_REMOTE_CLAIM: usize = 64;

/// Parameters of a fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// The queues to fetch from.
    pub queues: Vec<Name>,
    /// Only these kinds; `None`: any kind.
    pub kinds: Option<Vec<Name>>,
    /// Versions of kinds that the worker runs. A job that requires a version is handed out only to a fetch whose
    /// version of its kind satisfies it; the worker gets other jobs as without versions.
    pub versions: KindVersions,
    /// Additional pairs of a queue and a kind to fetch. The order between these jobs and those of `queues` is random,
    /// so that neither starves the other.
    pub also: Vec<(Name, Name)>,
    /// Only kinds that have a handler of one of these runners (empty: of any runner), re-evaluated when handlers
    /// change while the fetch waits. Overrides `kinds`.
    pub handled: Option<Vec<Name>>,
    /// Maximum number of jobs.
    pub n: usize,
    /// Order across several queues.
    pub order: QueueOrder,
    /// Name of the worker; recorded with each delivery.
    pub worker: Name,
    /// How long to wait for the first job; zero: do not wait.
    pub wait: Span,
    /// Of the handled kinds, only those that this covers; `None`: all. Named queues and kinds are not checked
    /// against it.
    pub within: Option<Arc<Restriction>>,
}

impl Fetch {
    /// At most one job of one queue, without waiting.
    pub fn new(queue: Name, worker: Name) -> Self {
        let (queues, order) = (vec![queue], QueueOrder::Merged);
        let (wait, within) = (Span::ZERO, None);
        let (kinds, also, handled) = (None, Vec::new(), None);
        let versions = KindVersions::default();
        Self { queues, kinds, versions, also, handled, n: 1, order, worker, wait, within }
    }

    fn check(&self, max: usize) -> Result<(), Invalid> {
        let out_of_range = |field: &str, n: usize| {
            let message = format!("`{n}` is out of range: 1 to {max}");
            Err(Invalid::new(Code::CountRange, field, message))
        };
        match (self.queues.len(), self.n) {
            (1.., n) if n == 0 || n > max => out_of_range("n", n),
            (n, _) if n == 0 || n > max => out_of_range("queues", n),
            _ if self.also.len() > max => out_of_range("also", self.also.len()),
            (queues, _) if self.versions.len().saturating_mul(queues) > max * MAX_KINDS_FACTOR => {
                let n = self.versions.len();
                let message = format!("`{n}` versions in {queues} queues are too many at once");
                Err(Invalid::new(Code::CountRange, "versions", message))
            }
            _ => match self.kinds.as_ref().map(Vec::len) {
                Some(n) if n == 0 || n > max => out_of_range("kinds", n),
                // A waiting fetch is in one wait list per queue and kind.
                Some(n) if n * self.queues.len() > max * MAX_KINDS_FACTOR => {
                    let queues = self.queues.len();
                    let message = format!("`{n}` kinds in {queues} queues are too many at once");
                    Err(Invalid::new(Code::CountRange, "kinds", message))
                }
                _ => Ok(()),
            },
        }
    }

    /// The fetch of [`Self::also`]: one for each queue.
    fn others(&self) -> Vec<Self> {
        let mut by_queue: BTreeMap<&Name, Vec<Name>> = BTreeMap::new();
        for (queue, kind) in &self.also {
            by_queue.entry(queue).or_default().push(kind.clone());
        }
        let fetch = |(queue, kinds): (&Name, Vec<Name>)| {
            let (queues, kinds, also) = (vec![queue.clone()], Some(kinds), Vec::new());
            Self { queues, kinds, also, ..self.clone() }
        };
        by_queue.into_iter().map(fetch).collect()
    }

    /// The index of a job's queue, if queues are fetched in strict order.
    fn queue_index(&self, job: &Job) -> Option<usize> {
        match self.order {
            QueueOrder::Strict => self.queues.iter().position(|queue| *queue == job.spec.queue),
            QueueOrder::Merged => None,
        }
    }

    fn claim(&self, n: usize) -> Claim {
        let Self { queues, kinds, versions, order, worker, .. } = self.clone();
        Claim { queues, kinds, versions, n, order, worker }
    }
}

impl Engine {
    /// Leases the next jobs to a worker. If there are none, it waits up to [`Fetch::wait`] for the first one; an
    /// empty result means that none arrived. Dropping the future loses no job: a job that was already claimed for
    /// it is handed out again when its lease ends.
    ///
    /// A worker [renews](Engine::renew) leases that it needs for longer, and reports each outcome with
    /// [`finish`](Engine::finish).
    ///
    /// ```
    /// use crore::core::machine::Outcome;
    /// use crore::core::{Name, Span, State};
    /// use crore::fetch::Fetch;
    /// use crore::finish::{Finish, FinishResult};
    /// use crore::{Engine, block_on};
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// engine.push("mail", "hello").retain().wait()?;
    ///
    /// let (queue, worker) = (Name::new("queue", "mail")?, Name::new("worker", "w1")?);
    /// let fetch = Fetch { n: 10, wait: Span::from_secs(5), ..Fetch::new(queue, worker) };
    /// let jobs = block_on(engine.fetch(fetch))?;
    /// assert_eq!(jobs.len(), 1);
    ///
    /// let report = Finish::of(&jobs[0], Outcome::Done { result: None });
    /// let finished = block_on(engine.finish(report.clone()))?;
    /// assert!(matches!(finished, FinishResult::Accepted { state: Some(State::Done), .. }));
    /// // A second report about the same delivery changes nothing.
    /// assert_eq!(block_on(engine.finish(report))?, FinishResult::Stale);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn fetch(&self, request: Fetch) -> Result<Vec<Job>, Error> {
        request.check(self.inner.caps.fetch)?;
        let _versions = self.inner.fetch_versions(&request);
        self.inner.fetch(&request).await
    }
}

impl Deliveries<'_> {
    /// Like [`Engine::fetch`], but stops waiting when `cancelled` completes, because the caller went away. A claim
    /// that the store is processing is still awaited and its jobs are returned, so that none of them has to wait
    /// for its lease to end.
    pub async fn fetch_with_cancel(
        self,
        request: Fetch,
        cancelled: impl Future<Output = ()>,
    ) -> Result<Vec<Job>, Error> {
        self.inner.fetch_until(&request, || false, cancelled).await
    }
}

/// Why a waiting fetch continues.
enum FetchWakeup {
    /// There may be jobs.
    Notified,
    /// The wait timed out.
    TimedOut,
    /// The caller went away.
    Cancelled,
}

impl EngineInner {
    pub(crate) async fn fetch(&self, request: &Fetch) -> Result<Vec<Job>, Error> {
        self.fetch_until(request, || false, pending()).await
    }

    /// Fetches until there are jobs, the wait times out, `cancelled` completes, or `should_stop` is true after a
    /// wake-up.
    pub(crate) async fn fetch_until(
        &self,
        request: &Fetch,
        should_stop: impl Fn() -> bool,
        cancelled: impl Future<Output = ()>,
    ) -> Result<Vec<Job>, Error> {
        request.check(self.caps.fetch)?;
        let (mut cancelled, is_cancelled) = (pin!(cancelled), AtomicBool::new(false));
        let mut cancelled = poll_fn(|context| {
            if is_cancelled.load(Ordering::Relaxed) || cancelled.as_mut().poll(context).is_ready() {
                is_cancelled.store(true, Ordering::Relaxed);
                return Poll::Ready(());
            }
            Poll::Pending
        });
        let Some(runners) = &request.handled else {
            return self.fetch_kinds(request, should_stop, &mut cancelled).await;
        };
        let sleep = self.timers.sleep(request.wait);
        loop {
            self.ensure_handlers_current().await?;
            let index = self.handlers.index();
            let is_run = |runner: &Name| runners.is_empty() || runners.contains(runner);
            let mut kinds = index.kinds(is_run);
            if let Some(within) = &request.within {
                kinds.retain(|kind| within.covers_kind(kind));
            }
            let kinds = Some(kinds);
            let request = Fetch { kinds, wait: sleep.left(), ..request.clone() };
            let are_same =
                || Arc::ptr_eq(&index, &self.handlers.index()) && self.handlers.is_current();
            let is_changed = || !are_same();
            let stops = || should_stop() || is_changed();
            let jobs = self.fetch_kinds(&request, stops, &mut cancelled).await?;
            let is_cancelled = is_cancelled.load(Ordering::Relaxed);
            let is_over =
                request.wait.is_zero() || is_cancelled || self.is_quiesced() || should_stop();
            if !jobs.is_empty() || is_over || !is_changed() {
                return Ok(jobs);
            }
        }
    }

    /// Fetches jobs of explicitly named kinds.
    async fn fetch_kinds(
        &self,
        request: &Fetch,
        should_stop: impl Fn() -> bool,
        cancelled: &mut (impl Future<Output = ()> + Unpin),
    ) -> Result<Vec<Job>, Error> {
        let (jobs, _) = self.claim(request).await?;
        if !jobs.is_empty() || request.wait.is_zero() {
            return Ok(jobs);
        }
        // Free the buffer while waiting.
        drop(jobs);
        let mut sleep = pin!(self.timers.sleep(request.wait));
        let ticket = self.wait_list.register(request);
        loop {
            ticket.enqueue();
            let (jobs, may_be_more) = self.claim(request).await?;
            ticket.claim_answered();
            if may_be_more {
                ticket.wake_next();
            }
            if !jobs.is_empty() || self.is_quiesced() || should_stop() {
                return Ok(jobs);
            }
            drop(jobs);
            match wait_for_wakeup(&ticket, sleep.as_mut(), cancelled).await {
                FetchWakeup::Notified => {}
                FetchWakeup::TimedOut | FetchWakeup::Cancelled => return Ok(Vec::new()),
            }
        }
    }

    /// Claims jobs without waiting; also returns whether there may be more.
    async fn claim(&self, request: &Fetch) -> Result<(Vec<Job>, bool), Error> {
        if request.also.is_empty() {
            return self.claim_from_queues(request).await;
        }
        let mut parts = request.others();
        let at = self.random_bits() as usize % (parts.len() + 1);
        parts.insert(at, Fetch { also: Vec::new(), ..request.clone() });
        let (mut claimed, mut may_be_more) = (Vec::new(), false);
        for mut part in parts {
            part.n = request.n - claimed.len();
            if part.n == 0 {
                return Ok((claimed, true));
            }
            match self.claim_from_queues(&part).await {
                Ok((jobs, more)) => {
                    claimed.extend(jobs);
                    may_be_more |= more;
                }
                Err(error) if claimed.is_empty() => return Err(error),
                // Return what was claimed; the next fetch reports the error.
                Err(_) => break,
            }
        }
        Ok((claimed, may_be_more))
    }

    /// Claims from the queues of a fetch. The size of a job is known only after
    /// it was claimed, so each claim takes no more jobs than fit if all have the maximum size, but always at least
    /// one.
    async fn claim_from_queues(&self, request: &Fetch) -> Result<(Vec<Job>, bool), Error> {
        let first = self.jobs_that_fit(0).min(request.n);
        let mut claimed = self.claim_once(request, first).await?;
        let (mut n, mut last_count) = (first, claimed.len());
        while last_count == n && claimed.len() < request.n {
            let bytes = claimed.iter().map(delivered_bytes).sum();
            if bytes >= self.caps.fetch_bytes {
                break;
            }
            n = self.jobs_that_fit(bytes).min(request.n - claimed.len());
            // Return what was claimed; the next fetch reports the error.
            let Ok(jobs) = self.claim_once(request, n).await else { break };
            last_count = jobs.len();
            claimed.extend(jobs);
        }
        if claimed.len() > first {
            // Jobs that became due between two claims may belong before earlier ones.
            claimed.sort_by_key(|job| {
                (request.queue_index(job), job.spec.priority, job.live.due, job.id)
            });
        }
        Ok((claimed, last_count == n))
    }

    /// How many jobs of maximum size fit in addition to this many bytes. A remote store is always asked for several:
    /// a round trip costs more than some extra bytes.
    fn jobs_that_fit(&self, bytes: usize) -> usize {
        let fit = self.caps.fetch_bytes.saturating_sub(bytes) / self.caps.payload_bytes.max(1);
        fit.max(if self.store.is_local() { 1 } else { MIN_REMOTE_CLAIM })
    }

    /// Claims once. If a limit allows more jobs later, a waiting fetch is woken at that time.
    async fn claim_once(&self, request: &Fetch, n: usize) -> Result<Vec<Job>, Error> {
        if self.is_quiesced() || request.kinds.as_ref().is_some_and(Vec::is_empty) {
            return Ok(Vec::new());
        }
        // If the future is dropped here, the store may have leased jobs; upkeep must find their expiry.
        let guard = DropGuard::new(|| {
            if !planted!("bug-21") {
                self.plan_duty(Duty::ExpireLeases, self.now());
            }
        });
        let claimed = self.store.claim(request.claim(n)).await?;
        guard.disarm();
        if let Some(first) = claimed.jobs.iter().map(|job| job.live.lease_until).min() {
            self.plan_duty(Duty::ExpireLeases, first);
            let overdue_at = self.running.add(&claimed.jobs);
            self.plan_duty(Duty::Overdue, overdue_at);
            self.publish_started(&claimed.jobs, claimed.now);
        }
        if let Some(next_at) = claimed.next_at
            && self.wait_list.waiting() > 0
        {
            self.wake_limited_at(&request.queues, next_at);
        }
        Ok(claimed.jobs)
    }

    fn publish_started(&self, jobs: &[Job], at: Time) {
        self.tally(|table| table.started(jobs, at));
        if let Some(observer) = self.observer.get() {
            observer.started(jobs, at);
        }
        if self.events.has_listeners() {
            let started = jobs.iter().map(|job| EngineEvent {
                id: job.id,
                queue: job.spec.queue.clone(),
                kind: job.spec.kind.clone(),
                what: EventType::Started,
                at,
            });
            self.events.publish(&started.collect::<Vec<_>>());
        }
    }
}

/// Bytes of the payload of a job and of its event.
fn delivered_bytes(job: &Job) -> usize {
    let event = job.live.event.as_deref().and_then(EventWait::received);
    let event = event.and_then(|event| event.payload.as_ref());
    job.spec.payload.bytes.len() + event.map_or(0, |payload| payload.bytes.len())
}

/// Waits for a wake-up, the timeout, or the cancellation.
async fn wait_for_wakeup(
    ticket: &WaitingFetch<'_>,
    mut sleep: Pin<&mut Sleep<'_>>,
    cancelled: &mut (impl Future<Output = ()> + Unpin),
) -> FetchWakeup {
    poll_fn(|context| {
        if Pin::new(&mut *cancelled).poll(context).is_ready() {
            return Poll::Ready(FetchWakeup::Cancelled);
        }
        if ticket.poll_woken(context).is_ready() {
            return Poll::Ready(FetchWakeup::Notified);
        }
        sleep.as_mut().poll(context).map(|()| FetchWakeup::TimedOut)
    })
    .await
}
