//! `/done`: a worker reports.

use axum::extract::State;
use axum::response::Response;
use crore::finish::{Finish, Finished};
use crore_api::Fault;
use crore_api::negotiation::Reply;
use crore_core::job::Ended;
use crore_core::{Code, Delivery, Invalid, Job, Name, State as Standing};
use crore_wire::api::Id;

use super::body::Read;
use super::job::missing;
use super::translate::{self, QUEUE};
use super::words::Report;
use super::worker;
use crate::Doors;

/// A worker reports how a job went. The report is about the delivery that the worker has now, unless it
/// repeats the number that came with the job.
#[utoipa::path(
    post, path = "/done", operation_id = "lightjqDone", tag = "lightjq",
    params(("worker-id" = String, Header, description = "The worker.")),
    request_body = Report,
    responses((status = 204, description = "It is kept.")),
)]
pub(super) async fn done(
    State(doors): State<Doors>,
    body: Read<Report>,
) -> Result<Response, Fault> {
    let worker = worker::id(&body.parts.headers)?;
    let report = body.value;
    let needed = || Invalid::new(Code::Malformed, "job_id", "missing field `job_id`");
    let text = report.job_id.clone().ok_or_else(needed)?;
    let unknown = || Fault::new(Code::NotFound, "this job is not there");
    let id = text.parse::<Id>().map_err(|_| unknown())?.into();
    let delivery = report.delivery.map(Delivery::from);
    let outcome = translate::outcome(report)?;
    let job = doors.engine().get(id).await?.filter(|job| job.spec.queue.as_str() == QUEUE);
    let job = job.ok_or_else(|| missing(id))?;
    if !has(&job, &worker, delivery) {
        return if has_told(&job, &worker, delivery) {
            Ok(Reply::nothing())
        } else {
            Err(Fault::new(Code::NotFound, format!("job {id} is not with this worker")))
        };
    }
    let finished = doors.engine().finish(Finish::of(&job, outcome)).await.map_err(shorter)?;
    match finished {
        Finished::Yes { .. } => {
            doors.workers().reported(id, job.live.delivery);
            Ok(Reply::nothing())
        }
        Finished::Stale => Err(Fault::new(Code::NotFound, format!("job {id} is over"))),
        Finished::NotFound => Err(missing(id)),
    }
}

/// Whether a worker has a job now, under this delivery if it says one.
fn has(job: &Job, worker: &Name, delivery: Option<Delivery>) -> bool {
    job.live.state == Standing::Running
        && job.live.worker.as_ref() == Some(worker)
        && delivery.is_none_or(|delivery| delivery == job.live.delivery)
}

/// Whether a worker has reported on a job before: who did not hear the answer says it again.
fn has_told(job: &Job, worker: &Name, delivery: Option<Delivery>) -> bool {
    job.live.history.iter().any(|attempt| {
        attempt.worker.as_ref() == Some(worker)
            && matches!(attempt.ended, Ended::Done | Ended::Failed)
            && delivery.is_none_or(|delivery| delivery == attempt.delivery)
    })
}

/// There is only one report, and the caller has not numbered it.
fn shorter(error: crore::Error) -> crore::Error {
    match error {
        crore::Error::Invalid(mut invalid) => {
            if let Some(field) = invalid.field.strip_prefix("finishes[0].") {
                invalid.field = if field == "detail" { "error" } else { field }.to_owned();
            }
            crore::Error::Invalid(invalid)
        }
        other => other,
    }
}
