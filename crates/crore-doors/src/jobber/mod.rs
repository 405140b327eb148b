//! Jobber: a job is a type and a payload, and is worked on until somebody has finished it.
//!
//! | call | body | answer |
//! |---|---|---|
//! | `POST /jobber/queue` | `{"type": "sample", "payload": …}` | 201, `{"job-id": uuid}` |
//! | `POST /jobs` | `{"jobType": "sample", "payload": …}` | 201, `{"jobId": uuid}` |
//!
//! Both take either key. What is wrong is said as plain text, as Jobber says it. [`id`] says how the UUID
//! is made.
//!
//! A job waits in the queue that is named after its type. Jobber's own workers were a library over Redis;
//! here they fetch and finish by the native API (`POST /v1/fetch` with the type as the queue). The lease
//! of a job is the visibility timeout of its type: if it ends, the job is handed out again, however often
//! that happens, and it is never set aside.

pub mod id;
mod options;

use std::collections::BTreeMap;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use crore::push::Taken;
use crore_api::Scope;
use crore_api::admission::Gate;
use crore_api::body::collect;
use crore_api::middleware::{Next, from_fn};
use crore_api::telemetry::Context;
use crore_core::job::Lapse;
use crore_core::retry::Retry;
use crore_core::{Invalid, JobId, Name, NewJob, Spec};
use crore_wire::{Format, Raw};
use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;

pub use options::Options;

use crate::Doors;

/// The calls of Jobber.
pub fn router(doors: &Doors) -> Router {
    let gate = Gate { api: doors.api().clone(), scope: Scope::Push };
    Router::new()
        .route("/jobber/queue", post(queue))
        .route("/jobs", post(jobs))
        .route_layer(from_fn(gate, admit))
        .with_state(doors.clone())
}

async fn admit(gate: Gate, request: Request, next: Next) -> Response {
    // That the server stops is said by the queue itself, in the words of this door.
    gate.pass_on(request, next).await
}

#[derive(Debug, Deserialize)]
struct Posted {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(rename = "jobType")]
    job_type: Option<String>,
    payload: Option<Raw>,
}

async fn queue(State(doors): State<Doors>, headers: HeaderMap, body: Body) -> Response {
    let read = |posted: &Posted| posted.kind.clone().or_else(|| posted.job_type.clone());
    answer("job-id", post_job(&doors, &headers, body, read).await)
}

async fn jobs(State(doors): State<Doors>, headers: HeaderMap, body: Body) -> Response {
    let read = |posted: &Posted| posted.job_type.clone().or_else(|| posted.kind.clone());
    answer("jobId", post_job(&doors, &headers, body, read).await)
}

/// Why a job was not taken.
enum Refused {
    /// The request is not one; the words say more, where Jobber had no words for it.
    Format(Option<Invalid>),
    /// It is a good one, but the job cannot be kept.
    Queue(crore::Error),
    /// The body did not arrive.
    Body(crore_api::Fault),
}

async fn post_job(
    doors: &Doors,
    headers: &HeaderMap,
    body: Body,
    kind: impl Fn(&Posted) -> Option<String>,
) -> Result<JobId, Refused> {
    let bytes = collect(body, doors.api()).await.map_err(Refused::Body)?;
    let posted: Posted = Format::Json.decode(&bytes).map_err(|_| Refused::Format(None))?;
    let kind = kind(&posted).map(|kind| kind.trim().to_owned()).filter(|kind| !kind.is_empty());
    let kind = kind.ok_or(Refused::Format(None))?;
    let wrong = |invalid| Refused::Format(Some(invalid));
    let mut spec = spec(&kind, posted.payload, &doors.options().jobber).map_err(wrong)?;
    spec.trace = Context::carried(headers);
    let pushed = doors.engine().push_all(NewJob::from(spec).into()).await;
    match pushed.map_err(Refused::Queue)?.jobs.pop() {
        Some(Taken::New(id)) => Ok(id),
        Some(Taken::Invalid(mut invalid)) => {
            if let Some(field) = invalid.field.strip_prefix("jobs[0].") {
                invalid.field = field.to_owned();
            }
            Err(wrong(invalid))
        }
        // It has no key that another one could have, and waits for nothing.
        _ => Err(Refused::Queue(crore::Error::Stopping)),
    }
}

/// A job in our words. A failure that its worker reports is tried again without end, and so is a silence.
fn spec(kind: &str, payload: Option<Raw>, options: &Options) -> Result<Spec, Invalid> {
    let name = Name::new("type", kind)?;
    let payload = payload.unwrap_or_else(|| Raw::null(Format::Json)).into_payload("payload")?;
    let mut spec = Spec::new(name.clone(), name, payload);
    spec.lease = Some(options.types.get(kind).copied().unwrap_or(options.visibility_timeout));
    spec.retry = Retry { max_attempts: None, ..Retry::default() };
    spec.lapse = Lapse::Crash { quarantine: None };
    Ok(spec)
}

fn answer(key: &str, posted: Result<JobId, Refused>) -> Response {
    const WRONG: &str = "Request body is not in the right format";
    match posted {
        Ok(id) => {
            let body = Format::Json.encode(&BTreeMap::from([(key, id::uuid(id))]));
            let kind = HeaderValue::from_static("application/json");
            (StatusCode::CREATED, [(CONTENT_TYPE, kind)], body).into_response()
        }
        Err(Refused::Format(None)) => text(StatusCode::BAD_REQUEST, format!("{WRONG}\n")),
        Err(Refused::Format(Some(invalid))) => {
            text(StatusCode::BAD_REQUEST, format!("{WRONG}: {invalid}\n"))
        }
        Err(Refused::Queue(error)) => {
            let code = error.code();
            let message = format!("Unable to post job, Error: {code}: {}\n", code.explain().trim());
            text(StatusCode::INTERNAL_SERVER_ERROR, message)
        }
        Err(Refused::Body(fault)) => fault.into_response(),
    }
}

fn text(status: StatusCode, body: String) -> Response {
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    let nosniff = HeaderValue::from_static("nosniff");
    (status, [(CONTENT_TYPE, plain), (X_CONTENT_TYPE_OPTIONS, nosniff)], body).into_response()
}
