//! Jobber: a job is a type and a payload, and is redelivered until a worker finishes it.
//!
//! | call | body | response |
//! |---|---|---|
//! | `POST /jobber/queue` | `{"type": "sample", "payload": …}` | 201, `{"job-id": uuid}` |
//! | `POST /jobs` | `{"jobType": "sample", "payload": …}` | 201, `{"jobId": uuid}` |
//! | `GET /jobber/queue/{uuid}`, `GET /jobs/{uuid}` | | 200, the job with its `status` |
//!
//! Both calls accept either key. Errors are plain text with Jobber's wording. [`crore_api::job_uuid`] defines the UUID.
//!
//! A job waits in the queue named after its type. Jobber's own workers were a library over Redis; here workers use
//! the native API (`POST /v1/fetch` with the type as the queue). The lease of a job is the visibility timeout of its
//! type. When it expires, the job is delivered again, without a limit and without quarantine.

mod options;
mod status;

use std::collections::BTreeMap;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use crore::push::PushResult;
use crore_api::admission::Gate;
use crore_api::body::collect;
use crore_api::middleware::{Next, from_fn};
use crore_api::telemetry::TraceContext;
use crore_api::{Grant, Scope, job_uuid};
use crore_core::job::Lapse;
use crore_core::retry::Retry;
use crore_core::{Code, Invalid, JobId, Name, NewJob, Spec};
use crore_wire::{Format, Raw};
use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};

pub use options::Options;

use crate::Doors;

/// The routes of Jobber.
pub fn router(doors: &Doors) -> Router {
    let gate = |scopes| Gate { api: doors.api().clone(), scopes };
    let push = Router::new()
        .route("/jobber/queue", post(queue))
        .route("/jobs", post(jobs))
        .route_layer(from_fn(gate(&[Scope::Push]), admit));
    // Of jobs that the caller pushed, or of all.
    let look_up = Router::new()
        .route("/jobber/queue/{id}", get(status::queue))
        .route("/jobs/{id}", get(status::jobs))
        .route_layer(from_fn(gate(&[Scope::Push, Scope::Read]), admit));
    push.merge(look_up).with_state(doors.clone())
}

async fn admit(gate: Gate, request: Request, next: Next) -> Response {
    // While the server stops, the push itself fails, with this door's wording.
    gate.pass_while_stopping(request, next).await
}

#[derive(Debug, Deserialize)]
struct JobberJob {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(rename = "jobType")]
    job_type: Option<String>,
    payload: Option<Raw>,
}

async fn queue(
    State(doors): State<Doors>,
    grant: Grant,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let read = |posted: &JobberJob| posted.kind.clone().or_else(|| posted.job_type.clone());
    response(&doors, "job-id", post_job((&doors, &grant), &headers, body, read).await)
}

async fn jobs(
    State(doors): State<Doors>,
    grant: Grant,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let read = |posted: &JobberJob| posted.job_type.clone().or_else(|| posted.kind.clone());
    response(&doors, "jobId", post_job((&doors, &grant), &headers, body, read).await)
}

/// Why a job was not accepted.
enum PostError {
    /// The body is invalid; the detail is added where Jobber's wording has none.
    Format(Option<Invalid>),
    /// The caller may not push this type.
    Forbidden(Invalid),
    /// The job is valid, but cannot be stored.
    Queue(crore::Error),
    /// The body did not arrive.
    Body(crore_api::Fault),
}

async fn post_job(
    (doors, grant): (&Doors, &Grant),
    headers: &HeaderMap,
    body: Body,
    kind: impl Fn(&JobberJob) -> Option<String>,
) -> Result<JobId, PostError> {
    let bytes = collect(body, doors.api()).await.map_err(PostError::Body)?;
    let posted: JobberJob = Format::Json.decode(&bytes).map_err(|_| PostError::Format(None))?;
    let kind = kind(&posted).map(|kind| kind.trim().to_owned()).filter(|kind| !kind.is_empty());
    let kind = kind.ok_or(PostError::Format(None))?;
    let wrong = |invalid| PostError::Format(Some(invalid));
    let mut spec = spec(&kind, posted.payload, &doors.options().jobber).map_err(wrong)?;
    spec.trace = TraceContext::text_from_headers(headers);
    let pushed = doors.api().push(grant, NewJob::from(spec).into(), None).await;
    match pushed.map_err(PostError::Queue)?.jobs.pop() {
        Some(PushResult::New(id)) => Ok(id),
        Some(PushResult::Invalid(invalid)) if invalid.code == Code::ScopeMissing => {
            Err(PostError::Forbidden(invalid))
        }
        Some(PushResult::Invalid(mut invalid)) => {
            if let Some(field) = invalid.field.strip_prefix("jobs[0].") {
                invalid.field = field.to_owned();
            }
            Err(wrong(invalid))
        }
        // A job without a unique key and without dependencies has no other outcome.
        _ => Err(PostError::Queue(crore::Error::Stopping)),
    }
}

/// Builds the job. Reported failures and expired leases are retried without a limit.
fn spec(kind: &str, payload: Option<Raw>, options: &Options) -> Result<Spec, Invalid> {
    let name = Name::new("type", kind)?;
    let payload = payload.unwrap_or_else(|| Raw::null(Format::Json)).into_payload("payload")?;
    let mut spec = Spec::new(name.clone(), name, payload);
    spec.lease = Some(options.types.get(kind).copied().unwrap_or(options.visibility_timeout));
    spec.retry = Retry { max_attempts: None, ..Retry::default() };
    spec.lapse = Lapse::Crash { quarantine: None };
    Ok(spec)
}

fn response(doors: &Doors, key: &str, posted: Result<JobId, PostError>) -> Response {
    const WRONG: &str = "Request body is not in the right format";
    match posted {
        Ok(id) => json(StatusCode::CREATED, &BTreeMap::from([(key, uuid(doors, id))])),
        Err(PostError::Format(None)) => text(StatusCode::BAD_REQUEST, format!("{WRONG}\n")),
        Err(PostError::Format(Some(invalid))) => {
            text(StatusCode::BAD_REQUEST, format!("{WRONG}: {invalid}\n"))
        }
        Err(PostError::Forbidden(invalid)) => {
            text(StatusCode::FORBIDDEN, format!("{}: {}\n", invalid.code, invalid.message))
        }
        Err(PostError::Queue(error)) => {
            let code = error.code();
            let message = format!("Unable to post job, Error: {code}: {}\n", code.explain().trim());
            text(StatusCode::INTERNAL_SERVER_ERROR, message)
        }
        Err(PostError::Body(fault)) => fault.into_response(),
    }
}

fn uuid(doors: &Doors, id: JobId) -> String {
    job_uuid::of_job(doors.engine().status().store_id(), id)
}

fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let kind = HeaderValue::from_static("application/json");
    (status, [(CONTENT_TYPE, kind)], Format::Json.encode(body)).into_response()
}

fn text(status: StatusCode, body: String) -> Response {
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    let nosniff = HeaderValue::from_static("nosniff");
    (status, [(CONTENT_TYPE, plain), (X_CONTENT_TYPE_OPTIONS, nosniff)], body).into_response()
}
