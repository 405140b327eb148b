//! Apply: decisions and their effects, each written once or not at all.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::machine::{Change, Effect, Next};
use crore_core::push::NewJob;
use crore_core::{GroupId, Job};
use crore_store::Committed;
use crore_store::jobs::{Applied, Pushed, Write as Decision};
use sqlx::PgConnection;

use super::buckets::{self, bucket_key};
use super::error::Fault;
use super::keys::keys_of;
use super::push::Wanted;
use super::registry::Schedules;
use super::work::{Work, Write};
use super::{Postgres, commit};

impl Postgres {
    pub(super) async fn apply_once(
        &self,
        writes: &[Decision],
    ) -> Result<Committed<Vec<Applied>>, Fault> {
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

/// A batch of decisions with all the records that they are about.
struct Apply {
    work: Work,
    schedules: Schedules,
    /// How many permits go back to each bucket.
    returned: BTreeMap<Vec<u8>, i64>,
}

impl Apply {
    async fn lock(
        connection: &mut PgConnection,
        now: Option<i64>,
        writes: &[Decision],
    ) -> Result<Self, Fault> {
        let mut wanted = Wanted::default();
        let mut n = 0;
        for jobs in writes.iter().flat_map(pushed_by) {
            n += jobs.len();
            wanted.add(jobs);
        }
        let subjects: BTreeSet<_> = writes.iter().filter_map(change).map(|c| c.id).collect();
        let mut jobs = wanted.jobs(connection).await?;
        jobs.extend(&subjects);
        let mut work = Work::start(connection, now, n, jobs).await?;

        let mut used = BTreeSet::new();
        for change in writes.iter().filter_map(change) {
            let Some(job) = work.job(change.id) else { continue };
            used.extend(job.spec.limits.iter().map(bucket_key));
            wanted.groups.extend(job.spec.group);
            if change.next == Next::Gone || change.effects.contains(&Effect::ReleaseKey) {
                wanted.keys.extend(keys_of(&job.spec));
            }
        }
        let sealed = writes.iter().filter_map(|write| match write {
            Decision::Seal(group) => Some(*group),
            Decision::Job(_) | Decision::Tick { .. } => None,
        });
        wanted.groups.extend(sealed);
        buckets::lock(connection, used).await?;
        wanted.lock(&mut work, connection).await?;
        let schedules = Schedules::lock(connection, work.now, writes).await?;
        let groups = work.groups.keys().map(|GroupId(id)| *id);
        let things = subjects.iter().map(|id| id.0).chain(groups).collect();
        work.lock_waiting_for(connection, things).await?;
        Ok(Self { work, schedules, returned: BTreeMap::new() })
    }

    fn write(&mut self, write: &Decision) -> Result<Applied, Fault> {
        match write {
            Decision::Job(change) => self.change(change),
            Decision::Seal(group) if self.work.seal(*group) => Ok(Applied::Yes(Vec::new())),
            Decision::Seal(_) => Ok(Applied::Stale),
            Decision::Tick { schedule, seen, cursor, push } => {
                if !self.schedules.tick(schedule, *seen, *cursor) {
                    return Ok(Applied::Stale);
                }
                Ok(Applied::Yes(self.work.admit(push, &[], None)?))
            }
        }
    }

    fn change(&mut self, change: &Change) -> Result<Applied, Fault> {
        let before = self.work.job(change.id).filter(|job| job.live.is(&change.seen));
        let Some(before) = before.cloned() else { return Ok(Applied::Stale) };
        match &change.next {
            Next::Gone => {
                self.work.keys.release_client(before.id, &before.spec);
                self.work.remove(before.id);
            }
            Next::Live(next) => {
                let write = if next.spec.is_some() { Write::Spec } else { Write::Live };
                let now = self.work.now;
                if let Some(job) = self.work.change(before.id, write) {
                    job.take(next, now);
                }
            }
        }
        let mut pushed = Vec::new();
        for effect in &change.effects {
            pushed.extend(self.effect(&before, effect)?);
        }
        Ok(Applied::Yes(pushed))
    }

    fn effect(&mut self, job: &Job, effect: &Effect) -> Result<Vec<Pushed>, Fault> {
        match effect {
            Effect::ReturnPermits => {
                for key in job.spec.limits.iter().map(bucket_key).collect::<BTreeSet<_>>() {
                    *self.returned.entry(key).or_default() += 1;
                }
            }
            Effect::ReleaseKey => self.work.keys.release_unique(job.id, &job.spec),
            Effect::Tally(tally) => {
                if let Some(group) = job.spec.group {
                    self.work.tally(group, *tally);
                }
            }
            Effect::Settle(settled) => self.work.settle(job.id, *settled),
            Effect::Push(jobs) => return self.work.admit(jobs, &[], Some(job.id)),
        }
        Ok(Vec::new())
    }

    async fn flush(self, connection: &mut PgConnection) -> Result<(), Fault> {
        buckets::give_back(connection, self.returned).await?;
        self.schedules.flush(connection).await?;
        self.work.flush(connection).await
    }
}

fn change(write: &Decision) -> Option<&Change> {
    match write {
        Decision::Job(change) => Some(change),
        Decision::Seal(_) | Decision::Tick { .. } => None,
    }
}

/// The new jobs that a decision brings.
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
        Decision::Seal(_) => Vec::new(),
        Decision::Tick { push, .. } => vec![push],
    }
}
