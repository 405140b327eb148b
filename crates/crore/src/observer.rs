//! Engine observer: the source of metrics and traces.
//!
//! Unlike an [`EventListener`](crate::events::EventListener), which gets a copy of every event and may fall
//! behind, the observer is called synchronously, with references to the job and with the times. It misses only
//! changes that the engine itself does not learn of, because a caller went away before the store responded.
//! Without an observer nothing is collected.

use std::fmt::Debug;
use std::sync::Arc;

use crore_core::job::{DeliveryEnd, EndReason};
use crore_core::machine::{Change, NextRecord};
use crore_core::{Job, JobId, Name, State, Time};
use crore_store::StoreMetrics;

use crate::engine::EngineInner;

/// Observes the jobs of an engine. Each method is called after the change is durable, on the task that caused it:
/// it must be fast and must not block.
pub trait EngineObserver: Debug + Send + Sync {
    /// Jobs were pushed: by a caller, by a schedule, or by the end of another job.
    fn pushed(&self, jobs: &mut dyn Iterator<Item = ObservedPush<'_>>);

    /// Jobs were handed out; their leases start at this time.
    fn started(&self, jobs: &[Job], at: Time);

    /// The trace context under which a job runs and its follow-ups are pushed.
    fn trace_of(&self, job: &Job) -> Option<String> {
        job.spec.trace.as_deref().map(ToOwned::to_owned)
    }

    /// A job changed its state or was removed.
    fn changed(&self, change: &ObservedChange<'_>);
}

/// A job that was pushed.
#[derive(Debug, Clone, Copy)]
pub struct ObservedPush<'a> {
    /// The job.
    pub id: JobId,
    /// Its queue.
    pub queue: &'a Name,
    /// Its kind.
    pub kind: &'a Name,
    /// The trace context that it was pushed with.
    pub trace: Option<&'a str>,
    /// When the push began.
    pub begun_at: Time,
    /// When the push was durable.
    pub at: Time,
}

/// A change of a job.
#[derive(Debug, Clone, Copy)]
pub struct ObservedChange<'a> {
    /// The job before the change.
    pub job: &'a Job,
    /// How the change ended a delivery; `None`: it did not.
    pub ended: Option<DeliveryEnd>,
    /// The error of that delivery, if it failed.
    pub error: Option<&'a str>,
    /// Its state after the change; `None`: it was removed.
    pub state: Option<State>,
    /// Why it is dead or cancelled after the change.
    pub why: Option<EndReason>,
    /// When the change was decided.
    pub begun_at: Time,
    /// When the change was durable.
    pub at: Time,
}

impl<'a> ObservedChange<'a> {
    pub(crate) fn of(
        job: &'a Job,
        change: &'a Change,
        state: Option<State>,
        (begun_at, at): (Time, Time),
    ) -> Self {
        let (ended, error) = match &change.next {
            NextRecord::Live(next) => match &next.ended {
                Some((ended, error)) if job.live.state == State::Running => {
                    (Some(*ended), error.as_deref())
                }
                // A late failure ends no delivery.
                _ => (None, None),
            },
            // A running job is only removed by being done.
            NextRecord::Gone if job.live.state == State::Running => (Some(DeliveryEnd::Done), None),
            NextRecord::Gone => (None, None),
        };
        let why = match &change.next {
            NextRecord::Live(next) => next.why,
            NextRecord::Gone => None,
        };
        Self { job, ended, error, state, why, begun_at, at }
    }
}

/// The source of metrics and traces; see [`Engine::telemetry`](crate::Engine::telemetry).
#[derive(Debug, Clone, Copy)]
pub struct Telemetry<'a> {
    pub(crate) inner: &'a EngineInner,
}

impl Telemetry<'_> {
    /// Sets the observer. An engine has at most one: if one is set already, it stays, and this returns `false`.
    pub fn set_observer(self, observer: Arc<dyn EngineObserver>) -> bool {
        self.inner.observer.set(observer).is_ok()
    }

    /// Metrics of the engine's store; `None`: it has none.
    pub fn store_metrics(self) -> Option<StoreMetrics> {
        self.inner.store.metrics()
    }
}

impl EngineInner {
    /// Whether there is a listener or an observer.
    pub(crate) fn is_observed(&self) -> bool {
        self.events.has_listeners() || self.observer.get().is_some()
    }
}
