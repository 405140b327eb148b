//! The interface that callers use: the store itself, or an engine over it.

use std::fmt::Debug;
use std::pin::Pin;

use crore_core::machine::JobEvent;
use crore_core::{Batch, GroupId, Job, JobId, Name, Payload, Span, Time};
use crore_store::jobs::{Applied, Claim, Pushed, PushedBatch, Renew, Renewed, StoreWrite};
use crore_store::registry::Define;
use crore_store::{Error, StoreFuture};
use crore_testkit::history::op::AdminAction;

use super::context::CallerLink;

/// The result of a program's own code, which need not be `Send`.
pub type LocalResult<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + 'a>>;

/// An engine over a store, which callers use instead of the store. It decides, writes, wakes callers
/// and does upkeep by itself.
pub trait SimulatedEngine: Debug {
    /// Pushes a batch.
    fn push(&self, batch: Batch) -> StoreFuture<'_, PushedBatch>;

    /// Fetches jobs; if there are none, waits up to `wait` for the first one.
    fn fetch(&self, ask: Claim, wait: Span) -> StoreFuture<'_, Vec<Job>>;

    /// Renews leases.
    fn renew(&self, leases: Vec<Renew>) -> StoreFuture<'_, Vec<Renewed>>;

    /// A worker reports an event of a delivery: finished, or handed over.
    fn report_event(&self, id: JobId, event: JobEvent) -> StoreFuture<'_, EventResult>;

    /// An admin action on a job.
    fn admin(&self, id: JobId, want: AdminAction) -> StoreFuture<'_, EventResult>;

    /// Runs one job of a queue, if there is one. This and the next two methods record their calls in the
    /// history themselves.
    fn pop(&self, queue: Name) -> LocalResult<'_>;

    /// Runs about `n` jobs of some queues, for at most this long.
    fn work(&self, queues: Vec<Name>, n: u64, at_most: Span) -> LocalResult<'_>;

    /// An admin action on all jobs of a queue, or on all jobs.
    fn admin_all(&self, queue: Option<Name>, want: AdminAction) -> StoreFuture<'_, ()>;

    /// The result of a job; waits up to `at_most` for it.
    fn result(&self, id: JobId, at_most: Span) -> StoreFuture<'_, Option<Payload>>;

    /// Seals a group; returns whether it was open.
    fn seal(&self, group: GroupId) -> StoreFuture<'_, bool>;

    /// Sets or removes a definition, if the engine supports it. The engine records what it has the store
    /// define: see [`super::SimulatedStore::record_to`].
    fn define(&self, define: Define) -> StoreFuture<'_, ()>;

    /// When upkeep is due next.
    fn upkeep_at(&self) -> Time;

    /// Does the upkeep that is due.
    fn upkeep_once(&self) -> StoreFuture<'_, ()>;
}

/// The result of an event or admin action on a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventResult {
    /// Applied.
    Yes {
        /// Whether the job runs, and was asked to stop.
        asked: bool,
        /// Result of each follow-up.
        pushed: Vec<Pushed>,
    },
    /// It changed nothing.
    No,
    /// No such job.
    NotFound,
}

/// A caller that waits at an engine.
#[derive(Debug, Clone)]
pub(super) enum EngineWaiter {
    /// For the jobs of this claim.
    Fetch(Box<Claim>),
    /// For this job to end.
    Result(JobId),
}

/// Registers a waiter until it is dropped.
#[derive(Debug)]
struct WaiterGuard(CallerLink, u64);

impl Drop for WaiterGuard {
    fn drop(&mut self) {
        self.0.context().knowledge.waiters.remove(&self.1);
    }
}

impl CallerLink {
    pub(super) async fn push(&self, batch: Batch) -> Result<PushedBatch, Error> {
        match &self.engine {
            Some(engine) => engine.push(batch).await,
            None => Ok(self.store.push(batch).await?.into_inner()),
        }
    }

    /// Fetches jobs; also returns the store's time, if known. Only an engine supports waiting.
    pub(super) async fn fetch(
        &self,
        ask: Claim,
        wait: Span,
    ) -> Result<(Option<Time>, Vec<Job>), Error> {
        let Some(engine) = &self.engine else {
            let claimed = self.store.claim(ask).await?;
            return Ok((Some(claimed.now), claimed.jobs));
        };
        let asleep = self.register_waiter(EngineWaiter::Fetch(Box::new(ask.clone())));
        let jobs = engine.fetch(ask, wait).await?;
        drop(asleep);
        Ok((jobs.first().map(|job| job.live.started_at), jobs))
    }

    pub(super) async fn renew(&self, leases: Vec<Renew>) -> Result<Vec<Renewed>, Error> {
        match &self.engine {
            Some(engine) => engine.renew(leases).await,
            None => self.store.renew(leases).await,
        }
    }

    pub(super) async fn seal(&self, group: GroupId) -> Result<bool, Error> {
        if let Some(engine) = &self.engine {
            return engine.seal(group).await;
        }
        let applied = self.store.apply(vec![StoreWrite::Seal(group)]).await?.into_inner();
        Ok(matches!(applied.first(), Some(Applied::Yes(_))))
    }

    /// The result of a job, from an engine.
    pub(super) async fn result(
        &self,
        engine: &dyn SimulatedEngine,
        id: JobId,
        at_most: Span,
    ) -> Result<Option<Payload>, Error> {
        let asleep = self.register_waiter(EngineWaiter::Result(id));
        let result = engine.result(id, at_most).await;
        drop(asleep);
        result
    }

    fn register_waiter(&self, sleeper: EngineWaiter) -> WaiterGuard {
        let mut context = self.context();
        let n = context.knowledge.waiters.last_key_value().map_or(0, |(n, _)| n + 1);
        context.knowledge.waiters.insert(n, sleeper);
        drop(context);
        WaiterGuard(self.clone(), n)
    }
}
