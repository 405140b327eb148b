//! Rounds: a child works on a store and is killed, and the store is checked. The next round
//! continues with the same store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crore_store::SystemClock;
use crore_store::embedded::Embedded;
use crore_testkit::SeededRng;

use super::child::ChildTask;
use super::child_handle::ChildHandle;
use super::dump::Dump;
use super::ledger::{BrokenPromise, JobLedger};

#[derive(Debug)]
pub(crate) struct Rounds {
    pub(crate) task: ChildTask,
    rng: SeededRng,
    pub(crate) ledger: JobLedger,
}

impl Rounds {
    pub(crate) fn new(dir: PathBuf, (segment_bytes, enough): (u64, u64), seed: u64) -> Self {
        let task =
            ChildTask { round: 0, seed, segment_bytes, max_jobs: enough, is_durable: true, dir };
        Self { task, rng: SeededRng(seed), ledger: JobLedger::default() }
    }

    /// Lets a child work for a while and kills it; `cut` harms the machine before that, and gets the child's process
    /// id.
    pub(crate) fn run_child(&mut self, cut: impl FnOnce(u32)) -> Result<(), BrokenPromise> {
        self.task.round += 1;
        self.task.seed = self.rng.next_u64();
        let victim = ChildHandle::start(&self.task);
        // Some are killed before the store is open.
        if self.rng.percent(90) {
            victim.wait_ready();
            victim.let_work(Duration::from_millis(10 + self.rng.below(90)));
        } else {
            victim.let_work(Duration::from_millis(self.rng.below(20)));
        }
        cut(victim.id());
        victim.kill().iter().try_for_each(|message| self.ledger.record(message))
    }

    /// Opens and checks the store; then closes it, or drops it as in a crash.
    pub(crate) fn check(&mut self) -> Result<(), BrokenPromise> {
        let store = Embedded::open(&self.task.dir, Arc::new(SystemClock), self.task.options());
        let store = store.map_err(|error| format!("the store does not open: {error:?}"))?;
        let dump = Dump::of(&store).map_err(|error| format!("no look: {error:?}"))?;
        self.ledger.check(&dump)?;
        if self.rng.percent(50) {
            store.close().map_err(|error| format!("the store does not close: {error:?}"))?;
        }
        Ok(())
    }

    /// Adds round and seed to a violation, to reproduce it.
    pub(crate) fn with_seed(&self, broken: &str) -> BrokenPromise {
        format!("round {}, seed {}: {broken}", self.task.round, self.task.seed)
    }
}
