//! The loop that gives jobs to push workers.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crore::fetch::Fetch;
use crore_core::machine::Outcome;
use crore_core::{Job, Name, Span};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::handle::{Handle, Shared};
use super::recall::ends_at;
use super::roster::Pick;
use crate::lightjq::translate::QUEUE;

/// How long a round takes at least in which nothing was to be had.
const PAUSE: Duration = Duration::from_millis(100);
/// What is wrong with a store may be over by then.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What one round of the loop did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// It gave so many jobs to workers.
    Gave(usize),
    /// There is nobody to give one to.
    NobodyFree,
    /// There is nothing to give.
    NothingReady,
}

/// The loop.
#[derive(Debug)]
pub struct Service {
    shared: Arc<Shared>,
    exchanges: JoinSet<()>,
    refresh_at: Instant,
    look_at: Instant,
}

impl Service {
    /// The loop of a handle. Each handle has one.
    pub fn new(handle: &Handle) -> Self {
        let shared = Arc::clone(&handle.shared);
        let now = Instant::now();
        Self { shared, exchanges: JoinSet::new(), refresh_at: now, look_at: now }
    }

    /// Gives jobs to workers until it is told to stop; then it takes nothing new, and waits a while for
    /// the answers that are on their way. What was accepted by a worker stays with it.
    pub async fn run(mut self, shutdown: impl Future<Output = ()> + Send) {
        let mut shutdown = pin!(shutdown);
        let shared = Arc::clone(&self.shared);
        loop {
            let began = Instant::now();
            let mut round = pin!(self.run_once());
            // A round is never dropped: a job that it takes just then would wait for its lease to end.
            let did = tokio::select! {
                biased;
                () = &mut shutdown => {
                    // What it does wait for is not long in coming: the engine is quiet by now.
                    let _ = round.await;
                    break;
                }
                did = &mut round => did,
            };
            let rest = match did {
                Ok(Did::Gave(_)) => continue,
                // It has waited already, unless the engine hands out nothing any more.
                Ok(Did::NothingReady) => began + PAUSE,
                Ok(Did::NobodyFree) => shared.until_somebody_may_be_free(),
                Err(crore::Error::Stopping) => break,
                Err(error) => {
                    tracing::warn!(%error, "push workers wait for the store");
                    Instant::now() + AGAIN_AFTER
                }
            };
            tokio::select! {
                () = &mut shutdown => break,
                _ = timeout_at(rest, shared.changed.notified()) => {}
            }
        }
        let all = async { while self.exchanges.join_next().await.is_some() {} };
        if timeout(shared.options.drain_time.into(), all).await.is_err() {
            tracing::warn!("some push workers had not answered yet");
        }
    }

    /// One round: whoever is free is given what is ready, the freest first; if nothing is, it waits for
    /// something.
    pub async fn run_once(&mut self) -> Result<Did, crore::Error> {
        while self.exchanges.try_join_next().is_some() {}
        self.refresh().await?;
        self.look_after().await?;
        let picks = self.shared.roster().picks(Instant::now());
        for pick in &picks {
            match self.give(pick, Span::ZERO).await? {
                0 if pick.unknown.is_empty() => break,
                0 => {}
                gave => return Ok(Did::Gave(gave)),
            }
        }
        let knows_all = picks.iter().find(|pick| pick.unknown.is_empty());
        let (pick, wait) = match (knows_all, picks.first()) {
            (Some(pick), _) => (pick, self.shared.options.refresh_every),
            // A kind that was never seen before is noticed then.
            (None, Some(pick)) => (pick, AGAIN_AFTER.into()),
            (None, None) => return Ok(Did::NobodyFree),
        };
        match self.give(pick, wait).await? {
            0 => Ok(Did::NothingReady),
            gave => Ok(Did::Gave(gave)),
        }
    }

    /// Gives a worker what is ready, or as soon as something is; gives how many jobs that were.
    async fn give(&mut self, pick: &Pick, wait: Span) -> Result<usize, crore::Error> {
        let Some(kinds) = self.shared.kinds(pick).await? else {
            // Nothing that it could be asked about is there at all.
            let _ = timeout(wait.into(), self.shared.changed.notified()).await;
            return Ok(0);
        };
        let ask = Fetch::new(Name::new("queue", QUEUE)?, pick.worker.clone());
        let ask = Fetch { kinds, n: pick.n, wait, ..ask };
        let jobs = self.shared.engine.fetch(ask).await?;
        let gave = jobs.len();
        for job in jobs {
            if let Err(error) = self.hand_over(&pick.worker, &job).await {
                // Its lease will end.
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
            Some((worker, over)) => {
                let shared = Arc::clone(&self.shared);
                let told = shared.exchange((id.clone(), worker.target), job.clone(), over);
                self.exchanges.spawn(told);
                Ok(())
            }
            // It has left while this was fetched for it.
            None => self.shared.finish(job, Outcome::Interrupted).await,
        }
    }

    /// Reads the registry, and what its workers have, if that is to be done again.
    async fn refresh(&mut self) -> Result<(), crore::Error> {
        let now = Instant::now();
        if self.refresh_at <= now && self.shared.refresh().await? {
            self.refresh_at = now + Duration::from(self.shared.options.refresh_every);
        }
        Ok(())
    }

    /// Frees the places of jobs that have come to their end without a word to this door. That is looked
    /// for when it should have happened; and every now and then, if nobody is free.
    async fn look_after(&mut self) -> Result<(), crore::Error> {
        let now = Instant::now();
        let held = {
            let mut roster = self.shared.roster();
            if self.look_at <= now && roster.picks(now).is_empty() {
                self.look_at = now + AGAIN_AFTER;
                roster.held()
            } else {
                roster.overdue(now)
            }
        };
        self.shared.look_at(held).await
    }
}
