//! Groups, and the jobs that wait for groups or other jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crore_core::group::{Group, GroupTally};
use crore_core::job::{Dependency, DependencyCondition, DependencyTarget};
use crore_core::machine::Settled;
use crore_core::{GroupId, JobId, Satisfaction, Time};

use super::side::SideKey;
use crate::upkeep::GROUP_RETENTION;
use crate::views::GroupRow;

#[derive(Debug, Default)]
pub(crate) struct Dependencies {
    groups: BTreeMap<GroupId, (Group, Time)>,
    /// (target, condition, waiting job, index among its dependencies). Waiters that one event
    /// releases are adjacent. Each dependency has its own entry, even if a job names the same
    /// target twice.
    waiters: BTreeSet<(DependencyTarget, DependencyCondition, JobId, u32)>,
    pub(crate) touched: Vec<SideKey>,
}

impl Dependencies {
    pub(crate) fn group(&self, id: GroupId) -> Option<Group> {
        self.groups.get(&id).map(|(group, _)| *group)
    }

    pub(crate) fn add_group(&mut self, id: GroupId, group: Group, now: Time) {
        self.groups.insert(id, (group, now));
        self.touched.push(SideKey::Group(id));
    }

    /// Up to `n` groups with ids below `before`, or the newest ones, in descending order.
    pub(crate) fn groups_before(&self, before: Option<GroupId>, n: usize) -> Vec<GroupRow> {
        let upto = before.map_or(Bound::Unbounded, Bound::Excluded);
        let groups = self.groups.range((Bound::Unbounded, upto)).rev().take(n);
        let row = |(id, (group, changed_at)): (&GroupId, &(Group, Time))| GroupRow {
            id: *id,
            group: *group,
            changed_at: *changed_at,
        };
        groups.map(row).collect()
    }

    pub(crate) fn group_at(&self, id: GroupId) -> Option<(Group, Time)> {
        self.groups.get(&id).copied()
    }

    pub(crate) fn waits(
        &self,
        on: DependencyTarget,
        needs: DependencyCondition,
        job: JobId,
        nth: u32,
    ) -> bool {
        self.waiters.contains(&(on, needs, job, nth))
    }

    pub(crate) fn add(
        &mut self,
        on: DependencyTarget,
        needs: DependencyCondition,
        job: JobId,
        nth: u32,
    ) {
        self.waiters.insert((on, needs, job, nth));
        self.touched.push(SideKey::Wait(on, needs, job, nth));
    }

