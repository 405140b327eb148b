//! Push: what callers bring is checked, filled in, and stored in one write.

use std::sync::Arc;

use crore_core::job::{Spec, Thing};
use crore_core::push::{After, AfterRef};
use crore_core::{Batch, GroupId, Invalid, JobId, Name, NewJob, Time};
use crore_store::jobs::{self, Pushed};

use crate::doubt::Doubt;
use crate::engine::{Engine, Inner};
use crate::error::Error;
use crate::events::{Event, Happened};
use crate::upkeep::Dues;
use crate::watch;

/// What a push answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Pushes {
    /// When it was stored, by the store's clock.
    pub now: Time,
    /// The new groups, in order.
    pub groups: Vec<GroupId>,
    /// One answer for each job, in order.
    pub jobs: Vec<Taken>,
}

/// What became of one pushed job.
#[derive(Debug, Clone, PartialEq)]
pub enum Taken {
    /// It is stored.
    New(JobId),
    /// Its unique key or client id belongs to this job; it is not stored.
    Duplicate(JobId),
    /// It refers to this thing, which is not there or can no longer succeed; it is not stored.
    Broken(Thing),
    /// It refers to a job of the same batch, at this place, that was not stored; neither is it.
    BrokenBy(usize),
    /// It breaks a rule; it is not stored.
    Invalid(Invalid),
}

impl Taken {
    /// The stored job that is meant, if there is one.
    pub const fn id(&self) -> Option<JobId> {
        match self {
            Self::New(id) | Self::Duplicate(id) => Some(*id),
            Self::Broken(_) | Self::BrokenBy(_) | Self::Invalid(_) => None,
        }
    }
}

impl Engine {
    /// Pushes jobs and groups. Each job that breaks a rule is answered singly; all the others are one
    /// atomic write, durable when answered.
    pub async fn push_all(&self, batch: Batch) -> Result<Pushes, Error> {
        self.inner.push(batch).await
    }
}

impl Inner {
    pub(crate) async fn push(&self, batch: Batch) -> Result<Pushes, Error> {
        self.push_unless(batch, |_| Ok(())).await
    }

    /// Pushes a batch, without the jobs at places that are refused.
    pub(crate) async fn push_unless(
        &self,
        batch: Batch,
        refuse: impl Fn(usize) -> Result<(), Invalid>,
    ) -> Result<Pushes, Error> {
        if self.is_quiet() {
            return Err(Error::Stopping);
        }
        batch.check(&self.caps)?;
        self.sure_limits().await?;
        self.sure_handlers().await?;
        let now = self.now();
        let check = |place: usize, job: &NewJob| {
            refuse(place).and_then(|()| job.check_brought(&self.caps, now))
        };
        let (mut batch, kept) = Kept::of(batch, check);
        let limits = self.limits.all();
        for job in &mut batch.jobs {
            self.fill_in(job);
        }
        let seen = self.is_seen();
        let names: Vec<_> = if seen { batch.jobs.iter().map(names).collect() } else { Vec::new() };
        let dues = Dues::of(&batch.jobs, now);
        let doubt = Doubt::new(|| {
            self.expect(dues);
            // Who does not know what was stored looks through everything.
            if !Arc::ptr_eq(&limits, &self.limits.all()) {
                self.sweep_anew();
            }
        });
        let stored = self.store.push(batch).await?.into_inner();
        doubt.over();
        self.expect(dues);
        if !Arc::ptr_eq(&limits, &self.limits.all()) {
            self.relimit(stored.jobs.iter().filter_map(|one| one.id()));
        }
        self.tell_pushed((now, stored.now), &stored.jobs, &names);
        let jobs::Pushes { now, groups, jobs } = stored;
        let jobs = match kept {
            Some(kept) => kept.answers(&jobs),
            None => jobs.into_iter().map(taken).collect(),
        };
        Ok(Pushes { now, groups, jobs })
    }

    /// What a job needs before a store sees it, besides what its pusher said.
    pub(crate) fn fill_in(&self, job: &mut NewJob) {
        self.fill_in_from_handler(job);
        job.spec.limits = self.limits.keys(&job.spec);
    }

