//! Pushing: one job, or a batch.

use axum::extract::State;
use axum::response::Response;
use crore::IdempotencyKey;
use crore::push::{Pushes, Taken};
use crore_api::body::RawBody;
use crore_api::calls::{broken, pushed_answer, refused_answer, unreadable_job};
use crore_api::negotiation::Reply;
use crore_api::telemetry::{Context, inherit};
use crore_api::{Api, Fault};
use crore_core::push::NewGroup;
use crore_core::{Batch, Code, Invalid, NewJob};
use crore_wire::Raw;
use crore_wire::api::push::{self as wire, Pushed, PushedAll, Took};
use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

/// The header that names a push, so that it can be repeated.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Stands for a header with other characters.
const NOT_ASCII: &str = "\u{fffd}";

/// The answer to one job, or to a batch.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it only describes the answer")]
pub(super) enum Answer {
    /// To one job.
    One(Pushed),
    /// To a batch.
    Many(PushedAll),
}

/// Pushes a job, or a batch of jobs and groups.
///
/// What is answered is on the disk. In a batch (`{"jobs": [...]}`) each job that breaks a rule is answered
/// singly, and all the others are stored together. Whoever says the same twice under one
/// `Idempotency-Key`, within a day, has pushed once and hears the same answer; such jobs have no `unique`
/// of their own.
#[utoipa::path(
    post, path = "/v1/jobs", operation_id = "push", tag = "jobs",
    params(("Idempotency-Key" = Option<String>, Header, description = "A name for this push, so that it can be said again.", max_length = 200)),
    request_body(content = wire::Push, description = "A job, or a batch: `jobs`, and perhaps `groups`."),
    responses(
        (status = 201, description = "The job is stored.", body = Pushed),
        (status = 200, description = "The job was there before; or all jobs of a batch are stored, or were there before.", body = Answer),
        (status = 207, description = "Some jobs of the batch are refused, and all the others are stored.", body = PushedAll),
    ),
)]
pub(super) async fn push(
    State(api): State<Api>,
    reply: Reply,
    sent: RawBody,
) -> Result<Response, Fault> {
    let key = key(&sent.headers)?;
    match wire::Push::decode(sent.format, &sent.bytes)? {
        wire::Push::One(job) => {
            let mut job = job.read(sent.format)?;
            inherit(&mut job.spec, Context::carried(&sent.headers).as_ref());
            let pushes = api.push(job.into(), key.as_ref()).await?;
            let taken = pushes.jobs.into_iter().next();
            match taken {
                Some(Taken::Invalid(mut invalid)) => {
                    // There is only one job, and its caller has not numbered it.
                    if let Some(field) = invalid.field.strip_prefix("jobs[0].") {
                        invalid.field = field.to_owned();
                    }
                    Err(invalid.into())
                }
                Some(Taken::Broken(thing)) => Err(broken(thing).into()),
                Some(taken) => Ok(one(reply, &pushed_answer(0, taken))),
                None => Err(Fault::new(Code::Refused, "nothing was pushed")),
            }
        }
        wire::Push::Many(jobs) => {
            let (batch, faults) = read(jobs, &sent)?;
            let pushes = api.push(batch, key.as_ref()).await?;
            Ok(many(reply, pushes, faults))
        }
    }
}

/// The key that the headers name, if they name one.
fn key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Invalid> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    IdempotencyKey::new("Idempotency-Key", value.to_str().unwrap_or(NOT_ASCII)).map(Some)
}

fn one(reply: Reply, pushed: &Pushed) -> Response {
    let status = match pushed.status {
        Took::New => StatusCode::CREATED,
        Took::Duplicate | Took::Refused => StatusCode::OK,
    };
    let location = pushed.id.map(|id| HeaderValue::try_from(format!("/v1/jobs/{id}")));
    let mut response = reply.with(status, pushed);
    if let Some(Ok(location)) = location {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

fn many(reply: Reply, pushes: Pushes, faults: Vec<Option<Invalid>>) -> Response {
    let answers =
        pushes.jobs.into_iter().zip(faults).enumerate().map(|(n, (taken, fault))| match fault {
            Some(invalid) => refused_answer(invalid),
            None => pushed_answer(n, taken),
        });
    let jobs: Vec<Pushed> = answers.collect();
    let refused = jobs.iter().filter(|job| job.status == Took::Refused).count();
    let groups = pushes.groups.into_iter().map(Into::into).collect();
    let status = if refused == 0 { StatusCode::OK } else { StatusCode::MULTI_STATUS };
    reply.with(status, &PushedAll { jobs, groups, refused })
}

/// Reads the jobs of a batch one by one. One that cannot be read stands in the batch as one that no check
/// lets through, so that each keeps its place and whoever refers to it is told.
fn read(jobs: wire::NewJobs, sent: &RawBody) -> Result<(Batch, Vec<Option<Invalid>>), Invalid> {
    let placeholder = unreadable_job()?;
    let groups = jobs.groups.into_iter().map(|group| NewGroup { open: group.open }).collect();
    let context = Context::carried(&sent.headers);
    let read = |(n, raw): (usize, Raw)| -> Result<NewJob, Invalid> {
        let place = format!("jobs[{n}]");
        let job: wire::NewJob = sent.format.decode_at(&place, raw.bytes())?;
        let mut job = job.read(sent.format).map_err(|invalid| invalid.inside(&place))?;
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
