//! Push: new jobs and groups, and what becomes of each.

use std::collections::BTreeSet;
use std::sync::Arc;

use crore_core::group::{Group, Tally};
use crore_core::job::{Dependency, Needs, Thing};
use crore_core::push::{AfterRef, GroupRef, NewGroup};
use crore_core::{Batch, Code, GroupId, Invalid, Job, JobId, Live, NewJob, Spec, State, Time};
use crore_store::jobs::{Pushed, Pushes};
use crore_store::{Committed, Error};
use sqlx::PgConnection;

use super::error::{Fault, corrupt};
use super::keys::{Keys, keys_of};
use super::work::{Dep, GroupSlot, Slot, Work, Write};
use super::{Postgres, commit};

impl Postgres {
    pub(super) async fn push_once(&self, batch: &Batch) -> Result<Committed<Pushes>, Fault> {
        let mut wanted = Wanted::default();
        wanted.add(&batch.jobs);
        let mut tx = self.begin().await?;
        let n = batch.groups.len() + batch.jobs.len();
        let jobs = std::mem::take(&mut wanted.jobs);
        let mut work = Work::start(&mut tx, self.now(), n, jobs).await?;
        wanted.lock(&mut work, &mut tx).await?;
        let groups = work.open_groups(&batch.groups)?;
        let jobs = work.admit(&batch.jobs, &groups, None)?;
        let now = work.now;
        work.flush(&mut tx).await?;
        let ids = groups.into_iter().map(|(id, _)| id).collect();
        commit(tx, Pushes { now, groups: ids, jobs }).await
    }
}

/// The records that new jobs refer to or compete for.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) jobs: BTreeSet<JobId>,
    pub(super) keys: BTreeSet<Vec<u8>>,
    pub(super) groups: BTreeSet<GroupId>,
    refer_back: bool,
}

impl Wanted {
    pub(super) fn add(&mut self, jobs: &[NewJob]) {
        for new in jobs {
            self.keys.extend(keys_of(&new.spec));
            if let Some(GroupRef::Id(id)) = new.group {
                self.groups.insert(id);
            }
            for after in &new.after {
                match after.on {
                    AfterRef::Job(id) => _ = self.jobs.insert(id),
                    AfterRef::Group(GroupRef::Id(id)) => _ = self.groups.insert(id),
                    AfterRef::Earlier(_) => self.refer_back = true,
                    AfterRef::Group(GroupRef::New(_)) => {}
                }
            }
        }
    }

    /// Locks keys and groups; jobs were locked before.
    pub(super) async fn lock(
        self,
        work: &mut Work,
        connection: &mut PgConnection,
    ) -> Result<(), Fault> {
        work.keys = Keys::lock(connection, self.keys).await?;
        if self.refer_back {
            // A reference to a duplicate means the job that was there first.
            let holders = work.keys.holders().collect();
            work.lock_jobs(connection, holders).await?;
        }
        work.lock_groups(connection, self.groups).await
    }
}

/// A new job that is let in.
struct Admitted {
    id: JobId,
    spec: Spec,
    due: Time,
}

impl Work {
    /// New groups. They are open until all of the batch is known.
    fn open_groups(&mut self, new: &[NewGroup]) -> Result<Vec<(GroupId, NewGroup)>, Fault> {
        let mut groups = Vec::new();
        for group in new {
            let id = GroupId(self.number()?);
            let slot = GroupSlot { group: Group::default(), changed: true };
            self.groups.insert(id, slot);
            groups.push((id, *group));
        }
        Ok(groups)
    }

    fn number(&mut self) -> Result<u64, Fault> {
        self.ids.pop_front().ok_or_else(|| corrupt("the database gave too few numbers"))
    }

    /// Lets new jobs in, one by one in order, and then finds out what each still waits for.
    pub(super) fn admit(
        &mut self,
        jobs: &[NewJob],
        groups: &[(GroupId, NewGroup)],
        parent: Option<JobId>,
    ) -> Result<Vec<Pushed>, Fault> {
        let mut answers = Vec::new();
        let mut admitted = Vec::new();
        for (place, new) in jobs.iter().enumerate() {
            let answer = match self.keys.holder(&new.spec, self.now) {
                Some(holder) => Pushed::Duplicate(holder),
                None => match self.resolve(new, groups, &answers)? {
                    Err(broken) => broken,
                    Ok(mut spec) => {
                        let nth = u32::try_from(place).unwrap_or(u32::MAX);
                        spec.parent = parent.map_or(spec.parent, |id| Some((id, nth)));
                        let job = self.enter(spec, new.due.resolve(self.now, self.now))?;
                        let id = job.id;
                        admitted.push(job);
                        Pushed::New(id)
                    }
                },
            };
            answers.push(answer);
        }
        for (id, new) in groups {
            if let Some(slot) = self.groups.get_mut(id) {
                slot.group.sealed = !new.open;
            }
        }
        for job in &admitted {
            self.hold(job);
        }
        Ok(answers)
    }

