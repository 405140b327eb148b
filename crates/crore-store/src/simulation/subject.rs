//! The store under simulation.

use std::fmt::Debug;
use std::sync::Arc;

use crore_core::Clock;

use super::config::Config;
use crate::embedded::disk::Disk;
use crate::{Error, Memory, Store};

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
}

/// An open store, and the hand that drives it.
#[derive(Debug, Clone)]
pub struct Running {
    /// The store.
    pub store: Arc<dyn Store>,
    /// What would otherwise be its threads.
    pub loops: Arc<dyn Loops>,
}

/// The loops of a store, one turn at a time.
pub trait Loops: Debug + Send + Sync {
    /// Makes durable what was written since; whether there was anything.
    fn commit_once(&self) -> Result<bool, Error>;

    /// Tidies up a little; whether there was anything to do.
    fn keep_once(&self) -> Result<bool, Error>;
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
        Ok(Running { store: Arc::new(Memory::new(clock)), loops: Arc::new(Self) })
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
