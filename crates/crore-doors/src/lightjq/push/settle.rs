//! What becomes of a job, and of its worker, when the worker was told of it.

use std::sync::Arc;
use std::time::Duration;

use crore::finish::Finish;
use crore_core::job::DEFAULT_LEASE;
use crore_core::machine::{Again, Outcome};
use crore_core::{Job, Name};
use crore_outbound::Target;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::answer::Answer;
use super::exchange;
use super::handle::Shared;
use super::roster::Standing;

impl Shared {
    /// Tells a worker a job, and sees to what it answers; or until that is over for another reason.
    pub(super) async fn exchange(
        self: Arc<Self>,
        (id, target): (Name, Target),
        job: Job,
        over: oneshot::Receiver<()>,
    ) {
        let trace = self.trace_headers(&job);
        let secrets = self.options.secrets();
        let told = exchange::tell(&self.outbound, &target, &job, trace, &secrets);
        // A run without a timeout is ended by its lease.
        let limit = job.spec.timeout.or(job.spec.lease).unwrap_or(DEFAULT_LEASE);
        let answer = tokio::select! {
            answer = timeout(limit.into(), told) => answer,
            // It was reported meanwhile. A worker that has left may still answer.
            Ok(()) = over => return,
        };
        let settled = match answer {
            Ok(answer) => self.settle(&id, &job, answer).await,
            // The job has timed out, which is the engine's to say; and its worker hangs.
            Err(_) => {
                tracing::warn!(worker = %id, job = %job.id, "a push worker did not answer in time");
                self.is_absent(&id).await;
                Ok(())
            }
        };
        if let Err(error) = settled {
            // Its lease will end, and it is given to somebody else then.
            tracing::warn!(%error, job = %job.id, "a push worker's answer was not kept");
        }
    }

    async fn settle(&self, id: &Name, job: &Job, answer: Answer) -> Result<(), crore::Error> {
        let now = Instant::now();
        let outcome = match answer {
            Answer::Accepted => {
                self.roster().heard(id);
                if job.spec.lease.is_none() {
                    // Fire and forget: it is done when it is handed over.
                    self.engine.handed_over(job.id, job.live.delivery).await?;
                    self.release(job.id, job.live.delivery);
                }
                return Ok(());
            }
            Answer::Over(outcome) => {
                self.roster().heard(id);
                outcome
            }
            Answer::Unknown => {
                let mut roster = self.roster();
                roster.heard(id);
                roster.does_not_know(
                    id,
                    job.spec.kind.clone(),
                    now + Duration::from(self.options.unknown_for),
                );
                Outcome::Interrupted
            }
            Answer::Busy(span) => {
                let mut roster = self.roster();
                roster.heard(id);
                roster.rest(id, now + span);
                Outcome::Interrupted
            }
            Answer::Absent(why) => {
                tracing::warn!(worker = %id, job = %job.id, %why, "a push worker is not available");
                let line = format!("not delivered: {why}");
                // For people: whether it is kept or not, the job is handed back.
                let _ = self.engine.line(job.id, job.live.delivery, &line).await;
                self.is_absent(id).await;
                Outcome::Interrupted
            }
        };
        let finished = match self.finish(job, outcome).await {
            // What it gave breaks a rule, and would break it again.
            Err(crore::Error::Invalid(invalid)) => {
                let (error, again) = (invalid.to_string().into(), Again::Never);
                self.finish(job, Outcome::Failed { error, detail: None, again }).await
            }
            finished => finished,
        };
        self.release(job.id, job.live.delivery);
        finished
    }

    /// Reports how a delivery went. If it does not count any more, whoever was faster was right.
    pub(super) async fn finish(&self, job: &Job, outcome: Outcome) -> Result<(), crore::Error> {
        self.engine.finish(Finish::of(job, outcome)).await.map(drop)
    }

    /// A worker has not answered. If that has been so for long, it is gone.
    async fn is_absent(&self, id: &Name) {
        let standing = self.roster().failed(id, Instant::now());
        if standing == Standing::Gone {
            tracing::warn!(worker = %id, "a push worker is gone");
            if let Err(error) = self.engine.remove_worker(id.clone()).await {
                // It is read again from the registry, and tried again.
                tracing::warn!(%error, worker = %id, "a push worker could not be forgotten");
            }
        }
    }
}
