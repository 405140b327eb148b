//! The store under simulation.

use std::fmt::Debug;
use std::sync::Arc;

use crore_core::{Clock, JobId, State};
use crore_store::embedded::disk::Disk;
use crore_store::{Error, Memory, Store};
use crore_testkit::history::Recorder;

use super::config::SimConfig;
use super::engine::SimulatedEngine;

/// A store that can be opened on a simulated disk and driven step by step.
pub trait SimulatedStore: Debug {
    /// Opens the store from the contents of the disk, without background threads.
    fn open(
        &mut self,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        config: &SimConfig,
    ) -> Result<OpenStore, Error>;

    /// Whether it keeps data over a crash; if not, the run has no crashes.
    fn survives_crash(&self) -> bool;

    /// Whether an opened store has an engine.
    fn has_engine(&self) -> bool {
        false
    }

    /// The command that repeats the run of a seed, without the seed.
    fn repeat_command(&self) -> &'static str {
        "cargo xtask sim"
    }

    /// Where an engine records its own definitions and ticks of schedules.
    fn record_to(&mut self, _: &Arc<Recorder>) {}
}

/// An open store, and its loops.
#[derive(Debug, Clone)]
pub struct OpenStore {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The loops that would otherwise be threads.
    pub loops: Arc<dyn StoreLoops>,
    /// The engine that callers use instead of the store, if any.
    pub engine: Option<Arc<dyn SimulatedEngine>>,
}

impl OpenStore {
    /// A store that callers use directly.
    pub fn new(store: Arc<dyn Store>, loops: Arc<dyn StoreLoops>) -> Self {
        Self { store, loops, engine: None }
    }
}

/// The background loops of a store, one turn at a time.
pub trait StoreLoops: Debug + Send + Sync {
    /// Makes pending writes durable; returns whether there were any.
    fn commit_once(&self) -> Result<bool, Error>;

    /// Does a little compaction; returns whether there was anything to do.
    fn keep_once(&self) -> Result<bool, Error>;

    /// The current state of a job and whether it was asked to stop, if available without waiting.
    fn peek(&self, _: JobId) -> Option<(State, bool)> {
        None
    }
}

/// The memory store, which has no loops and must not crash.
#[derive(Debug, Clone, Copy, Default)]
pub struct SimulatedMemory;

impl SimulatedStore for SimulatedMemory {
    fn open(
        &mut self,
        _: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        _: &SimConfig,
    ) -> Result<OpenStore, Error> {
        Ok(OpenStore::new(Arc::new(Memory::new(clock)), Arc::new(Self)))
    }

    fn survives_crash(&self) -> bool {
        false
    }
}

impl StoreLoops for SimulatedMemory {
    fn commit_once(&self) -> Result<bool, Error> {
        Ok(false)
    }

    fn keep_once(&self) -> Result<bool, Error> {
        Ok(false)
    }
}
