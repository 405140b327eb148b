//! The contents of a store, and their consistency.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crore_core::dependency::{self, Satisfaction};
use crore_core::group::Group;
use crore_core::job::{Dependency, DependencyTarget};
use crore_core::{EventWait, GroupId, IndexKey, Job, JobId, State, Time};
use crore_store::jobs::JobSelector;
use crore_store::registry::{RegistryEntry, RegistryTable};
use crore_store::views::{JobCount, ListQuery};
use crore_store::{Error, Store};
use crore_testkit::history::node::{DumpedJob, StoreDump};

use super::admin::counted;

/// The contents of a store.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct StoreContents {
    pub(super) jobs: BTreeMap<JobId, Job>,
    pub(super) counts: Vec<JobCount>,
    pub(super) entries: Vec<RegistryEntry>,
    /// Groups that other jobs depend on.
    pub(super) groups: BTreeMap<GroupId, Group>,
    /// The store's time.
    pub(super) now: Time,
    /// Inconsistencies.
    pub(super) faults: Vec<String>,
}

const TABLES: [RegistryTable; 3] =
    [RegistryTable::Limits, RegistryTable::Queues, RegistryTable::Schedules];
const PAGE: usize = 50;

impl StoreContents {
    /// Reads the whole store.
    pub(super) async fn read(store: &dyn Store) -> Result<Self, Error> {
        let mut whole = Self { counts: store.counts(None).await?, ..Self::default() };
        for state in State::ALL {
            whole.read_state(store, state).await?;
        }
        for table in TABLES {
            whole.entries.extend(store.entries(table, None, usize::MAX).await?);
        }
        let ids: Vec<JobId> = whole.jobs.keys().copied().collect();
        for (id, got) in ids.iter().zip(store.get(JobSelector::all(&ids)).await?) {
            if got.map(without_event_payload).as_ref() != whole.jobs.get(id) {
                whole.faults.push(format!("{id:?} differs between list and get"));
            }
        }
        if store.has_index() {
            whole.check_index(store).await?;
        }
        whole.read_groups(store).await?;
        whole.now = store.lapsed(0).await?.now;
        whole.recount();
        whole.check_waits();
        Ok(whole)
    }

    async fn read_groups(&mut self, store: &dyn Store) -> Result<(), Error> {
        let targets = self.jobs.values().flat_map(|job| &job.spec.after).map(|after| after.on);
        let targets: BTreeSet<DependencyTarget> = targets.collect();
        for target in targets {
            if let DependencyTarget::Group(id) = target
                && let Some(group) = store.group(id).await?
            {
                self.groups.insert(id, group);
            }
        }
        Ok(())
    }

    /// The index must find the jobs with each key, in the order of their list, and no others.
    async fn check_index(&mut self, store: &dyn Store) -> Result<(), Error> {
        let mut expected: BTreeMap<(State, IndexKey), Vec<&Job>> = BTreeMap::new();
        for job in self.jobs.values() {
            for key in IndexKey::of_job(job) {
                expected.entry((job.live.state, key)).or_default().push(job);
            }
        }
        let mut faults = Vec::new();
        for ((state, key), mut jobs) in expected {
            jobs.sort_unstable_by_key(|job| list_order(job));
            let query = ListQuery {
                state,
                queue: None,
                kind: None,
                key: Some(key),
                after: None,
                n: usize::MAX,
            };
            let found = store.list(query).await?.jobs;
            if !found.iter().map(|job| job.id).eq(jobs.iter().map(|job| job.id)) {
                let ids = |jobs: &[&Job]| jobs.iter().map(|job| job.id).collect::<Vec<_>>();
                let found: Vec<&Job> = found.iter().collect();
                let (found, jobs) = (ids(&found), ids(&jobs));
                faults.push(format!("{state:?} jobs under {key:?}: {found:?} instead of {jobs:?}"));
            }
        }
        self.faults.append(&mut faults);
        Ok(())
    }

    /// A waiting job must have a dependency that can still end, or it would wait forever.
    fn check_waits(&mut self) {
        let holds = |after: &&Dependency| {
            let satisfaction = match after.on {
                DependencyTarget::Group(id) => {
                    dependency::group_satisfaction(self.groups.get(&id), after.needs)
                }
                DependencyTarget::Job(id) => {
                    let state = self.jobs.get(&id).map(|job| job.live.state);
                    dependency::job_satisfaction(state, after.needs)
                }
            };
            satisfaction == Satisfaction::Open
        };
        let waiting = self.jobs.values().filter(|job| job.live.state == State::Waiting);
        let stuck = waiting.filter(|job| {
            let holding = job.spec.after.iter().filter(holds).count();
            let is_held = job.live.waits > 0 || job.live.broken || job.live.waits_for_event();
            job.live.waits as usize > holding || !is_held
        });
        let stuck = stuck.map(|job| format!("{:?} waits for nothing open: {:?}", job.id, job.live));
        let stuck: Vec<String> = stuck.collect();
        self.faults.extend(stuck);
    }

