//! `/done`: reports of push workers.

use axum::extract::State;
use axum::response::Response;
use crore::finish::{Finish, FinishResult};
use crore_api::negotiation::Responder;
use crore_api::{Fault, Grant};
use crore_core::job::DeliveryEnd;
use crore_core::{Code, Delivery, Invalid, Job, Name, State as Standing};
use crore_wire::api::Id;

use super::body::DecodedBody;
use super::job::missing;
use super::messages::LightJqReport;
use super::translate::{self, QUEUE};
use super::worker;
use crate::Doors;

/// Reports the outcome of a job. The report is about the worker's current delivery of the job, unless it repeats the
/// delivery number that came with the job.
#[utoipa::path(
    post, path = "/done", operation_id = "lightjqDone", tag = "lightjq",
    params(("worker-id" = String, Header, description = "The worker.")),
    request_body = LightJqReport,
    responses((status = 204, description = "The report was stored.")),
)]
pub(super) async fn done(
    State(doors): State<Doors>,
    grant: Grant,
    body: DecodedBody<LightJqReport>,
) -> Result<Response, Fault> {
    let worker = worker::id(&body.parts.headers)?;
    let report = body.value;
    let needed = || Invalid::new(Code::Malformed, "job_id", "missing field `job_id`");
    let text = report.job_id.clone().ok_or_else(needed)?;
    let unknown = || Fault::new(Code::NotFound, "job not found");
    let id = text.parse::<Id>().map_err(|_| unknown())?.into();
    let delivery = report.delivery.map(Delivery::from);
    let report = translate::report(report)?;
    let job = doors.engine().get(id).await?.filter(|job| job.spec.queue.as_str() == QUEUE);
    let job = job.ok_or_else(|| missing(id))?;
    grant.check_job(&job.spec)?;
    if !holds_job(&job, &worker, delivery) {
        return if has_reported(&job, &worker, delivery) {
            Ok(Responder::no_content())
        } else {
            Err(Fault::new(Code::NotFound, format!("job {id} is not held by this worker")))
        };
    }
    let finished = doors.engine().finish(Finish::of(&job, report)).await.map_err(without_index)?;
    match finished {
        FinishResult::Accepted { .. } => {
            doors.push_worker_handle().reported(id, job.live.delivery);
            Ok(Responder::no_content())
        }
        FinishResult::Stale => {
            Err(Fault::new(Code::NotFound, format!("job {id} has already ended")))
        }
        FinishResult::NotFound => Err(missing(id)),
    }
}

/// Whether the worker holds the job now, under this delivery if it names one.
fn holds_job(job: &Job, worker: &Name, delivery: Option<Delivery>) -> bool {
    job.live.state == Standing::Running
        && job.live.worker.as_ref() == Some(worker)
        && delivery.is_none_or(|delivery| delivery == job.live.delivery)
}

/// Whether the worker has already reported this job; a worker that missed the response repeats its report.
fn has_reported(job: &Job, worker: &Name, delivery: Option<Delivery>) -> bool {
    job.live.history.iter().any(|attempt| {
        attempt.worker.as_ref() == Some(worker)
            && matches!(attempt.ended, DeliveryEnd::Done | DeliveryEnd::Failed)
            && delivery.is_none_or(|delivery| delivery == attempt.delivery)
    })
}

/// A single report has no index: removes it from the field name.
fn without_index(error: crore::Error) -> crore::Error {
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
