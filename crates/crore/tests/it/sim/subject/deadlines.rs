//! Checks that the engine plans its upkeep on time: at once if the answer to a claim or a change was lost, else no
//! later than the store's next deadline, which is the end of a lease, the deadline or the due time of a job. A
//! forgotten deadline is found here before a job is late.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use crore::store::views::ListQuery;
use crore::store::{Store, StoreFuture};
use crore_core::{Clock, JobId, Span, State, Time};

/// Delay after which the engine retries a store that failed.
const RETRY: Span = Span::from_secs(1);

#[derive(Debug)]
pub(super) struct Deadlines {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// Whether the clock may go back. Plans then shift with it, and nothing is checked.
    goes_back: bool,
    /// The longest time in milliseconds that the store took to answer: the engine counts a delay from the answer,
    /// the store from its decision.
    slowest: AtomicU64,
    /// Calls that the store has not answered. The engine knows all deadlines only once it has every answer.
    unanswered: AtomicUsize,
    /// Whether upkeep is running: its work is no longer planned.
    is_upkeep_running: AtomicBool,
    /// Jobs with an unconfirmed change that the engine has not read since.
    unconfirmed: Mutex<BTreeSet<JobId>>,
    /// Whether the answer to a claim was lost and the engine has not read the leases since.
    has_lost_claim: AtomicBool,
}

/// A call that the engine has to follow up if its answer is lost.
#[derive(Debug)]
pub(super) enum FollowUpCall {
    Claim,
    Changes(Vec<JobId>),
}

/// A call whose answer counts as lost if this is dropped.
#[derive(Debug)]
pub(super) struct CallGuard<'a>(&'a Deadlines, Option<FollowUpCall>);

impl CallGuard<'_> {
    pub(super) fn answered(mut self) {
        self.1 = None;
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        match self.1.take() {
            Some(FollowUpCall::Claim) => self.0.has_lost_claim.store(true, Ordering::Relaxed),
            Some(FollowUpCall::Changes(ids)) => self.0.unconfirmed().extend(ids),
            None => {}
        }
    }
}

/// Runs a closure on drop, at the end of an operation.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The answer of a call that completes immediately.
pub(super) fn at_once<T>(mut call: StoreFuture<'_, T>) -> Option<T> {
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer.ok(),
        Poll::Pending => None,
    }
}

impl Deadlines {
    pub(super) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, goes_back: bool) -> Arc<Self> {
        Arc::new(Self {
            store,
            clock,
            goes_back,
            slowest: AtomicU64::new(0),
            unanswered: AtomicUsize::new(0),
            is_upkeep_running: AtomicBool::new(false),
            unconfirmed: Mutex::default(),
            has_lost_claim: AtomicBool::new(false),
        })
    }

    fn unconfirmed(&self) -> MutexGuard<'_, BTreeSet<JobId>> {
        self.unconfirmed.lock().expect("no panic")
    }

    /// The engine starts a call.
    pub(super) const fn start_call(&self, what: FollowUpCall) -> CallGuard<'_> {
        CallGuard(self, Some(what))
    }

    /// The engine has read a job.
    pub(super) fn job_read(&self, id: JobId) {
        self.unconfirmed().remove(&id);
    }

    /// The engine has read when the next lease ends.
    pub(super) fn leases_read(&self) {
        self.has_lost_claim.store(false, Ordering::Relaxed);
    }

    /// A call of the engine, counted until it is answered or dropped.
    pub(super) async fn count<T>(&self, call: impl Future<Output = T>) -> T {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        let _under_way = OnDrop(|| _ = self.unanswered.fetch_sub(1, Ordering::Relaxed));
        let asked_at = self.clock.now();
        let answer = call.await;
        let took = self.clock.now().since(asked_at).as_millis();
        self.slowest.fetch_max(took, Ordering::Relaxed);
        answer
    }

    /// Runs upkeep of the engine.
    pub(super) async fn upkeep<T>(&self, upkeep: impl Future<Output = T>) -> T {
        self.is_upkeep_running.store(true, Ordering::Relaxed);
        let _under_way = OnDrop(|| self.is_upkeep_running.store(false, Ordering::Relaxed));
        upkeep.await
    }

    /// Whether every call is answered and no upkeep is running.
    pub(super) fn is_quiet(&self) -> bool {
        let unanswered = self.unanswered.load(Ordering::Relaxed);
        unanswered == 0 && !self.is_upkeep_running.load(Ordering::Relaxed)
    }

    /// Checks the instant for which the engine plans its next upkeep.
    pub(super) fn check(&self, upkeep_at: Time) {
        if self.goes_back || self.is_upkeep_running.load(Ordering::Relaxed) {
            return;
        }
        let soon = self.clock.now().after(RETRY);
        let planned = |what: &str, at: Time| {
            assert!(upkeep_at <= at, "{what} is due at {at:?}, but upkeep at {upkeep_at:?}");
        };
        let changed = self.unconfirmed().first().copied();
        if let Some(id) = changed {
            planned(&format!("a change of {id} is unconfirmed, to be read"), soon);
        }
        if self.has_lost_claim.load(Ordering::Relaxed) {
            planned("a claim is unconfirmed, to be checked", soon);
        }
        if self.unanswered.load(Ordering::Relaxed) == 0 {
            let slowest = Span::from_millis(self.slowest.load(Ordering::Relaxed));
            let at_latest = |deadline: Time| deadline.after(slowest).max(soon);
            self.first_lease().into_iter().for_each(|at| planned("a lease ends", at_latest(at)));
            self.first_due().into_iter().for_each(|at| planned("a job is due", at_latest(at)));
        }
    }

    fn first_lease(&self) -> Option<Time> {
        at_once(self.store.lapsed(0))?.next_at
    }

    fn first_due(&self) -> Option<Time> {
        let (queue, kind) = (None, None);
        let query =
            ListQuery { state: State::Scheduled, queue, kind, key: None, after: None, n: 1 };
        at_once(self.store.list(query))?.jobs.first().map(|job| job.live.due)
    }
}
