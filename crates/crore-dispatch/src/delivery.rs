//! Delivers one job by HTTP POST, and settles the job and the state of the worker by its response.

use std::sync::Arc;
use std::time::Duration;

use crore::finish::Finish;
use crore_core::job::DEFAULT_LEASE;
use crore_core::machine::{Outcome, Report, RetryDirective};
use crore_core::{Job, Name};
use crore_outbound::Target;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::handle::DispatcherState;
use crate::request;
use crate::response::WorkerResponse;
use crate::roster::FailureState;

impl DispatcherState {
    /// Posts a job to a worker and settles the delivery, unless the delivery ends another way first.
    pub(crate) async fn deliver(
        self: Arc<Self>,
        (id, target): (Name, Target),
        job: Job,
        ended: oneshot::Receiver<()>,
    ) {
        let (protocol, secrets) = (&*self.protocol, &self.secrets);
        let posted = request::post(protocol, &self.outbound, &target, &job, secrets);
        // A run without a timeout is ended by its lease.
        let limit = job.spec.timeout.or(job.spec.lease).unwrap_or(DEFAULT_LEASE);
        let response = tokio::select! {
            response = timeout(limit.into(), posted) => response,
            // The worker reported through the door. If the worker left, its response still counts.
            Ok(()) = ended => return,
        };
        let settled = match response {
            Ok(response) => self.settle(&id, &job, response).await,
            // The worker hangs. The engine ends the delivery by its timeout or lease.
            Err(_) => {
                tracing::warn!(worker = %id, job = %job.id, "push worker timed out");
                self.note_failure(&id).await;
                Ok(())
            }
        };
        if let Err(error) = settled {
            // The lease ends, and the job is given to another worker.
            tracing::warn!(%error, job = %job.id, "outcome of a push worker was not stored");
        }
    }

    async fn settle(
        &self,
        id: &Name,
        job: &Job,
        response: WorkerResponse,
    ) -> Result<(), crore::Error> {
        let now = Instant::now();
        let report = match response {
            WorkerResponse::Accepted => {
                self.roster().answered(id);
                if job.spec.lease.is_none() {
                    // Fire and forget: the job is done when it is handed over.
                    self.engine.deliveries().handed_over(job.id, job.live.delivery).await?;
                    self.release(job.id, job.live.delivery);
                }
                return Ok(());
            }
            WorkerResponse::Ended(report) => {
                self.roster().answered(id);
                report
            }
            WorkerResponse::UnknownKind => {
                let until = now + Duration::from(self.options.unknown_for);
                let mut roster = self.roster();
                roster.answered(id);
                roster.exclude_kind(id, job.spec.kind.clone(), until);
                Outcome::Interrupted.into()
            }
            WorkerResponse::Busy(pause) => {
                let mut roster = self.roster();
                roster.answered(id);
                roster.pause(id, now + pause);
                Outcome::Interrupted.into()
            }
            WorkerResponse::Unavailable(why) => {
                tracing::warn!(worker = %id, job = %job.id, %why, "push worker unavailable");
                let line = format!("not delivered: {why}");
                // The log line is best effort: the job is handed back in any case.
                let _ = self.engine.deliveries().line(job.id, job.live.delivery, &line).await;
                self.note_failure(id).await;
                Outcome::Interrupted.into()
            }
        };
        let finished = match self.finish(job, report).await {
            // The result breaks a rule, and would break it again.
            Err(crore::Error::Invalid(invalid)) => {
                let (error, again) = (invalid.to_string().into(), RetryDirective::Never);
                self.finish(job, Outcome::Failed { error, detail: None, again }).await
            }
            finished => finished,
        };
        self.release(job.id, job.live.delivery);
        finished
    }

    /// Reports the outcome of a delivery. A stale report is dropped: an earlier one was accepted.
    pub(crate) async fn finish(
        &self,
        job: &Job,
        report: impl Into<Report>,
    ) -> Result<(), crore::Error> {
        self.engine.finish(Finish::of(job, report)).await.map(drop)
    }

    /// Records a failed request. A worker that fails for too long is removed.
    async fn note_failure(&self, id: &Name) {
        let state = self.roster().failed(id, Instant::now());
        if state == FailureState::Gone {
            tracing::warn!(worker = %id, "push worker removed after failing for too long");
            if let Err(error) = self.engine.workers().remove(id.clone()).await {
                // The next refresh reads the worker from the registry, and it is given jobs again.
                tracing::warn!(%error, worker = %id, "push worker not removed from registry");
            }
        }
    }
}
