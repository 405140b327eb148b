//! The loop that gives jobs to push workers.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crore::fetch::Fetch;
use crore_core::machine::Outcome;
use crore_core::{Job, Name, Span};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::handle::{DispatcherState, Handle};
use crate::recovery::ends_at;
use crate::roster::WorkerPick;

/// Minimum duration of a round that found no ready job.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval of retries after an error of the store.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Result of one round of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchRound {
    /// This many jobs were given to workers.
    Gave(usize),
    /// No worker is free.
    NoneFree,
    /// No job is ready.
    NoneReady,
}

/// The dispatcher's loop.
#[derive(Debug)]
pub struct DispatchService {
    state: Arc<DispatcherState>,
    deliveries: JoinSet<()>,
    refresh_at: Instant,
    inspect_at: Instant,
}

impl DispatchService {
    /// The loop of a dispatcher. Each dispatcher has one.
    pub fn new(handle: &Handle) -> Self {
        let state = Arc::clone(&handle.state);
        let now = Instant::now();
        Self { state, deliveries: JoinSet::new(), refresh_at: now, inspect_at: now }
    }

    /// Gives jobs to workers until `shutdown`; then it takes no more jobs, and waits up to
    /// [`Options::drain_time`](crate::Options::drain_time) for pending responses. Jobs that workers accepted stay
    /// with them.
    pub async fn run(mut self, shutdown: impl Future<Output = ()> + Send) {
        let mut shutdown = pin!(shutdown);
        let state = Arc::clone(&self.state);
        loop {
            let began = Instant::now();
            let mut running = pin!(self.run_once());
            // A round is never dropped: a job that it is fetching would have to wait for its lease to end.
            let round = tokio::select! {
                biased;
                () = &mut shutdown => {
                    // The round ends soon: the engine hands out no more jobs.
                    let _ = running.await;
                    break;
                }
                round = &mut running => round,
            };
            let next_at = match round {
                Ok(DispatchRound::Gave(_)) => continue,
                // The round has waited already, unless the engine hands out no more jobs.
                Ok(DispatchRound::NoneReady) => began + PAUSE,
                Ok(DispatchRound::NoneFree) => state.free_at(),
                Err(crore::Error::Stopping) => break,
                Err(error) => {
                    tracing::warn!(%error, "store error in the dispatcher; retrying");
                    Instant::now() + RETRY_AFTER
                }
            };
            tokio::select! {
                () = &mut shutdown => break,
                _ = timeout_at(next_at, state.changed.notified()) => {}
            }
        }
        let all = async { while self.deliveries.join_next().await.is_some() {} };
        if timeout(state.options.drain_time.into(), all).await.is_err() {
            tracing::warn!("drain timeout passed before all push workers answered");
        }
    }

    /// Runs one round: free workers are given ready jobs, the least loaded worker first. If no job is ready, the
    /// round waits for one.
    pub async fn run_once(&mut self) -> Result<DispatchRound, crore::Error> {
        while self.deliveries.try_join_next().is_some() {}
        self.refresh().await?;
        self.inspect().await?;
        let picks = self.state.roster().picks(Instant::now());
        for pick in &picks {
            match self.give(pick, Span::ZERO).await? {
                0 if pick.excluded.is_empty() => break,
                0 => {}
                gave => return Ok(DispatchRound::Gave(gave)),
            }
        }
        let takes_all = picks.iter().find(|pick| pick.excluded.is_empty());
        let (pick, wait) = match (takes_all, picks.first()) {
            (Some(pick), _) => (pick, self.state.options.refresh_every),
            // A short wait: the fetch names the kinds that exist now, and would miss a job of a new kind.
            (None, Some(pick)) => (pick, RETRY_AFTER.into()),
            (None, None) => return Ok(DispatchRound::NoneFree),
        };
        match self.give(pick, wait).await? {
            0 => Ok(DispatchRound::NoneReady),
            gave => Ok(DispatchRound::Gave(gave)),
        }
    }

    /// Gives a worker ready jobs, waiting for one if there is none; returns their number.
    async fn give(&mut self, pick: &WorkerPick, wait: Span) -> Result<usize, crore::Error> {
        let Some(kinds) = self.state.kinds(pick).await? else {
            // Every kind with jobs is excluded for this worker.
            let _ = timeout(wait.into(), self.state.changed.notified()).await;
            return Ok(0);
        };
        let request = Fetch::new(self.state.queue()?, pick.worker.clone());
        let request = Fetch { kinds, n: pick.n, wait, ..request };
        let jobs = self.state.engine.fetch(request).await?;
        let gave = jobs.len();
        for job in jobs {
            if let Err(error) = self.hand_over(&pick.worker, &job).await {
                // The job is handed out again when its lease ends.
                tracing::warn!(%error, job = %job.id, "cannot return job; it waits until its lease expires");
            }
        }
        Ok(gave)
    }

    async fn hand_over(&mut self, id: &Name, job: &Job) -> Result<(), crore::Error> {
        let worker = {
            let mut roster = self.state.roster();
            let worker = roster.get(id).cloned();
            worker.zip(roster.give(id, (job.id, job.live.delivery), ends_at(job)))
        };
        match worker {
            Some((worker, ended)) => {
                let state = Arc::clone(&self.state);
                let delivery = state.deliver((id.clone(), worker.target), job.clone(), ended);
                self.deliveries.spawn(delivery);
                Ok(())
            }
            // The worker left while the job was fetched for it.
            None => self.state.finish(job, Outcome::Interrupted).await,
        }
    }

    /// Reads the registry again when it is time.
    async fn refresh(&mut self) -> Result<(), crore::Error> {
        let now = Instant::now();
        if self.refresh_at <= now && self.state.refresh().await? {
            self.refresh_at = now + Duration::from(self.state.options.refresh_every);
        }
        Ok(())
    }

    /// Frees the slots of deliveries that ended without a report to the door. Inspects overdue
    /// deliveries, and all deliveries once a second while no worker is free.
    async fn inspect(&mut self) -> Result<(), crore::Error> {
        let now = Instant::now();
        let held = {
            let mut roster = self.state.roster();
            if self.inspect_at <= now && roster.picks(now).is_empty() {
                self.inspect_at = now + RETRY_AFTER;
                roster.held()
            } else {
                roster.overdue(now)
            }
        };
        self.state.release_ended(held).await
    }
}