    /// Returns the number of waits and of groups.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.waiters.len(), self.groups.len())
    }

    /// Records that a job waits for its `nth` dependency.
    pub(crate) fn wait(&mut self, job: JobId, nth: u32, after: Dependency) {
        self.add(after.on, after.needs, job, nth);
    }

    /// Drops all waits of a removed job.
    pub(crate) fn remove_waits(&mut self, job: JobId, after: &[Dependency]) {
        for (nth, after) in (0u32..).zip(after) {
            if self.waiters.remove(&(after.on, after.needs, job, nth)) {
                self.touched.push(SideKey::Wait(after.on, after.needs, job, nth));
            }
        }
    }

    /// Removes the waiters whose condition is settled, and returns each with its satisfaction.
    fn take_settled(
        &mut self,
        on: DependencyTarget,
        satisfaction: impl Fn(DependencyCondition) -> Satisfaction,
    ) -> Vec<(JobId, Satisfaction)> {
        let mut settled = Vec::new();
        if self.waiters.is_empty() {
            return settled;
        }
        for needs in DependencyCondition::ALL {
            let satisfaction = satisfaction(needs);
            if satisfaction == Satisfaction::Open {
                continue;
            }
            let all = (on, needs, JobId(0), 0)..=(on, needs, JobId(u64::MAX), u32::MAX);
            let waiters: Vec<_> = self.waiters.range(all).copied().collect();
            for waiter in &waiters {
                self.waiters.remove(waiter);
                self.touched.push(SideKey::Wait(waiter.0, waiter.1, waiter.2, waiter.3));
            }
            settled.extend(waiters.into_iter().map(|(_, _, job, _)| (job, satisfaction)));
        }
        settled
    }

    /// Returns the waiters that the settling of a job settles.
    pub(crate) fn settle(&mut self, job: JobId, settled: Settled) -> Vec<(JobId, Satisfaction)> {
        self.take_settled(DependencyTarget::Job(job), |needs| settled.satisfaction(needs))
    }

    /// Adds to a group's counts, and returns the waiters that this settles.
    pub(crate) fn tally(
        &mut self,
        id: GroupId,
        tally: GroupTally,
        now: Time,
    ) -> Vec<(JobId, Satisfaction)> {
        self.change_group(id, |group| Some(group.tallied(tally)), now).unwrap_or_default()
    }

    /// Seals a group, and returns the waiters that this settles; `None` if it is sealed or missing.
    pub(crate) fn seal(&mut self, id: GroupId, now: Time) -> Option<Vec<(JobId, Satisfaction)>> {
        self.change_group(id, Group::seal, now)
    }

    fn change_group(
        &mut self,
        id: GroupId,
        change: impl FnOnce(Group) -> Option<Group>,
        now: Time,
    ) -> Option<Vec<(JobId, Satisfaction)>> {
        let (group, touched) = self.groups.get_mut(&id)?;
        let changed = change(*group)?;
        (*group, *touched) = (changed, now);
        self.touched.push(SideKey::Group(id));
        Some(self.take_settled(DependencyTarget::Group(id), |needs| changed.satisfaction(needs)))
    }

    fn is_waited_for(&self, id: GroupId) -> bool {
        let (on, most) = (DependencyTarget::Group(id), (JobId(u64::MAX), u32::MAX));
        let all = (on, DependencyCondition::End, JobId(0), 0)
            ..=(on, DependencyCondition::Success, most.0, most.1);
        self.waiters.range(all).next().is_some()
    }

    /// Removes up to `n` expired groups, and returns how many.
    pub(crate) fn prune(&mut self, n: usize, now: Time) -> usize {
        let over = |(id, (group, touched)): (&GroupId, &(Group, Time))| {
            let old = touched.after(GROUP_RETENTION) <= now;
            (old && group.has_ended() && !self.is_waited_for(*id)).then_some(*id)
        };
        let over: Vec<GroupId> = self.groups.iter().filter_map(over).take(n).collect();
        for id in &over {
            self.groups.remove(id);
            self.touched.push(SideKey::Group(*id));
        }
        over.len()
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use super::super::{LocalIndex, MemoryRecords};
    use super::*;
    use crate::jobs::StoreWrite;
    use crore_core::machine::{JobEvent, decide};
    use crore_core::push::{GroupRef, NewDependency, NewDependencyTarget, NewGroup};
    use crore_core::{Batch, Name, NewJob, Payload, Spec};

    #[test]
    fn a_removed_job_waits_for_nothing() {
        let (mut local, now) = (LocalIndex::<MemoryRecords>::default(), Time::ZERO);
        let name = Name::new("name", "q").expect("a valid name");
        let mut job = NewJob::from(Spec::new(name.clone(), name, Payload::json("1")));
        let on = NewDependencyTarget::Group(GroupRef::New(0));
        job.after =
            [DependencyCondition::End, DependencyCondition::Success, DependencyCondition::End]
                .map(|n| NewDependency { on, needs: n })
                .into();
        let batch = Batch {
            groups: vec![NewGroup { open: true, maker: None }],
            jobs: vec![job.clone(), job],
        };
        let pushed = local.push(batch, now).expect("stored");
        let id = pushed.jobs[0].id().expect("new");
        let job = local.get(&[id.into()], now).expect("an answer").remove(0).expect("it exists");
        let change = decide(&job, &JobEvent::Delete, 0).expect("a waiting job can be deleted");
        local.apply(vec![StoreWrite::Job(change)], now).expect("applied");
        assert_eq!(local.dependencies.waiters.len(), 3, "those of the other job remain");
        local.apply(vec![StoreWrite::Seal(pushed.groups[0])], now).expect("applied");
        assert_eq!(local.dependencies.waiters.len(), 0);
    }
}
