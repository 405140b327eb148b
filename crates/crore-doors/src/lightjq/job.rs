//! `/job`: pushing, status, waiting, and cancelling.

use ::http::{HeaderMap, Method, StatusCode};
use axum::extract::State;
use axum::response::Response;
use crore::actions::{ActionResult, JobAction};
use crore::push::PushResult;
use crore_api::negotiation::Responder;
use crore_api::params::{PathParam, QueryParams};
use crore_api::telemetry::TraceContext;
use crore_api::{Fault, Grant};
use crore_core::machine::Refusal;
use crore_core::{Code, Delivery, Job, JobId, NewJob, Payload, Span, Spec};
use crore_wire::Format;

use super::body::{DecodedBody, ResponseFormat};
use super::messages::{self, LightJqPushed};
use super::translate::{self, QUEUE};
use crate::Doors;

/// Default wait of a polling request, in seconds.
const DEFAULT_POLLING_SECS: u32 = 5;

/// Pushes a job.
#[utoipa::path(
    post, path = "/job", operation_id = "lightjqPush", tag = "lightjq",
    request_body = messages::LightJqNewJob,
    responses((status = 201, description = "The job was stored.", body = LightJqPushed)),
)]
pub(super) async fn push(
    State(doors): State<Doors>,
    grant: Grant,
    headers: HeaderMap,
    body: DecodedBody<messages::LightJqNewJob>,
) -> Result<Response, Fault> {
    let reply = body.reply();
    let spec = translate::spec(&body.value, doors.options().lightjq.keep_results)?;
    let job = NewJob::from(Spec { trace: TraceContext::text_from_headers(&headers), ..spec });
    match doors.api().push(&grant, job.into(), None).await?.jobs.pop() {
        Some(PushResult::New(id)) => {
            Ok(reply.with(StatusCode::CREATED, &LightJqPushed { job_id: id.to_string() }))
        }
        Some(PushResult::Invalid(mut invalid)) => {
            // A single job has no index, and LightJQ calls the payload `argument`.
            invalid.field = match invalid.field.strip_prefix("jobs[0].").unwrap_or(&invalid.field) {
                "payload" => "argument".to_owned(),
                field => field.to_owned(),
            };
            Err(invalid.into())
        }
        // A job without a unique key and without dependencies has no other outcome.
        _ => Err(Fault::new(Code::Refused, "the job was not accepted")),
    }
}

/// Gets the status of a job. A stored result can be read once; later calls return `null`.
#[utoipa::path(
    get, path = "/job/{job_id}", operation_id = "lightjqStatus", tag = "lightjq",
    params(("job_id" = String, Path, description = "The job.")),
    responses((status = 200, description = "The status of the job.", body = messages::LightJqStatus)),
)]
pub(super) async fn status(
    State(doors): State<Doors>,
    grant: Grant,
    method: Method,
    answers: ResponseFormat,
    id: PathParam,
) -> Result<Response, Fault> {
    let job = find(&doors, &id).await?;
    doors.api().check_result(&grant, job.id).await?;
    // A HEAD request must not consume the result.
    if !job.live.state.has_ended() || method == Method::HEAD {
        return Ok(status_response(answers, &job, None));
    }
    wait_for_end((&doors, &grant), answers, job.id, Span::ZERO).await
}

/// Waits until a job has ended; 408 if it has not by then.
#[utoipa::path(
    get, path = "/job/{job_id}/polling", operation_id = "lightjqPolling", tag = "lightjq",
    params(("job_id" = String, Path, description = "The job."), messages::PollingQuery),
    responses((status = 200, description = "The job has ended: `done` or `error`.", body = messages::LightJqStatus)),
)]
pub(super) async fn polling(
    State(doors): State<Doors>,
    grant: Grant,
    method: Method,
    answers: ResponseFormat,
    (id, QueryParams(query)): (PathParam, QueryParams<messages::PollingQuery>),
) -> Result<Response, Fault> {
    let job = find(&doors, &id).await?;
    doors.api().check_result(&grant, job.id).await?;
    if method == Method::HEAD {
        return Ok(status_response(answers, &job, None));
    }
    let wait = Span::from_secs(query.timeout.unwrap_or(DEFAULT_POLLING_SECS).into());
    let wait = wait.min(doors.api().options().max_wait);
    wait_for_end((&doors, &grant), answers, job.id, wait).await
}

/// Waits until a job has ended, and returns its status with the result, which is thereby consumed.
async fn wait_for_end(
    (doors, grant): (&Doors, &Grant),
    answers: ResponseFormat,
    id: JobId,
    wait: Span,
) -> Result<Response, Fault> {
    let late = || Fault::new(Code::NotYet, format!("job {id} has not ended yet"));
    let ended = doors.api().wait_for_job(grant, id, wait).await?.ok_or_else(late)?;
    let job = doors.engine().get(id).await?.ok_or_else(|| missing(id))?;
    Ok(status_response(answers, &job, ended.result.as_ref()))
}

/// The status as a response. A value that JSON cannot represent is sent as MessagePack: it may be readable only once.
fn status_response(
    ResponseFormat(format): ResponseFormat,
    job: &Job,
    stored: Option<&Payload>,
) -> Response {
    let status = translate::status(job, stored);
    let values = [&status.result, &status.error];
    let is_representable =
        values.into_iter().flatten().all(|value| value.convert(format).is_some());
    let format = if is_representable { format } else { Format::Msgpack };
    Responder(format).ok(&status)
}

/// Deletes a job that was never started; 409 if it was.
#[utoipa::path(
    delete, path = "/job/{job_id}", operation_id = "lightjqCancel", tag = "lightjq",
    params(("job_id" = String, Path, description = "The job.")),
    responses((status = 204, description = "The job was deleted.")),
)]
pub(super) async fn cancel(
    State(doors): State<Doors>,
    grant: Grant,
    id: PathParam,
) -> Result<Response, Fault> {
    let job = find(&doors, &id).await?;
    grant.check_job(&job.spec)?;
    let began = || Fault::new(Code::Refused, format!("job {} has already started", job.id));
    if job.live.delivery != Delivery::NONE && job.live.attempt > 0 {
        return Err(began());
    }
    match doors.engine().jobs().act(job.id.into(), &JobAction::Delete).await? {
        ActionResult::Applied(_) => Ok(Responder::no_content()),
        ActionResult::Refused { refusal: Refusal::Running | Refusal::Stale, .. } => Err(began()),
        ActionResult::Refused { .. } => {
            Err(Fault::new(Code::Refused, format!("job {} has ended", job.id)))
        }
        ActionResult::NotFound => Err(missing(job.id)),
    }
}

/// A job of this door; jobs of other doors are not found.
async fn find(doors: &Doors, id: &PathParam) -> Result<Job, Fault> {
    let id = id.job()?;
    let job = doors.engine().get(id).await?;
    job.filter(|job| job.spec.queue.as_str() == QUEUE).ok_or_else(|| missing(id))
}

pub(super) fn missing(id: JobId) -> Fault {
    Fault::new(Code::NotFound, format!("job {id} not found"))
}
