//! Results of jobs.

use crore::EndedJob;
use crore_core::{Code, Job, JobId, Span};

use crate::{Api, Fault, Grant, Scope};

impl Api {
    /// Waits for a job to end; `None` if it has not ended in time. A read-once result is consumed.
    ///
    /// A shutdown ends the wait, but a job that has already ended is still returned. Waiting and consuming are two
    /// steps, so that a cancelled wait consumes nothing.
    pub async fn wait_for_job(
        &self,
        grant: &Grant,
        id: JobId,
        wait: Span,
    ) -> Result<Option<EndedJob>, Fault> {
        self.check_result(grant, id).await?;
        let engine = self.engine();
        let ended = match engine.results().wait_for_end(id, Span::ZERO).await? {
            Some(ended) => Some(ended),
            None => tokio::select! {
                ended = engine.results().wait_for_end(id, wait) => ended?,
                () = self.closing() => None,
            },
        };
        let Some(ended) = ended else { return Ok(None) };
        let result = engine.results().take(id).await?;
        Ok(Some(EndedJob { result, ..ended }))
    }

    /// Refuses the result of a job to callers that may not have it: it needs the scope `read`, or `push` and a token of
    /// the same name as the one that pushed the job or its parent. A missing job is left to the call.
    pub async fn check_result(&self, grant: &Grant, id: JobId) -> Result<(), Fault> {
        if grant.has(Scope::Read) && grant.only().is_none() {
            return Ok(());
        }
        let Some(job) = self.engine().get(id).await? else { return Ok(()) };
        grant.check_job(&job.spec)?;
        if grant.has(Scope::Read) || self.is_pusher(grant, &job).await? {
            return Ok(());
        }
        let why = format!(
            "the result of job {id} needs the scope `read`, or the scope `push` and a token with the same \
             name as the token that pushed the job"
        );
        Err(Fault::new(Code::ScopeMissing, why))
    }

    /// Whether a token of the caller's name pushed the job or its parent, and may push.
    pub(super) async fn is_pusher(&self, grant: &Grant, job: &Job) -> Result<bool, crore::Error> {
        let owns = |job: &Job| job.spec.pusher.is_some() && job.spec.pusher == grant.owner();
        if !grant.has(Scope::Push) || owns(job) {
            return Ok(grant.has(Scope::Push));
        }
        let Some((parent, _)) = job.spec.parent else { return Ok(false) };
        Ok(self.engine().get(parent).await?.is_some_and(|parent| owns(&parent)))
    }
}
