//! Rounds: a child works on a store, is ended, and the store is looked at. The next round goes on
//! with the same store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crore_store::SystemClock;
use crore_store::embedded::Embedded;
use crore_testkit::Dice;

use super::child::Task;
use super::dump::Dump;
use super::ledger::{Broken, Ledger};
use super::victim::Victim;

#[derive(Debug)]
pub(crate) struct Rounds {
    pub(crate) task: Task,
    dice: Dice,
    pub(crate) ledger: Ledger,
}

impl Rounds {
    pub(crate) fn new(dir: PathBuf, (segment_bytes, enough): (u64, u64), seed: u64) -> Self {
        let task = Task { round: 0, seed, segment_bytes, enough, is_durable: true, dir };
        Self { task, dice: Dice(seed), ledger: Ledger::default() }
    }

    /// Lets a child work for a while and ends it; `cut` is what happens to the machine before.
    pub(crate) fn run_child(&mut self, cut: impl FnOnce()) -> Result<(), Broken> {
        self.task.round += 1;
        self.task.seed = self.dice.roll();
        let victim = Victim::start(&self.task);
        // Some do not live to see the store open.
        if self.dice.percent(90) {
            victim.wait_ready();
            victim.let_work(Duration::from_millis(10 + self.dice.below(90)));
        } else {
            victim.let_work(Duration::from_millis(self.dice.below(20)));
        }
        cut();
        victim.kill().iter().try_for_each(|said| self.ledger.hear(said))
    }

    /// Opens the store and looks; leaves it closed, or dropped as if it had crashed.
    pub(crate) fn check(&mut self) -> Result<(), Broken> {
        let store = Embedded::open(&self.task.dir, Arc::new(SystemClock), self.task.options());
        let store = store.map_err(|error| format!("the store does not open: {error:?}"))?;
        let dump = Dump::of(&store).map_err(|error| format!("no look: {error:?}"))?;
        self.ledger.check(&dump)?;
        if self.dice.percent(50) {
            store.close().map_err(|error| format!("the store does not close: {error:?}"))?;
        }
        Ok(())
    }

    /// What is wrong, with all that is needed to see it again.
    pub(crate) fn named(&self, broken: &str) -> Broken {
        format!("round {}, seed {}: {broken}", self.task.round, self.task.seed)
    }
}
