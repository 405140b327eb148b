//! What becomes of the jobs of a push that needs more than one script: pure, from what the slots
//! said.

use std::collections::{BTreeMap, HashMap};

use crore_core::dependency::{self, Satisfaction};
use crore_core::group::{Group, Tally};
use crore_core::job::{Dependency, Needs, Thing};
use crore_core::push::{AfterRef, GroupRef, NewGroup};
use crore_core::{GroupId, JobId, NewJob, State};
use crore_store::Error;
use crore_store::jobs::Pushed;

use super::names::{Layout, Slot, client_lock, unique_lock};
use super::pack::{Arg, map};
use super::push::put_fields;
use super::record::{after_text, meaning, needs_text, read_group, thing_text};
use super::reply::Reply;

/// What is to be pushed, and where its home is.
#[derive(Clone, Copy)]
pub(super) struct Load<'a> {
    pub(super) home: Slot,
    pub(super) groups: &'a [NewGroup],
    pub(super) jobs: &'a [NewJob],
    pub(super) parent: Option<JobId>,
    pub(super) frees: Frees,
}

/// What the same write frees before it pushes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Frees {
    /// The job whose unique key is free again.
    pub(super) key_of: Option<JobId>,
    /// The job that is removed, so that its client id is free and nobody can wait for it.
    pub(super) removed: Option<JobId>,
}

impl Load<'_> {
    /// Where a job lives: by its own key, else with its batch.
    pub(super) fn slot(&self, layout: &Layout, job: &NewJob) -> Slot {
        layout.forced(job).unwrap_or_else(|| {
            let of_queue = || layout.of_text(job.spec.queue.as_str());
            if self.home == layout.registry() { of_queue() } else { self.home }
        })
    }

    /// Whether one script in the home can do it all.
    pub(super) fn is_plain(&self, layout: &Layout) -> bool {
        let plain = |job: &NewJob| {
            let client = job.spec.client_id.as_ref().map(|c| layout.of_text(&client_lock(c)));
            job.group.is_none()
                && job.after.is_empty()
                && self.slot(layout, job) == self.home
                && client.is_none_or(|slot| slot == self.home)
        };
        self.groups.is_empty() && self.jobs.iter().all(plain)
    }
}

/// The locks that a job takes, and where they are.
pub(super) fn locks(layout: &Layout, job: &NewJob) -> Vec<(Slot, String)> {
    let unique = job.spec.unique.as_ref().map(|unique| unique_lock(&unique.key));
    let client = job.spec.client_id.as_ref().map(client_lock);
    let names = unique.into_iter().chain(client);
    names.map(|name| (layout.of_text(&name), name)).collect()
}

pub(super) fn slot_of(layout: &Layout, thing: Thing) -> Slot {
    match thing {
        Thing::Job(id) => layout.of_job(id),
        Thing::Group(id) => layout.of_group(id),
    }
}

/// How things stand, as the slots said.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The ids for new jobs, by place, and for new groups.
    pub(super) jobs: Vec<JobId>,
    pub(super) groups: Vec<GroupId>,
    /// Locks that belong to a job.
    pub(super) taken: HashMap<String, JobId>,
    /// Locks that this push holds.
    pub(super) held: Vec<(Slot, String)>,
    /// The jobs and groups that are there, of those that were asked for.
    pub(super) states: HashMap<JobId, State>,
    pub(super) counts: HashMap<GroupId, Group>,
}

impl Facts {
    /// Takes in what a slot said of a thing.
    pub(super) fn learn(&mut self, thing: Thing, reply: Reply) -> Result<(), Error> {
        match thing {
            _ if reply.is_nil() => {}
            Thing::Job(id) => _ = self.states.insert(id, meaning(&reply.bytes()?)?),
            Thing::Group(id) => _ = self.counts.insert(id, read_group(reply)?),
        }
        Ok(())
    }

    /// Whether a thing satisfies what a new job needs of it, after these jobs of its batch.
    fn satisfaction(&self, on: Thing, needs: Needs, earlier: &[Accepted]) -> Satisfaction {
        match on {
            Thing::Job(id) => dependency::of_job(self.states.get(&id).copied(), needs),
            Thing::Group(id) => {
                let joined = earlier.iter().filter(|job| job.group == Some(id));
                let group = self.counts.get(&id).map(|group| joined.fold(*group, joins));
                dependency::of_group(group.as_ref(), needs)
            }
        }
    }
}

/// A group with one more member.
fn joins(group: Group, _member: &Accepted) -> Group {
    group.tallied(Tally { size: 1, ..Tally::default() })
}

/// A job that will be stored.
struct Accepted {
    place: usize,
    group: Option<GroupId>,
    after: Vec<Dependency>,
    /// What it still waits for, and whether that is of the same batch.
    open: Vec<(Dependency, bool)>,
}

/// A whole plan: answers, and what each slot has to do.
pub(super) struct Plan {
    pub(super) answers: Vec<Pushed>,
    pub(super) ops: BTreeMap<Slot, Vec<Arg>>,
}

