//! Push: adds new jobs and groups to the records and the index.

use std::sync::Arc;

use crore_core::dependency::{self, Satisfaction};
use crore_core::group::{Group, GroupAdmission, GroupTally, JobOrigin, SEALED_GROUP_LABEL};
use crore_core::job::{Dependency, DependencyCondition, DependencyTarget};
use crore_core::push::{GroupRef, NewDependencyTarget};
use crore_core::{Batch, GroupId, Job, JobId, Live, NewJob, Spec, Time};

use super::LocalIndex;
use super::records::JobRecords;
use crate::Error;
use crate::bug::planted;
use crate::jobs::{Pushed, PushedBatch};

/// Where the jobs of a batch come from, and its results so far.
struct EarlierInBatch<'a> {
    origin: JobOrigin,
    groups: &'a [GroupId],
    jobs: &'a [Pushed],
}

impl<R: JobRecords> LocalIndex<R> {
    pub(crate) fn push(&mut self, batch: Batch, now: Time) -> Result<PushedBatch, Error> {
        let mut groups = Vec::with_capacity(batch.groups.len());
        for new in &batch.groups {
            let id = GroupId(self.next_id());
            let group = Group { maker: new.maker, ..Group::default() };
            self.dependencies.add_group(id, group, now);
            groups.push(id);
        }
        let mut jobs = Vec::with_capacity(batch.jobs.len());
        let half = batch.jobs.len().div_ceil(2);
        for job in batch.jobs {
            if planted!("bug-3") && jobs.len() >= half {
                jobs.push(Pushed::New(JobId(self.next_id())));
                continue;
            }
            let earlier = EarlierInBatch { origin: JobOrigin::Push, groups: &groups, jobs: &jobs };
            let pushed = self.push_one(job, None, &earlier, now)?;
            jobs.push(pushed);
        }
        for (id, new) in groups.iter().zip(&batch.groups) {
            if !new.open
                && let Some(settled) = self.dependencies.seal(*id, now)
            {
                self.settle_waiters(settled, now)?;
            }
        }
        Ok(PushedBatch { now, groups, jobs })
    }

    /// Pushes the follow-ups of a job with its group, or the jobs of a tick.
    pub(super) fn push_jobs(
        &mut self,
        jobs: Vec<NewJob>,
        parent: Option<(JobId, Option<GroupId>)>,
        now: Time,
    ) -> Result<Vec<Pushed>, Error> {
        let origin = parent.map_or(JobOrigin::Tick, |(_, group)| JobOrigin::FollowUp(group));
        let mut pushed = Vec::with_capacity(jobs.len());
        for (nth, job) in (0u32..).zip(jobs) {
            let earlier = EarlierInBatch { origin, groups: &[], jobs: &pushed };
            let parent = parent.map(|(id, _)| (id, nth));
            let result = self.push_one(job, parent, &earlier, now)?;
            pushed.push(result);
        }
        Ok(pushed)
    }

    fn push_one(
        &mut self,
        new: NewJob,
        parent: Option<(JobId, u32)>,
        earlier: &EarlierInBatch<'_>,
        now: Time,
    ) -> Result<Pushed, Error> {
        // Moved into its final allocation first: the spec is large, and every move copies it.
        let mut shared = Arc::new(new.spec);
        let spec = Arc::make_mut(&mut shared);
        let key_holder = spec.unique.as_ref().and_then(|unique| self.keys.holder(&unique.key, now));
        let client_holder = spec.client_id.as_ref().and_then(|client| self.keys.client(client));
        if let Some(id) = key_holder.or(client_holder) {
            return Ok(Pushed::Duplicate(id));
        }
        spec.parent = parent.or(spec.parent);
        spec.group = None;
        if let Some(group) = new.group
            && let Err(refused) = self.join(group, earlier, spec)
        {
            return Ok(refused);
        }
        let mut waits = Vec::new();
        spec.after.clear();
        for (nth, after) in (0u32..).zip(&new.after) {
            let on = match resolve_target(after.on, earlier) {
                Ok(on) => on,
                Err(broken) => return Ok(broken),
            };
            let dependency = Dependency { on, needs: after.needs };
            spec.after.push(dependency);
            match self.satisfaction(on, after.needs)? {
                Satisfaction::Open => waits.push((nth, dependency)),
                Satisfaction::Satisfied => {}
                Satisfaction::Broken => return Ok(Pushed::Broken(on)),
            }
        }
        let id = JobId(self.next_id());
        for (nth, dependency) in &waits {
            self.dependencies.wait(id, *nth, *dependency);
        }
        let due = new.due.resolve(now, now);
        if let Some(unique) = &spec.unique {
            self.keys.lock(unique, id, due);
        }
        if let Some(client) = &spec.client_id {
            self.keys.add_client(client, id);
        }
        if let Some(group) = spec.group {
            let member = GroupTally { size: 1, ..GroupTally::default() };
            let settled = self.dependencies.tally(group, member, now);
            self.settle_waiters(settled, now)?;
        }
        let mut live = Live::pushed(now, due, u32::try_from(waits.len()).unwrap_or(u32::MAX));
        live.deadline = new.deadline.map(|deadline| deadline.resolve(now));
        if let Some(awaited) = &spec.wait_for {
            live.await_event(awaited, self.events.receivable(&awaited.name, now), now);
        }
        self.add(Job { id, spec: shared, live })?;
        Ok(Pushed::New(id))
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Sets the group of a new job.
    fn join(
        &self,
        group: GroupRef,
        earlier: &EarlierInBatch<'_>,
        spec: &mut Spec,
    ) -> Result<(), Pushed> {
        let id = match group {
            GroupRef::Id(id) => id,
            GroupRef::New(n) => earlier.groups.get(n).copied().unwrap_or_default(),
        };
        let group = self.dependencies.group(id);
        let group = group.ok_or(Pushed::Broken(DependencyTarget::Group(id)))?;
        match group.admission(id, earlier.origin) {
            GroupAdmission::Joins => spec.group = Some(id),
            GroupAdmission::StoredOutside => {
                spec.labels.insert(SEALED_GROUP_LABEL.to_owned(), id.to_string());
            }
            GroupAdmission::Refused => return Err(Pushed::Sealed(id)),
        }
        Ok(())
    }

    /// Whether the group or job that a new job waits for satisfies its condition.
    fn satisfaction(
        &self,
        on: DependencyTarget,
        needs: DependencyCondition,
    ) -> Result<Satisfaction, Error> {
        Ok(match on {
            DependencyTarget::Group(id) => {
                dependency::group_satisfaction(self.dependencies.group(id).as_ref(), needs)
            }
            DependencyTarget::Job(id) => {
                let state = self.load(id)?.map(|record| record.job.live.state);
                dependency::job_satisfaction(state, needs)
            }
        })
    }
}

fn resolve_target(
    on: NewDependencyTarget,
    earlier: &EarlierInBatch<'_>,
) -> Result<DependencyTarget, Pushed> {
    match on {
        NewDependencyTarget::Job(id) => Ok(DependencyTarget::Job(id)),
        NewDependencyTarget::Group(GroupRef::Id(id)) => Ok(DependencyTarget::Group(id)),
        NewDependencyTarget::Group(GroupRef::New(n)) => {
            Ok(DependencyTarget::Group(earlier.groups.get(n).copied().unwrap_or_default()))
        }
        NewDependencyTarget::Earlier(n) => match earlier.jobs.get(n).and_then(|pushed| pushed.id())
        {
            Some(id) => Ok(DependencyTarget::Job(id)),
            None => Err(Pushed::BrokenBy(n)),
        },
    }
}
