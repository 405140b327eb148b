//! Apply: what was decided is written, if what it was based on is still so.

use crore_core::job::Thing;
use crore_core::machine::{Change, Effect, Next, Settled};
use crore_core::{GroupId, JobId, Name, NewJob, Revision, Time};
use crore_store::jobs::{Applied, Pushed, Write};
use crore_store::registry::{Table, Value};

use super::records::Records;

impl Records {
    pub(super) fn apply(&mut self, write: Write) -> Applied {
        let applied = match write {
            Write::Job(change) => self.change_if_seen(change),
            Write::Seal(id) => self.seal(id),
            Write::Tick { schedule, seen, cursor, push } => {
                self.tick(&schedule, seen, cursor).map(|()| self.push_jobs(push, &[]))
            }
        };
        applied.map_or(Applied::Stale, Applied::Yes)
    }

    fn change_if_seen(&mut self, change: Change) -> Option<Vec<Pushed>> {
        let job = self.jobs.get(&change.id)?;
        job.live.is(&change.seen).then(|| self.change(change))
    }

    /// Writes a decision about a job that is as it was seen: the record, then the effects in order.
    pub(super) fn change(&mut self, change: Change) -> Vec<Pushed> {
        let id = change.id;
        let job = self.jobs.get_mut(&id).expect("it was seen");
        let group = job.spec.group;
        match change.next {
            Next::Live(next) => job.take(&next, self.now),
            Next::Gone => self.remove(id),
        }
        let mut pushed = Vec::new();
        for effect in change.effects {
            match effect {
                // A permit is in use while its job runs, and this one does not run any more.
                Effect::ReturnPermits => {}
                Effect::ReleaseKey => self.locks.retain(|_, lock| lock.job != id),
                Effect::Tally(tally) => {
                    let group = group.expect("only a member's end is counted");
                    self.change_group(group, |group| group.tallied(tally));
                }
                Effect::Settle(settled) => self.settle(id, settled),
                Effect::Push(jobs) => pushed.extend(self.push_jobs(with_parent(jobs, id), &[])),
            }
        }
        pushed
    }

    /// Removes a job and what is only about it. Its unique key goes by an effect of its own.
    fn remove(&mut self, id: JobId) {
        self.jobs.remove(&id);
        self.notes.remove(&id);
        self.waits.retain(|wait| wait.job != id);
    }

    fn settle(&mut self, id: JobId, settled: Settled) {
        self.tell(Thing::Job(id), |needs| settled.satisfaction(needs));
    }

    fn seal(&mut self, id: GroupId) -> Option<Vec<Pushed>> {
        let sealed = self.groups.get(&id)?.0.seal()?;
        self.change_group(id, |_| sealed);
        Some(Vec::new())
    }

    /// Moves a schedule's cursor. That is a change of its entry, so no tick is accounted for twice.
    fn tick(&mut self, name: &Name, seen: Revision, cursor: Time) -> Option<()> {
        self.entry(Table::Schedules, name).filter(|entry| entry.revision == seen)?;
        let revision = self.next_revision(Table::Schedules, name);
        let entry = self.entries.get_mut(&(Table::Schedules, name.clone()))?;
        entry.revision = revision;
        if let Value::Schedule(schedule) = &mut entry.value {
            schedule.cursor = cursor;
        }
        Some(())
    }
}

fn with_parent(mut jobs: Vec<NewJob>, parent: JobId) -> Vec<NewJob> {
    for (place, job) in (0..).zip(&mut jobs) {
        job.spec.parent = Some((parent, place));
    }
    jobs
}
