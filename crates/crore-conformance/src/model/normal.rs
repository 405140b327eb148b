//! Answers in a form that can be compared: a store's own numbers become places in the order of
//! their first appearance, and what the contract leaves open is left out.

use std::sync::Arc;

use crore_core::group::Group;
use crore_core::job::{Dependency, Job, Spec, Thing};
use crore_core::machine::Refusal;
use crore_core::{Code, Delivery, GroupId, JobId, Name, Revision, Time};
use crore_store::jobs::{Applied, Claimed, Pushed, Pushes, Renewed};
use crore_store::registry::{Defined, Entry, Table};
use crore_store::upkeep::{Lapses, Lead, Promoted};
use crore_store::views::{Count, JobNotes, Step};

use super::known::Known;

/// An answer in normal form.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said {
    /// The operation refers to nothing that exists.
    Nothing,
    Invalid(Code),
    Pushes(Pushes),
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
    Rescued(Lapses, Vec<Result<Applied, Refusal>>),
    Lead(Lead),
    Notes(JobNotes),
    Stats(Vec<(Time, u64)>),
    Counts(Vec<Count>),
    Entries(Vec<Entry>),
    /// Something that no store may answer.
    Wrong(String),
}

impl Known {
    pub(super) fn job_id(&mut self, id: JobId) -> JobId {
        JobId(self.jobs.place(id))
    }

    fn group_id(&mut self, id: GroupId) -> GroupId {
        GroupId(self.groups.place(id))
    }

    fn delivery(&mut self, delivery: Delivery) -> Delivery {
        if delivery == Delivery::NONE {
            delivery
        } else {
            Delivery(self.deliveries.place(delivery))
        }
    }

    fn thing(&mut self, thing: Thing) -> Thing {
        match thing {
            Thing::Job(id) => Thing::Job(self.job_id(id)),
            Thing::Group(id) => Thing::Group(self.group_id(id)),
        }
    }

    fn pushed(&mut self, pushed: Pushed) -> Pushed {
        match pushed {
            Pushed::New(id) => Pushed::New(self.job_id(id)),
            Pushed::Duplicate(id) => Pushed::Duplicate(self.job_id(id)),
            Pushed::Broken(thing) => Pushed::Broken(self.thing(thing)),
            Pushed::BrokenBy(place) => Pushed::BrokenBy(place),
        }
    }

    pub(super) fn pushes(&mut self, pushes: Pushes) -> Said {
        let groups = pushes.groups.into_iter().map(|id| self.group_id(id)).collect();
        let jobs = pushes.jobs.into_iter().map(|pushed| self.pushed(pushed)).collect();
        Said::Pushes(Pushes { now: pushes.now, groups, jobs })
    }

    pub(super) fn applied(&mut self, applied: Applied) -> Applied {
        match applied {
            Applied::Yes(pushes) => {
                Applied::Yes(pushes.into_iter().map(|pushed| self.pushed(pushed)).collect())
            }
            Applied::Stale => Applied::Stale,
        }
    }

    /// Remembers the deliveries and what the jobs look like.
    pub(super) fn claimed(&mut self, claimed: Claimed) -> Said {
        for job in &claimed.jobs {
            self.holders.insert(job.live.delivery, job.id);
            self.saw(job);
        }
        let jobs = claimed.jobs.into_iter().map(|job| self.job(job, claimed.now)).collect();
        // When to ask again is a hint, and stores may give one that is early.
        Said::Claimed(Claimed { jobs, now: claimed.now, next_at: None })
    }

    /// A result whose time is over may be stored or not: nobody may see it.
    pub(super) fn job(&mut self, mut job: Job, now: Time) -> Job {
        job.id = self.job_id(job.id);
        let Spec { group, parent, after, .. } = &*job.spec;
        if group.is_some() || parent.is_some() || !after.is_empty() {
            let spec = Arc::make_mut(&mut job.spec);
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
        if job.result_at(now).is_none() {
            job.live.result = None;
        }
        job
    }

    /// In the order of their ids, where the contract gives no other.
    pub(super) fn unordered(&mut self, jobs: Vec<Job>, now: Time) -> Vec<Job> {
        let mut jobs: Vec<_> = jobs.into_iter().map(|job| self.job(job, now)).collect();
        jobs.sort_by_key(|job| job.id);
        jobs
    }

    fn revised(&mut self, table: Table, name: &Name, revision: Revision) -> Revision {
        Revision(self.revisions.entry((table, name.clone())).or_default().place(revision))
    }

    /// The revision of an entry that was removed says nothing.
    pub(super) fn defined(&mut self, table: Table, name: &Name, said: (bool, Defined)) -> Defined {
        match said {
            (true, Defined::Yes(revision)) => Defined::Yes(self.revised(table, name, revision)),
            (false, Defined::Yes(_)) => Defined::Yes(Revision::default()),
            (_, Defined::Stale) => Defined::Stale,
        }
    }

    pub(super) fn entry(&mut self, table: Table, mut entry: Entry) -> Entry {
        entry.revision = self.revised(table, &entry.name, entry.revision);
        entry
    }
}

/// A group's revision guards nothing, and a store may count many members as one change.
pub(super) fn group(group: Option<Group>) -> Said {
    Said::Group(group.map(|group| Group { revision: Revision::default(), ..group }))
}

/// Buckets that are old enough to be dropped may be there still or not.
pub(super) fn stats(mut buckets: Vec<(Time, u64)>, step: Step, now: Time) -> Said {
    let oldest = now.before(step.span().times(step.buckets() - 1));
    buckets.retain(|(at, _)| *at >= oldest);
    Said::Stats(buckets)
}
