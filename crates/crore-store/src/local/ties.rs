//! What holds jobs together: groups, and who waits for what.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::group::{Group, Tally};
use crore_core::job::{Dependency, Needs, Thing};
use crore_core::machine::Settled;
use crore_core::{GroupId, JobId, Satisfaction, Time};

use super::side::Key;
use crate::upkeep::KEEP_GROUP;

#[derive(Debug, Default)]
pub(crate) struct Ties {
    groups: BTreeMap<GroupId, (Group, Time)>,
    /// Who waits for what, and for which of its needs: those that one event releases lie together,
    /// and each need of a job stands for itself, even if it names the same thing twice.
    waiters: BTreeSet<(Thing, Needs, JobId, u32)>,
    pub(crate) touched: Vec<Key>,
}

impl Ties {
    pub(crate) fn group(&self, id: GroupId) -> Option<Group> {
        self.groups.get(&id).map(|(group, _)| *group)
    }

    pub(crate) fn add_group(&mut self, id: GroupId, group: Group, now: Time) {
        self.groups.insert(id, (group, now));
        self.touched.push(Key::Group(id));
    }

    pub(crate) fn group_at(&self, id: GroupId) -> Option<(Group, Time)> {
        self.groups.get(&id).copied()
    }

    pub(crate) fn waits(&self, on: Thing, needs: Needs, job: JobId, nth: u32) -> bool {
        self.waiters.contains(&(on, needs, job, nth))
    }

    pub(crate) fn add(&mut self, on: Thing, needs: Needs, job: JobId, nth: u32) {
        self.waiters.insert((on, needs, job, nth));
        self.touched.push(Key::Wait(on, needs, job, nth));
    }

    /// How many waits and groups there are.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.waiters.len(), self.groups.len())
    }

    /// A job waits for the `nth` thing that it named.
    pub(crate) fn wait(&mut self, job: JobId, nth: u32, after: Dependency) {
        self.add(after.on, after.needs, job, nth);
    }

    /// A job is gone, and waits for nothing any more.
    pub(crate) fn forget(&mut self, job: JobId, after: &[Dependency]) {
        for (nth, after) in (0u32..).zip(after) {
            if self.waiters.remove(&(after.on, after.needs, job, nth)) {
                self.touched.push(Key::Wait(after.on, after.needs, job, nth));
            }
        }
    }

    /// Takes away the waiters whose need of a thing is settled, and gives each with how it settled.
    fn settled(
        &mut self,
        on: Thing,
        satisfaction: impl Fn(Needs) -> Satisfaction,
    ) -> Vec<(JobId, Satisfaction)> {
        let mut settled = Vec::new();
        for needs in Needs::ALL {
            let satisfaction = satisfaction(needs);
            if satisfaction == Satisfaction::Open {
                continue;
            }
            let all = (on, needs, JobId(0), 0)..=(on, needs, JobId(u64::MAX), u32::MAX);
            let waiters: Vec<_> = self.waiters.range(all).copied().collect();
            for waiter in &waiters {
                self.waiters.remove(waiter);
                self.touched.push(Key::Wait(waiter.0, waiter.1, waiter.2, waiter.3));
            }
            settled.extend(waiters.into_iter().map(|(_, _, job, _)| (job, satisfaction)));
        }
        settled
    }

    /// A job has settled; gives the waiters that this settles.
    pub(crate) fn settle(&mut self, job: JobId, settled: Settled) -> Vec<(JobId, Satisfaction)> {
        self.settled(Thing::Job(job), |needs| settled.satisfaction(needs))
    }

    /// Counts in a group; gives the waiters that this settles.
    pub(crate) fn tally(
        &mut self,
        id: GroupId,
        tally: Tally,
        now: Time,
    ) -> Vec<(JobId, Satisfaction)> {
        self.change_group(id, |group| Some(group.tallied(tally)), now).unwrap_or_default()
    }

    /// Seals a group; gives the waiters that this settles. `None`: it is sealed, or not there.
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
        self.touched.push(Key::Group(id));
        Some(self.settled(Thing::Group(id), |needs| changed.satisfaction(needs)))
    }

    fn is_waited_for(&self, id: GroupId) -> bool {
        let (on, most) = (Thing::Group(id), (JobId(u64::MAX), u32::MAX));
        let all = (on, Needs::End, JobId(0), 0)..=(on, Needs::Success, most.0, most.1);
        self.waiters.range(all).next().is_some()
    }

    /// Drops up to `n` groups that have ended long ago. Gives how many.
    pub(crate) fn prune(&mut self, n: usize, now: Time) -> usize {
        let over = |(id, (group, touched)): (&GroupId, &(Group, Time))| {
            let old = touched.after(KEEP_GROUP) <= now;
            (old && group.has_ended() && !self.is_waited_for(*id)).then_some(*id)
        };
        let over: Vec<GroupId> = self.groups.iter().filter_map(over).take(n).collect();
        for id in &over {
            self.groups.remove(id);
            self.touched.push(Key::Group(*id));
        }
        over.len()
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test panics, and says why")]
mod tests {
    use super::super::{Local, Map};
    use super::*;
    use crate::jobs::Write;
    use crore_core::machine::{Event, decide};
    use crore_core::push::{After, AfterRef, GroupRef, NewGroup};
    use crore_core::{Batch, Name, NewJob, Payload, Spec};

    #[test]
    fn a_job_that_is_gone_waits_for_nothing() {
        let (mut local, now) = (Local::<Map>::default(), Time::ZERO);
        let name = Name::new("name", "q").expect("a good name");
        let mut job = NewJob::from(Spec::new(name.clone(), name, Payload::json("1")));
        let on = AfterRef::Group(GroupRef::New(0));
        job.after = [Needs::End, Needs::Success, Needs::End].map(|n| After { on, needs: n }).into();
        let batch = Batch { groups: vec![NewGroup { open: true }], jobs: vec![job.clone(), job] };
        let pushed = local.push(batch, now).expect("stored");
        let id = pushed.jobs[0].id().expect("new");
        let job = local.get(&[id.into()], now).expect("an answer").remove(0).expect("there");
        let change = decide(&job, &Event::Delete, 0).expect("a waiting job can be deleted");
        local.apply(vec![Write::Job(change)], now).expect("applied");
        assert_eq!(local.ties.waiters.len(), 3, "those of the other job");
        local.apply(vec![Write::Seal(pushed.groups[0])], now).expect("applied");
        assert_eq!(local.ties.waiters.len(), 0);
    }
}
