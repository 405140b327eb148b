//! Ids and jobs observed in one store, and the normalized ids used for comparison.

use std::collections::BTreeMap;

use crore_core::{AwaitedEvent, Delivery, EventId, GroupId, Job, JobId, Name, Revision};

use super::op::{DependencyPick, GroupPick, PlannedJob, StepsBack};
use super::samples;
use crore_core::fair::FairKey;
use crore_core::job::Spec;
use crore_core::push::{GroupRef, NewDependency, NewDependencyTarget, NewJob, UnsetFields};
use crore_store::registry::RegistryTable;

/// Ids of a store in the order in which they were first seen.
///
/// Stores allocate ids differently (with gaps, or with a shard number inside), so comparisons use the
/// position in this order, from 1.
#[derive(Debug, Clone)]
pub(super) struct ObservedIds<T> {
    order: Vec<T>,
    positions: BTreeMap<T, u64>,
}

impl<T> Default for ObservedIds<T> {
    fn default() -> Self {
        Self { order: Vec::new(), positions: BTreeMap::new() }
    }
}

impl<T: Ord + Copy> ObservedIds<T> {
    /// The position of an id; a new id is appended.
    pub(super) fn position(&mut self, number: T) -> u64 {
        *self.positions.entry(number).or_insert_with(|| {
            self.order.push(number);
            self.order.len() as u64
        })
    }

    /// The id that a reference resolves to.
    pub(super) fn pick(&self, back: StepsBack) -> Option<T> {
        let len = self.order.len();
        self.order.get(len.checked_sub(1)? - back % len).copied()
    }

    pub(super) fn all(&self) -> &[T] {
        &self.order
    }
}

/// Everything observed in one store.
#[derive(Debug, Default)]
pub(super) struct ObservedStore {
    pub(super) jobs: ObservedIds<JobId>,
    pub(super) groups: ObservedIds<GroupId>,
    pub(super) events: ObservedIds<EventId>,
    pub(super) deliveries: ObservedIds<Delivery>,
    pub(super) revisions: BTreeMap<(RegistryTable, Name), ObservedIds<Revision>>,
    /// The job of each delivery.
    pub(super) holders: BTreeMap<Delivery, JobId>,
    /// Jobs as last claimed or explicitly read.
    pub(super) copies: BTreeMap<JobId, Job>,
}

impl ObservedStore {
    /// Stores the observed version of a job.
    pub(super) fn remember(&mut self, job: &Job) {
        self.copies.insert(job.id, job.clone());
    }

    /// The revision of an entry that a reference resolves to, if one was seen.
    pub(super) fn revision(
        &self,
        table: RegistryTable,
        name: &Name,
        back: StepsBack,
    ) -> Option<Revision> {
        self.revisions.get(&(table, name.clone()))?.pick(back)
    }

    /// The jobs of a batch with this many new groups, with the ids of this store. Unresolvable references are
    /// dropped.
    pub(super) fn new_jobs(&self, plans: &[PlannedJob], groups: usize) -> Vec<NewJob> {
        let job = |(index, plan): (usize, &PlannedJob)| NewJob {
            spec: spec(plan),
            due: plan.due.when(),
            deadline: plan.deadline.map(|(deadline, _)| deadline),
            group: plan.group.and_then(|pick| self.pick_group(pick, groups)),
            after: plan
                .after
                .iter()
                .filter_map(|(pick, needs)| {
                    Some(NewDependency {
                        on: self.pick_dependency(*pick, index, groups)?,
                        needs: *needs,
                    })
                })
                .collect(),
            unset: UnsetFields::default(),
        };
        plans.iter().enumerate().map(job).collect()
    }

    fn pick_group(&self, pick: GroupPick, new: usize) -> Option<GroupRef> {
        match pick {
            GroupPick::New(n) => Some(GroupRef::New(n.checked_rem(new)?)),
            GroupPick::Known(back) => self.groups.pick(back).map(GroupRef::Id),
        }
    }

    fn pick_dependency(
        &self,
        pick: DependencyPick,
        index: usize,
        groups: usize,
    ) -> Option<NewDependencyTarget> {
        match pick {
            DependencyPick::Earlier(n) => Some(NewDependencyTarget::Earlier(n.checked_rem(index)?)),
            DependencyPick::Job(back) => self.jobs.pick(back).map(NewDependencyTarget::Job),
            DependencyPick::Group(pick) => {
                self.pick_group(pick, groups).map(NewDependencyTarget::Group)
            }
        }
    }
}

fn spec(plan: &PlannedJob) -> Spec {
    let (queue, kind) = (samples::queue(plan.queue), samples::kind(plan.kind));
    let mut spec = Spec::new(queue, kind, samples::payload(plan.payload));
    spec.priority = plan.priority;
    spec.unique = plan.unique.clone().map(Box::new);
    spec.client_id = plan.client_id.map(samples::client_id).map(Box::new);
    spec.limits = plan.limits.iter().copied().map(samples::limit_key).collect();
    spec.worker_version = plan.worker_version.map(|n| Box::new(samples::worker_version(n)));
    spec.fair = plan.fair.map(|n| FairKey::new(Some(format!("f{n}").into())));
    spec.labels.extend(plan.label.map(samples::label));
    spec.index = samples::payload_keys(&plan.index);
    spec.wait_for = plan.event.map(|(name, timeout, on_timeout)| {
        Box::new(AwaitedEvent { name: samples::event(name), timeout, on_timeout })
    });
    let policy = &plan.policy;
    spec.retry.max_attempts = policy.max_attempts;
    spec.lease = policy.lease;
    spec.lapse = policy.lapse;
    spec.reports = policy.reports;
    spec.keep = policy.keep;
    spec.retain = policy.retain;
    if policy.with_metadata {
        spec.timeout = Some(crore_core::Span::from_secs(5));
        spec.labels.insert("tenant".to_owned(), "'ü'".to_owned());
        spec.trace = Some("00-ab-cd-01".into());
    }
    if let Some((_, true)) = plan.deadline {
        let (queue, kind) = (samples::queue(plan.queue), samples::kind(0));
        let mut next = Spec::new(queue, kind, samples::payload(plan.payload));
        // The follow-up can take the key that the expired job releases.
        next.unique = spec.unique.clone();
        spec.on_expired = Some(Box::new(next.into()));
    }
    spec
}
