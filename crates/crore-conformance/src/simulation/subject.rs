//! The store under simulation.

use std::fmt::Debug;
use std::sync::Arc;

use crore_core::{Clock, JobId, State};
use crore_store::embedded::disk::Disk;
use crore_store::{Error, Memory, Store};
use crore_testkit::history::Recorder;

use super::config::Config;
use super::front::Front;

/// A store that can be opened on a disk, and driven by hand.
pub trait Subject: Debug {
    /// Opens the store on what is on the disk, as one that does nothing by itself.
    fn open(
        &mut self,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        config: &Config,
    ) -> Result<Running, Error>;

    /// Whether it keeps anything over a crash; if not, there are none.
    fn survives(&self) -> bool;

    /// Whether what it opens has a front.
    fn has_front(&self) -> bool {
        false
    }

    /// The command that makes the run of a seed again, without the seed.
    fn again(&self) -> &'static str {
        "cargo xtask sim"
    }

    /// Where a front writes down what it does by itself: definitions and the ticks of schedules.
    fn write_into(&mut self, _: &Arc<Recorder>) {}
}

/// An open store, and the hand that drives it.
#[derive(Debug, Clone)]
pub struct Running {
    /// The store.
    pub store: Arc<dyn Store>,
    /// What would otherwise be its threads.
    pub loops: Arc<dyn Loops>,
    /// What callers speak to, if not to the store itself.
    pub front: Option<Arc<dyn Front>>,
}

impl Running {
    /// A store that callers speak to themselves.
    pub fn new(store: Arc<dyn Store>, loops: Arc<dyn Loops>) -> Self {
        Self { store, loops, front: None }
    }
}

/// The loops of a store, one turn at a time.
pub trait Loops: Debug + Send + Sync {
    /// Makes durable what was written since; whether there was anything.
    fn commit_once(&self) -> Result<bool, Error>;

    /// Tidies up a little; whether there was anything to do.
    fn keep_once(&self) -> Result<bool, Error>;

    /// The state of a job at this moment and whether it was asked to stop, if that can be told without
    /// waiting.
    fn peek(&self, _: JobId) -> Option<(State, bool)> {
        None
    }
}

/// The memory store, which has no loops, and must not crash.
#[derive(Debug, Clone, Copy, Default)]
pub struct InMemory;

impl Subject for InMemory {
    fn open(
        &mut self,
        _: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        _: &Config,
    ) -> Result<Running, Error> {
        Ok(Running::new(Arc::new(Memory::new(clock)), Arc::new(Self)))
    }

    fn survives(&self) -> bool {
        false
    }
}

impl Loops for InMemory {
    fn commit_once(&self) -> Result<bool, Error> {
        Ok(false)
    }

    fn keep_once(&self) -> Result<bool, Error> {
        Ok(false)
    }
}
