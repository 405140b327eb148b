//! Push: new jobs and groups into records and index.

use std::sync::Arc;

use crore_core::dependency::{self, Satisfaction};
use crore_core::group::{Group, Tally};
use crore_core::job::{Dependency, Needs, Thing};
use crore_core::push::{AfterRef, GroupRef};
use crore_core::{Batch, GroupId, Job, JobId, Live, NewJob, Time};

use super::Local;
use super::records::Records;
use crate::Error;
use crate::bug::planted;
use crate::jobs::{Pushed, Pushes};

/// What of the same batch is known already.
struct Earlier<'a> {
    groups: &'a [GroupId],
    jobs: &'a [Pushed],
}

impl<R: Records> Local<R> {
    pub(crate) fn push(&mut self, batch: Batch, now: Time) -> Result<Pushes, Error> {
        let mut groups = Vec::with_capacity(batch.groups.len());
        for _ in &batch.groups {
            let id = GroupId(self.next_id());
            self.ties.add_group(id, Group::default(), now);
            groups.push(id);
        }
        let mut jobs = Vec::with_capacity(batch.jobs.len());
        let half = batch.jobs.len().div_ceil(2);
        for job in batch.jobs {
            if planted!("bug-3") && jobs.len() >= half {
                jobs.push(Pushed::New(JobId(self.next_id())));
                continue;
            }
            let pushed =
                self.push_one(job, None, &Earlier { groups: &groups, jobs: &jobs }, now)?;
            jobs.push(pushed);
        }
        for (id, new) in groups.iter().zip(&batch.groups) {
            if !new.open
                && let Some(settled) = self.ties.seal(*id, now)
            {
                self.tell(settled, now)?;
            }
        }
        Ok(Pushes { now, groups, jobs })
    }

    /// Pushes the follow-ups of a job, or the jobs of a tick.
    pub(super) fn push_more(
        &mut self,
        jobs: Vec<NewJob>,
        parent: Option<JobId>,
        now: Time,
    ) -> Result<Vec<Pushed>, Error> {
        let mut pushed = Vec::with_capacity(jobs.len());
        for (nth, job) in (0u32..).zip(jobs) {
            let earlier = Earlier { groups: &[], jobs: &pushed };
            let parent = parent.map(|id| (id, nth));
            let answer = self.push_one(job, parent, &earlier, now)?;
            pushed.push(answer);
        }
        Ok(pushed)
    }

    fn push_one(
        &mut self,
        new: NewJob,
        parent: Option<(JobId, u32)>,
        earlier: &Earlier<'_>,
        now: Time,
    ) -> Result<Pushed, Error> {
        // Where it stays, before anything else: it is large, and every move is a copy.
        let mut shared = Arc::new(new.spec);
        let spec = Arc::make_mut(&mut shared);
        let taken = spec.unique.as_ref().and_then(|unique| self.keys.holder(&unique.key, now));
        let known = spec.client_id.as_ref().and_then(|client| self.keys.client(client));
        if let Some(id) = taken.or(known) {
            return Ok(Pushed::Duplicate(id));
        }
        spec.parent = parent.or(spec.parent);
        match new.group.map(|group| self.find_group(group, earlier)).transpose() {
            Ok(group) => spec.group = group,
            Err(broken) => return Ok(broken),
        }
        let mut waits = Vec::new();
        spec.after.clear();
        for (nth, after) in (0u32..).zip(&new.after) {
            let on = match find_thing(after.on, earlier) {
                Ok(on) => on,
                Err(broken) => return Ok(broken),
            };
            let dependency = Dependency { on, needs: after.needs };
            spec.after.push(dependency);
            match self.satisfaction(on, after.needs)? {
                Satisfaction::Open => waits.push((nth, dependency)),
                Satisfaction::Satisfied => {}
                Satisfaction::Broken => return Ok(Pushed::Broken(on)),
            }
        }
        let id = JobId(self.next_id());
        for (nth, dependency) in &waits {
            self.ties.wait(id, *nth, *dependency);
        }
        let due = new.due.resolve(now, now);
        if let Some(unique) = &spec.unique {
            self.keys.lock(unique, id, due);
        }
        if let Some(client) = &spec.client_id {
            self.keys.add_client(client, id);
        }
        if let Some(group) = spec.group {
            let member = Tally { size: 1, ..Tally::default() };
            let settled = self.ties.tally(group, member, now);
            self.tell(settled, now)?;
        }
        let live = Live::pushed(now, due, u32::try_from(waits.len()).unwrap_or(u32::MAX));
        self.add(Job { id, spec: shared, live })?;
        Ok(Pushed::New(id))
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn find_group(&self, group: GroupRef, earlier: &Earlier<'_>) -> Result<GroupId, Pushed> {
        let id = match group {
            GroupRef::Id(id) => id,
            GroupRef::New(n) => earlier.groups.get(n).copied().unwrap_or_default(),
        };
        self.ties.group(id).map(|_| id).ok_or(Pushed::Broken(Thing::Group(id)))
    }

    /// Whether the thing that a new job waits for satisfies its need.
    fn satisfaction(&self, on: Thing, needs: Needs) -> Result<Satisfaction, Error> {
        Ok(match on {
            Thing::Group(id) => dependency::of_group(self.ties.group(id).as_ref(), needs),
            Thing::Job(id) => {
                let state = self.load(id)?.map(|record| record.job.live.state);
                dependency::of_job(state, needs)
            }
        })
    }
}

fn find_thing(on: AfterRef, earlier: &Earlier<'_>) -> Result<Thing, Pushed> {
    match on {
        AfterRef::Job(id) => Ok(Thing::Job(id)),
        AfterRef::Group(GroupRef::Id(id)) => Ok(Thing::Group(id)),
        AfterRef::Group(GroupRef::New(n)) => {
            Ok(Thing::Group(earlier.groups.get(n).copied().unwrap_or_default()))
        }
        AfterRef::Earlier(n) => match earlier.jobs.get(n).and_then(|pushed| pushed.id()) {
            Some(id) => Ok(Thing::Job(id)),
            None => Err(Pushed::BrokenBy(n)),
        },
    }
}
