//! Interference, in half of all runs but those of the first generation: callers drop fetches, pushes and renewals that they wait for,
//! answers to looks and claims reach the engine late, and writes lose a race. The engine has to keep its
//! promises through all of it.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::Poll;

use crore::store::jobs::Write;
use crore_conformance::simulation::{Config, Dice, Generation};
use crore_core::{JobId, Name, Revision};
use crore_store::Error;

/// Draws the runs and what happens in them, apart from what the simulator draws.
const SALT: u64 = 0x0001_37a6;

/// Each interference happens once in this many times.
const SELDOM: u64 = 6;

/// The worker by which the simulator empties the store at the end of a run.
const DRAIN: &str = "drain";

#[derive(Debug)]
pub(super) struct Interference {
    state: Mutex<State>,
    is_over: AtomicBool,
}

#[derive(Debug)]
struct State {
    dice: Dice,
    /// The job whose write has lost a race last: the same does not lose twice in a row.
    loser: Option<JobId>,
}

impl Interference {
    pub(super) fn new(config: &Config) -> Self {
        let mut dice = Dice::new(config.seed ^ SALT);
        let is_over = config.generation == Generation::First || dice.one_in(2);
        let is_over = AtomicBool::new(is_over);
        Self { state: Mutex::new(State { dice, loser: None }), is_over }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    fn happens(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed) && self.state().dice.one_in(SELDOM)
    }

    /// A worker fetches. At the end of the run there is no more interference.
    pub(super) fn meets(&self, worker: &Name) {
        if worker.as_str() == DRAIN {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// A caller has to wait: the error of its call if it leaves.
    pub(super) fn leave(&self) -> Option<Error> {
        self.happens().then(|| Error::Unavailable("the caller has left".into()))
    }

    /// An answer of the store is on its way to the engine.
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

    /// A write is about to be made. Perhaps another has changed the job since it was looked at, and the
    /// store refuses the write as stale.
    pub(super) fn outdate(&self, writes: &mut [Write]) {
        let [Write::Job(change)] = writes else { return };
        let loses = self.happens() && self.state().loser != Some(change.id);
        self.state().loser = loses.then_some(change.id);
        if loses {
            change.seen.revision = Revision(u64::MAX);
        }
    }
}
