//! The records of the store, and queries that several methods share.

use std::collections::BTreeMap;
use std::sync::Arc;

use crore_core::dependency::{self, Satisfaction};
use crore_core::fair::{FairKey, Turn};
use crore_core::group::Group;
use crore_core::job::{DependencyCondition, DependencyTarget};
use crore_core::limit::{LimitKey, Tat};
use crore_core::{EventId, GroupId, Job, JobId, KeptEvent, Name, Revision, Time};
use crore_store::registry::{QueueSettings, RegistryEntry, RegistryTable, RegistryValue};
use crore_store::views::{JobNotes, StatStep};

use super::job_stats::PlainJobStats;

#[derive(Debug, Default)]
pub(super) struct Records {
    /// The time of the current method call.
    pub(super) now: Time,
    /// The newest id of a job, a group or an event.
    pub(super) number: u64,
    /// The newest delivery of any job.
    pub(super) delivery: u64,
    pub(super) jobs: BTreeMap<JobId, Job>,
    /// The groups, and when each was last changed.
    pub(super) groups: BTreeMap<GroupId, (Group, Time)>,
    /// Every event that was sent.
    pub(super) events: BTreeMap<EventId, KeptEvent>,
    /// Open dependencies: each counts once in its job's `waits`.
    pub(super) waits: Vec<Wait>,
    /// The holder of each unique key.
    pub(super) locks: BTreeMap<Arc<str>, Lock>,
    /// The used part of each rate. Concurrency is not stored: it is the number of running jobs.
    pub(super) tats: BTreeMap<LimitKey, Tat>,
    /// The end of the pause of each paused key.
    pub(super) paused: BTreeMap<LimitKey, Time>,
    /// The job that each rate is reserved for, with its priority, and when its rates have what it costs.
    pub(super) reserved: BTreeMap<LimitKey, (JobId, i32, Time)>,
    /// The next turn of each fair key.
    pub(super) turns: BTreeMap<(Name, FairKey), Turn>,
    /// The start of the last claim with a fair key, by queue.
    pub(super) virtual_times: BTreeMap<Name, Turn>,
    pub(super) entries: BTreeMap<(RegistryTable, Name), RegistryEntry>,
    /// The newest revision of each name, including removed entries.
    pub(super) revisions: BTreeMap<(RegistryTable, Name), Revision>,
    pub(super) notes: BTreeMap<JobId, JobNotes>,
    pub(super) stats: BTreeMap<(Name, StatStep, Time), u64>,
    pub(super) job_stats: PlainJobStats,
    /// The leader of each duty, and the end of its term.
    pub(super) leads: BTreeMap<Name, (u64, Time)>,
}

/// An open dependency of a job.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) job: JobId,
    pub(super) on: DependencyTarget,
    pub(super) needs: DependencyCondition,
}

/// The lock of a unique key. It may outlive its job.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) job: JobId,
    /// The end of its window.
    pub(super) until: Option<Time>,
}

impl Records {
    /// Whether a dependency of a new job is satisfied.
    pub(super) fn satisfaction(
        &self,
        on: DependencyTarget,
        needs: DependencyCondition,
    ) -> Satisfaction {
        match on {
            DependencyTarget::Group(id) => {
                let group = self.groups.get(&id).map(|(group, _)| group);
                dependency::group_satisfaction(group, needs)
            }
            DependencyTarget::Job(id) => {
                dependency::job_satisfaction(self.jobs.get(&id).map(|job| job.live.state), needs)
            }
        }
    }

    /// Settles the dependencies on a thing. A settled dependency is removed.
    pub(super) fn settle_dependencies(
        &mut self,
        on: DependencyTarget,
        satisfaction: impl Fn(DependencyCondition) -> Satisfaction,
    ) {
        for wait in std::mem::take(&mut self.waits) {
            let job = self.jobs.get_mut(&wait.job).expect("a removed job waits for nothing");
            let is_settled = wait.on == on && job.live.settle(satisfaction(wait.needs), self.now);
            if !is_settled {
                self.waits.push(wait);
            }
        }
    }

    /// Changes a group, and settles the dependencies on it.
    pub(super) fn change_group(&mut self, id: GroupId, change: impl FnOnce(Group) -> Group) {
        let Some((group, _)) = self.groups.get(&id) else { return };
        let group = change(*group);
        self.groups.insert(id, (group, self.now));
        self.settle_dependencies(DependencyTarget::Group(id), |needs| group.satisfaction(needs));
    }

    /// The job that holds a unique key.
    pub(super) fn holder(&self, key: &str) -> Option<JobId> {
        self.locks.get(key).filter(|lock| self.is_unexpired(lock.until)).map(|lock| lock.job)
    }

    /// An entry, unless it has expired.
    pub(super) fn entry(&self, table: RegistryTable, name: &Name) -> Option<&RegistryEntry> {
        let entry = self.entries.get(&(table, name.clone()));
        entry.filter(|entry| self.is_unexpired(entry.expires_at))
    }

    /// The settings of a queue.
    pub(super) fn settings(&self, queue: &Name) -> QueueSettings {
        match self.entry(RegistryTable::Queues, queue).map(|entry| &entry.value) {
            Some(RegistryValue::Queue(settings)) => settings.clone(),
            _ => QueueSettings::default(),
        }
    }

    /// Whether an end is still in the future: a record is gone at the instant of its end.
    pub(super) fn is_unexpired(&self, end: Option<Time>) -> bool {
        end.is_none_or(|end| self.now < end)
    }
}
