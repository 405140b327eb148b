//! `Enqueue`: a new job, and its result where the worker answers directly.

use std::sync::Arc;

use crore::push::Taken;
use crore_api::telemetry::Context;
use crore_api::telemetry::inherit;
use crore_core::handler::Answer as Waits;
use crore_core::job::When;
use crore_core::payload::Encoding;
use crore_core::unique::{Hold, Unique};
use crore_core::{Batch, Caps, Code, Handler, Invalid, JobId, Name, NewJob, Payload, Span, Time};
use crore_wire::grpc::jobworkerp::data::{Priority, WorkerId};
use crore_wire::grpc::jobworkerp::service::{CreateJobResponse, JobRequest, job_request};
use tonic::{Request, Response, Status};

use super::job::{KEYS, said_id};
use super::translate::known;
use super::wait::Patience;
use super::workers::Workers;
use super::{Answer, rows};
use crate::Doors;
use crate::grpc::{as_named as invalid, failed, taken};

/// How long a job may take, and somebody waits for it, unless it is said: 365 days.
pub(super) const TIMEOUT: Span = Span::from_secs(365 * 24 * 60 * 60);

pub(super) async fn enqueue(
    doors: &Doors,
    request: Request<JobRequest>,
) -> Answer<CreateJobResponse> {
    let context = request.extensions().get::<Context>();
    let context = context.map(|context| Arc::<str>::from(context.to_string()));
    let patience = Patience::of(request.metadata());
    let ask = request.into_inner();
    let workers = Workers::now(doors).await?;
    let worker = match &ask.worker {
        Some(job_request::Worker::WorkerId(id)) => Named::Id(id),
        Some(job_request::Worker::WorkerName(name)) => Named::Name(name),
        None => return Err(missing("worker_id")),
    };
    let (kind, handler) = worker.find(&workers).map_err(invalid)?;
    let waits = handler.results.answer == Waits::Push;
    let mut job = read(&ask, kind, handler, doors.engine().status().caps()).map_err(invalid)?;
    inherit(&mut job.spec, context.as_ref());
    let id = push(doors, job).await?;
    let result = match waits {
        true => {
            let ended = patience.wait(doors, id, ask.timeout).await?;
            rows::last(&ended, &workers, doors.engine().status().now())
        }
        false => None,
    };
    Ok(Response::new(CreateJobResponse { id: said_id(id), result }))
}

/// How a caller names a worker.
#[derive(Debug)]
pub(super) enum Named<'a> {
    Id(&'a WorkerId),
    Name(&'a str),
}

impl Named<'_> {
    /// The worker. That there is none is a wrong argument, and not something that is not found.
    pub(super) fn find<'a>(
        &self,
        workers: &'a Workers,
    ) -> Result<(&'a Name, &'a Handler), Invalid> {
        let (field, found, shown) = match self {
            Self::Name("") => {
                return Err(Invalid::new(
                    Code::NameEmpty,
                    "worker_name",
                    "a name must not be empty",
                ));
            }
            Self::Id(id) => ("worker_id", workers.by_id(id.value), id.value.to_string()),
            Self::Name(name) => {
                ("worker_name", workers.by_name(name), crore_core::code::excerpt(name))
            }
        };
        let none = || Invalid::new(Code::Malformed, field, format!("there is no worker `{shown}`"));
        found.map(|(kind, known)| (kind, &*known.handler)).ok_or_else(none)
    }
}

/// A job in our words.
fn read(ask: &JobRequest, kind: &Name, handler: &Handler, caps: &Caps) -> Result<NewJob, Invalid> {
    let payload = Payload::new(Encoding::Bytes, ask.arg.clone());
    let mut spec = handler.job(kind.clone(), payload);
    spec.timeout = timeout(ask.timeout, caps);
    spec.priority = match known(ask.priority.unwrap_or_default(), "priority", Priority::try_from)? {
        Priority::High => -1,
        Priority::Medium => 0,
        Priority::Low => 1,
    };
    spec.unique = ask.uniq_key.as_deref().filter(|key| !key.is_empty()).map(|key| Unique {
        key: format!("{KEYS}{key}").into(),
        hold: Hold::UntilEnd,
        window: None,
    });
    let wrong = |message: String| Err(Invalid::new(Code::TimeRange, "run_after_time", message));
    let due = match ask.run_after_time.unwrap_or_default() {
        at @ ..0 => return wrong(format!("`{at}` is below zero")),
        0 => When::Now,
        _ if handler.results.answer == Waits::Push => {
            return wrong("a job that is answered `DIRECT` cannot start later".to_owned());
        }
        at => When::At(Time::from_millis(at)),
    };
    Ok(NewJob { due, ..spec.into() })
}

/// How long a run may take: 0 is without end, and what is longer than the cap is the cap.
fn timeout(said: Option<u64>, caps: &Caps) -> Option<Span> {
    match said {
        None => Some(TIMEOUT.min(caps.max_timeout)),
        Some(0) => None,
        Some(millis) => Some(Span::from_millis(millis).min(caps.max_timeout)),
    }
}

async fn push(doors: &Doors, job: NewJob) -> Result<JobId, Status> {
    let key = super::job::key(job.spec.unique.as_ref()).unwrap_or_default();
    let mut pushed = doors.engine().push_all(Batch::from(job)).await.map_err(failed)?.jobs;
    match pushed.pop() {
        Some(Taken::New(id)) => Ok(id),
        Some(Taken::Duplicate(id)) => {
            let key = crore_core::code::excerpt(&key);
            Err(taken("uniq_key", format!("job {id} has the key `{key}`, and has not ended")))
        }
        Some(Taken::Invalid(bad)) => Err(invalid(in_its_words(bad))),
        // It waits for nothing.
        Some(Taken::Broken(_) | Taken::BrokenBy(_)) | None => Err(failed(crore::Error::Stopping)),
    }
}

/// The same fault about a job, in the words of jobworkerp.
fn in_its_words(mut bad: Invalid) -> Invalid {
    let field = bad.field.strip_prefix("jobs[0].").unwrap_or(&bad.field);
    let field = match field {
        "payload" => "arg",
        "unique.key" => "uniq_key",
        "due" => "run_after_time",
        other => other,
    };
    bad.field = field.to_owned();
    bad
}

/// Something that has to be said and is not.
pub(super) fn missing(field: &str) -> Status {
    invalid(Invalid::new(Code::Malformed, field, "has to be said"))
}
