//! Checks that the engine plans its upkeep in time: at once where the answer of a claim or a change was
//! lost, else no later than the store's next deadline, which is the end of a lease or the instant at which
//! a scheduled job is due. A deadline that the engine forgets is found here before a job is late.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use crore::store::views::Query;
use crore::store::{Answer, Store};
use crore_core::{Clock, JobId, Span, State, Time};

/// The engine asks a store that has failed again after this long.
const RETRY: Span = Span::from_secs(1);

#[derive(Debug)]
pub(super) struct Deadlines {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// Whether the clock may go back: a plan for now is then one for later, and nothing is checked.
    goes_back: bool,
    /// The longest time in milliseconds that the store took for an answer: the engine counts a delay
    /// from the answer, the store from its decision.
    slowest: AtomicU64,
    /// Calls of the engine that the store has not answered. Only an engine that has heard every answer
    /// knows every deadline.
    unanswered: AtomicUsize,
    /// Whether an upkeep is under way: what it does is not planned any more.
    is_kept_up: AtomicBool,
    /// Jobs with a change whose answer was lost, which the engine has not looked at since.
    changes: Mutex<BTreeSet<JobId>>,
    /// Whether the answer of a claim was lost, and the engine has not looked at leases since.
    claim: AtomicBool,
}

/// A question of the engine that it has to look at again if it does not hear the answer.
#[derive(Debug)]
pub(super) enum Asked {
    Claim,
    Changes(Vec<JobId>),
}

/// A call whose answer is lost if this is dropped.
#[derive(Debug)]
pub(super) struct Asking<'a>(&'a Deadlines, Option<Asked>);

impl Asking<'_> {
    pub(super) fn heard(mut self) {
        self.1 = None;
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        match self.1.take() {
            Some(Asked::Claim) => self.0.claim.store(true, Ordering::Relaxed),
            Some(Asked::Changes(ids)) => self.0.changes().extend(ids),
            None => {}
        }
    }
}

/// Something that is under way while this is there.
struct UnderWay<F: Fn()>(F);

impl<F: Fn()> Drop for UnderWay<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The answer of a call that need not wait.
pub(super) fn at_once<T>(mut call: Answer<'_, T>) -> Option<T> {
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
            is_kept_up: AtomicBool::new(false),
            changes: Mutex::default(),
            claim: AtomicBool::new(false),
        })
    }

    fn changes(&self) -> MutexGuard<'_, BTreeSet<JobId>> {
        self.changes.lock().expect("no panic")
    }

    /// The engine asks for something.
    pub(super) const fn asks(&self, what: Asked) -> Asking<'_> {
        Asking(self, Some(what))
    }

    /// The engine has heard what a job is.
    pub(super) fn looked_at(&self, id: JobId) {
        self.changes().remove(&id);
    }

    /// The engine has heard when the next lease ends.
    pub(super) fn looked_at_leases(&self) {
        self.claim.store(false, Ordering::Relaxed);
    }

    /// A call of the engine, counted until it is answered or dropped.
    pub(super) async fn count<T>(&self, call: impl Future<Output = T>) -> T {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        let _under_way = UnderWay(|| _ = self.unanswered.fetch_sub(1, Ordering::Relaxed));
        let asked_at = self.clock.now();
        let answer = call.await;
        let took = self.clock.now().since(asked_at).as_millis();
        self.slowest.fetch_max(took, Ordering::Relaxed);
        answer
    }

    /// An upkeep of the engine.
    pub(super) async fn upkeep<T>(&self, upkeep: impl Future<Output = T>) -> T {
        self.is_kept_up.store(true, Ordering::Relaxed);
        let _under_way = UnderWay(|| self.is_kept_up.store(false, Ordering::Relaxed));
        upkeep.await
    }

    /// Whether the engine has heard every answer, and no upkeep is under way.
    pub(super) fn is_quiet(&self) -> bool {
        let unanswered = self.unanswered.load(Ordering::Relaxed);
        unanswered == 0 && !self.is_kept_up.load(Ordering::Relaxed)
    }

    /// The engine plans its next upkeep for this instant.
    pub(super) fn check(&self, upkeep_at: Time) {
        if self.goes_back || self.is_kept_up.load(Ordering::Relaxed) {
            return;
        }
        let soon = self.clock.now().after(RETRY);
        let planned = |what: &str, at: Time| {
            assert!(upkeep_at <= at, "{what} at {at:?}, and upkeep is at {upkeep_at:?}");
        };
        let changed = self.changes().first().copied();
        if let Some(id) = changed {
            planned(&format!("a change of {id} is in doubt, to be looked at"), soon);
        }
        if self.claim.load(Ordering::Relaxed) {
            planned("a claim is in doubt, to be looked at", soon);
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
        let query = Query { state: State::Scheduled, queue, kind, after: None, n: 1 };
        at_once(self.store.list(query))?.jobs.first().map(|job| job.live.due)
    }
}
