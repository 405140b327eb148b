//! Push: checks each job in the order of the batch; a job sees those before it.

use std::sync::Arc;

use crore_core::group::{Group, GroupTally, SEALED_GROUP_LABEL};
use crore_core::job::{Dependency, DependencyTarget};
use crore_core::push::{GroupRef, NewDependency, NewDependencyTarget};
use crore_core::{Batch, GroupId, Job, JobId, Live, NewJob, Satisfaction, Spec};
use crore_store::jobs::{Pushed, PushedBatch};

use super::events::received;
use super::records::{Lock, Records, Wait};

/// The origin of jobs that join groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joining {
    Pushed,
    /// The end of a member of this group.
    EndOfMember(GroupId),
    /// A tick, or the end of a job without a group.
    Other,
}

impl Records {
    pub(super) fn push(&mut self, batch: Batch) -> PushedBatch {
        let groups: Vec<GroupId> = batch.groups.iter().map(|_| self.new_group()).collect();
        let jobs = self.push_jobs(batch.jobs, &groups, Joining::Pushed);
        // Sealed after all members have joined, so that a job that depends on the group waits for all of
        // them, wherever they are in the batch.
        for (id, _) in groups.iter().zip(&batch.groups).filter(|(_, new)| !new.open) {
            self.change_group(*id, |group| group.seal().expect("a new group is open"));
        }
        PushedBatch { now: self.now, groups, jobs }
    }

    /// Pushes jobs that may refer to these new groups, and to each other.
    pub(super) fn push_jobs(
        &mut self,
        jobs: Vec<NewJob>,
        groups: &[GroupId],
        joining: Joining,
    ) -> Vec<Pushed> {
        let mut answers = Vec::new();
        for mut job in jobs {
            let answer = self
                .check_sealed(&mut job, joining)
                .and_then(|()| self.push_job(job, groups, &answers))
                .unwrap_or_else(|refused| refused);
            answers.push(answer);
        }
        answers
    }

    /// A sealed group takes only follow-ups of its members. Other jobs that nobody waits for lose the group.
    fn check_sealed(&self, new: &mut NewJob, joining: Joining) -> Result<(), Pushed> {
        let Some(GroupRef::Id(id)) = new.group else { return Ok(()) };
        let is_sealed = self.groups.get(&id).is_some_and(|(group, _)| group.sealed);
        if !is_sealed || joining == Joining::EndOfMember(id) {
            return Ok(());
        }
        // A duplicate is reported as such, whatever its group.
        self.check_duplicate(&new.spec)?;
        if joining == Joining::Pushed {
            return Err(Pushed::Sealed(id));
        }
        new.group = None;
        new.spec.labels.insert(SEALED_GROUP_LABEL.to_owned(), id.to_string());
        Ok(())
    }

    fn push_job(
        &mut self,
        new: NewJob,
        groups: &[GroupId],
        earlier: &[Pushed],
    ) -> Result<Pushed, Pushed> {
        self.check_duplicate(&new.spec)?;
        let group = new.group.map(|group| self.find_group(group, groups)).transpose()?;
        let (after, waits) = self.resolve_dependencies(&new.after, groups, earlier)?;
        let id = JobId(self.next_number());
        let due = new.due.resolve(self.now, self.now);
        let mut live = Live::pushed(self.now, due, u32::try_from(waits.len()).unwrap_or(u32::MAX));
        live.deadline = new.deadline.map(|deadline| deadline.resolve(self.now));
        if let Some(awaited) = &new.spec.wait_for {
            let kept = self.kept(&awaited.name).map(|event| received(&event));
            live.await_event(awaited, kept, self.now);
        }
        let spec = Spec { group, after, ..new.spec };
        if let Some(unique) = &spec.unique {
            let until = unique.window.map(|window| due.after(window));
            self.locks.insert(Arc::clone(&unique.key), Lock { job: id, until });
        }
        self.waits.extend(waits.iter().map(|on| Wait { job: id, on: on.on, needs: on.needs }));
        self.jobs.insert(id, Job { id, spec: Arc::new(spec), live });
        if let Some(group) = group {
            self.change_group(group, |group| {
                group.tallied(GroupTally { size: 1, ..GroupTally::default() })
            });
        }
        Ok(Pushed::New(id))
    }

    /// Checks whether another job holds the unique key, or has the client id.
    fn check_duplicate(&self, spec: &Spec) -> Result<(), Pushed> {
        if let Some(holder) = spec.unique.as_ref().and_then(|unique| self.holder(&unique.key)) {
            return Err(Pushed::Duplicate(holder));
        }
        let twin = |job: &&Job| spec.client_id.is_some() && job.spec.client_id == spec.client_id;
        match self.jobs.values().find(twin) {
            Some(job) => Err(Pushed::Duplicate(job.id)),
            None => Ok(()),
        }
    }

    fn find_group(&self, group: GroupRef, groups: &[GroupId]) -> Result<GroupId, Pushed> {
        let id = to_stored_group(group, groups);
        if self.groups.contains_key(&id) {
            Ok(id)
        } else {
            Err(Pushed::Broken(DependencyTarget::Group(id)))
        }
    }

    /// The dependencies of a job, resolved, and those that are still open. Fails with the first that does not
    /// exist or can no longer succeed.
    fn resolve_dependencies(
        &self,
        after: &[NewDependency],
        groups: &[GroupId],
        earlier: &[Pushed],
    ) -> Result<(Vec<Dependency>, Vec<Dependency>), Pushed> {
        let (mut all, mut open) = (Vec::new(), Vec::new());
        for after in after {
            let one = to_stored(*after, groups, earlier)?;
            all.push(one);
            match self.satisfaction(one.on, one.needs) {
                Satisfaction::Satisfied => {}
                Satisfaction::Open => open.push(one),
                Satisfaction::Broken => return Err(Pushed::Broken(one.on)),
            }
        }
        Ok((all, open))
    }

    fn new_group(&mut self) -> GroupId {
        let id = GroupId(self.next_number());
        self.groups.insert(id, (Group::default(), self.now));
        id
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

/// A dependency with resolved ids.
fn to_stored(
    after: NewDependency,
    groups: &[GroupId],
    earlier: &[Pushed],
) -> Result<Dependency, Pushed> {
    let on = match after.on {
        NewDependencyTarget::Job(id) => DependencyTarget::Job(id),
        NewDependencyTarget::Group(group) => {
            DependencyTarget::Group(to_stored_group(group, groups))
        }
        NewDependencyTarget::Earlier(n) => {
            let id = earlier.get(n).and_then(|pushed| pushed.id());
            DependencyTarget::Job(id.ok_or(Pushed::BrokenBy(n))?)
        }
    };
    Ok(Dependency { on, needs: after.needs })
}

/// A resolved group id. An index outside the batch resolves to 0, which is never the id of a group.
fn to_stored_group(group: GroupRef, groups: &[GroupId]) -> GroupId {
    match group {
        GroupRef::Id(id) => id,
        GroupRef::New(n) => groups.get(n).copied().unwrap_or_default(),
    }
}
