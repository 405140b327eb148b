//! Pushing one job, or a batch.

use axum::extract::State;
use axum::response::Response;
use crore::IdempotencyKey;
use crore::push::{BatchResult, PushResult, sealed_group};
use crore_api::body::RawBody;
use crore_api::calls::{broken_dependency, pushed_result, refused_result, unreadable_job};
use crore_api::negotiation::Responder;
use crore_api::telemetry::{TraceContext, inherit};
use crore_api::{Api, Fault, Grant};
use crore_core::push::NewGroup;
use crore_core::{Batch, Code, Invalid, NewJob};
use crore_wire::Raw;
use crore_wire::api::push::{self as wire, PushStatus, Pushed, PushedAll};
use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

/// The header with the idempotency key of a push.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Stands for a header value that is not ASCII; no valid key contains it.
const NOT_ASCII: &str = "\u{fffd}";

/// The response to one job, or to a batch.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it only describes the response")]
pub(super) enum PushResponse {
    /// For one job.
    One(Pushed),
    /// For a batch.
    Many(PushedAll),
}

/// Pushes a job, or a batch of jobs and groups.
///
/// The response is sent when the jobs are durable. In a batch (`{"jobs": [...]}`), each invalid job is refused
/// individually, and the others are stored together. Repeating a push with the same `Idempotency-Key` within a day
/// stores nothing and returns the same response; the jobs of such a push must not set `unique`.
#[utoipa::path(
    post, path = "/v1/jobs", operation_id = "push", tag = "jobs",
    params(("Idempotency-Key" = Option<String>, Header, description = "Key under which this push can be safely repeated.", max_length = 200)),
    request_body(content = wire::Push, description = "A job, or a batch: `jobs` and optional `groups`."),
    responses(
        (status = 201, description = "The job was stored.", body = Pushed),
        (status = 200, description = "The job is a duplicate; or every job of the batch was stored or is a duplicate.", body = PushResponse),
        (status = 207, description = "Some jobs of the batch were refused; the others were stored.", body = PushedAll),
    ),
)]
pub(super) async fn push(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    sent: RawBody,
) -> Result<Response, Fault> {
    let key = idempotency_key(&sent.headers)?;
    match wire::Push::decode(sent.format, &sent.bytes)? {
        wire::Push::One(job) => {
            let mut job = job.read(sent.format)?;
            inherit(&mut job.spec, TraceContext::text_from_headers(&sent.headers).as_ref());
            let pushes = api.push(&grant, job.into(), key.as_ref()).await?;
            let result = pushes.jobs.into_iter().next();
            match result {
                Some(PushResult::Invalid(mut invalid)) => {
                    // A single job has no index: report `payload`, not `jobs[0].payload`.
                    if let Some(field) = invalid.field.strip_prefix("jobs[0].") {
                        invalid.field = field.to_owned();
                    }
                    Err(invalid.into())
                }
                Some(PushResult::Broken(thing)) => Err(broken_dependency(thing).into()),
                Some(PushResult::Sealed(id)) => Err(sealed_group(id).into()),
                Some(result) => Ok(single_response(reply, &pushed_result(0, result))),
                None => Err(Fault::new(Code::Refused, "nothing was pushed")),
            }
        }
        wire::Push::Many(jobs) => {
            let (batch, faults) = read(jobs, &sent)?;
            let pushes = api.push(&grant, batch, key.as_ref()).await?;
            Ok(batch_response(reply, pushes, faults))
        }
    }
}

/// The idempotency key from the headers, if there is one.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Invalid> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    IdempotencyKey::new("Idempotency-Key", value.to_str().unwrap_or(NOT_ASCII)).map(Some)
}

pub(super) fn single_response(reply: Responder, pushed: &Pushed) -> Response {
    let status = match pushed.status {
        PushStatus::New => StatusCode::CREATED,
        PushStatus::Duplicate | PushStatus::Refused => StatusCode::OK,
    };
    let location = pushed.id.map(|id| HeaderValue::try_from(format!("/v1/jobs/{id}")));
    let mut response = reply.with(status, pushed);
    if let Some(Ok(location)) = location {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

fn batch_response(reply: Responder, pushes: BatchResult, faults: Vec<Option<Invalid>>) -> Response {
    let answers =
        pushes.jobs.into_iter().zip(faults).enumerate().map(|(n, (result, fault))| match fault {
            Some(invalid) => refused_result(invalid),
            None => pushed_result(n, result),
        });
    let jobs: Vec<Pushed> = answers.collect();
    let refused = jobs.iter().filter(|job| job.status == PushStatus::Refused).count();
    let groups = pushes.groups.into_iter().map(Into::into).collect();
    let status = if refused == 0 { StatusCode::OK } else { StatusCode::MULTI_STATUS };
    reply.with(status, &PushedAll { jobs, groups, refused })
}

/// Reads the jobs of a batch one by one. An unreadable job is replaced by one that fails every check, so that the
/// others keep their positions and references to it are refused.
fn read(jobs: wire::NewJobs, sent: &RawBody) -> Result<(Batch, Vec<Option<Invalid>>), Invalid> {
    let placeholder = unreadable_job()?;
    let groups =
        jobs.groups.into_iter().map(|group| NewGroup { open: group.open, maker: None }).collect();
    let context = TraceContext::text_from_headers(&sent.headers);
    let read = |(n, raw): (usize, Raw)| -> Result<NewJob, Invalid> {
        let path = format!("jobs[{n}]");
        let job: wire::NewJob = sent.format.decode_at(&path, raw.bytes())?;
        let mut job = job.read(sent.format).map_err(|invalid| invalid.inside(&path))?;
        inherit(&mut job.spec, context.as_ref());
        Ok(job)
    };
    let read = jobs.jobs.into_iter().enumerate().map(read);
    let (jobs, faults) = read
        .map(|job| match job {
            Ok(job) => (job, None),
            Err(invalid) => (placeholder.clone(), Some(invalid)),
        })
        .unzip();
    Ok((Batch { groups, jobs }, faults))
}
