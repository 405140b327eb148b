//! What the store keeps, and the few looks that several verbs share.

use std::collections::BTreeMap;
use std::sync::Arc;

use crore_core::group::{Group, Outlook};
use crore_core::job::{Needs, Thing};
use crore_core::limit::{LimitKey, Tat};
use crore_core::{GroupId, Job, JobId, Name, Revision, State, Time};
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
    /// How what somebody needs of a thing stands; `None` if the thing is not there.
    pub(super) fn outlook(&self, on: Thing, needs: Needs) -> Option<Outlook> {
        match on {
            Thing::Group(id) => self.groups.get(&id).map(|(group, _)| group.outlook(needs)),
            Thing::Job(id) => self.jobs.get(&id).map(|job| match (job.live.state, needs) {
                (State::Done, _) | (State::Dead | State::Cancelled, Needs::End) => Outlook::True,
                (State::Cancelled, Needs::Success) => Outlook::Never,
                _ => Outlook::Open,
            }),
        }
    }

    /// Tells those that wait for something that it came true, or that it never will. Nobody is told
    /// twice.
    pub(super) fn tell(&mut self, on: Thing, needs: Needs, outlook: Outlook) {
        if outlook == Outlook::Open {
            return;
        }
        let waits = std::mem::take(&mut self.waits).into_iter();
        let (told, others) = waits.partition(|wait| wait.on == on && wait.needs == needs);
        self.waits = others;
        for wait in told {
            let job = self.jobs.get_mut(&wait.job).expect("what is removed waits for nothing");
            match outlook {
                Outlook::True => job.live.release(self.now),
                _ => job.live.snap(),
            }
        }
    }

    /// Changes a group, and tells those that wait for it how it stands now.
    pub(super) fn change_group(&mut self, id: GroupId, change: impl FnOnce(Group) -> Group) {
        let Some((group, _)) = self.groups.get(&id) else { return };
        let group = change(*group);
        self.groups.insert(id, (group, self.now));
        for needs in [Needs::End, Needs::Success] {
            self.tell(Thing::Group(id), needs, group.outlook(needs));
        }
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
