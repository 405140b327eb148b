//! Watching: what metrics and traces are made of.
//!
//! Not a [`Listener`](crate::events::Listener): one of those is given a copy of every event, may fall behind and
//! miss some, and does not know how long a job has waited. A watch is called where it happens, with what is at
//! hand, and misses only what the engine itself does not hear of (a caller who leaves before the store has
//! answered); without one, nothing is gathered for it.

use std::fmt::Debug;
use std::sync::Arc;

use crore_core::job::Ended;
use crore_core::machine::{Change, Next};
use crore_core::{Job, JobId, Name, State, Time};
use crore_store::Vitals;

use crate::engine::Inner;

/// Sees what happens to jobs, each time after it is durable. It is called by whoever caused it, who waits
/// meanwhile: it must not block, and should be quick.
pub trait Watch: Debug + Send + Sync {
    /// Jobs were pushed: by a caller, by a schedule, or by the end of another job.
    fn pushed(&self, jobs: &mut dyn Iterator<Item = Pushed<'_>>);

    /// Jobs were handed out. Their leases count from here.
    fn started(&self, jobs: &[Job], at: Time);

    /// The trace context under which a job that was handed out is run, and its follow-ups are pushed.
    fn trace_of(&self, job: &Job) -> Option<String> {
        job.spec.trace.as_deref().map(ToOwned::to_owned)
    }

    /// Something became of a job.
    fn changed(&self, change: &Changed<'_>);
}

/// A job that was pushed.
#[derive(Debug, Clone, Copy)]
pub struct Pushed<'a> {
    /// The job.
    pub id: JobId,
    /// Its queue.
    pub queue: &'a Name,
    /// Its kind.
    pub kind: &'a Name,
    /// The trace context that it came with.
    pub trace: Option<&'a str>,
    /// When the push began.
    pub begun_at: Time,
    /// When it was durable.
    pub at: Time,
}

/// What became of a job.
#[derive(Debug, Clone, Copy)]
pub struct Changed<'a> {
    /// The job, as it was before.
    pub job: &'a Job,
    /// How a delivery of it ended with this; `None`: none did.
    pub ended: Option<Ended>,
    /// What that delivery said, if it did not end well.
    pub error: Option<&'a str>,
    /// Its state from now on; `None`: it is gone.
    pub state: Option<State>,
    /// When it was decided.
    pub begun_at: Time,
    /// When it was durable.
    pub at: Time,
}

impl<'a> Changed<'a> {
    pub(crate) fn of(
        job: &'a Job,
        change: &'a Change,
        state: Option<State>,
        (begun_at, at): (Time, Time),
    ) -> Self {
        let (ended, error) = match &change.next {
            Next::Live(next) => match &next.ended {
                Some((ended, error)) => (Some(*ended), error.as_deref()),
                None => (None, None),
            },
            // What runs is only removed by being done.
            Next::Gone if job.live.state == State::Running => (Some(Ended::Done), None),
            Next::Gone => (None, None),
        };
        Self { job, ended, error, state, begun_at, at }
    }
}

/// The source of metrics and traces; see [`Engine::telemetry`](crate::Engine::telemetry).
#[derive(Debug, Clone, Copy)]
pub struct Telemetry<'a> {
    pub(crate) inner: &'a Inner,
}

impl Telemetry<'_> {
    /// Has a watch see everything that happens to jobs, from now on. There is room for one: `false`, if
    /// another is there, which stays.
    pub fn watch(self, watch: Arc<dyn Watch>) -> bool {
        self.inner.watch.set(watch).is_ok()
    }

    /// What the engine's store can tell of its own work; `None`: nothing.
    pub fn vitals(self) -> Option<Vitals> {
        self.inner.store.vitals()
    }
}

impl Inner {
    /// Whether anybody wants to know what is pushed, by name.
    pub(crate) fn is_seen(&self) -> bool {
        self.events.is_heard() || self.watch.get().is_some()
    }
}
