//! Normalized responses: ids become positions in the order of their first appearance, and everything that the
//! contract leaves open is removed.

use std::sync::Arc;

use crore_core::group::{Group, SEALED_GROUP_LABEL};
use crore_core::job::{Dependency, DependencyTarget, Job, Spec};
use crore_core::machine::Refusal;
use crore_core::{
    Code, Delivery, EventId, EventWait, GroupId, JobId, KeptEvent, Name, Revision, Time,
};
use crore_store::events::{Released, SendResult};
use crore_store::jobs::{Applied, Claimed, Pushed, PushedBatch, Renewed};
use crore_store::registry::{Defined, RegistryEntry, RegistryTable};
use crore_store::upkeep::{Lapses, Lead, Promoted};
use crore_store::views::{JobCount, JobNotes, JobStatsRow, RequiredVersion, StatStep};

use super::observed::ObservedStore;

/// A normalized response.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NormalResponse {
    /// The operation refers to nothing that exists.
    Nothing,
    Invalid(Code),
    Pushes(PushedBatch),
    Claimed(Claimed),
    Renewed(Vec<Renewed>),
    Applied(Vec<Result<Applied, Refusal>>),
    Defined(Vec<Defined>),
    Job(Box<Option<Job>>),
    Jobs(Vec<Job>),
    Holders(Vec<Option<JobId>>),
    Group(Option<Group>),
    Promoted(Promoted),
    Number(usize),
    LeasesExpired(Lapses, Vec<Result<Applied, Refusal>>),
    Lead(Lead),
    Notes(JobNotes),
    Stats(Vec<(Time, u64)>),
    JobStats(Vec<JobStatsRow>),
    Counts(Vec<JobCount>),
    RequiredVersions(Vec<RequiredVersion>),
    Entries(Vec<RegistryEntry>),
    Sent(SendResult),
    Released(Released),
    Events(Vec<KeptEvent>),
    /// A response that the contract forbids.
    Wrong(String),
}

impl ObservedStore {
    pub(super) fn job_id(&mut self, id: JobId) -> JobId {
        JobId(self.jobs.position(id))
    }

    pub(super) fn event_id(&mut self, id: EventId) -> EventId {
        EventId(self.events.position(id))
    }

    fn group_id(&mut self, id: GroupId) -> GroupId {
        GroupId(self.groups.position(id))
    }

    fn delivery(&mut self, delivery: Delivery) -> Delivery {
        if delivery == Delivery::NONE {
            delivery
        } else {
            Delivery(self.deliveries.position(delivery))
        }
    }

    fn thing(&mut self, thing: DependencyTarget) -> DependencyTarget {
        match thing {
            DependencyTarget::Job(id) => DependencyTarget::Job(self.job_id(id)),
            DependencyTarget::Group(id) => DependencyTarget::Group(self.group_id(id)),
        }
    }

    fn pushed(&mut self, pushed: Pushed) -> Pushed {
        match pushed {
            Pushed::New(id) => Pushed::New(self.job_id(id)),
            Pushed::Duplicate(id) => Pushed::Duplicate(self.job_id(id)),
            Pushed::Broken(thing) => Pushed::Broken(self.thing(thing)),
            Pushed::Sealed(id) => Pushed::Sealed(self.group_id(id)),
            Pushed::BrokenBy(place) => Pushed::BrokenBy(place),
        }
    }

    pub(super) fn pushes(&mut self, pushes: PushedBatch) -> NormalResponse {
        let groups = pushes.groups.into_iter().map(|id| self.group_id(id)).collect();
        let jobs = pushes.jobs.into_iter().map(|pushed| self.pushed(pushed)).collect();
        NormalResponse::Pushes(PushedBatch { now: pushes.now, groups, jobs })
    }

    pub(super) fn applied(&mut self, applied: Applied) -> Applied {
        match applied {
            Applied::Yes(pushes) => {
                Applied::Yes(pushes.into_iter().map(|pushed| self.pushed(pushed)).collect())
            }
            Applied::Stale => Applied::Stale,
        }
    }

