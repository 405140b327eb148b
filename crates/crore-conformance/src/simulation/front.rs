//! What callers speak to: the store itself, or an engine that stands before it.

use std::fmt::Debug;
use std::pin::Pin;

use crore_core::machine::Event;
use crore_core::{Batch, GroupId, Job, JobId, Name, Payload, Span, Time};
use crore_store::jobs::{Applied, Claim, Pushed, Pushes, Renew, Renewed, Write};
use crore_store::registry::Define;
use crore_store::{Answer, Error};
use crore_testkit::history::op::Want;

use super::scene::Link;

/// A program's own code runs, which need not be able to go from thread to thread.
pub type Ran<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + 'a>>;

/// What stands before a store and is spoken to in its place. It decides, writes, wakes and keeps
/// things up by itself; callers only ask and are told.
pub trait Front: Debug {
    /// Pushes a batch.
    fn push(&self, batch: Batch) -> Answer<'_, Pushes>;

    /// Takes jobs; if there are none, waits for the first one this long.
    fn fetch(&self, ask: Claim, wait: Span) -> Answer<'_, Vec<Job>>;

    /// Extends leases.
    fn renew(&self, leases: Vec<Renew>) -> Answer<'_, Vec<Renewed>>;

    /// A worker says what became of a delivery: it is finished, or was handed over.
    fn tell(&self, id: JobId, event: Event) -> Answer<'_, Fate>;

    /// Somebody wants something of a job.
    fn want(&self, id: JobId, want: Want) -> Answer<'_, Fate>;

    /// Runs one job of a queue, if there is one. What it takes and reports it writes down by itself,
    /// and so for the next two.
    fn pop(&self, queue: Name) -> Ran<'_>;

    /// Runs jobs of some queues, up to about so many, and no longer than this.
    fn work(&self, queues: Vec<Name>, n: u64, at_most: Span) -> Ran<'_>;

    /// Somebody wants something of all jobs of a queue, or of all.
    fn want_of_all(&self, queue: Option<Name>, want: Want) -> Answer<'_, ()>;

    /// The result of a job, waited for this long.
    fn result(&self, id: JobId, at_most: Span) -> Answer<'_, Option<Payload>>;

    /// Seals a group; whether it was open.
    fn seal(&self, group: GroupId) -> Answer<'_, bool>;

    /// Sets or removes a definition, as far as the front has a word for it. It writes down by itself
    /// what it has the store define: see [`super::Subject::write_into`].
    fn define(&self, define: Define) -> Answer<'_, ()>;

    /// When there is something to keep up.
    fn upkeep_at(&self) -> Time;

    /// Keeps up what is due.
    fn upkeep_once(&self) -> Answer<'_, ()>;
}

/// What became of something that was said about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is so now.
    Yes {
        /// Whether the job runs, and was asked to stop.
        asked: bool,
        /// What became of the follow-ups.
        pushed: Vec<Pushed>,
    },
    /// It changed nothing.
    No,
    /// There is no such job.
    NotFound,
}

/// Somebody who waits at a front until he is woken.
#[derive(Debug, Clone)]
pub(super) enum Sleeper {
    /// For jobs of these queues, and perhaps only these kinds.
    Fetch(Vec<Name>, Option<Vec<Name>>),
    /// For this job to end.
    Result(JobId),
}

/// Somebody sleeps as long as this is there.
#[derive(Debug)]
struct Asleep(Link, u64);

impl Drop for Asleep {
    fn drop(&mut self) {
        self.0.scene().known.asleep.remove(&self.1);
    }
}

impl Link {
    pub(super) async fn push(&self, batch: Batch) -> Result<Pushes, Error> {
        match &self.front {
            Some(front) => front.push(batch).await,
            None => Ok(self.store.push(batch).await?.into_inner()),
        }
    }

    /// Takes jobs; gives also the store's time, if it was told. Only a front lets anybody wait.
    pub(super) async fn fetch(
        &self,
        ask: Claim,
        wait: Span,
    ) -> Result<(Option<Time>, Vec<Job>), Error> {
        let Some(front) = &self.front else {
            let claimed = self.store.claim(ask).await?;
            return Ok((Some(claimed.now), claimed.jobs));
        };
        let asleep = self.falls_asleep(Sleeper::Fetch(ask.queues.clone(), ask.kinds.clone()));
        let jobs = front.fetch(ask, wait).await?;
        drop(asleep);
        Ok((jobs.first().map(|job| job.live.started_at), jobs))
    }

    pub(super) async fn renew(&self, leases: Vec<Renew>) -> Result<Vec<Renewed>, Error> {
        match &self.front {
            Some(front) => front.renew(leases).await,
            None => self.store.renew(leases).await,
        }
    }

    pub(super) async fn seal(&self, group: GroupId) -> Result<bool, Error> {
        if let Some(front) = &self.front {
            return front.seal(group).await;
        }
        let applied = self.store.apply(vec![Write::Seal(group)]).await?.into_inner();
        Ok(matches!(applied.first(), Some(Applied::Yes(_))))
    }

    /// The result of a job, from a front.
    pub(super) async fn result(
        &self,
        front: &dyn Front,
        id: JobId,
        at_most: Span,
    ) -> Result<Option<Payload>, Error> {
        let asleep = self.falls_asleep(Sleeper::Result(id));
        let result = front.result(id, at_most).await;
        drop(asleep);
        result
    }

    fn falls_asleep(&self, sleeper: Sleeper) -> Asleep {
        let mut scene = self.scene();
        let n = scene.known.asleep.last_key_value().map_or(0, |(n, _)| n + 1);
        scene.known.asleep.insert(n, sleeper);
        drop(scene);
        Asleep(self.clone(), n)
    }
}