    /// Jobs were stored, by a push that began and ended at these times. Their names are not needed if
    /// nobody wanted to know when it began.
    pub(crate) fn tell_pushed(
        &self,
        (begun_at, at): (Time, Time),
        stored: &[Pushed],
        names: &[Names],
    ) {
        self.count("pushed", stored.iter().filter(|one| is_new(one)).count());
        if names.is_empty() {
            return;
        }
        let new = || {
            stored.iter().zip(names).filter_map(|(one, names)| match one {
                Pushed::New(id) => Some((*id, names)),
                _ => None,
            })
        };
        if let Some(watch) = self.watch.get() {
            // The store's time is that of its decision, and not when it was durable.
            let at = self.now();
            let mut pushed = new().map(|(id, names)| watch::Pushed {
                id,
                queue: &names.queue,
                kind: &names.kind,
                trace: names.trace.as_deref(),
                begun_at,
                at,
            });
            watch.pushed(&mut pushed);
        }
        if self.events.is_heard() {
            let pushed = new().map(|(id, names)| {
                let (queue, kind) = (names.queue.clone(), names.kind.clone());
                Event { id, queue, kind, what: Happened::Pushed, at }
            });
            self.events.tell(&pushed.collect::<Vec<_>>());
        }
    }
}

/// What is told of a pushed job besides its number.
#[derive(Debug)]
pub(crate) struct Names {
    queue: Name,
    kind: Name,
    trace: Option<Arc<str>>,
}

pub(crate) fn names(job: &NewJob) -> Names {
    let Spec { queue, kind, trace, .. } = &job.spec;
    Names { queue: queue.clone(), kind: kind.clone(), trace: trace.clone() }
}

/// The store's answer, as a caller hears it.
pub(crate) const fn taken(pushed: Pushed) -> Taken {
    match pushed {
        Pushed::New(id) => Taken::New(id),
        Pushed::Duplicate(id) => Taken::Duplicate(id),
        Pushed::Broken(thing) => Taken::Broken(thing),
        Pushed::BrokenBy(n) => Taken::BrokenBy(n),
    }
}

const fn is_new(pushed: &Pushed) -> bool {
    matches!(pushed, Pushed::New(_))
}

/// Which jobs of a batch were kept, and why the others were not.
struct Kept {
    /// By place in the batch as it came: the place in what is stored, or the answer.
    places: Vec<Result<usize, Taken>>,
    /// By place in what is stored: the place in the batch as it came.
    origins: Vec<usize>,
}

impl Kept {
    /// Leaves out what breaks a rule, and what refers to that; `None`: nothing does.
    fn of(
        batch: Batch,
        check: impl Fn(usize, &NewJob) -> Result<(), Invalid>,
    ) -> (Batch, Option<Self>) {
        let mut jobs = batch.jobs.iter().enumerate();
        let Some(first) = jobs.position(|(n, job)| check(n, job).is_err()) else {
            return (batch, None);
        };
        let fault = |(n, job)| if n < first { None } else { check(n, job).err() };
        let faults: Vec<Option<Invalid>> = batch.jobs.iter().enumerate().map(fault).collect();
        let mut kept = Self { places: Vec::with_capacity(faults.len()), origins: Vec::new() };
        let mut jobs = Vec::with_capacity(batch.jobs.len());
        for (mut job, fault) in batch.jobs.into_iter().zip(faults) {
            let place = match fault {
                Some(invalid) => {
                    Err(Taken::Invalid(invalid.inside(&format!("jobs[{}]", kept.places.len()))))
                }
                None => kept.refer(&mut job.after).map(|()| jobs.len()),
            };
            if place.is_ok() {
                kept.origins.push(kept.places.len());
                jobs.push(job);
            }
            kept.places.push(place);
        }
        (Batch { groups: batch.groups, jobs }, Some(kept))
    }

    /// Makes references mean the places in what is stored.
    fn refer(&self, after: &mut [After]) -> Result<(), Taken> {
        for one in after {
            if let AfterRef::Earlier(n) = &mut one.on {
                match self.places.get(*n) {
                    Some(Ok(place)) => *n = *place,
                    _ => return Err(Taken::BrokenBy(*n)),
                }
            }
        }
        Ok(())
    }

    fn answers(self, stored: &[Pushed]) -> Vec<Taken> {
        let Self { places, origins } = self;
        let answer = |place: Result<usize, Taken>| match place {
            Err(taken) => taken,
            Ok(place) => match stored.get(place) {
                Some(Pushed::BrokenBy(n)) => {
                    Taken::BrokenBy(origins.get(*n).copied().unwrap_or(*n))
                }
                Some(pushed) => taken(*pushed),
                None => Taken::BrokenBy(place),
            },
        };
        places.into_iter().map(answer).collect()
    }
}
