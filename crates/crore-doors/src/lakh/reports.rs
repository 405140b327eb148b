//! The reports of a worker. They are read in a task of their own: a worker that has no time to read jobs has
//! something to report.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crore::Engine;
use crore::finish::{Finish, Finished};
use crore::store::jobs::Which;
use crore_core::machine::{Again, Outcome};
use crore_wire::grpc::lakh::{JobResult, JobStatus};
use futures_util::StreamExt;
use futures_util::task::AtomicWaker;
use tokio::sync::oneshot;
use tonic::{Status, Streaming};

use super::names::Names;
use super::reservations::{Key, Reservations};
use super::translate::client_id;
use crate::grpc::failed;

/// How many reports are written at once.
const AT_ONCE: usize = 1000;

/// The leases of a worker, shared by the stream of its jobs and the task that reads its reports.
#[derive(Debug, Default)]
pub(super) struct Hand {
    reservations: Mutex<Reservations>,
    waker: AtomicWaker,
}

impl Hand {
    pub(super) fn reservations(&self) -> MutexGuard<'_, Reservations> {
        self.reservations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `waker` is woken when reports are written.
    pub(super) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }
}

/// Who hears the reports of one worker.
pub(super) struct Reports {
    pub(super) engine: Engine,
    pub(super) names: Names,
    pub(super) hand: Arc<Hand>,
}

impl Reports {
    /// Hears them until the worker has no more or `over` comes; whatever was heard is written. They are written one
    /// lot after the other: the first about a job counts.
    pub(super) async fn hear(
        self,
        comes: Streaming<JobResult>,
        mut over: oneshot::Receiver<()>,
    ) -> Result<(), Status> {
        let mut comes = comes.ready_chunks(AT_ONCE);
        loop {
            let came = tokio::select! {
                biased;
                came = comes.next() => came,
                _ = &mut over => None,
            };
            let Some(came) = came else { return Ok(()) };
            let (mut finishes, mut ends) = (Vec::with_capacity(came.len()), Ok(()));
            for said in came {
                match said {
                    Ok(said) => finishes.extend(self.finish(&said)),
                    Err(status) => ends = Err(status),
                }
            }
            let written = self.write(finishes).await;
            self.hand.reservations().set_reporting(false);
            self.hand.waker.wake();
            written.and(ends)?;
        }
    }

    async fn write(&self, finishes: Vec<Finish>) -> Result<(), Status> {
        if finishes.is_empty() {
            return Ok(());
        }
        let finished = self.engine.deliveries().finish_all(finishes).await.map_err(failed)?;
        let old = finished.iter().filter(|one| !matches!(one, Finished::Yes { .. })).count();
        if old > 0 {
            tracing::info!(reports = old, "reports are ignored: their jobs were reported before");
        }
        Ok(())
    }

    /// A report in our words; `None`: it is none.
    fn finish(&self, said: &JobResult) -> Option<Finish> {
        let ignored = |why: &str| {
            tracing::warn!(id = ?said.job_id, name = ?said.job_name, status = said.status, "a report is ignored: {why}");
            None
        };
        if !self.names.have(&said.job_name) {
            return ignored("its name is not among its call's");
        }
        let outcome = match JobStatus::try_from(said.status) {
            Ok(JobStatus::Succeeded) => Outcome::Done { result: None },
            Ok(JobStatus::Failed) => {
                let error = "its worker reported a failure".into();
                Outcome::Failed { error, detail: None, again: Again::ByPolicy }
            }
            Err(_) => return ignored("there is no such status"),
        };
        let key: Key = (said.job_name.as_str().into(), said.job_id.as_str().into());
        let mut reservations = self.hand.reservations();
        let (job, delivery) = match reservations.get(&key) {
            Some((_, terms)) if !terms.is_reserved() => {
                return ignored("the job has no reservation");
            }
            Some((held, _)) => {
                reservations.release(&key, held);
                (Which::Id(held.id), Some(held.delivery))
            }
            // It was handed to another, or in another life of the server.
            None => match client_id(&said.job_name, &said.job_id) {
                Ok(id) => (Which::Client(id), None),
                Err(_) => return ignored("there is no such job"),
            },
        };
        reservations.set_reporting(true);
        Some(Finish { job, delivery, report: outcome.into() })
    }
}
