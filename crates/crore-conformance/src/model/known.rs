//! What was seen of one store, and the numbers that stand for its own in a comparison.

use std::collections::BTreeMap;

use crore_core::{Delivery, GroupId, Job, JobId, Name, Revision};

use super::op::{Back, GroupPick, Pick, Plan};
use super::words;
use crore_core::job::Spec;
use crore_core::push::{After, AfterRef, GroupRef, NewJob, Unsaid};
use crore_store::registry::Table;

/// Numbers of a store in the order in which they were first seen.
///
/// Each store allocates as it likes (with gaps, or with a shard inside), so what is compared is the
/// place in this order, from 1.
#[derive(Debug, Clone)]
pub(super) struct Numbers<T> {
    order: Vec<T>,
    places: BTreeMap<T, u64>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { order: Vec::new(), places: BTreeMap::new() }
    }
}

impl<T: Ord + Copy> Numbers<T> {
    /// The place of a number, which is the last if it was not seen before.
    pub(super) fn place(&mut self, number: T) -> u64 {
        *self.places.entry(number).or_insert_with(|| {
            self.order.push(number);
            self.order.len() as u64
        })
    }

    /// The number that is meant.
    pub(super) fn pick(&self, back: Back) -> Option<T> {
        let len = self.order.len();
        self.order.get(len.checked_sub(1)? - back % len).copied()
    }

    pub(super) fn all(&self) -> &[T] {
        &self.order
    }
}

/// What was seen of one store.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) jobs: Numbers<JobId>,
    pub(super) groups: Numbers<GroupId>,
    pub(super) deliveries: Numbers<Delivery>,
    pub(super) revisions: BTreeMap<(Table, Name), Numbers<Revision>>,
    /// Which job a delivery was of.
    pub(super) holders: BTreeMap<Delivery, JobId>,
    /// Jobs as they were when they were last claimed or read on purpose.
    pub(super) copies: BTreeMap<JobId, Job>,
}

impl Known {
    /// Keeps what was seen of a job.
    pub(super) fn saw(&mut self, job: &Job) {
        self.copies.insert(job.id, job.clone());
    }

    /// The revision of an entry that is meant, if one was seen.
    pub(super) fn revision(&self, table: Table, name: &Name, back: Back) -> Option<Revision> {
        self.revisions.get(&(table, name.clone()))?.pick(back)
    }

    /// The jobs of a batch with so many new groups, in this store's numbers. What refers to nothing
    /// is left out.
    pub(super) fn new_jobs(&self, plans: &[Plan], groups: usize) -> Vec<NewJob> {
        let job = |(place, plan): (usize, &Plan)| NewJob {
            spec: spec(plan),
            due: plan.due.when(),
            group: plan.group.and_then(|pick| self.pick_group(pick, groups)),
            after: plan
                .after
                .iter()
                .filter_map(|(pick, needs)| {
                    Some(After { on: self.pick_thing(*pick, place, groups)?, needs: *needs })
                })
                .collect(),
            unsaid: Unsaid::default(),
        };
        plans.iter().enumerate().map(job).collect()
    }

    fn pick_group(&self, pick: GroupPick, new: usize) -> Option<GroupRef> {
        match pick {
            GroupPick::New(n) => Some(GroupRef::New(n.checked_rem(new)?)),
            GroupPick::Known(back) => self.groups.pick(back).map(GroupRef::Id),
        }
    }

    fn pick_thing(&self, pick: Pick, place: usize, groups: usize) -> Option<AfterRef> {
        match pick {
            Pick::Earlier(n) => Some(AfterRef::Earlier(n.checked_rem(place)?)),
            Pick::Job(back) => self.jobs.pick(back).map(AfterRef::Job),
            Pick::Group(pick) => self.pick_group(pick, groups).map(AfterRef::Group),
        }
    }
}

fn spec(plan: &Plan) -> Spec {
    let (queue, kind) = (words::queue(plan.queue), words::kind(plan.kind));
    let mut spec = Spec::new(queue, kind, words::payload(plan.payload));
    spec.priority = plan.priority;
    spec.unique = plan.unique.clone();
    spec.client_id = plan.client_id.map(words::client_id);
    spec.limits = plan.limits.iter().copied().map(words::limit_key).collect();
    let policy = &plan.policy;
    spec.retry.max_attempts = policy.max_attempts;
    spec.lease = policy.lease;
    spec.lapse = policy.lapse;
    spec.reports = policy.reports;
    spec.keep = policy.keep;
    spec.retain = policy.retain;
    if policy.marked {
        spec.timeout = Some(crore_core::Span::from_secs(5));
        spec.labels.insert("tenant".to_owned(), "'ü'".to_owned());
        spec.trace = Some("00-ab-cd-01".into());
    }
    spec
}
