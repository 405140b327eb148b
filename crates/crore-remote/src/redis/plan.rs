//! Plans a push that needs several scripts. Pure: its only input is what the slots reported.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use crore_core::dependency::{self, Satisfaction};
use crore_core::group::{Group, GroupAdmission, GroupTally, JobOrigin, SEALED_GROUP_LABEL};
use crore_core::job::{Dependency, DependencyCondition, DependencyTarget};
use crore_core::push::{GroupRef, NewDependencyTarget, NewGroup};
use crore_core::{GroupId, JobId, NewJob, State};
use crore_store::Error;
use crore_store::jobs::Pushed;

use super::names::{Layout, SlotIndex, client_lock, unique_lock};
use super::pack::{Arg, map};
use super::push::put_fields;
use super::record::{after_text, needs_text, parse_variant, read_group, target_text};
use super::reply::ScriptReply;

/// The jobs to push, and their home.
#[derive(Clone, Copy)]
pub(super) struct PushInput<'a> {
    pub(super) home: SlotIndex,
    pub(super) groups: &'a [NewGroup],
    pub(super) jobs: &'a [NewJob],
    pub(super) parent: Option<JobId>,
    /// Where the jobs come from. The group of a parent is read later, if it matters.
    pub(super) origin: JobOrigin,
    pub(super) freed: FreedLocks,
}

/// Locks that the same write frees before it pushes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FreedLocks {
    /// The job whose unique key becomes free.
    pub(super) key_of: Option<JobId>,
    /// The job that is removed: its client id becomes free and nothing can wait for it.
    pub(super) removed: Option<JobId>,
}

