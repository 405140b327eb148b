//! Push: checks jobs, fills in defaults, and stores a batch in one write.

use std::sync::Arc;

use crore_core::job::{DependencyTarget, Spec};
use crore_core::push::{NewDependency, NewDependencyTarget};
use crore_core::{Batch, Code, GroupId, Invalid, JobId, Name, NewJob, Time};
use crore_store::jobs::{self, Pushed};

use crate::drop_guard::DropGuard;
use crate::engine::{Engine, EngineInner};
use crate::error::Error;
use crate::events::{EngineEvent, EventType};
use crate::observer;
use crate::upkeep::{DueTimes, NameRuns};

/// Result of a pushed batch.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchResult {
    /// When it was stored, by the store's clock.
    pub now: Time,
    /// The ids of the new groups, in order.
    pub groups: Vec<GroupId>,
    /// The result of each job, in order.
    pub jobs: Vec<PushResult>,
}

/// Result of one pushed job.
#[derive(Debug, Clone, PartialEq)]
pub enum PushResult {
    /// Stored under this id.
    New(JobId),
    /// Not stored: this job has the same unique key or client id.
    Duplicate(JobId),
    /// Not stored: it depends on this job or group, which does not exist or can no longer succeed.
    Broken(DependencyTarget),
    /// Not stored: it joins this group, which is sealed.
    Sealed(GroupId),
    /// Not stored: it depends on the job at this index of the batch, which was not stored.
    BrokenBy(usize),
    /// Not stored: it is invalid.
    Invalid(Invalid),
}

impl PushResult {
    /// The id of the stored job, new or duplicate.
    pub const fn id(&self) -> Option<JobId> {
        match self {
            Self::New(id) | Self::Duplicate(id) => Some(*id),
            Self::Broken(_) | Self::Sealed(_) | Self::BrokenBy(_) | Self::Invalid(_) => None,
        }
    }
}

impl Engine {
    /// Pushes a batch of jobs and groups. Invalid jobs are refused individually; all others are stored in one
    /// atomic write, which is durable when this returns.
    pub async fn push_all(&self, batch: Batch) -> Result<BatchResult, Error> {
        self.inner.push(batch).await
    }
}

impl EngineInner {
    pub(crate) async fn push(&self, batch: Batch) -> Result<BatchResult, Error> {
        self.push_filtered(batch, |_| Ok(())).await
    }

    /// Pushes a batch without the jobs that `refuse` rejects by their index.
    pub(crate) async fn push_filtered(
        &self,
        batch: Batch,
        refuse: impl Fn(usize) -> Result<(), Invalid>,
    ) -> Result<BatchResult, Error> {
        if self.is_quiesced() {
            return Err(Error::Stopping);
        }
        batch.check(&self.caps)?;
        self.ensure_limits_current().await?;
        self.ensure_handlers_current().await?;
        self.refresh_requirements(&batch.jobs).await?;
        let now = self.now();
        let check = |index: usize, job: &NewJob| {
            refuse(index)?;
            job.check_from_caller(&self.caps, now)?;
            self.check_costs(job)?;
            self.requirements.admit(job)
        };
        let (mut batch, kept) = AcceptedJobs::of(batch, check);
        let limits = self.limits.all();
        for job in &mut batch.jobs {
            self.fill_in(job);
        }
        let names = self.push_names(&batch.jobs);
        let dues = DueTimes::of(&batch.jobs, now);
        let guard = DropGuard::new(|| {
            self.plan_promotion(dues);
            // Without a response it is unknown which jobs were stored: check them all.
            if !Arc::ptr_eq(&limits, &self.limits.all()) {
                self.restart_limit_sweep();
            }
        });
        let stored = self.store.push(batch).await?.into_inner();
        guard.disarm();
        self.plan_promotion(dues);
        if !Arc::ptr_eq(&limits, &self.limits.all()) {
            self.update_limit_keys(stored.jobs.iter().filter_map(|one| one.id()));
        }
        self.publish_pushed((now, stored.now), &stored.jobs, &names);
        let jobs::PushedBatch { now, groups, jobs } = stored;
        let jobs = match kept {
            Some(kept) => kept.into_results(&jobs),
            None => jobs.into_iter().map(push_result).collect(),
        };
        Ok(BatchResult { now, groups, jobs })
    }

    /// Adds handler defaults, limit keys and the fair key to a job.
    pub(crate) fn fill_in(&self, job: &mut NewJob) {
        self.fill_in_from_handler(job);
        self.limits.set_keys(&mut job.spec);
    }

    /// The names of jobs that are about to be pushed.
    pub(crate) fn push_names(&self, jobs: &[NewJob]) -> PushNames {
        let seen = self.is_observed();
        let events = if seen { jobs.iter().map(event_names).collect() } else { Vec::new() };
        PushNames { runs: NameRuns::of(jobs), events }
    }

