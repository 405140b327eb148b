//! Replays of jobs.

use std::sync::Arc;

use crore::IdempotencyKey;
use crore::store::jobs::JobSelector;
use crore_core::{Code, Invalid, Job, JobId, ReplayEdits};
use crore_wire::api::push::PushStatus;

use super::push::pushed;
use crate::telemetry::inherit;
use crate::{Api, Fault, Grant, Scope};

/// A replay of a job, as its caller requested it.
#[derive(Debug)]
pub struct ReplayCall<'a> {
    /// The original.
    pub original: JobSelector,
    /// The edits.
    pub edits: &'a ReplayEdits,
    /// The idempotency key.
    pub key: Option<&'a IdempotencyKey>,
    /// The trace context of the call.
    pub context: Option<&'a Arc<str>>,
}

impl Api {
    /// Pushes a replay of a job, and returns its id and whether it is new. The caller needs to read the original, and to
    /// push the replay. A mask in the new payload stands for the value of the original.
    pub async fn replay_job(
        &self,
        grant: &Grant,
        call: ReplayCall<'_>,
    ) -> Result<(JobId, PushStatus), Fault> {
        let original = self.stored_job(grant, call.original).await?;
        self.check_original(grant, &original).await?;
        let mut replay = call.edits.replay(&original)?;
        replay.spec.payload = self.mask().restored(replay.spec.payload, &original.spec.payload);
        inherit(&mut replay.spec, call.context);
        let pushes = self.push(grant, replay.into(), call.key).await?;
        let result = pushes.jobs.into_iter().next();
        let nothing = || Fault::new(Code::Refused, "nothing was pushed");
        Ok(pushed(0, result.ok_or_else(nothing)?).map_err(without_index)?)
    }

    /// Refuses an original that the caller may not read: it needs the scope `read`, or a token with the same name as the
    /// one that pushed the job or its parent.
    async fn check_original(&self, grant: &Grant, job: &Job) -> Result<(), Fault> {
        if grant.has(Scope::Read) || self.is_pusher(grant, job).await? {
            return Ok(());
        }
        let why = format!(
            "a replay of job {} needs the scope `read`, or a token with the same name as the token that pushed the job",
            job.id
        );
        Err(Fault::new(Code::ScopeMissing, why))
    }
}

/// A single job has no index: report `payload`, not `jobs[0].payload`.
fn without_index(mut invalid: Invalid) -> Invalid {
    if let Some(field) = invalid.field.strip_prefix("jobs[0].") {
        invalid.field = field.to_owned();
    }
    invalid
}
