//! `Enqueue`: pushes a job, and waits for its result if the worker's response type is `DIRECT`.

use std::sync::Arc;

use crore::push::PushResult;
use crore_api::Grant;
use crore_api::telemetry::TraceContext;
use crore_api::telemetry::inherit;
use crore_core::handler::{PRIVATE_RESULT_LABEL, ResultPolicy, ResultWaiter as Waits};
use crore_core::job::{DueTime, ResultRetention};
use crore_core::payload::Encoding;
use crore_core::unique::{Unique, UniqueHold};
use crore_core::{Batch, Caps, Code, Handler, Invalid, JobId, Name, NewJob, Payload, Span, Time};
use crore_wire::grpc::jobworkerp::data::{Priority, WorkerId};
use crore_wire::grpc::jobworkerp::service::{CreateJobResponse, JobRequest, job_request};
use tonic::{Request, Response, Status};

use super::job::{KEY_PREFIX, to_job_id};
use super::translate::read_enum;
use super::wait::CallDeadline;
use super::workers::{self, WorkerDirectory};
use super::{JobworkerpReply, built_in, result_rows};
use crate::Doors;
use crate::grpc::{already_exists, failed, grant, invalid_unmapped as invalid};

/// Default timeout of a job, and of a wait for it: 365 days.
pub(super) const TIMEOUT: Span = Span::from_secs(365 * 24 * 60 * 60);

pub(super) async fn enqueue(
    doors: &Doors,
    request: Request<JobRequest>,
) -> JobworkerpReply<CreateJobResponse> {
    let grant = grant(&request)?;
    let context = request.extensions().get::<TraceContext>();
    let context = context.map(|context| Arc::<str>::from(context.to_string()));
    let deadline = CallDeadline::of(request.metadata());
    let request = request.into_inner();
    let workers = WorkerDirectory::load(doors).await?;
    let worker = match &request.worker {
        Some(job_request::Worker::WorkerId(id)) => WorkerRef::Id(id),
        Some(job_request::Worker::WorkerName(name)) => WorkerRef::Name(name),
        None => return Err(missing("worker_id")),
    };
    let (kind, handler) = worker.find(&workers).map_err(invalid)?;
    let (waits, is_private) = (handler.results.answer == Waits::Push, is_private(handler));
    let mut job = read(&request, kind, handler, doors.engine().status().caps()).map_err(invalid)?;
    inherit(&mut job.spec, context.as_ref());
    let id = push(doors, &grant, job).await?;
    let result = match waits {
        true => {
            let ended = deadline.wait(doors, id, request.timeout).await?;
            let result = result_rows::last(&ended, &workers, doors.engine().status().now());
            if is_private {
                doors.engine().results().take_private(id).await.map_err(failed)?;
            }
            result
        }
        false => None,
    };
    Ok(Response::new(CreateJobResponse { id: to_job_id(id), result }))
}

/// How a request names a worker.
#[derive(Debug)]
pub(super) enum WorkerRef<'a> {
    Id(&'a WorkerId),
    Name(&'a str),
}

impl WorkerRef<'_> {
    /// Finds the worker. A missing worker is an invalid argument in jobworkerp, not `NOT_FOUND`.
    pub(super) fn find<'a>(
        &self,
        workers: &'a WorkerDirectory,
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
        let none = || Invalid::new(Code::Malformed, field, format!("worker `{shown}` not found"));
        found.map(|(kind, stored)| (kind, &*stored.handler)).ok_or_else(none)
    }
}

/// Whether the result of a job is for its caller alone: the worker stores none.
fn is_private(handler: &Handler) -> bool {
    let ResultPolicy { answer, success, failure, .. } = handler.results;
    answer == Waits::Push && !success && !failure
}

/// The request as a job.
fn read(
    request: &JobRequest,
    kind: &Name,
    handler: &Handler,
    caps: &Caps,
) -> Result<NewJob, Invalid> {
    let payload = match workers::is_reserved(kind.as_str()) {
        true => built_in::payload(&request.arg)?,
        false => Payload::new(Encoding::Bytes, request.arg.clone()),
    };
    let mut spec = handler.job(kind.clone(), payload);
    spec.timeout = timeout(request.timeout, caps);
    if is_private(handler) {
        spec.keep = ResultRetention::Once(handler.results.keep);
        spec.labels.insert(PRIVATE_RESULT_LABEL.to_owned(), "caller".to_owned());
    }
    spec.priority =
        match read_enum(request.priority.unwrap_or_default(), "priority", Priority::try_from)? {
            Priority::High => -1,
            Priority::Medium => 0,
            Priority::Low => 1,
        };
    spec.unique = request.uniq_key.as_deref().filter(|key| !key.is_empty()).map(|key| {
        let key = format!("{KEY_PREFIX}{key}").into();
        Box::new(Unique { key, hold: UniqueHold::UntilEnd, window: None })
    });
    let wrong = |message: String| Err(Invalid::new(Code::TimeRange, "run_after_time", message));
    let due = match request.run_after_time.unwrap_or_default() {
        at @ ..0 => return wrong(format!("`{at}` is negative")),
        0 => DueTime::Now,
        _ if handler.results.answer == Waits::Push => {
            return wrong("a job of a `DIRECT` worker cannot be delayed".to_owned());
        }
        at => DueTime::At(Time::from_millis(at)),
    };
    Ok(NewJob { due, ..spec.into() })
}

/// Timeout of a run: 0 is unlimited; longer timeouts are reduced to the cap.
fn timeout(requested: Option<u64>, caps: &Caps) -> Option<Span> {
    match requested {
        None => Some(TIMEOUT.min(caps.max_timeout)),
        Some(0) => None,
        Some(millis) => Some(Span::from_millis(millis).min(caps.max_timeout)),
    }
}

async fn push(doors: &Doors, grant: &Grant, job: NewJob) -> Result<JobId, Status> {
    let key = super::job::key(job.spec.unique.as_deref()).unwrap_or_default();
    let pushed = doors.api().push(grant, Batch::from(job), None).await;
    let mut pushed = pushed.map_err(failed)?.jobs;
    match pushed.pop() {
        Some(PushResult::New(id)) => Ok(id),
        Some(PushResult::Duplicate(id)) => {
            let key = crore_core::code::excerpt(&key);
            Err(already_exists("uniq_key", format!("key `{key}` is in use by job {id}")))
        }
        Some(PushResult::Invalid(bad)) => Err(invalid(with_job_request_fields(bad))),
        // Jobs of this door have no dependencies and no group.
        Some(PushResult::Broken(_) | PushResult::Sealed(_) | PushResult::BrokenBy(_)) | None => {
            Err(failed(crore::Error::Stopping))
        }
    }
}

/// Replaces core field names in an error about a job with jobworkerp's.
fn with_job_request_fields(mut bad: Invalid) -> Invalid {
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

/// A required field that is missing.
pub(super) fn missing(field: &str) -> Status {
    invalid(Invalid::new(Code::Malformed, field, "is required"))
}
