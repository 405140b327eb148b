//! Apply: writes a decision if the version it is based on is current.

use crore_core::job::DependencyTarget;
use crore_core::machine::{Change, Effect, NextRecord, Settled};
use crore_core::{GroupId, JobId, Name, NewJob, Revision, Time};
use crore_store::jobs::{Applied, Pushed, StoreWrite};
use crore_store::registry::{RegistryTable, RegistryValue};

use super::push::Joining;
use super::records::Records;

impl Records {
    pub(super) fn apply(&mut self, write: StoreWrite) -> Applied {
        let applied = match write {
            StoreWrite::Job(change) => self.change_if_seen(change),
            StoreWrite::Seal(id) => self.seal(id),
            StoreWrite::ResumeKeys { limit, key } => self.resume(&limit, key.as_ref()),
            StoreWrite::Tick { schedule, seen, cursor, push } => self
                .tick(&schedule, seen, cursor)
                .map(|()| self.push_jobs(push, &[], Joining::Other)),
        };
        applied.map_or(Applied::Stale, Applied::Yes)
    }

    fn change_if_seen(&mut self, change: Change) -> Option<Vec<Pushed>> {
        let job = self.jobs.get(&change.id)?;
        job.live.matches(&change.seen).then(|| self.change(change))
    }

    /// Writes a decision: the record, then the effects in order. The job's version was checked.
    pub(super) fn change(&mut self, change: Change) -> Vec<Pushed> {
        let id = change.id;
        let job = self.jobs.get_mut(&id).expect("the version was checked");
        let group = job.spec.group;
        match change.next {
            NextRecord::Live(next) => job.apply(&next, self.now),
            NextRecord::Gone => self.remove(id),
        }
        let mut pushed = Vec::new();
        for effect in change.effects {
            match effect {
                // Permits in use are the running jobs, and this job no longer runs.
                Effect::ReturnPermits => {}
                Effect::CorrectCost { key, charged, real } => self.correct_cost(key, charged, real),
                Effect::PauseKey { key, until } => self.pause(key, until),
                Effect::ReleaseKey => self.locks.retain(|_, lock| lock.job != id),
                Effect::Tally(tally) => {
                    let group = group.expect("only a member's end is counted");
                    self.change_group(group, |group| group.tallied(tally));
                }
                Effect::Settle(settled) => self.settle(id, settled),
                Effect::Push(jobs) => {
                    let joining = group.map_or(Joining::Other, Joining::EndOfMember);
                    pushed.extend(self.push_jobs(with_parent(jobs, id), &[], joining));
                }
            }
        }
        pushed
    }

    /// Removes a job and its own records. Its unique key is released by a separate effect.
    fn remove(&mut self, id: JobId) {
        self.jobs.remove(&id);
        self.notes.remove(&id);
        self.waits.retain(|wait| wait.job != id);
    }

    fn settle(&mut self, id: JobId, settled: Settled) {
        self.settle_dependencies(DependencyTarget::Job(id), |needs| settled.satisfaction(needs));
    }

    fn seal(&mut self, id: GroupId) -> Option<Vec<Pushed>> {
        let sealed = self.groups.get(&id)?.0.seal()?;
        self.change_group(id, |_| sealed);
        Some(Vec::new())
    }

    /// Moves a schedule's cursor. This changes the entry's revision, so no tick is accounted for twice.
    fn tick(&mut self, name: &Name, seen: Revision, cursor: Time) -> Option<()> {
        self.entry(RegistryTable::Schedules, name).filter(|entry| entry.revision == seen)?;
        let revision = self.next_revision(RegistryTable::Schedules, name);
        let entry = self.entries.get_mut(&(RegistryTable::Schedules, name.clone()))?;
        entry.revision = revision;
        if let RegistryValue::Schedule(schedule) = &mut entry.value {
            schedule.cursor = cursor;
        }
        Some(())
    }
}

fn with_parent(mut jobs: Vec<NewJob>, parent: JobId) -> Vec<NewJob> {
    for (index, job) in (0..).zip(&mut jobs) {
        job.spec.parent = Some((parent, index));
    }
    jobs
}
