//! Everything that is in a store, and whether it fits together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crore_core::dependency::{self, Satisfaction};
use crore_core::group::Group;
use crore_core::job::{Dependency, Thing};
use crore_core::{GroupId, Job, JobId, State, Time};
use crore_store::jobs::Which;
use crore_store::registry::{Entry, Table};
use crore_store::views::{Count, Query};
use crore_store::{Error, Store};
use crore_testkit::history::node::{Dump, Stored};

use super::admin::counted;

/// Everything that is in a store.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Whole {
    pub(super) jobs: BTreeMap<JobId, Job>,
    pub(super) counts: Vec<Count>,
    pub(super) entries: Vec<Entry>,
    /// Groups that somebody waits for.
    pub(super) groups: BTreeMap<GroupId, Group>,
    /// The store's time.
    pub(super) now: Time,
    /// What does not fit together.
    pub(super) faults: Vec<String>,
}

const TABLES: [Table; 3] = [Table::Limits, Table::Queues, Table::Schedules];
const PAGE: usize = 50;

impl Whole {
    /// Reads all of it.
    pub(super) async fn read(store: &dyn Store) -> Result<Self, Error> {
        let mut whole = Self { counts: store.counts(None).await?, ..Self::default() };
        for state in State::ALL {
            whole.read_state(store, state).await?;
        }
        for table in TABLES {
            whole.entries.extend(store.entries(table, None, usize::MAX).await?);
        }
        let ids: Vec<JobId> = whole.jobs.keys().copied().collect();
        for (id, got) in ids.iter().zip(store.get(Which::all(&ids)).await?) {
            if got.as_ref() != whole.jobs.get(id) {
                whole.faults.push(format!("{id:?} is listed and got differently"));
            }
        }
        whole.read_groups(store).await?;
        whole.now = store.lapsed(0).await?.now;
        whole.recount();
        whole.check_waits();
        Ok(whole)
    }

    async fn read_groups(&mut self, store: &dyn Store) -> Result<(), Error> {
        let things = self.jobs.values().flat_map(|job| &job.spec.after).map(|after| after.on);
        let things: BTreeSet<Thing> = things.collect();
        for thing in things {
            if let Thing::Group(id) = thing
                && let Some(group) = store.group(id).await?
            {
                self.groups.insert(id, group);
            }
        }
        Ok(())
    }

    /// A job that waits must wait for something that can still come, or it would wait for ever.
    fn check_waits(&mut self) {
        let holds = |after: &&Dependency| {
            let satisfaction = match after.on {
                Thing::Group(id) => dependency::of_group(self.groups.get(&id), after.needs),
                Thing::Job(id) => {
                    let state = self.jobs.get(&id).map(|job| job.live.state);
                    dependency::of_job(state, after.needs)
                }
            };
            satisfaction == Satisfaction::Open
        };
        let waiting = self.jobs.values().filter(|job| job.live.state == State::Waiting);
        let stuck = waiting.filter(|job| {
            let holding = job.spec.after.iter().filter(holds).count();
            job.live.waits as usize > holding || (job.live.waits == 0 && !job.live.broken)
        });
        let stuck = stuck.map(|job| format!("{:?} waits for nothing: {:?}", job.id, job.live));
        let stuck: Vec<String> = stuck.collect();
        self.faults.extend(stuck);
    }

    async fn read_state(&mut self, store: &dyn Store, state: State) -> Result<(), Error> {
        let (mut after, mut before) = (None, None);
        loop {
            let query = Query { state, queue: None, kind: None, after, n: PAGE };
            let page = store.list(query).await?;
            for job in page.jobs {
                if job.live.state != state {
                    self.faults.push(format!("{:?} is listed as {state:?}", job.id));
                }
                let place = order(&job);
                if before.is_some_and(|before| before >= place) {
                    self.faults.push(format!("{:?} is not in its place in the list", job.id));
                }
                before = Some(place);
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

    /// The counts that are kept must be those of the jobs that are there.
    fn recount(&mut self) {
        let mut counts = BTreeMap::new();
        for job in self.jobs.values() {
            let sort = (job.spec.queue.clone(), job.spec.kind.clone(), job.live.state);
            *counts.entry(sort).or_insert(0) += 1;
        }
        let counted =
            counts.into_iter().map(|((queue, kind, state), n)| Count { queue, kind, state, n });
        let counted: Vec<Count> = counted.collect();
        if counted != self.counts {
            self.faults.push(format!("counted {counted:?}, but kept is {:?}", self.counts));
        }
    }

    /// How this differs from another, in words; empty if it does not. A front extends leases when it
    /// is opened, so that those may differ. So may a result whose time was over for one of the two: the
    /// log remembers time with each commit, so that a store which only showed something since, and is
    /// opened with its clock put back, is as far back as its last commit.
    pub(super) fn differences(&self, other: &Self, has_front: bool) -> Vec<String> {
        let now = self.now.max(other.now);
        let timeless = |job: &Job| {
            let mut job = job.clone();
            job.live.result.take_if(|kept| kept.until <= now);
            if has_front {
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

    /// As the history has it.
    pub(super) fn dump(&self) -> Dump {
        let jobs = self.jobs.values().map(Stored::of).collect();
        Dump { jobs, counts: self.counts.iter().cloned().map(counted).collect() }
    }
}

/// The place of a job in the list of its state: smaller first.
fn order(job: &Job) -> (i32, Time, Reverse<Time>, JobId, Reverse<JobId>) {
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