    /// The spec with its references resolved, or the one that is broken.
    fn resolve(
        &self,
        new: &NewJob,
        groups: &[(GroupId, NewGroup)],
        answers: &[Pushed],
    ) -> Result<Result<Spec, Pushed>, Fault> {
        let group = |group| match group {
            GroupRef::Id(id) => Ok(id),
            GroupRef::New(nth) => groups.get(nth).map(|(id, _)| *id).ok_or_else(|| unknown(nth)),
        };
        let mut spec = new.spec.clone();
        if let Some(joined) = new.group {
            let id = group(joined)?;
            if self.groups.get(&id).is_none_or(|slot| slot.group.sealed) {
                return Ok(Err(Pushed::Broken(Thing::Group(id))));
            }
            spec.group = Some(id);
        }
        spec.after.clear();
        for after in &new.after {
            let on = match after.on {
                AfterRef::Job(id) => Thing::Job(id),
                AfterRef::Group(on) => Thing::Group(group(on)?),
                AfterRef::Earlier(nth) => {
                    match answers.get(nth).ok_or_else(|| unknown(nth))?.id() {
                        Some(id) => Thing::Job(id),
                        None => return Ok(Err(Pushed::BrokenBy(nth))),
                    }
                }
            };
            if !self.can_come_true(on, after.needs) {
                return Ok(Err(Pushed::Broken(on)));
            }
            spec.after.push(Dependency { on, needs: after.needs });
        }
        Ok(Ok(spec))
    }

    fn can_come_true(&self, on: Thing, needs: Needs) -> bool {
        match on {
            Thing::Group(id) => self.groups.contains_key(&id),
            Thing::Job(id) => self
                .job(id)
                .is_some_and(|job| job.live.state != State::Cancelled || needs == Needs::End),
        }
    }

    fn enter(&mut self, spec: Spec, due: Time) -> Result<Admitted, Fault> {
        let id = JobId(self.number()?);
        self.keys.take(id, &spec, due);
        if let Some(slot) = spec.group.and_then(|group| self.groups.get_mut(&group)) {
            slot.group = slot.group.tallied(Tally { size: 1, ..Tally::default() });
            slot.changed = true;
        }
        // Later ones of the batch may refer to it already.
        let job = Job { id, spec: Arc::new(spec.clone()), live: Live::pushed(self.now, due, 0) };
        self.jobs.insert(id, Slot { job: Some(job), write: Write::New });
        Ok(Admitted { id, spec, due })
    }

    /// Finds out what a new job waits for, now that its whole batch is known.
    fn hold(&mut self, new: &Admitted) {
        let mut waits = 0;
        for (place, dependency) in new.spec.after.iter().enumerate() {
            let (thing, needs) = (dependency.on, dependency.needs);
            if self.is_settled(thing, needs) {
                continue;
            }
            waits += 1;
            let place = i32::try_from(place).unwrap_or(i32::MAX);
            let dep = Dep { job: new.id, place, needs, stored: false };
            let (Thing::Job(JobId(thing)) | Thing::Group(GroupId(thing))) = thing;
            self.deps.entry(thing).or_default().push(dep);
        }
        if let Some(job) = self.change(new.id, Write::New) {
            job.live = Live::pushed(job.live.pushed_at, new.due, waits);
        }
    }

    fn is_settled(&self, on: Thing, needs: Needs) -> bool {
        match on {
            Thing::Group(id) => {
                self.groups.get(&id).is_some_and(|slot| slot.group.satisfies(needs))
            }
            Thing::Job(id) => self.job(id).is_some_and(|job| match job.live.state {
                State::Done => true,
                State::Dead | State::Cancelled => needs == Needs::End,
                State::Waiting | State::Scheduled | State::Ready | State::Running => false,
            }),
        }
    }
}

fn unknown(nth: usize) -> Fault {
    let message = format!("`{nth}` is not an earlier part of this batch");
    Fault::Store(Error::Invalid(Invalid::new(Code::BatchReference, "jobs", message)))
}
