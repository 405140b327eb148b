//! Interference, in half of all runs except those of the first generation: callers drop fetches, pushes and
//! renewals, answers to reads and claims arrive late, and writes lose a race. The engine has to keep its promises
//! nonetheless.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::Poll;

use crore::store::jobs::StoreWrite;
use crore_conformance::simulation::{Generation, SimConfig, SimRng};
use crore_core::{JobId, Name, Revision};
use crore_store::Error;

/// Makes the interference independent of the simulator's own draws.
const SALT: u64 = 0x0001_37a6;

/// Each interference happens once in this many opportunities.
const ONE_IN: u64 = 6;

/// The worker that empties the store at the end of a run.
const DRAIN: &str = "drain";

#[derive(Debug)]
pub(super) struct Interference {
    state: Mutex<InterferenceState>,
    is_over: AtomicBool,
}

#[derive(Debug)]
struct InterferenceState {
    dice: SimRng,
    /// The job whose write lost a race last; it does not lose twice in a row.
    loser: Option<JobId>,
}

impl Interference {
    pub(super) fn new(config: &SimConfig) -> Self {
        let mut dice = SimRng::new(config.seed ^ SALT);
        let is_over = config.generation == Generation::First || dice.one_in(2);
        let is_over = AtomicBool::new(is_over);
        Self { state: Mutex::new(InterferenceState { dice, loser: None }), is_over }
    }

    fn state(&self) -> MutexGuard<'_, InterferenceState> {
        self.state.lock().expect("no panic")
    }

    fn happens(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed) && self.state().dice.one_in(ONE_IN)
    }

    /// Notes which worker fetches. Interference ends with the run.
    pub(super) fn fetch_started(&self, worker: &Name) {
        if worker.as_str() == DRAIN {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// For a caller that has to wait: the error of its call if it goes away.
    pub(super) fn leave(&self) -> Option<Error> {
        self.happens().then(|| Error::Unavailable("the caller has left".into()))
    }

    /// Delays an answer of the store.
    pub(super) async fn delay(&self) {
        let mut is_late = self.happens();
        poll_fn(|context| {
            if std::mem::take(&mut is_late) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Sometimes makes a write stale, as if another caller had changed the job since it was read.
    pub(super) fn make_stale(&self, writes: &mut [StoreWrite]) {
        let [StoreWrite::Job(change)] = writes else { return };
        let loses = self.happens() && self.state().loser != Some(change.id);
        self.state().loser = loses.then_some(change.id);
        if loses {
            change.seen.revision = Revision(u64::MAX);
        }
    }
}
