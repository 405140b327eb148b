//! Push: inserts new jobs and groups.

use std::collections::BTreeSet;
use std::sync::Arc;

use crore_core::dependency::{self, Satisfaction};
use crore_core::group::{Group, GroupAdmission, GroupTally, JobOrigin, SEALED_GROUP_LABEL};
use crore_core::job::{Dependency, DependencyCondition, DependencyTarget};
use crore_core::push::{GroupRef, NewDependency, NewDependencyTarget};
use crore_core::{Batch, GroupId, Job, JobId, Live, NewJob, Spec, Time};
use crore_store::Committed;
use crore_store::jobs::{Pushed, PushedBatch};
use sqlx::PgConnection;

use super::error::{PostgresFault, corrupt};
use super::keys::{self, LockedKeys, keys_of};
use super::unit_of_work::{Dep, JobWrite, LockedGroup, LockedJob, UnitOfWork};
use super::{Postgres, commit};

impl Postgres {
    pub(super) async fn push_once(
        &self,
        batch: &Batch,
    ) -> Result<Committed<PushedBatch>, PostgresFault> {
        let mut wanted = PushRecords::default();
        wanted.add(&batch.jobs);
        let mut tx = self.begin().await?;
        let n = batch.groups.len() + batch.jobs.len();
        let jobs = wanted.jobs(&mut tx).await?;
        let mut work = UnitOfWork::start(&mut tx, self.now(), n, jobs).await?;
        wanted.lock(&mut work, &mut tx).await?;
        let groups = work.open_groups(batch.groups.len())?;
        let jobs = work.admit(&batch.jobs, &groups, (None, JobOrigin::Push))?;
        for (id, _) in groups.iter().zip(&batch.groups).filter(|(_, new)| !new.open) {
            work.seal(*id);
        }
        let now = work.now;
        work.flush(&mut tx).await?;
        commit(tx, PushedBatch { now, groups, jobs }).await
    }
}

/// The records that new jobs refer to or compete for.
#[derive(Debug, Default)]
pub(super) struct PushRecords {
    pub(super) jobs: BTreeSet<JobId>,
    pub(super) keys: BTreeSet<Vec<u8>>,
    pub(super) groups: BTreeSet<GroupId>,
    has_back_references: bool,
}

impl PushRecords {
    pub(super) fn add(&mut self, jobs: &[NewJob]) {
        for new in jobs {
            self.keys.extend(keys_of(&new.spec));
            if let Some(GroupRef::Id(id)) = new.group {
                self.groups.insert(id);
            }
            for after in &new.after {
                match after.on {
                    NewDependencyTarget::Job(id) => _ = self.jobs.insert(id),
                    NewDependencyTarget::Group(GroupRef::Id(id)) => _ = self.groups.insert(id),
                    NewDependencyTarget::Earlier(_) => self.has_back_references = true,
                    NewDependencyTarget::Group(GroupRef::New(_)) => {}
                }
            }
        }
    }

    /// The jobs to lock. A reference to a duplicate means the current holder of its key. That is certain only
    /// after the keys are locked, but jobs are locked before keys, so the holders of this moment are locked
    /// in advance.
    pub(super) async fn jobs(
        &mut self,
        connection: &mut PgConnection,
    ) -> Result<BTreeSet<JobId>, PostgresFault> {
        let mut jobs = std::mem::take(&mut self.jobs);
        if self.has_back_references {
            jobs.extend(keys::holders(connection, &self.keys).await?);
        }
        Ok(jobs)
    }

    /// Locks keys and groups. Jobs are locked already.
    pub(super) async fn lock(
        self,
        work: &mut UnitOfWork,
        connection: &mut PgConnection,
    ) -> Result<(), PostgresFault> {
        work.keys = LockedKeys::lock(connection, self.keys).await?;
        if self.has_back_references {
            // Jobs that took a key since the jobs were locked; usually none.
            let holders = work.keys.holders().collect();
            work.lock_jobs(connection, holders).await?;
        }
        work.lock_groups(connection, self.groups).await
    }
}

impl UnitOfWork {
    /// Creates groups. They stay open until the whole batch is known.
    fn open_groups(&mut self, n: usize) -> Result<Vec<GroupId>, PostgresFault> {
        let mut groups = Vec::new();
        for _ in 0..n {
            let id = GroupId(self.next_id()?);
            self.groups.insert(id, LockedGroup { group: Group::default(), changed: true });
            groups.push(id);
        }
        Ok(groups)
    }