    /// Publishes stored jobs, with the times at which the push began and was stored.
    pub(crate) fn publish_pushed(
        &self,
        (begun_at, at): (Time, Time),
        stored: &[Pushed],
        names: &PushNames,
    ) {
        self.tally_pushed(stored, &names.runs);
        if names.events.is_empty() {
            return;
        }
        let new = || {
            stored.iter().zip(&names.events).filter_map(|(one, names)| match one {
                Pushed::New(id) => Some((*id, names)),
                _ => None,
            })
        };
        if let Some(observer) = self.observer.get() {
            // The store's time is that of its decision, which is before the write is durable.
            let at = self.now();
            let mut pushed = new().map(|(id, names)| observer::ObservedPush {
                id,
                queue: &names.queue,
                kind: &names.kind,
                trace: names.trace.as_deref(),
                begun_at,
                at,
            });
            observer.pushed(&mut pushed);
        }
        if self.events.has_listeners() {
            let pushed = new().map(|(id, names)| {
                let (queue, kind) = (names.queue.clone(), names.kind.clone());
                EngineEvent { id, queue, kind, what: EventType::Pushed, at }
            });
            self.events.publish(&pushed.collect::<Vec<_>>());
        }
    }
}

/// Names of pushed jobs, for statistics and events.
#[derive(Debug)]
pub(crate) struct PushNames {
    runs: NameRuns,
    /// Empty if there was no listener or observer when the push began.
    events: Vec<EventNames>,
}

/// Fields of a pushed job that its event needs besides the id.
#[derive(Debug)]
struct EventNames {
    queue: Name,
    kind: Name,
    trace: Option<Arc<str>>,
}

fn event_names(job: &NewJob) -> EventNames {
    let Spec { queue, kind, trace, .. } = &job.spec;
    EventNames { queue: queue.clone(), kind: kind.clone(), trace: trace.clone() }
}

/// Converts the store's result.
pub(crate) const fn push_result(pushed: Pushed) -> PushResult {
    match pushed {
        Pushed::New(id) => PushResult::New(id),
        Pushed::Duplicate(id) => PushResult::Duplicate(id),
        Pushed::Broken(target) => PushResult::Broken(target),
        Pushed::Sealed(id) => PushResult::Sealed(id),
        Pushed::BrokenBy(n) => PushResult::BrokenBy(n),
    }
}

/// The error of a job that joins a sealed group.
pub fn sealed_group(id: GroupId) -> Invalid {
    let why = format!(
        "group `{id}` is sealed and accepts no further members; join an open group, or create one"
    );
    Invalid::new(Code::GroupSealed, "group", why)
}

/// The accepted jobs of a batch, and why the others were refused.
struct AcceptedJobs {
    /// By index in the original batch: the index among the accepted jobs, or the refusal.
    accepted: Vec<Result<usize, PushResult>>,
    /// By index among the accepted jobs: the index in the original batch.
    origins: Vec<usize>,
}

impl AcceptedJobs {
    /// Removes jobs that are invalid or depend on an invalid one; `None`: all were accepted.
    fn of(
        batch: Batch,
        check: impl Fn(usize, &NewJob) -> Result<(), Invalid>,
    ) -> (Batch, Option<Self>) {
        let mut jobs = batch.jobs.iter().enumerate();
        let Some(first) = jobs.position(|(n, job)| check(n, job).is_err()) else {
            return (batch, None);
        };
        let fault = |(n, job)| if n < first { None } else { check(n, job).err() };
        let faults: Vec<Option<Invalid>> = batch.jobs.iter().enumerate().map(fault).collect();
        let mut kept = Self { accepted: Vec::with_capacity(faults.len()), origins: Vec::new() };
        let mut jobs = Vec::with_capacity(batch.jobs.len());
        for (mut job, fault) in batch.jobs.into_iter().zip(faults) {
            let index = match fault {
                Some(invalid) => Err(PushResult::Invalid(
                    invalid.inside(&format!("jobs[{}]", kept.accepted.len())),
                )),
                None => kept.remap_references(&mut job.after).map(|()| jobs.len()),
            };
            if index.is_ok() {
                kept.origins.push(kept.accepted.len());
                jobs.push(job);
            }
            kept.accepted.push(index);
        }
        (Batch { groups: batch.groups, jobs }, Some(kept))
    }

    /// Rewrites references to the indexes of accepted jobs.
    fn remap_references(&self, after: &mut [NewDependency]) -> Result<(), PushResult> {
        for one in after {
            if let NewDependencyTarget::Earlier(n) = &mut one.on {
                match self.accepted.get(*n) {
                    Some(Ok(index)) => *n = *index,
                    _ => return Err(PushResult::BrokenBy(*n)),
                }
            }
        }
        Ok(())
    }

    fn into_results(self, stored: &[Pushed]) -> Vec<PushResult> {
        let Self { accepted, origins } = self;
        let result = |index: Result<usize, PushResult>| match index {
            Err(refused) => refused,
            Ok(index) => match stored.get(index) {
                Some(Pushed::BrokenBy(n)) => {
                    PushResult::BrokenBy(origins.get(*n).copied().unwrap_or(*n))
                }
                Some(pushed) => push_result(*pushed),
                None => PushResult::BrokenBy(index),
            },
        };
        accepted.into_iter().map(result).collect()
    }
}
