//! Apply: decisions with their effects, each atomic.

use std::sync::Arc;

use crore_core::machine::{Change, Effect, NextRecord};
use crore_core::{GroupId, Job, JobId, Satisfaction, Spec, State, Time};

use super::LocalIndex;
use super::records::{JobRecord, JobRecords};
use crate::Error;
use crate::bug::planted;
use crate::jobs::{Applied, Pushed, StoreWrite};

/// The job that causes effects, as it was before the change.
pub(super) struct EffectSource {
    id: JobId,
    lane: u32,
    attempt: u32,
    spec: Arc<Spec>,
}

impl EffectSource {
    pub(super) fn of(record: &JobRecord) -> Self {
        let job = &record.job;
        let (lane, attempt) = (record.lane, job.live.attempt);
        Self { id: job.id, lane, attempt, spec: Arc::clone(&job.spec) }
    }
}

impl<R: JobRecords> LocalIndex<R> {
    pub(crate) fn apply(
        &mut self,
        writes: Vec<StoreWrite>,
        now: Time,
    ) -> Result<Vec<Applied>, Error> {
        writes.into_iter().map(|write| self.apply_one(write, now)).collect()
    }

    fn apply_one(&mut self, write: StoreWrite, now: Time) -> Result<Applied, Error> {
        match write {
            StoreWrite::Job(change) => self.apply_change(change, now),
            StoreWrite::Seal(group) => self.seal(group, now),
            StoreWrite::ResumeKeys { limit, key } => {
                let resumed = self.lanes.resume_keys(&limit, key.as_ref(), now);
                Ok(if resumed > 0 { Applied::Yes(Vec::new()) } else { Applied::Stale })
            }
            StoreWrite::Tick { schedule, seen, cursor, push } => {
                if !self.definitions.tick(&schedule, seen, cursor, now) {
                    return Ok(Applied::Stale);
                }
                Ok(Applied::Yes(self.push_jobs(push, None, now)?))
            }
        }
    }

    fn apply_change(&mut self, change: Change, now: Time) -> Result<Applied, Error> {
        let holds = |job: &Job| {
            job.live.matches(&change.seen)
                || planted!("bug-1") && job.live.state == change.seen.state
        };
        let source = self.change(change.id, |record| {
            let source = holds(&record.job).then(|| EffectSource::of(record))?;
            if let NextRecord::Live(next) = &change.next {
                let before = planted!("bug-10").then(|| record.job.live.result.clone());
                record.job.apply(next, now);
                if let Some(Some(result)) = before {
                    record.job.live.result = Some(result);
                }
                if planted!("bug-8") && record.job.live.state == State::Ready {
                    record.job.live.due = now;
                }
            }
            Some(source)
        })?;
        let Some(source) = source.flatten() else { return Ok(Applied::Stale) };
        if let NextRecord::Gone = change.next {
            self.remove(change.id)?;
        }
        let mut pushed = Vec::new();
        for effect in change.effects {
            pushed.extend(self.apply_effect(&source, effect, now)?);
        }
        Ok(Applied::Yes(pushed))
    }

    /// Applies one effect of a change.
    pub(super) fn apply_effect(
        &mut self,
        source: &EffectSource,
        effect: Effect,
        now: Time,
    ) -> Result<Vec<Pushed>, Error> {
        let (id, spec) = (source.id, &source.spec);
        match effect {
            Effect::ReturnPermits if planted!("bug-4") && source.attempt > 1 => {}
            Effect::ReturnPermits => self.lanes.return_permits(source.lane, now),
            Effect::CorrectCost { key, charged, real } => {
                self.lanes.correct_cost(&key, (charged, real), now);
            }
            Effect::PauseKey { key, until } => self.lanes.pause_key(&key, until, now),
            Effect::ReleaseKey => {
                if let Some(unique) = &spec.unique {
                    self.keys.release(unique, id);
                }
            }
            Effect::Tally(mut tally) => {
                if planted!("bug-9") {
                    tally.succeeded = tally.ran;
                }
                if let Some(group) = spec.group {
                    let settled = self.dependencies.tally(group, tally, now);
                    self.settle_waiters(settled, now)?;
                }
            }
            Effect::Settle(settled) => {
                let settled = self.dependencies.settle(id, settled);
                self.settle_waiters(settled, now)?;
            }
            Effect::Push(jobs) => {
                if planted!("bug-6") {
                    self.push_jobs(jobs.clone(), Some((id, spec.group)), now)?;
                }
                return self.push_jobs(jobs, Some((id, spec.group)), now);
            }
        }
        Ok(Vec::new())
    }

    fn seal(&mut self, group: GroupId, now: Time) -> Result<Applied, Error> {
        let Some(settled) = self.dependencies.seal(group, now) else { return Ok(Applied::Stale) };
        self.settle_waiters(settled, now)?;
        Ok(Applied::Yes(Vec::new()))
    }

    /// Reports settled dependencies to the jobs that waited for them.
    pub(super) fn settle_waiters(
        &mut self,
        settled: Vec<(JobId, Satisfaction)>,
        now: Time,
    ) -> Result<(), Error> {
        for (id, dependency) in settled {
            self.change(id, |record| record.job.live.settle(dependency, now))?;
        }
        Ok(())
    }
}
