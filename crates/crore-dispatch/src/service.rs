//! The loop that gives jobs to push workers.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crore::fetch::Fetch;
use crore_core::machine::Outcome;
use crore_core::{Job, Name, Span};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::handle::{Handle, Shared};
use crate::recovery::ends_at;
use crate::roster::Pick;

/// Minimum duration of a round that found nothing ready.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval of retries after an error of the store.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What one round of the loop did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// It gave this many jobs to workers.
    Gave(usize),
    /// No worker is free.
    NoneFree,
    /// No job is ready.
    NoneReady,
}

/// The loop.
#[derive(Debug)]
pub struct Service {
    shared: Arc<Shared>,
    deliveries: JoinSet<()>,
    refresh_at: Instant,
    inspect_at: Instant,
}

impl Service {
    /// The loop of a dispatcher, which has one.
    pub fn new(handle: &Handle) -> Self {
        let shared = Arc::clone(&handle.shared);
        let now = Instant::now();
        Self { shared, deliveries: JoinSet::new(), refresh_at: now, inspect_at: now }
    }

    /// Gives jobs to workers until `shutdown`; then it takes no more jobs, and waits up to
    /// [`Options::drain_time`](crate::Options::drain_time) for pending responses. Jobs that workers accepted stay with them.
    pub async fn run(mut self, shutdown: impl Future<Output = ()> + Send) {
        let mut shutdown = pin!(shutdown);
        let shared = Arc::clone(&self.shared);
        loop {
            let began = Instant::now();
            let mut running = pin!(self.run_once());
            // A round is never dropped: a job that it fetches at that moment would wait for its lease to end.
            let round = tokio::select! {
                biased;
                () = &mut shutdown => {
                    // It ends soon: the engine hands out nothing any more.
                    let _ = running.await;
                    break;
                }
                round = &mut running => round,
            };
            let next_at = match round {
                Ok(Round::Gave(_)) => continue,
                // The round has waited already, unless the engine hands out nothing any more.
                Ok(Round::NoneReady) => began + PAUSE,
                Ok(Round::NoneFree) => shared.free_at(),
                Err(crore::Error::Stopping) => break,
                Err(error) => {
                    tracing::warn!(%error, "push workers wait for the store");
                    Instant::now() + RETRY_AFTER
                }
            };
            tokio::select! {
                () = &mut shutdown => break,
                _ = timeout_at(next_at, shared.changed.notified()) => {}
            }
        }
        let all = async { while self.deliveries.join_next().await.is_some() {} };
        if timeout(shared.options.drain_time.into(), all).await.is_err() {
            tracing::warn!("some push workers had not answered yet");
        }
    }

    /// One round: free workers are given ready jobs, the least loaded worker first. If no job is ready, it waits for
    /// one.
    pub async fn run_once(&mut self) -> Result<Round, crore::Error> {
        while self.deliveries.try_join_next().is_some() {}
        self.refresh().await?;
        self.inspect().await?;
        let picks = self.shared.roster().picks(Instant::now());
        for pick in &picks {
            match self.give(pick, Span::ZERO).await? {
                0 if pick.excluded.is_empty() => break,
                0 => {}
                gave => return Ok(Round::Gave(gave)),
            }
        }
        let takes_all = picks.iter().find(|pick| pick.excluded.is_empty());
        let (pick, wait) = match (takes_all, picks.first()) {
            (Some(pick), _) => (pick, self.shared.options.refresh_every),
            // Jobs of a new kind are noticed by then.
            (None, Some(pick)) => (pick, RETRY_AFTER.into()),
            (None, None) => return Ok(Round::NoneFree),
        };
        match self.give(pick, wait).await? {
            0 => Ok(Round::NoneReady),
            gave => Ok(Round::Gave(gave)),
        }
    }

    /// Gives a worker ready jobs, waiting for one if there is none; returns their number.
    async fn give(&mut self, pick: &Pick, wait: Span) -> Result<usize, crore::Error> {
        let Some(kinds) = self.shared.kinds(pick).await? else {
            // Every kind with jobs is excluded for this worker.
            let _ = timeout(wait.into(), self.shared.changed.notified()).await;
            return Ok(0);
        };
        let ask = Fetch::new(self.shared.queue()?, pick.worker.clone());
        let ask = Fetch { kinds, n: pick.n, wait, ..ask };
        let jobs = self.shared.engine.fetch(ask).await?;
        let gave = jobs.len();
        for job in jobs {
            if let Err(error) = self.hand_over(&pick.worker, &job).await {
                // Its lease ends.
                tracing::warn!(%error, job = %job.id, "a job was not handed back");
            }
        }
        Ok(gave)
    }

    async fn hand_over(&mut self, id: &Name, job: &Job) -> Result<(), crore::Error> {
        let worker = {
            let mut roster = self.shared.roster();
            let worker = roster.get(id).cloned();
            worker.zip(roster.give(id, (job.id, job.live.delivery), ends_at(job)))
        };
        match worker {
            Some((worker, ended)) => {
                let shared = Arc::clone(&self.shared);
                let delivery = shared.deliver((id.clone(), worker.target), job.clone(), ended);
                self.deliveries.spawn(delivery);
                Ok(())
            }
            // The worker left while the job was fetched for it.
            None => self.shared.finish(job, Outcome::Interrupted).await,
        }
    }

    /// Reads the registry again when it is time.
    async fn refresh(&mut self) -> Result<(), crore::Error> {
        let now = Instant::now();
        if self.refresh_at <= now && self.shared.refresh().await? {
            self.refresh_at = now + Duration::from(self.shared.options.refresh_every);
        }
        Ok(())
    }

    /// Frees the slots of deliveries that ended without a report to the door. Overdue deliveries are inspected, and all
    /// of them once a second while no worker is free.
    async fn inspect(&mut self) -> Result<(), crore::Error> {
        let now = Instant::now();
        let held = {
            let mut roster = self.shared.roster();
            if self.inspect_at <= now && roster.picks(now).is_empty() {
                self.inspect_at = now + RETRY_AFTER;
                roster.held()
            } else {
                roster.overdue(now)
            }
        };
        self.shared.release_ended(held).await
    }
}
