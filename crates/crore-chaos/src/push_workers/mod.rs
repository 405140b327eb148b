//! Push workers: HTTP servers to which the server posts jobs. They outlive the server, and learn of its end only
//! because it posts no more.
//!
//! ```text
//! worker    a push worker: its address, its registrations, its deliveries and pending reports
//! session   receives and records jobs while one server process runs
//! response  how a worker responds to a job
//! report    registers, deregisters and sends reports, some of them twice
//! ```

mod report;
mod response;
mod session;
mod worker;

use std::sync::Arc;

use crore_testkit::{Error, SeededRng};
use tokio::task::JoinSet;

use self::session::PushWorkerSession;
use self::worker::ChaosPushWorker;
use crate::calls::RecordingCaller;
use crate::context::ChaosContext;

/// The queue of all posted jobs.
pub(crate) const QUEUE: &str = "lightjq";
/// Number of workers, besides one that does not listen.
const WORKERS: usize = 3;
/// Concurrent jobs per worker.
const MAX_JOBS: u32 = 3;

/// All push workers of a run.
#[derive(Debug)]
pub(crate) struct PushWorkers {
    workers: Vec<Arc<ChaosPushWorker>>,
    sessions: Vec<PushWorkerSession>,
}

impl PushWorkers {
    pub(crate) fn new(context: &Arc<ChaosContext>, rng: &mut SeededRng) -> Result<Self, Error> {
        let name = |n| if n < WORKERS { format!("posted-{n}") } else { "gone".to_owned() };
        let workers = (0..=WORKERS).map(|n| ChaosPushWorker::new(name(n), context, rng.fork()));
        let workers: Vec<_> = workers.collect::<Result<_, _>>()?;
        // Nothing listens at the address of the last one.
        workers.iter().skip(WORKERS).for_each(|gone| gone.stop_listening());
        Ok(Self { workers, sessions: Vec::new() })
    }

    /// Accepts calls; a server is about to start.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        for worker in &self.workers {
            self.sessions.push(PushWorkerSession::begin(worker)?);
        }
        Ok(())
    }

    /// Starts the clients through which the workers register and report.
    pub(crate) fn start_clients(
        &self,
        caller: impl Fn(&str) -> RecordingCaller,
        rng: &mut SeededRng,
        callers: &mut JoinSet<()>,
    ) {
        for worker in &self.workers {
            let client = caller(worker.name());
            callers.spawn(report::run_client(Arc::clone(worker), client, rng.fork()));
        }
    }

    /// Ends the sessions, after everything that the server has sent was received; the server has exited.
    pub(crate) async fn end(&mut self) {
        for session in self.sessions.drain(..) {
            session.end().await;
        }
    }

    /// Makes all workers behave correctly from now on.
    pub(crate) fn behave(&self) {
        self.workers.iter().for_each(|worker| worker.behave());
    }

    /// Drops these ids, so that their workers register again.
    pub(crate) fn forget(&self, ids: &[String]) {
        self.workers.iter().for_each(|worker| worker.forget(ids));
    }

    /// The ids that the server must know.
    pub(crate) fn registered_ids(&self) -> Vec<String> {
        self.workers.iter().flat_map(|worker| worker.registered_ids()).collect()
    }
}