    async fn read_state(&mut self, store: &dyn Store, state: State) -> Result<(), Error> {
        let (mut after, mut before) = (None, None);
        loop {
            let query = ListQuery { state, queue: None, kind: None, key: None, after, n: PAGE };
            let page = store.list(query).await?;
            for job in page.jobs {
                if job.live.state != state {
                    self.faults.push(format!("{:?} is listed as {state:?}", job.id));
                }
                let order = list_order(&job);
                if before.is_some_and(|before| before >= order) {
                    self.faults.push(format!("{:?} is out of order in the list", job.id));
                }
                before = Some(order);
                if let Some(other) = self.jobs.insert(job.id, job) {
                    self.faults.push(format!("{:?} is listed twice", other.id));
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// The stored counts must match the stored jobs.
    fn recount(&mut self) {
        let mut counts = BTreeMap::new();
        for job in self.jobs.values() {
            let key = (job.spec.queue.clone(), job.spec.kind.clone(), job.live.state);
            *counts.entry(key).or_insert(0) += 1;
        }
        let counted =
            counts.into_iter().map(|((queue, kind, state), n)| JobCount { queue, kind, state, n });
        let counted: Vec<JobCount> = counted.collect();
        if counted != self.counts {
            self.faults.push(format!("counted {counted:?}, but stored {:?}", self.counts));
        }
    }

    /// The differences to another, as text. An engine extends leases when it is opened, so those may differ.
    /// Results that are expired for one of the two may also differ: the log records time with each commit, so
    /// a store that only served reads since then, and is reopened with its clock set back, resumes at the
    /// time of its last commit.
    pub(super) fn differences(&self, other: &Self, has_engine: bool) -> Vec<String> {
        let now = self.now.max(other.now);
        let timeless = |job: &Job| {
            let mut job = job.clone();
            job.live.result.take_if(|kept| kept.until <= now);
            if has_engine {
                job.live.lease_until = Time::ZERO;
            }
            job
        };
        let same = |one: Option<&Job>, other: Option<&Job>| {
            one == other || one.map(timeless) == other.map(timeless)
        };
        let ids = self.jobs.keys().chain(other.jobs.keys());
        let mut ids: Vec<&JobId> = ids.collect();
        ids.sort_unstable();
        ids.dedup();
        let mut found: Vec<String> = ids
            .into_iter()
            .filter(|id| !same(self.jobs.get(id), other.jobs.get(id)))
            .map(|id| {
                let live = |whole: &Self| whole.jobs.get(id).map(|job| job.live.clone());
                format!("{id:?} was {:?} and became {:?}", live(self), live(other))
            })
            .collect();
        if self.groups != other.groups {
            found.push(format!("{:?} became {:?}", self.groups, other.groups));
        }
        if self.entries != other.entries {
            found.push(format!("{:?} became {:?}", self.entries, other.entries));
        }
        found
    }

    /// In the format of the history.
    pub(super) fn dump(&self) -> StoreDump {
        let jobs = self.jobs.values().map(DumpedJob::of).collect();
        StoreDump { jobs, counts: self.counts.iter().cloned().map(counted).collect() }
    }
}

/// Sort key of a job in the list of its state.
fn list_order(job: &Job) -> (i32, Time, Reverse<Time>, JobId, Reverse<JobId>) {
    let live = &job.live;
    let (id, none) = (job.id, JobId(0));
    match live.state {
        State::Ready => (job.spec.priority, live.due, Reverse(Time::ZERO), id, Reverse(none)),
        State::Scheduled => (0, live.due, Reverse(Time::ZERO), id, Reverse(none)),
        State::Waiting | State::Running => (0, Time::ZERO, Reverse(Time::ZERO), id, Reverse(none)),
        State::Done | State::Dead | State::Cancelled => {
            (0, Time::ZERO, Reverse(live.ended_at.unwrap_or_default()), none, Reverse(id))
        }
    }
}

/// A job as lists show it.
fn without_event_payload(mut job: Job) -> Job {
    if let Some(EventWait::Received(event)) = job.live.event.as_deref_mut() {
        event.payload = None;
    }
    job
}
