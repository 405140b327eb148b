//! Writes: decided on the observed version of a job, then applied to the store.

use std::sync::Arc;

use crore_core::job::{ReportDetails, Spec};
use crore_core::machine::{JobEdit, JobEvent, Outcome, Refusal, Report, RetryDirective, decide};
use crore_core::{Delivery, Job, JobId, Name, Payload, Revision, Time};
use crore_store::Error;
use crore_store::jobs::{Applied, JobSelector, StoreWrite};
use crore_store::registry::{RegistryEntry, RegistryTable, RegistryValue};
use crore_testkit::FakeClock;

use super::compared_store::ComparedStore;
use super::normalize::NormalResponse;
use super::observed::ObservedStore;
use super::op::{DecisionBasis, EventTarget, JobEventOp, PlannedJob, PlannedOutcome, WriteOp};
use super::samples;

/// The same for both stores: the jitter of retries is not compared.
pub(super) const FIXED_JITTER: u64 = 7;

impl ComparedStore<'_> {
    pub(super) async fn apply(&mut self, acts: &[WriteOp]) -> Result<NormalResponse, Error> {
        self.refresh(acts).await?;
        let mut decided = Vec::new();
        for act in acts {
            decided.extend(match act {
                WriteOp::Decide { on, what, .. } => self.decide(*on, what),
                WriteOp::Seal(back) => {
                    self.observed.groups.pick(*back).map(|id| Ok(StoreWrite::Seal(id)))
                }
                WriteOp::Tick { schedule, basis, forward, push } => {
                    let schedule = samples::entry(RegistryTable::Schedules, *schedule);
                    let seen = self.schedule(&schedule, *basis).await?;
                    seen.map(|(seen, cursor)| {
                        let (cursor, push) =
                            (cursor.after(*forward), self.observed.new_jobs(push, 0));
                        Ok(StoreWrite::Tick { schedule, seen, cursor, push })
                    })
                }
            });
        }
        Ok(NormalResponse::Applied(self.write(decided).await?))
    }

    /// Applies the decided writes, and returns a result for every decision.
    pub(super) async fn write(
        &mut self,
        decided: Vec<Result<StoreWrite, Refusal>>,
    ) -> Result<Vec<Result<Applied, Refusal>>, Error> {
        let writes: Vec<_> = decided.iter().flatten().cloned().collect();
        let mut applied = self.traits.jobs.apply(writes).await?.into_inner().into_iter();
        let mut results = Vec::new();
        for decision in decided {
            match decision {
                Err(refusal) => results.push(Err(refusal)),
                Ok(_) => {
                    results
                        .extend(applied.next().map(|applied| Ok(self.observed.applied(applied))));
                }
            }
        }
        Ok(results)
    }

    /// Reads the jobs whose stored version is needed, and those never seen.
    async fn refresh(&mut self, acts: &[WriteOp]) -> Result<(), Error> {
        let stale = |act: &WriteOp| {
            let WriteOp::Decide { on, basis, .. } = act else { return None };
            let (id, _) = self.observed.target(*on)?;
            (*basis == DecisionBasis::Fresh || !self.observed.copies.contains_key(&id))
                .then_some(id)
        };
        let ids: Vec<_> = acts.iter().filter_map(stale).collect();
        if ids.is_empty() {
            return Ok(());
        }
        for (id, job) in ids.iter().zip(self.traits.jobs.get(JobSelector::all(&ids)).await?) {
            match job {
                Some(job) => self.observed.remember(&job),
                None => _ = self.observed.copies.remove(id),
            }
        }
        Ok(())
    }

    /// Decides on the last observed version of a job; `None` if there is none.
    fn decide(&self, on: EventTarget, what: &JobEventOp) -> Option<Result<StoreWrite, Refusal>> {
        let (id, delivery) = self.observed.target(on)?;
        let mut job = self.observed.copies.get(&id)?.clone();
        if job.result_at(self.now()).is_none() {
            job.live.result = None;
        }
        let event = self.observed.event(&job, delivery.unwrap_or(job.live.delivery), what);
        Some(decide(&job, &event, FIXED_JITTER).map(StoreWrite::Job))
    }

    /// The revision and the cursor of a schedule.
    async fn schedule(
        &mut self,
        name: &Name,
        basis: DecisionBasis,
    ) -> Result<Option<(Revision, Time)>, Error> {
        if basis == DecisionBasis::Old {
            let seen = self.observed.revision(RegistryTable::Schedules, name, 1);
            return Ok(seen.map(|seen| (seen, FakeClock::START)));
        }
        let entries = self.traits.registry.entries(RegistryTable::Schedules, None, 100).await?;
        let found = entries.into_iter().find(|entry| entry.name == *name);
        Ok(found.map(|entry| {
            self.observed.entry(RegistryTable::Schedules, entry.clone());
            let RegistryEntry { revision, value, .. } = entry;
            let RegistryValue::Schedule(schedule) = value else {
                return (revision, FakeClock::START);
            };
            (revision, schedule.cursor)
        }))
    }
}

