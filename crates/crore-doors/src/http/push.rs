//! Pushing: one job, or a batch.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use crore::IdempotencyKey;
use crore::push::{Pushes, Taken};
use crore_core::job::{Spec, Thing};
use crore_core::push::NewGroup;
use crore_core::{Batch, Code, Encoding, Invalid, JobId, Name, NewJob, Payload};
use crore_wire::Raw;
use crore_wire::api::Problem;
use crore_wire::api::push::{self as api, Pushed, PushedAll, Took};
use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use super::body::Sent;
use super::fault::Fault;
use super::wants::Reply;
use crate::Doors;
use crate::bug::planted;
use crate::status::status;
use crate::telemetry::Context;

/// The header that names a push, so that it can be repeated.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// What stands for a header that has other characters.
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
    request_body(content = api::Push, description = "A job, or a batch: `jobs`, and perhaps `groups`."),
    responses(
        (status = 201, description = "The job is stored.", body = Pushed),
        (status = 200, description = "The job was there before; or all jobs of a batch are stored, or were there before.", body = Answer),
        (status = 207, description = "Some jobs of the batch are refused, and all the others are stored.", body = PushedAll),
    ),
)]
pub(super) async fn push(
    State(doors): State<Doors>,
    reply: Reply,
    sent: Sent,
) -> Result<Response, Fault> {
    let key = key(&sent.headers)?;
    match api::Push::decode(sent.format, &sent.bytes)? {
        api::Push::One(job) => {
            let mut job = job.read(sent.format)?;
            trace(&mut job.spec, Context::carried(&sent.headers).as_ref());
            let pushes = keyed(&doors, key.as_ref(), job.into()).await?;
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
                Some(taken) => Ok(one(reply, &answer(0, taken))),
                None => Err(Fault::new(Code::Refused, "nothing was pushed")),
            }
        }
        api::Push::Many(jobs) => {
            let (batch, faults) = read(jobs, &sent)?;
            let pushes = keyed(&doors, key.as_ref(), batch).await?;
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
            Some(invalid) => refused(invalid),
            None => answer(n, taken),
        });
    let jobs: Vec<Pushed> = answers.collect();
    let refused = jobs.iter().filter(|job| job.status == Took::Refused).count();
    let groups = pushes.groups.into_iter().map(Into::into).collect();
    let status = if refused == 0 { StatusCode::OK } else { StatusCode::MULTI_STATUS };
    reply.with(status, &PushedAll { jobs, groups, refused })
}

/// Reads the jobs of a batch one by one. One that cannot be read stands in the batch as one that no check
/// lets through, so that each keeps its place and whoever refers to it is told.
fn read(jobs: api::NewJobs, sent: &Sent) -> Result<(Batch, Vec<Option<Invalid>>), Invalid> {
    let placeholder = unacceptable()?;
    let groups = jobs.groups.into_iter().map(|group| NewGroup { open: group.open }).collect();
    let context = Context::carried(&sent.headers);
    let read = |(n, raw): (usize, Raw)| -> Result<NewJob, Invalid> {
        let place = format!("jobs[{n}]");
        let job: api::NewJob = sent.format.decode_at(&place, raw.bytes())?;
        let mut job = job.read(sent.format).map_err(|invalid| invalid.inside(&place))?;
        trace(&mut job.spec, context.as_ref());
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

/// A job that is always refused: its payload is no JSON.
pub(crate) fn unacceptable() -> Result<NewJob, Invalid> {
    let name = Name::new("kind", "unreadable")?;
    Ok(Spec::new(name.clone(), name, Payload::new(Encoding::Json, &b""[..])).into())
}

/// Gives a job that has no trace context of its own that of its request.
pub(crate) fn trace(spec: &mut Spec, context: Option<&Arc<str>>) {
    if spec.trace.is_none() {
        spec.trace = context.cloned();
    }
}

/// Pushes a batch, under a key if there is one.
pub(crate) async fn keyed(
    doors: &Doors,
    key: Option<&IdempotencyKey>,
    batch: Batch,
) -> Result<Pushes, Fault> {
    let engine = doors.engine();
    let pushed = match key {
        Some(key) if !planted!("bug-33") => engine.push_once(key, batch).await,
        _ => engine.push_all(batch).await,
    };
    pushed.map_err(|error| match error {
        crore::Error::KeyReused { first: Some(first), .. } => Fault::from(error).about(first),
        error => error.into(),
    })
}

/// What became of a job, for its pusher.
pub(super) fn answer(place: usize, taken: Taken) -> Pushed {
    match told(place, taken) {
        Ok((id, status)) => Pushed { status, id: Some(id.into()), problem: None },
        Err(invalid) => refused(invalid),
    }
}

/// The same in the words of no encoding.
pub(crate) fn told(place: usize, taken: Taken) -> Result<(JobId, Took), Invalid> {
    let inside = |invalid: Invalid| Err(invalid.inside(&format!("jobs[{place}]")));
    match taken {
        Taken::New(id) => Ok((id, Took::New)),
        Taken::Duplicate(id) => Ok((id, Took::Duplicate)),
        // The engine has said where.
        Taken::Invalid(invalid) => Err(invalid),
        Taken::Broken(thing) => inside(broken(thing)),
        Taken::BrokenBy(n) => {
            let why = format!("`jobs[{n}]` was refused, and this one waits for it");
            inside(Invalid::new(Code::Refused, "after", why))
        }
    }
}

fn broken(thing: Thing) -> Invalid {
    let (field, what) = match thing {
        Thing::Job(id) => ("after", format!("job {id}")),
        Thing::Group(id) => ("group", format!("group {id}")),
    };
    let why = format!("{what} is not there, or can no longer become what is needed");
    Invalid::new(Code::Refused, field, why)
}

fn refused(invalid: Invalid) -> Pushed {
    let status = status(invalid.code).as_u16();
    let problem = Some(Problem::invalid(invalid, status));
    Pushed { status: Took::Refused, id: None, problem }
}
