//! Push: new jobs and groups, and what becomes of each.

use std::collections::BTreeSet;
use std::sync::Arc;

use crore_core::dependency::{self, Satisfaction};
use crore_core::group::{Group, Tally};
use crore_core::job::{Dependency, Needs, Thing};
use crore_core::push::{After, AfterRef, GroupRef};
use crore_core::{Batch, GroupId, Job, JobId, Live, NewJob, Spec, Time};
use crore_store::Committed;
use crore_store::jobs::{Pushed, Pushes};
use sqlx::PgConnection;

use super::error::{Fault, corrupt};
use super::keys::{self, Keys, keys_of};
use super::work::{Dep, GroupSlot, Slot, Work, Write};
use super::{Postgres, commit};

impl Postgres {
    pub(super) async fn push_once(&self, batch: &Batch) -> Result<Committed<Pushes>, Fault> {
        let mut wanted = Wanted::default();
        wanted.add(&batch.jobs);
        let mut tx = self.begin().await?;
        let n = batch.groups.len() + batch.jobs.len();
        let jobs = wanted.jobs(&mut tx).await?;
        let mut work = Work::start(&mut tx, self.now(), n, jobs).await?;
        wanted.lock(&mut work, &mut tx).await?;
        let groups = work.open_groups(batch.groups.len())?;
        let jobs = work.admit(&batch.jobs, &groups, None)?;
        for (id, _) in groups.iter().zip(&batch.groups).filter(|(_, new)| !new.open) {
            work.seal(*id);
        }
        let now = work.now;
        work.flush(&mut tx).await?;
        commit(tx, Pushes { now, groups, jobs }).await
    }
}

/// The records that new jobs refer to or compete for.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) jobs: BTreeSet<JobId>,
    pub(super) keys: BTreeSet<Vec<u8>>,
    pub(super) groups: BTreeSet<GroupId>,
    refer_back: bool,
}

impl Wanted {
    pub(super) fn add(&mut self, jobs: &[NewJob]) {
        for new in jobs {
            self.keys.extend(keys_of(&new.spec));
            if let Some(GroupRef::Id(id)) = new.group {
                self.groups.insert(id);
            }
            for after in &new.after {
                match after.on {
                    AfterRef::Job(id) => _ = self.jobs.insert(id),
                    AfterRef::Group(GroupRef::Id(id)) => _ = self.groups.insert(id),
                    AfterRef::Earlier(_) => self.refer_back = true,
                    AfterRef::Group(GroupRef::New(_)) => {}
                }
            }
        }
    }

    /// The jobs to lock. A reference to a duplicate means the job that was there first: that is known
    /// only when the keys are locked, but whoever has a key now is likely to have it then too, and
    /// jobs are locked before keys.
    pub(super) async fn jobs(
        &mut self,
        connection: &mut PgConnection,
    ) -> Result<BTreeSet<JobId>, Fault> {
        let mut jobs = std::mem::take(&mut self.jobs);
        if self.refer_back {
            jobs.extend(keys::holders(connection, &self.keys).await?);
        }
        Ok(jobs)
    }

    /// Locks keys and groups; jobs were locked before.
    pub(super) async fn lock(
        self,
        work: &mut Work,
        connection: &mut PgConnection,
    ) -> Result<(), Fault> {
        work.keys = Keys::lock(connection, self.keys).await?;
        if self.refer_back {
            // Those who came to a key since the jobs were locked; mostly there is none.
            let holders = work.keys.holders().collect();
            work.lock_jobs(connection, holders).await?;
        }
        work.lock_groups(connection, self.groups).await
    }
}

impl Work {
    /// New groups. They are open until all of the batch is known.
    fn open_groups(&mut self, n: usize) -> Result<Vec<GroupId>, Fault> {
        let mut groups = Vec::new();
        for _ in 0..n {
            let id = GroupId(self.number()?);
            self.groups.insert(id, GroupSlot { group: Group::default(), changed: true });
            groups.push(id);
        }
        Ok(groups)
    }

    fn number(&mut self) -> Result<u64, Fault> {
        self.ids.pop_front().ok_or_else(|| corrupt("the database gave too few numbers"))
    }

    /// Lets new jobs in, one by one in order.
    pub(super) fn admit(
        &mut self,
        jobs: &[NewJob],
        groups: &[GroupId],
        parent: Option<JobId>,
    ) -> Result<Vec<Pushed>, Fault> {
        let mut answers = Vec::new();
        for (nth, new) in (0..).zip(jobs) {
            let parent = parent.map(|id| (id, nth)).or(new.spec.parent);
            let answer = match self.keys.holder(&new.spec, self.now) {
                Some(holder) => Pushed::Duplicate(holder),
                None => match self.resolve(new, groups, &answers) {
                    Err(broken) => broken,
                    Ok(spec) => {
                        let due = new.due.resolve(self.now, self.now);
                        Pushed::New(self.enter(Spec { parent, ..spec }, due)?)
                    }
                },
            };
            answers.push(answer);
        }
        Ok(answers)
    }

    /// The spec with its references resolved, or the answer if one of them is broken.
    fn resolve(
        &self,
        new: &NewJob,
        groups: &[GroupId],
        answers: &[Pushed],
    ) -> Result<Spec, Pushed> {
        let group = |group| match group {
            GroupRef::Id(id) => id,
            GroupRef::New(nth) => groups.get(nth).copied().unwrap_or_default(),
        };
        let joined = new.group.map(group);
        if let Some(id) = joined.filter(|id| !self.groups.contains_key(id)) {
            return Err(Pushed::Broken(Thing::Group(id)));
        }
        let mut spec = Spec { group: joined, after: Vec::new(), ..new.spec.clone() };
        for After { on, needs } in &new.after {
            let on = match *on {
                AfterRef::Job(id) => Thing::Job(id),
                AfterRef::Group(on) => Thing::Group(group(on)),
                AfterRef::Earlier(nth) => {
                    let earlier = answers.get(nth).and_then(|answer| answer.id());
                    Thing::Job(earlier.ok_or(Pushed::BrokenBy(nth))?)
                }
            };
            if self.satisfaction(on, *needs) == Satisfaction::Broken {
                return Err(Pushed::Broken(on));
            }
            spec.after.push(Dependency { on, needs: *needs });
        }
        Ok(spec)
    }

    /// Whether the thing that a new job waits for satisfies its need.
    fn satisfaction(&self, on: Thing, needs: Needs) -> Satisfaction {
        match on {
            Thing::Group(id) => {
                dependency::of_group(self.groups.get(&id).map(|slot| &slot.group), needs)
            }
            Thing::Job(id) => dependency::of_job(self.job(id).map(|job| job.live.state), needs),
        }
    }

    fn enter(&mut self, spec: Spec, due: Time) -> Result<JobId, Fault> {
        let id = JobId(self.number()?);
        self.keys.take(id, &spec, due);
        let mut waits = 0;
        for (place, Dependency { on, needs }) in (0..).zip(spec.after.iter().copied()) {
            if self.satisfaction(on, needs) == Satisfaction::Open {
                let (Thing::Job(JobId(thing)) | Thing::Group(GroupId(thing))) = on;
                let dep = Dep { job: id, place, needs, stored: false };
                self.deps.entry(thing).or_default().push(dep);
                waits += 1;
            }
        }
        if let Some(group) = spec.group {
            self.tally(group, Tally { size: 1, ..Tally::default() });
        }
        let job = Job { id, spec: Arc::new(spec), live: Live::pushed(self.now, due, waits) };
        self.jobs.insert(id, Slot { job: Some(job), write: Write::New });
        Ok(id)
    }
}
