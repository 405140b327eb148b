//! The store under simulation, and the disk that it lives on.

use std::fmt::Debug;
use std::sync::Arc;

use crore_core::Clock;

use super::config::Config;
use crate::{Error, Store};

/// A store that can be opened, driven by hand, and crashed.
pub trait Subject: Debug {
    /// Opens the store on what is on its disk, as one that does nothing by itself.
    fn open(&mut self, clock: Arc<dyn Clock>, config: &Config) -> Result<Running, Error>;

    /// The process is gone; the disk forgets what it may forget. The seed says what.
    fn crash(&mut self, crash: Crash, seed: u64);

    /// From now on the disk has this trouble, or none.
    fn trouble(&mut self, trouble: Option<Trouble>);

    /// What there is to see of the disk.
    fn sight(&self) -> Sight;

    /// Whether it keeps anything over a crash.
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
pub trait Loops: Debug {
    /// Makes durable what was written since; whether there was anything.
    fn commit_once(&self) -> bool;

    /// Tidies up a little; whether there was anything to do.
    fn keep_once(&self) -> bool;
}

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// It is killed; what it wrote stays.
    Kill,
    /// The power goes; what was not synced may be lost in part or whole.
    PowerCut,
}

/// What ails a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The next sync fails.
    SyncError,
    /// The next write fails, and may have happened in part.
    WriteError,
    /// There is no more room than this.
    Full {
        /// How many bytes more may be written.
        spare: u64,
    },
    /// The power goes at the n-th operation from now, from 0: it and all that follow fail.
    PowerCutAt(u64),
}

/// What there is to see of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sight {
    /// The power went at the operation that was set.
    pub dead: bool,
    /// An error was injected since the last trouble was set.
    pub failed: bool,
    /// Something was written that is not synced.
    pub unsynced: bool,
    /// Files removed or begun anew so far.
    pub reused: u64,
}
