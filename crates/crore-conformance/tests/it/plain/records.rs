//! What the store keeps, and the few looks that several verbs share.

use std::collections::BTreeMap;
use std::sync::Arc;

use crore_core::dependency::{self, Satisfaction};
use crore_core::group::Group;
use crore_core::job::{Needs, Thing};
use crore_core::limit::{LimitKey, Tat};
use crore_core::{GroupId, Job, JobId, Name, Revision, Time};
use crore_store::registry::{Entry, QueueSettings, Table, Value};
use crore_store::views::{JobNotes, Step};

#[derive(Debug, Default)]
pub(super) struct Records {
    /// The instant of the verb that is being done.
    pub(super) now: Time,
    /// The newest number of a job or a group.
    pub(super) number: u64,
    /// The newest delivery of any job.
    pub(super) delivery: u64,
    pub(super) jobs: BTreeMap<JobId, Job>,
    /// The groups, and when each was last changed.
    pub(super) groups: BTreeMap<GroupId, (Group, Time)>,
    /// What is still waited for: each counts once in its job's `waits`.
    pub(super) waits: Vec<Wait>,
    /// Who holds each unique key.
    pub(super) locks: BTreeMap<Arc<str>, Lock>,
    /// How much of each rate is used up. How much of a concurrency is in use is not kept: it is how
    /// many jobs are running.
    pub(super) tats: BTreeMap<LimitKey, Tat>,
    pub(super) entries: BTreeMap<(Table, Name), Entry>,
    /// The newest revision of each name, also of those whose entry is gone.
    pub(super) revisions: BTreeMap<(Table, Name), Revision>,
    pub(super) notes: BTreeMap<JobId, JobNotes>,
    pub(super) stats: BTreeMap<(Name, Step, Time), u64>,
    /// Who leads each duty, and until when.
    pub(super) leads: BTreeMap<Name, (u64, Time)>,
}

/// A job waits for a thing.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) job: JobId,
    pub(super) on: Thing,
    pub(super) needs: Needs,
}

/// A job holds a unique key. The key may outlive its job.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) job: JobId,
    /// The end of its window.
    pub(super) until: Option<Time>,
}

impl Records {
    /// Whether the thing that a new job waits for satisfies its need.
    pub(super) fn satisfaction(&self, on: Thing, needs: Needs) -> Satisfaction {
        match on {
            Thing::Group(id) => {
                let group = self.groups.get(&id).map(|(group, _)| group);
                dependency::of_group(group, needs)
            }
            Thing::Job(id) => {
                dependency::of_job(self.jobs.get(&id).map(|job| job.live.state), needs)
            }
        }
    }

    /// Tells the jobs that wait for a thing how it satisfies their needs. A need that is settled is
    /// told once.
    pub(super) fn tell(&mut self, on: Thing, satisfaction: impl Fn(Needs) -> Satisfaction) {
        for wait in std::mem::take(&mut self.waits) {
            let job = self.jobs.get_mut(&wait.job).expect("what is removed waits for nothing");
            let is_settled = wait.on == on && job.live.settle(satisfaction(wait.needs), self.now);
            if !is_settled {
                self.waits.push(wait);
            }
        }
    }

    /// Changes a group, and tells those that wait for it how it stands now.
    pub(super) fn change_group(&mut self, id: GroupId, change: impl FnOnce(Group) -> Group) {
        let Some((group, _)) = self.groups.get(&id) else { return };
        let group = change(*group);
        self.groups.insert(id, (group, self.now));
        self.tell(Thing::Group(id), |needs| group.satisfaction(needs));
    }

    /// The job that holds a unique key.
    pub(super) fn holder(&self, key: &str) -> Option<JobId> {
        self.locks.get(key).filter(|lock| self.is_ahead(lock.until)).map(|lock| lock.job)
    }

    /// An entry, unless its time is over.
    pub(super) fn entry(&self, table: Table, name: &Name) -> Option<&Entry> {
        let entry = self.entries.get(&(table, name.clone()));
        entry.filter(|entry| self.is_ahead(entry.expires_at))
    }

    /// The settings of a queue.
    pub(super) fn settings(&self, queue: &Name) -> QueueSettings {
        match self.entry(Table::Queues, queue).map(|entry| &entry.value) {
            Some(Value::Queue(settings)) => *settings,
            _ => QueueSettings::default(),
        }
    }

    /// Whether an end has not come yet: something is gone at the instant of its end.
    pub(super) fn is_ahead(&self, end: Option<Time>) -> bool {
        end.is_none_or(|end| self.now < end)
    }
}
