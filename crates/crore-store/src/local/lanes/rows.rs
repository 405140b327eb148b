//! What is known of a lane, a desk and a queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crore_core::limit::LimitKey;
use crore_core::{Name, State, Time};

use super::super::run::Run;
use super::Head;
use super::ready::Ready;

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) desk: u32,
    pub(super) queue: u32,
    pub(super) limited: Option<Box<Limited>>,
    pub(crate) ready: Ready,
    /// The head as it stands in the sets.
    pub(super) head: Option<Head>,
    /// The bucket at which it is parked.
    pub(super) parked: Option<u32>,
    /// Jobs of this lane, in any state.
    pub(super) jobs: u64,
}

/// What only a lane with limits has.
#[derive(Debug)]
pub(super) struct Limited {
    pub(super) limits: Vec<LimitKey>,
    pub(super) buckets: Arc<[u32]>,
}

impl Lane {
    /// The buckets that a run of its jobs needs a permit of.
    pub(super) fn buckets(&self) -> Option<Arc<[u32]>> {
        self.limited.as_ref().map(|limited| Arc::clone(&limited.buckets))
    }

    /// Whether it is parked, and its jobs count against this limit.
    pub(super) fn is_parked_and_has(&self, limit: &Name) -> bool {
        let mut keys = self.limited.iter().flat_map(|limited| &limited.limits);
        self.parked.is_some() && keys.any(|key| key.limit == *limit)
    }
}

#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) queue: u32,
    pub(crate) kind: Name,
    pub(crate) lanes: BTreeSet<u32>,
    /// The lane without limits, which most jobs are in.
    pub(super) plain: Option<u32>,
    /// The heads of the open lanes that have limits.
    pub(super) heads: BTreeSet<Head>,
    pub(super) ready: usize,
    pub(super) running: usize,
    pub(super) waiting: Run,
    pub(super) scheduled: Run,
    pub(super) done: Run,
    pub(super) dead: Run,
    pub(super) cancelled: Run,
}

impl Desk {
    /// The run of a state; ready jobs are in lanes, and running ones with the queue.
    pub(crate) const fn run(&self, state: State) -> Option<&Run> {
        match state {
            State::Ready | State::Running => None,
            State::Waiting => Some(&self.waiting),
            State::Scheduled => Some(&self.scheduled),
            State::Done => Some(&self.done),
            State::Dead => Some(&self.dead),
            State::Cancelled => Some(&self.cancelled),
        }
    }

    pub(super) const fn run_mut(&mut self, state: State) -> Option<&mut Run> {
        match state {
            State::Ready | State::Running => None,
            State::Waiting => Some(&mut self.waiting),
            State::Scheduled => Some(&mut self.scheduled),
            State::Done => Some(&mut self.done),
            State::Dead => Some(&mut self.dead),
            State::Cancelled => Some(&mut self.cancelled),
        }
    }

    pub(crate) fn count(&self, state: State) -> usize {
        match state {
            State::Ready => self.ready,
            State::Running => self.running,
            _ => self.run(state).map_or(0, Run::len),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: Name,
    pub(crate) desks: BTreeMap<Name, u32>,
    pub(crate) paused: bool,
    /// The heads of the open lanes: they leave at the front and come back near the end, as a run
    /// likes it.
    pub(super) heads: Run<Head>,
    /// Running jobs, by id.
    pub(crate) running: Run,
    /// Buckets whose rate lets the next one through then, with lanes of this queue parked there.
    pub(super) timers: BTreeSet<(Time, u32)>,
}