    /// Remembers the deliveries and the claimed versions of the jobs.
    pub(super) fn claimed(&mut self, claimed: Claimed) -> NormalResponse {
        for job in &claimed.jobs {
            self.holders.insert(job.live.delivery, job.id);
            self.remember(job);
        }
        let jobs = claimed.jobs.into_iter().map(|job| self.job(job, claimed.now)).collect();
        // The next claim time is a hint and may be early.
        NormalResponse::Claimed(Claimed { jobs, now: claimed.now, next_at: None })
    }

    /// Normalizes a job. An expired result is removed: it is never visible, and a store may or may not keep it.
    pub(super) fn job(&mut self, mut job: Job, now: Time) -> Job {
        job.id = self.job_id(job.id);
        let Spec { group, parent, after, labels, .. } = &*job.spec;
        let has_sealed_group = labels.contains_key(SEALED_GROUP_LABEL);
        if group.is_some() || parent.is_some() || !after.is_empty() || has_sealed_group {
            let spec = Arc::make_mut(&mut job.spec);
            if let Some(label) = spec.labels.get_mut(SEALED_GROUP_LABEL)
                && let Ok(id) = label.parse()
            {
                *label = self.group_id(GroupId(id)).to_string();
            }
            spec.group = spec.group.map(|id| self.group_id(id));
            spec.parent = spec.parent.map(|(id, place)| (self.job_id(id), place));
            for Dependency { on, .. } in &mut spec.after {
                *on = self.thing(*on);
            }
        }
        job.live.delivery = self.delivery(job.live.delivery);
        for attempt in &mut job.live.history {
            attempt.delivery = self.delivery(attempt.delivery);
        }
        if let Some(EventWait::Received(event)) = job.live.event.as_deref_mut() {
            event.id = self.event_id(event.id);
        }
        if job.result_at(now).is_none() {
            job.live.result = None;
        }
        job
    }

    /// Normalizes jobs for which the contract defines no order: sorts them by id.
    pub(super) fn unordered(&mut self, jobs: Vec<Job>, now: Time) -> Vec<Job> {
        let mut jobs: Vec<_> = jobs.into_iter().map(|job| self.job(job, now)).collect();
        jobs.sort_by_key(|job| job.id);
        jobs
    }

    fn normal_revision(
        &mut self,
        table: RegistryTable,
        name: &Name,
        revision: Revision,
    ) -> Revision {
        Revision(self.revisions.entry((table, name.clone())).or_default().position(revision))
    }

    /// `response` is whether the entry was set (not removed), and the result. The revision of a removal carries no
    /// information.
    pub(super) fn defined(
        &mut self,
        table: RegistryTable,
        name: &Name,
        response: (bool, Defined),
    ) -> Defined {
        match response {
            (true, Defined::Yes(revision)) => {
                Defined::Yes(self.normal_revision(table, name, revision))
            }
            (false, Defined::Yes(_)) => Defined::Yes(Revision::default()),
            (_, Defined::Stale) => Defined::Stale,
        }
    }

    pub(super) fn entry(
        &mut self,
        table: RegistryTable,
        mut entry: RegistryEntry,
    ) -> RegistryEntry {
        entry.revision = self.normal_revision(table, &entry.name, entry.revision);
        entry
    }
}

/// Normalizes a group without its revision: no write is conditional on it, and a store may count several members as
/// one change.
pub(super) fn group(group: Option<Group>) -> NormalResponse {
    NormalResponse::Group(group.map(|group| Group { revision: Revision::default(), ..group }))
}

/// Normalizes statistics without expired buckets, which a store may or may not keep.
pub(super) fn stats(mut buckets: Vec<(Time, u64)>, step: StatStep, now: Time) -> NormalResponse {
    let oldest = now.before(step.span().times(step.buckets() - 1));
    buckets.retain(|(at, _)| *at >= oldest);
    NormalResponse::Stats(buckets)
}
