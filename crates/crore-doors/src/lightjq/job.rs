//! `/job`: pushing, looking, waiting, taking back.

use ::http::{HeaderMap, Method, StatusCode};
use axum::extract::State;
use axum::response::Response;
use crore::act::{Act, Acted};
use crore::push::Taken;
use crore_api::Fault;
use crore_api::negotiation::Reply;
use crore_api::params::{PathParam, Query};
use crore_api::telemetry::Context;
use crore_core::machine::Refusal;
use crore_core::{Code, Delivery, Job, JobId, NewJob, Payload, Span, Spec};
use crore_wire::Format;

use super::body::{Answers, Read};
use super::translate::{self, QUEUE};
use super::words::{self, Pushed};
use crate::Doors;

/// How long a caller waits who does not say how long, in seconds.
const POLLING: u32 = 5;

/// Pushes a job.
#[utoipa::path(
    post, path = "/job", operation_id = "lightjqPush", tag = "lightjq",
    request_body = words::NewJob,
    responses((status = 201, description = "It is kept.", body = Pushed)),
)]
pub(super) async fn push(
    State(doors): State<Doors>,
    headers: HeaderMap,
    body: Read<words::NewJob>,
) -> Result<Response, Fault> {
    let reply = body.reply();
    let spec = translate::spec(&body.value, doors.options().lightjq.keep_results)?;
    let job = NewJob::from(Spec { trace: Context::carried(&headers), ..spec });
    match doors.engine().push_all(job.into()).await?.jobs.pop() {
        Some(Taken::New(id)) => {
            Ok(reply.with(StatusCode::CREATED, &Pushed { job_id: id.to_string() }))
        }
        Some(Taken::Invalid(mut invalid)) => {
            // There is only one job, and the caller calls its payload `argument`.
            invalid.field = match invalid.field.strip_prefix("jobs[0].").unwrap_or(&invalid.field) {
                "payload" => "argument".to_owned(),
                field => field.to_owned(),
            };
            Err(invalid.into())
        }
        // It has no key that another one could have, and waits for nothing.
        _ => Err(Fault::new(Code::Refused, "the job was not taken")),
    }
}

/// How a job stands. A result that is kept is read once: the next one who asks is told `null`.
#[utoipa::path(
    get, path = "/job/{job_id}", operation_id = "lightjqStatus", tag = "lightjq",
    params(("job_id" = String, Path, description = "The job.")),
    responses((status = 200, description = "How it stands.", body = words::Status)),
)]
pub(super) async fn status(
    State(doors): State<Doors>,
    method: Method,
    answers: Answers,
    id: PathParam,
) -> Result<Response, Fault> {
    let job = find(&doors, &id).await?;
    // Whoever asks for the head alone would take a result that he does not see.
    if !job.live.state.has_ended() || method == Method::HEAD {
        return Ok(said(answers, &job, None));
    }
    ended(&doors, answers, job.id, Span::ZERO).await
}

/// Waits until a job has ended; 408 if it has not by then.
#[utoipa::path(
    get, path = "/job/{job_id}/polling", operation_id = "lightjqPolling", tag = "lightjq",
    params(("job_id" = String, Path, description = "The job."), words::Polling),
    responses((status = 200, description = "It has ended: `done` or `error`.", body = words::Status)),
)]
pub(super) async fn polling(
    State(doors): State<Doors>,
    method: Method,
    answers: Answers,
    id: PathParam,
    Query(query): Query<words::Polling>,
) -> Result<Response, Fault> {
    let job = find(&doors, &id).await?;
    if method == Method::HEAD {
        return Ok(said(answers, &job, None));
    }
    let wait = Span::from_secs(query.timeout.unwrap_or(POLLING).into());
    let wait = wait.min(doors.api().options().max_wait);
    ended(&doors, answers, job.id, wait).await
}

/// Waits until a job has ended, and gives how; its result is taken with that.
async fn ended(doors: &Doors, answers: Answers, id: JobId, wait: Span) -> Result<Response, Fault> {
    let late = || Fault::new(Code::NotYet, format!("job {id} has not ended yet"));
    let ended = doors.api().wait_for_job(id, wait).await?.ok_or_else(late)?;
    let job = doors.engine().get(id).await?.ok_or_else(|| missing(id))?;
    Ok(said(answers, &job, ended.result.as_ref()))
}

/// How a job stands. What cannot be said in JSON is said in MessagePack: it may be read only once.
fn said(Answers(format): Answers, job: &Job, kept: Option<&Payload>) -> Response {
    let status = translate::status(job, kept);
    let values = [&status.result, &status.error];
    let can_be_said = values.into_iter().flatten().all(|value| value.convert(format).is_some());
    let format = if can_be_said { format } else { Format::Msgpack };
    Reply(format).ok(&status)
}

/// Takes a job back that never began; 409 if it has.
#[utoipa::path(
    delete, path = "/job/{job_id}", operation_id = "lightjqCancel", tag = "lightjq",
    params(("job_id" = String, Path, description = "The job.")),
    responses((status = 204, description = "It is gone.")),
)]
pub(super) async fn cancel(State(doors): State<Doors>, id: PathParam) -> Result<Response, Fault> {
    let job = find(&doors, &id).await?;
    let began = || Fault::new(Code::Refused, format!("job {} has begun", job.id));
    if job.live.delivery != Delivery::NONE && job.live.attempt > 0 {
        return Err(began());
    }
    match doors.engine().jobs().act(job.id.into(), &Act::Delete).await? {
        Acted::Yes(_) => Ok(Reply::nothing()),
        Acted::No(Refusal::Running | Refusal::Stale) => Err(began()),
        Acted::No(_) => Err(Fault::new(Code::Refused, format!("job {} has ended", job.id))),
        Acted::NotFound => Err(missing(job.id)),
    }
}

/// A job of this door. Another door's is as good as none.
async fn find(doors: &Doors, id: &PathParam) -> Result<Job, Fault> {
    let id = id.job()?;
    let job = doors.engine().get(id).await?;
    job.filter(|job| job.spec.queue.as_str() == QUEUE).ok_or_else(|| missing(id))
}

pub(super) fn missing(id: JobId) -> Fault {
    Fault::new(Code::NotFound, format!("job {id} is not there"))
}