impl PushInput<'_> {
    /// The slot of a job: that of its own key, else its batch's home.
    pub(super) fn slot(&self, layout: &Layout, job: &NewJob) -> SlotIndex {
        layout.slot_of_key(job).unwrap_or_else(|| {
            let of_queue = || layout.of_text(job.spec.queue.as_str());
            if self.home == layout.registry() { of_queue() } else { self.home }
        })
    }

    /// Whether one script in the home is enough.
    pub(super) fn is_single_slot(&self, layout: &Layout) -> bool {
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

/// The locks that a job takes, with their slots.
pub(super) fn locks(layout: &Layout, job: &NewJob) -> Vec<(SlotIndex, String)> {
    let unique = job.spec.unique.as_ref().map(|unique| unique_lock(&unique.key));
    let client = job.spec.client_id.as_deref().map(client_lock);
    let names = unique.into_iter().chain(client);
    names.map(|name| (layout.of_text(&name), name)).collect()
}

pub(super) fn slot_of(layout: &Layout, thing: DependencyTarget) -> SlotIndex {
    match thing {
        DependencyTarget::Job(id) => layout.of_job(id),
        DependencyTarget::Group(id) => layout.of_group(id),
    }
}

/// The facts that the slots reported.
#[derive(Debug, Default)]
pub(super) struct SlotFacts {
    /// The ids for new jobs, by index, and for new groups.
    pub(super) jobs: Vec<JobId>,
    pub(super) groups: Vec<GroupId>,
    /// Locks that belong to a job.
    pub(super) taken: HashMap<String, JobId>,
    /// Locks that this push holds.
    pub(super) held: Vec<(SlotIndex, String)>,
    /// The jobs and groups that exist, among those asked for.
    pub(super) states: HashMap<JobId, State>,
    pub(super) counts: HashMap<GroupId, Group>,
    /// The group of the parent.
    pub(super) parent_group: Option<GroupId>,
}

impl SlotFacts {
    /// Adds the report of a slot about a job or a group.
    pub(super) fn add(&mut self, thing: DependencyTarget, reply: ScriptReply) -> Result<(), Error> {
        match thing {
            _ if reply.is_nil() => {}
            DependencyTarget::Job(id) => {
                _ = self.states.insert(id, parse_variant(&reply.bytes()?)?);
            }
            DependencyTarget::Group(id) => _ = self.counts.insert(id, read_group(reply)?),
        }
        Ok(())
    }

    /// The group of a new job, or the sealed group that it does not join.
    fn join(
        &self,
        id: GroupId,
        origin: JobOrigin,
    ) -> Result<(Option<GroupId>, Option<GroupId>), Pushed> {
        let group = self.counts.get(&id).ok_or(Pushed::Broken(DependencyTarget::Group(id)))?;
        let origin = match origin {
            JobOrigin::FollowUp(_) => JobOrigin::FollowUp(self.parent_group),
            other => other,
        };
        match group.admission(id, origin) {
            GroupAdmission::Joins => Ok((Some(id), None)),
            GroupAdmission::StoredOutside => Ok((None, Some(id))),
            GroupAdmission::Refused => Err(Pushed::Sealed(id)),
        }
    }

    /// Whether a job or group satisfies the need of a new job, given the earlier jobs of its batch.
    fn satisfaction(
        &self,
        on: DependencyTarget,
        needs: DependencyCondition,
        earlier: &[AcceptedJob],
    ) -> Satisfaction {
        match on {
            DependencyTarget::Job(id) => {
                dependency::job_satisfaction(self.states.get(&id).copied(), needs)
            }
            DependencyTarget::Group(id) => {
                let joined = earlier.iter().filter(|job| job.group == Some(id));
                let group = self.counts.get(&id).map(|group| joined.fold(*group, with_member));
                dependency::group_satisfaction(group.as_ref(), needs)
            }
        }
    }
}

/// A new job that does not join a sealed group.
fn without_group(new: &NewJob, sealed: GroupId) -> NewJob {
    let mut new = NewJob { group: None, ..new.clone() };
    new.spec.labels.insert(SEALED_GROUP_LABEL.to_owned(), sealed.to_string());
    new
}

/// A group with one more member.
fn with_member(group: Group, _member: &AcceptedJob) -> Group {
    group.tallied(GroupTally { size: 1, ..GroupTally::default() })
}

/// A job that will be stored.
struct AcceptedJob {
    index: usize,
    group: Option<GroupId>,
    /// The group that it does not join because that is sealed.
    sealed_group: Option<GroupId>,
    after: Vec<Dependency>,
    /// Open dependencies, and whether each is in the same batch.
    open: Vec<(Dependency, bool)>,
}

/// The plan: the answers, and the operations of each slot.
pub(super) struct PushPlan {
    pub(super) answers: Vec<Pushed>,
    pub(super) ops: BTreeMap<SlotIndex, Vec<Arg>>,
    /// Stored groups in the home that jobs join because they are open.
    pub(super) joined: Vec<GroupId>,
}

pub(super) fn plan(
    layout: &Layout,
    input: PushInput<'_>,
    facts: &SlotFacts,
) -> Result<PushPlan, Error> {
    let mut taken = facts.taken.clone();
    let mut answers: Vec<Pushed> = Vec::new();
    let mut accepted: Vec<AcceptedJob> = Vec::new();
    for (index, job) in input.jobs.iter().enumerate() {
        let names = locks(layout, job);
        let holder = names.iter().find_map(|(_, name)| taken.get(name)).copied();
        let answer = match (
            holder,
            resolve_references((facts, input.origin), &answers, &accepted, index, job),
        ) {
            (Some(id), _) => Pushed::Duplicate(id),
            (None, Err(broken)) => broken,
            (None, Ok(job)) => {
                accepted.push(job);
                let id = facts.jobs.get(index).copied().unwrap_or_default();
                taken.extend(names.into_iter().map(|(_, name)| (name, id)));
                Pushed::New(id)
            }
        };
        answers.push(answer);
    }
    let ops = slot_ops(layout, input, facts, &accepted)?;
    let open = |id: &GroupId| facts.counts.get(id).is_some_and(|group| !group.sealed);
    let joined = accepted.iter().filter_map(|job| job.group).filter(open);
    let joined = joined.filter(|id| layout.of_group(*id) == input.home).collect();
    Ok(PushPlan { answers, ops, joined })
}

/// Resolves the references of a job.
fn resolve_references(
    (facts, origin): (&SlotFacts, JobOrigin),
    answers: &[Pushed],
    earlier: &[AcceptedJob],
    index: usize,
    job: &NewJob,
) -> Result<AcceptedJob, Pushed> {
    let (group, sealed_group) = match job.group {
        None => (None, None),
        Some(GroupRef::New(n)) => (facts.groups.get(n).copied(), None),
        Some(GroupRef::Id(id)) => facts.join(id, origin)?,
    };
    let mut accepted =
        AcceptedJob { index, group, sealed_group, after: Vec::new(), open: Vec::new() };
    for after in &job.after {
        let (on, fresh) = match after.on {
            NewDependencyTarget::Job(id) => (DependencyTarget::Job(id), false),
            NewDependencyTarget::Group(GroupRef::Id(id)) => (DependencyTarget::Group(id), false),
            NewDependencyTarget::Group(GroupRef::New(n)) => {
                (DependencyTarget::Group(facts.groups.get(n).copied().unwrap_or_default()), true)
            }
            NewDependencyTarget::Earlier(n) => match answers.get(n) {
                Some(Pushed::New(id)) => (DependencyTarget::Job(*id), true),
                Some(Pushed::Duplicate(id)) => {
                    (DependencyTarget::Job(*id), facts.jobs.contains(id))
                }
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

/// The operations of each slot. Within a slot, records come before those that depend on them.
fn slot_ops(
    layout: &Layout,
    input: PushInput<'_>,
    facts: &SlotFacts,
    accepted: &[AcceptedJob],
) -> Result<BTreeMap<SlotIndex, Vec<Arg>>, Error> {
    let mut ops: BTreeMap<SlotIndex, Vec<Arg>> = BTreeMap::new();
    for (id, group) in facts.groups.iter().zip(input.groups) {
        let members = accepted.iter().filter(|job| job.group == Some(*id));
        let group_state = members.fold(Group::default(), with_member);
        let group_state =
            if group.open { group_state } else { group_state.seal().unwrap_or(group_state) };
        let op = map! {
            "op" => "group", "id" => id.0, "size" => group_state.size, "sealed" => group_state.sealed,
            "revision" => group_state.revision.0,
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
        let (Some(new), Some(id)) = (input.jobs.get(job.index), facts.jobs.get(job.index)) else {
            continue;
        };
        let slot = input.slot(layout, new);
        for (at, name) in locks(layout, new) {
            if at != slot {
                let op = map! { "op" => "lock", "name" => name, "id" => id.0 };
                ops.entry(at).or_default().push(op);
            }
        }
        let new = match job.sealed_group {
            None => Cow::Borrowed(new),
            Some(id) => Cow::Owned(without_group(new, id)),
        };
        let mut fields = put_fields(layout, slot, &new, input.parent.map(|id| (id, job.index)))?;
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
                "op" => "edge", "on" => target_text(dependency.on),
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
