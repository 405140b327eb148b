//! Apply: writes decisions and their effects, each completely or not at all.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::group::JobOrigin;
use crore_core::machine::{Change, Effect, NextRecord};
use crore_core::push::NewJob;
use crore_core::{GroupId, Job};
use crore_store::Committed;
use crore_store::jobs::{Applied, Pushed, StoreWrite as Decision};
use sqlx::PgConnection;

use super::buckets::{self, bucket_key};
use super::error::PostgresFault;
use super::keys::keys_of;
use super::push::PushRecords;
use super::registry::LockedSchedules;
use super::unit_of_work::{JobWrite, UnitOfWork};
use super::{Postgres, commit};

impl Postgres {
    pub(super) async fn apply_once(
        &self,
        writes: &[Decision],
    ) -> Result<Committed<Vec<Applied>>, PostgresFault> {
        let mut tx = self.begin().await?;
        let mut batch = Apply::lock(&mut tx, self.now(), writes).await?;
        let mut answers = Vec::new();
        for write in writes {
            answers.push(batch.write(write)?);
        }
        batch.flush(&mut tx).await?;
        commit(tx, answers).await
    }
}

/// A batch of decisions with all records that they concern.
struct Apply {
    work: UnitOfWork,
    schedules: LockedSchedules,
    /// The number of permits that return to each bucket.
    returned: BTreeMap<Vec<u8>, i64>,
}

impl Apply {
    async fn lock(
        connection: &mut PgConnection,
        now: Option<i64>,
        writes: &[Decision],
    ) -> Result<Self, PostgresFault> {
        let mut wanted = PushRecords::default();
        let mut n = 0;
        for jobs in writes.iter().flat_map(pushed_by) {
            n += jobs.len();
            wanted.add(jobs);
        }
        let subjects: BTreeSet<_> = writes.iter().filter_map(change).map(|c| c.id).collect();
        let mut jobs = wanted.jobs(connection).await?;
        jobs.extend(&subjects);
        let mut work = UnitOfWork::start(connection, now, n, jobs).await?;

        let mut used = BTreeSet::new();
        for change in writes.iter().filter_map(change) {
            let Some(job) = work.job(change.id) else { continue };
            used.extend(job.spec.limits.iter().map(bucket_key));
            wanted.groups.extend(job.spec.group);
            if change.next == NextRecord::Gone || change.effects.contains(&Effect::ReleaseKey) {
                wanted.keys.extend(keys_of(&job.spec));
            }
        }
        let sealed = writes.iter().filter_map(|write| match write {
            Decision::Seal(group) => Some(*group),
            Decision::Job(_) | Decision::Tick { .. } | Decision::ResumeKeys { .. } => None,
        });
        wanted.groups.extend(sealed);
        buckets::lock(connection, used).await?;
        wanted.lock(&mut work, connection).await?;
        let schedules = LockedSchedules::lock(connection, work.now, writes).await?;
        let groups = work.groups.keys().map(|GroupId(id)| *id);
        let things = subjects.iter().map(|id| id.0).chain(groups).collect();
        work.lock_waiting_for(connection, things).await?;
        Ok(Self { work, schedules, returned: BTreeMap::new() })
    }

    fn write(&mut self, write: &Decision) -> Result<Applied, PostgresFault> {
        match write {
            Decision::Job(change) => self.change(change),
            Decision::Seal(group) if self.work.seal(*group) => Ok(Applied::Yes(Vec::new())),
            Decision::Seal(_) => Ok(Applied::Stale),
            // Refused before.
            Decision::ResumeKeys { .. } => Ok(Applied::Stale),
            Decision::Tick { schedule, seen, cursor, push } => {
                if !self.schedules.tick(schedule, *seen, *cursor) {
                    return Ok(Applied::Stale);
                }
                Ok(Applied::Yes(self.work.admit(push, &[], (None, JobOrigin::Tick))?))
            }
        }
    }

    fn change(&mut self, change: &Change) -> Result<Applied, PostgresFault> {
        let before = self.work.job(change.id).filter(|job| job.live.matches(&change.seen));
        let Some(before) = before.cloned() else { return Ok(Applied::Stale) };
        match &change.next {
            NextRecord::Gone => {
                self.work.keys.release_client(before.id, &before.spec);
                self.work.remove(before.id);
            }
            NextRecord::Live(next) => {
                let write = if next.spec.is_some() { JobWrite::Spec } else { JobWrite::Live };
                let now = self.work.now;
                if let Some(job) = self.work.change(before.id, write) {
                    job.apply(next, now);
                }
            }
        }
        let mut pushed = Vec::new();
        for effect in &change.effects {
            pushed.extend(self.effect(&before, effect)?);
        }
        Ok(Applied::Yes(pushed))
    }

    fn effect(&mut self, job: &Job, effect: &Effect) -> Result<Vec<Pushed>, PostgresFault> {
        match effect {
            Effect::ReturnPermits => {
                for key in job.spec.limits.iter().map(bucket_key).collect::<BTreeSet<_>>() {
                    *self.returned.entry(key).or_default() += 1;
                }
            }
            // No limit counts costs, and a pause is refused before.
            Effect::CorrectCost { .. } | Effect::PauseKey { .. } => {}
            Effect::ReleaseKey => self.work.keys.release_unique(job.id, &job.spec),
            Effect::Tally(tally) => {
                if let Some(group) = job.spec.group {
                    self.work.tally(group, *tally);
                }
            }
            Effect::Settle(settled) => self.work.settle(job.id, *settled),
            Effect::Push(jobs) => {
                let origin = JobOrigin::FollowUp(job.spec.group);
                return self.work.admit(jobs, &[], (Some(job.id), origin));
            }
        }
        Ok(Vec::new())
    }

    async fn flush(self, connection: &mut PgConnection) -> Result<(), PostgresFault> {
        buckets::return_permits(connection, self.returned).await?;
        self.schedules.flush(connection).await?;
        self.work.flush(connection).await
    }
}

fn change(write: &Decision) -> Option<&Change> {
    match write {
        Decision::Job(change) => Some(change),
        Decision::Seal(_) | Decision::Tick { .. } | Decision::ResumeKeys { .. } => None,
    }
}

/// The new jobs that a decision pushes.
fn pushed_by(write: &Decision) -> Vec<&[NewJob]> {
    match write {
        Decision::Job(change) => change
            .effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Push(jobs) => Some(jobs.as_slice()),
                _ => None,
            })
            .collect(),
        Decision::Seal(_) | Decision::ResumeKeys { .. } => Vec::new(),
        Decision::Tick { push, .. } => vec![push],
    }
}
