//! Reports of a worker. They are read in a task of their own, so that a worker that is not reading jobs can still
//! report.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crore::Engine;
use crore::finish::{Finish, FinishResult};
use crore::store::jobs::JobSelector;
use crore_core::machine::{Outcome, RetryDirective};
use crore_wire::grpc::lakh::{JobResult, JobStatus};
use futures_util::StreamExt;
use futures_util::task::AtomicWaker;
use tokio::sync::oneshot;
use tonic::{Status, Streaming};

use super::names::JobNames;
use super::reservations::{JobKey, Reservations};
use super::translate::client_id;
use crate::grpc::failed;

/// Maximum number of reports in one write.
const MAX_REPORTS: usize = 1000;

/// The leases of a worker, shared by its job stream and the task that reads its reports.
#[derive(Debug, Default)]
pub(super) struct SharedReservations {
    reservations: Mutex<Reservations>,
    waker: AtomicWaker,
}

impl SharedReservations {
    pub(super) fn reservations(&self) -> MutexGuard<'_, Reservations> {
        self.reservations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `waker` is woken after each write of reports.
    pub(super) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }
}

/// Reads the reports of one worker.
pub(super) struct ReportReader {
    pub(super) engine: Engine,
    pub(super) names: Arc<JobNames>,
    pub(super) leases: Arc<SharedReservations>,
}

impl ReportReader {
    /// Reads until the worker has no more reports or `stop` completes, and writes what it has read. Writes are
    /// sequential: the first report about a job counts.
    pub(super) async fn run(
        self,
        reports: Streaming<JobResult>,
        mut stop: oneshot::Receiver<()>,
    ) -> Result<(), Status> {
        let mut reports = reports.ready_chunks(MAX_REPORTS);
        loop {
            let received = tokio::select! {
                biased;
                received = reports.next() => received,
                _ = &mut stop => None,
            };
            let Some(received) = received else { return Ok(()) };
            let (mut finishes, mut result) = (Vec::with_capacity(received.len()), Ok(()));
            for report in received {
                match report {
                    Ok(report) => finishes.extend(self.finish(&report)),
                    Err(status) => result = Err(status),
                }
            }
            let written = self.write(finishes).await;
            self.leases.reservations().set_reporting(false);
            self.leases.waker.wake();
            written.and(result)?;
        }
    }

    async fn write(&self, finishes: Vec<Finish>) -> Result<(), Status> {
        if finishes.is_empty() {
            return Ok(());
        }
        let finished = self.engine.deliveries().finish_all(finishes).await.map_err(failed)?;
        let old =
            finished.iter().filter(|one| !matches!(one, FinishResult::Accepted { .. })).count();
        if old > 0 {
            tracing::info!(reports = old, "reports ignored: jobs already reported");
        }
        Ok(())
    }

    /// A report as a finish; `None`: it is ignored.
    fn finish(&self, report: &JobResult) -> Option<Finish> {
        let ignored = |why: &str| {
            tracing::warn!(id = ?report.job_id, name = ?report.job_name, status = report.status, why, "report ignored");
            None
        };
        if !self.names.contains(&report.job_name) {
            return ignored("job name not in `job_names`");
        }
        let outcome = match JobStatus::try_from(report.status) {
            Ok(JobStatus::Succeeded) => Outcome::Done { result: None },
            Ok(JobStatus::Failed) => {
                let error = "the worker reported a failure".into();
                Outcome::Failed { error, detail: None, again: RetryDirective::ByPolicy }
            }
            Err(_) => return ignored("unknown status"),
        };
        let key: JobKey = (report.job_name.as_str().into(), report.job_id.as_str().into());
        let mut reservations = self.leases.reservations();
        let (job, delivery) = match reservations.get(&key) {
            Some((_, terms)) if !terms.is_reserved() => {
                return ignored("job has no reservation");
            }
            Some((held, _)) => {
                reservations.release(&key, held);
                (JobSelector::Id(held.id), Some(held.delivery))
            }
            // The job was delivered to another worker, or before the server restarted.
            None => match client_id(&report.job_name, &report.job_id) {
                Ok(id) => (JobSelector::Client(id), None),
                Err(_) => return ignored("invalid job id"),
            },
        };
        reservations.set_reporting(true);
        Some(Finish { job, delivery, report: outcome.into() })
    }
}