pub(super) fn plan(layout: &Layout, load: Load<'_>, facts: &Facts) -> Result<Plan, Error> {
    let mut taken = facts.taken.clone();
    let mut answers: Vec<Pushed> = Vec::new();
    let mut accepted: Vec<Accepted> = Vec::new();
    for (place, job) in load.jobs.iter().enumerate() {
        let names = locks(layout, job);
        let holder = names.iter().find_map(|(_, name)| taken.get(name)).copied();
        let answer = match (holder, refer(facts, &answers, &accepted, place, job)) {
            (Some(id), _) => Pushed::Duplicate(id),
            (None, Err(broken)) => broken,
            (None, Ok(job)) => {
                accepted.push(job);
                let id = facts.jobs.get(place).copied().unwrap_or_default();
                taken.extend(names.into_iter().map(|(_, name)| (name, id)));
                Pushed::New(id)
            }
        };
        answers.push(answer);
    }
    let ops = write(layout, load, facts, &accepted)?;
    Ok(Plan { answers, ops })
}

/// What a job's references mean.
fn refer(
    facts: &Facts,
    answers: &[Pushed],
    earlier: &[Accepted],
    place: usize,
    job: &NewJob,
) -> Result<Accepted, Pushed> {
    let group = match job.group {
        None => None,
        Some(GroupRef::New(n)) => facts.groups.get(n).copied(),
        Some(GroupRef::Id(id)) if facts.counts.contains_key(&id) => Some(id),
        Some(GroupRef::Id(id)) => return Err(Pushed::Broken(Thing::Group(id))),
    };
    let mut accepted = Accepted { place, group, after: Vec::new(), open: Vec::new() };
    for after in &job.after {
        let (on, fresh) = match after.on {
            AfterRef::Job(id) => (Thing::Job(id), false),
            AfterRef::Group(GroupRef::Id(id)) => (Thing::Group(id), false),
            AfterRef::Group(GroupRef::New(n)) => {
                (Thing::Group(facts.groups.get(n).copied().unwrap_or_default()), true)
            }
            AfterRef::Earlier(n) => match answers.get(n) {
                Some(Pushed::New(id)) => (Thing::Job(*id), true),
                Some(Pushed::Duplicate(id)) => (Thing::Job(*id), facts.jobs.contains(id)),
                _ => return Err(Pushed::BrokenBy(n)),
            },
        };
        let dependency = Dependency { on, needs: after.needs };
        accepted.after.push(dependency);
        match facts.satisfaction(on, after.needs, earlier) {
            _ if fresh => accepted.open.push((dependency, fresh)),
            Satisfaction::Open => accepted.open.push((dependency, fresh)),
            Satisfaction::Satisfied => {}
            Satisfaction::Broken => return Err(Pushed::Broken(on)),
        }
    }
    Ok(accepted)
}

/// What each slot has to do. Within a slot things come before those that wait for them.
fn write(
    layout: &Layout,
    load: Load<'_>,
    facts: &Facts,
    accepted: &[Accepted],
) -> Result<BTreeMap<Slot, Vec<Arg>>, Error> {
    let mut ops: BTreeMap<Slot, Vec<Arg>> = BTreeMap::new();
    for (id, group) in facts.groups.iter().zip(load.groups) {
        let members = accepted.iter().filter(|job| job.group == Some(*id));
        let made = members.fold(Group::default(), joins);
        let made = if group.open { made } else { made.seal().unwrap_or(made) };
        let op = map! {
            "op" => "group", "id" => id.0, "size" => made.size, "sealed" => made.sealed,
            "revision" => made.revision.0,
        };
        ops.entry(layout.of_group(*id)).or_default().push(op);
    }
    let joins = accepted.iter().filter_map(|job| job.group);
    for id in joins.filter(|id| !facts.groups.contains(id)) {
        let op = map! { "op" => "tally", "id" => id.0, "size" => 1_i64, "ran" => 0_i64, "succeeded" => 0_i64 };
        ops.entry(layout.of_group(id)).or_default().push(op);
    }
    let mut edges = Vec::new();
    for job in accepted {
        let (Some(new), Some(id)) = (load.jobs.get(job.place), facts.jobs.get(job.place)) else {
            continue;
        };
        let slot = load.slot(layout, new);
        for (at, name) in locks(layout, new) {
            if at != slot {
                let op = map! { "op" => "lock", "name" => name, "id" => id.0 };
                ops.entry(at).or_default().push(op);
            }
        }
        let mut fields = put_fields(layout, slot, new, load.parent.map(|id| (id, job.place)))?;
        fields.push(("op", "put".into()));
        fields.push(("id", id.0.into()));
        fields.push(("waits", job.open.len().into()));
        fields.extend(job.group.map(|id| ("group", id.0.into())));
        if !job.after.is_empty() {
            fields.push(("after", after_text(&job.after).into()));
        }
        ops.entry(slot).or_default().push(Arg::Map(fields));
        for (nth, (dependency, fresh)) in job.open.iter().enumerate() {
            let op = map! {
                "op" => "edge", "on" => thing_text(dependency.on),
                "needs" => needs_text(dependency.needs), "job" => id.0, "nth" => nth,
                "quiet" => !fresh,
            };
            edges.push((slot_of(layout, dependency.on), op));
        }
    }
    for (slot, edge) in edges {
        ops.entry(slot).or_default().push(edge);
    }
    Ok(ops)
}