    fn next_id(&mut self) -> Result<u64, PostgresFault> {
        self.ids.pop_front().ok_or_else(|| corrupt("the database returned too few ids"))
    }

    /// Inserts new jobs one by one, in order.
    pub(super) fn admit(
        &mut self,
        jobs: &[NewJob],
        groups: &[GroupId],
        (parent, origin): (Option<JobId>, JobOrigin),
    ) -> Result<Vec<Pushed>, PostgresFault> {
        let mut answers = Vec::new();
        for (nth, new) in (0..).zip(jobs) {
            let parent = parent.map(|id| (id, nth)).or(new.spec.parent);
            let answer = match self.keys.holder(&new.spec, self.now) {
                Some(holder) => Pushed::Duplicate(holder),
                None => match self.resolve(new, (groups, origin), &answers) {
                    Err(broken) => broken,
                    Ok(spec) => {
                        let due = new.due.resolve(self.now, self.now);
                        Pushed::New(self.insert_job(Spec { parent, ..spec }, due)?)
                    }
                },
            };
            answers.push(answer);
        }
        Ok(answers)
    }

    /// The spec with its references resolved, or the answer if a reference is broken.
    fn resolve(
        &self,
        new: &NewJob,
        (groups, origin): (&[GroupId], JobOrigin),
        answers: &[Pushed],
    ) -> Result<Spec, Pushed> {
        let group = |group| match group {
            GroupRef::Id(id) => id,
            GroupRef::New(nth) => groups.get(nth).copied().unwrap_or_default(),
        };
        let mut spec = Spec { group: None, after: Vec::new(), ..new.spec.clone() };
        if let Some(id) = new.group.map(group) {
            self.join(id, origin, &mut spec)?;
        }
        for NewDependency { on, needs } in &new.after {
            let on = match *on {
                NewDependencyTarget::Job(id) => DependencyTarget::Job(id),
                NewDependencyTarget::Group(on) => DependencyTarget::Group(group(on)),
                NewDependencyTarget::Earlier(nth) => {
                    let earlier = answers.get(nth).and_then(|answer| answer.id());
                    DependencyTarget::Job(earlier.ok_or(Pushed::BrokenBy(nth))?)
                }
            };
            if self.satisfaction(on, *needs) == Satisfaction::Broken {
                return Err(Pushed::Broken(on));
            }
            spec.after.push(Dependency { on, needs: *needs });
        }
        Ok(spec)
    }

    /// Sets the group of a new job.
    fn join(&self, id: GroupId, origin: JobOrigin, spec: &mut Spec) -> Result<(), Pushed> {
        let locked = self.groups.get(&id);
        let locked = locked.ok_or(Pushed::Broken(DependencyTarget::Group(id)))?;
        match locked.group.admission(id, origin) {
            GroupAdmission::Joins => spec.group = Some(id),
            GroupAdmission::StoredOutside => {
                spec.labels.insert(SEALED_GROUP_LABEL.to_owned(), id.to_string());
            }
            GroupAdmission::Refused => return Err(Pushed::Sealed(id)),
        }
        Ok(())
    }

    /// Whether the job or group that a new job waits for satisfies its need.
    fn satisfaction(&self, on: DependencyTarget, needs: DependencyCondition) -> Satisfaction {
        match on {
            DependencyTarget::Group(id) => dependency::group_satisfaction(
                self.groups.get(&id).map(|locked| &locked.group),
                needs,
            ),
            DependencyTarget::Job(id) => {
                dependency::job_satisfaction(self.job(id).map(|job| job.live.state), needs)
            }
        }
    }

    fn insert_job(&mut self, spec: Spec, due: Time) -> Result<JobId, PostgresFault> {
        let id = JobId(self.next_id()?);
        self.keys.take(id, &spec, due);
        let mut waits = 0;
        for (place, Dependency { on, needs }) in (0..).zip(spec.after.iter().copied()) {
            if self.satisfaction(on, needs) == Satisfaction::Open {
                let (DependencyTarget::Job(JobId(thing)) | DependencyTarget::Group(GroupId(thing))) =
                    on;
                let dep = Dep { job: id, place, needs, stored: false };
                self.deps.entry(thing).or_default().push(dep);
                waits += 1;
            }
        }
        if let Some(group) = spec.group {
            self.tally(group, GroupTally { size: 1, ..GroupTally::default() });
        }
        let job = Job { id, spec: Arc::new(spec), live: Live::pushed(self.now, due, waits) };
        self.jobs.insert(id, LockedJob { job: Some(job), write: JobWrite::New });
        Ok(id)
    }
}
