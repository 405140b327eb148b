//! What holds jobs together: groups, and who waits for what.

use std::collections::{BTreeMap, HashMap};

use crore_core::group::{Group, Tally};
use crore_core::job::{Needs, Thing};
use crore_core::machine::Settled;
use crore_core::{GroupId, JobId, Span, Time};

/// How long a group that has ended is kept for people to look at.
const KEEP_GROUP: Span = Span::from_secs(24 * 60 * 60);

/// What becomes of a job that waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pull {
    /// One thing less to wait for.
    Release,
    /// One thing can no longer come true.
    Snap,
}

#[derive(Debug, Default)]
pub(crate) struct Ties {
    groups: BTreeMap<GroupId, (Group, Time)>,
    waiters: HashMap<Thing, Vec<(JobId, Needs)>>,
}

impl Ties {
    pub(crate) fn group(&self, id: GroupId) -> Option<Group> {
        self.groups.get(&id).map(|(group, _)| *group)
    }

    pub(crate) fn add_group(&mut self, id: GroupId, group: Group, now: Time) {
        self.groups.insert(id, (group, now));
    }

    pub(crate) fn wait(&mut self, job: JobId, on: Thing, needs: Needs) {
        self.waiters.entry(on).or_default().push((job, needs));
    }

    /// A job has settled: what becomes of those that waited for it.
    pub(crate) fn settle(&mut self, job: JobId, settled: Settled) -> Vec<(JobId, Pull)> {
        let thing = Thing::Job(job);
        let Some(waiters) = self.waiters.remove(&thing) else { return Vec::new() };
        let (mut pulled, mut held) = (Vec::new(), Vec::new());
        for (waiter, needs) in waiters {
            match (settled, needs) {
                (Settled::Succeeded, _) | (_, Needs::End) => pulled.push((waiter, Pull::Release)),
                (Settled::Failed, Needs::Success) => held.push((waiter, needs)),
                (Settled::Gone, Needs::Success) => pulled.push((waiter, Pull::Snap)),
            }
        }
        if !held.is_empty() {
            self.waiters.insert(thing, held);
        }
        pulled
    }

    /// Counts in a group, and gives those whom that releases.
    pub(crate) fn tally(&mut self, id: GroupId, tally: Tally, now: Time) -> Vec<(JobId, Pull)> {
        let Some((group, touched)) = self.groups.get_mut(&id) else { return Vec::new() };
        *group = group.tallied(tally);
        *touched = now;
        self.release(id)
    }

    /// Seals a group, and gives those whom that releases; `None`: it was sealed, or is not there.
    pub(crate) fn seal(&mut self, id: GroupId, now: Time) -> Option<Vec<(JobId, Pull)>> {
        let (group, touched) = self.groups.get_mut(&id).filter(|(group, _)| !group.sealed)?;
        group.sealed = true;
        group.revision = group.revision.next();
        *touched = now;
        Some(self.release(id))
    }

    fn release(&mut self, id: GroupId) -> Vec<(JobId, Pull)> {
        let thing = Thing::Group(id);
        let Some(group) = self.group(id) else { return Vec::new() };
        let Some(waiters) = self.waiters.remove(&thing) else { return Vec::new() };
        let (freed, held): (Vec<_>, Vec<_>) =
            waiters.into_iter().partition(|(_, needs)| group.satisfies(*needs));
        if !held.is_empty() {
            self.waiters.insert(thing, held);
        }
        freed.into_iter().map(|(job, _)| (job, Pull::Release)).collect()
    }

    /// Drops up to `n` groups that have ended long ago. Gives how many.
    pub(crate) fn prune(&mut self, n: usize, now: Time) -> usize {
        let over = |(id, (group, touched)): (&GroupId, &(Group, Time))| {
            let waited_for = self.waiters.contains_key(&Thing::Group(*id));
            let old = touched.after(KEEP_GROUP) <= now;
            (old && !waited_for && group.satisfies(Needs::End)).then_some(*id)
        };
        let over: Vec<GroupId> = self.groups.iter().filter_map(over).take(n).collect();
        for id in &over {
            self.groups.remove(id);
        }
        over.len()
    }
}