impl ObservedStore {
    /// The job that a reference resolves to, and its delivery if the reference names one.
    fn target(&self, on: EventTarget) -> Option<(JobId, Option<Delivery>)> {
        match on {
            EventTarget::Job(back) => Some((self.jobs.pick(back)?, None)),
            EventTarget::Delivery(back) => {
                let delivery = self.deliveries.pick(back)?;
                Some((*self.holders.get(&delivery)?, Some(delivery)))
            }
        }
    }

    fn event(&self, job: &Job, delivery: Delivery, what: &JobEventOp) -> JobEvent {
        match what {
            JobEventOp::Finish { outcome, anonymous, then } => JobEvent::Finished {
                delivery: (!anonymous).then_some(delivery),
                report: self.report(*outcome, then),
            },
            JobEventOp::Lapsed => JobEvent::Lapsed(delivery),
            JobEventOp::TimedOut => JobEvent::TimedOut(delivery),
            JobEventOp::HandedOver => JobEvent::Delivered(delivery),
            JobEventOp::Cancel => JobEvent::Cancel,
            JobEventOp::Retry => JobEvent::Retry,
            JobEventOp::Delete => JobEvent::Delete,
            JobEventOp::Prune => JobEvent::Prune,
            JobEventOp::TakeResult => JobEvent::TakeResult,
            JobEventOp::Index(keys) => JobEvent::Index(samples::payload_keys(keys)),
            JobEventOp::Edit { queue, priority, limits, due } => {
                let mut spec = Spec::clone(&job.spec);
                spec.queue = queue.map_or(spec.queue, samples::queue);
                spec.priority = priority.unwrap_or(spec.priority);
                if let Some(limits) = limits {
                    spec.limits = limits.iter().copied().map(samples::limit_key).collect();
                }
                let spec = (spec != *job.spec).then(|| Arc::new(spec));
                JobEvent::Edit(JobEdit { spec, due: due.map(super::op::PlannedDue::when) })
            }
        }
    }

    fn report(&self, outcome: PlannedOutcome, then: &[PlannedJob]) -> Report {
        let failed = |detail: bool, again| Outcome::Failed {
            error: samples::ERROR.into(),
            detail: detail.then(|| Payload::json("[1]")),
            again,
        };
        let outcome = match outcome {
            PlannedOutcome::Done { result } => {
                Outcome::Done { result: result.then(|| samples::payload(1)) }
            }
            PlannedOutcome::Failed { detail } => failed(detail, RetryDirective::ByPolicy),
            PlannedOutcome::FailedFor(span) => failed(false, RetryDirective::After(span)),
            PlannedOutcome::FailedForGood { detail } => failed(detail, RetryDirective::Never),
            PlannedOutcome::Snooze(span) => Outcome::Snooze(span),
            PlannedOutcome::Cancel => Outcome::Cancel,
            PlannedOutcome::Interrupted => Outcome::Interrupted,
        };
        let details = ReportDetails {
            finished_at: (!then.is_empty()).then(|| Time::from_millis(1)),
            reason: (!then.is_empty()).then(|| "other".into()),
        };
        let [on_done, on_dead] = [self.new_jobs(then, 0), self.new_jobs(then, 0)];
        Report { on_done, on_dead, details, ..outcome.into() }
    }
}
