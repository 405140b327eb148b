//! Translates workers to handlers, and back.

use crore_core::handler::{DEFAULT_QUEUE, MAX_FOLLOW_UP_HANDLERS, ResultPolicy, ResultWaiter};
use crore_core::{Code, Handler, Invalid, Name, Span};
use crore_wire::grpc::jobworkerp::data::{QueueType, ResponseType, RunnerType, Worker, WorkerData};
use crore_wire::grpc::jobworkerp::service::CreateWorkerRequest;

use super::options::Options;
use super::stored_fields::StoredFields;
use super::workers::{self, WorkerDirectory};
use super::{built_in, links, operation, policy};

/// The default channel's name inside jobworkerp.
const DEFAULT_CHANNEL: &str = "__default_job_channel__";
/// A periodic interval must be longer than this, in milliseconds.
const PERIODIC_ABOVE: u32 = 1000;

/// A new worker, with defaults for absent fields.
pub(super) fn with_defaults(request: CreateWorkerRequest) -> WorkerData {
    WorkerData {
        name: request.name,
        r#type: request.r#type,
        operation: request.operation,
        retry_policy: request.retry_policy,
        periodic_interval: request.periodic_interval.unwrap_or_default(),
        channel: request.channel,
        queue_type: request.queue_type.unwrap_or(QueueType::Rdb.into()),
        response_type: request.response_type.unwrap_or_default(),
        store_success: request.store_success.unwrap_or_default(),
        store_failure: request.store_failure.unwrap_or_default(),
        next_workers: request.next_workers,
        use_static: request.use_static.unwrap_or_default(),
    }
}

/// A worker as a kind and its handler.
pub(super) fn read(data: &WorkerData, options: &Options) -> Result<(Name, Handler), Invalid> {
    let kind = Name::new("name", &data.name)?;
    if workers::is_reserved(&data.name) {
        let why = format!("`{}` is reserved for the built-in worker", data.name);
        return Err(wrong("name", why));
    }
    let runner_type = read_enum(data.r#type, "type", RunnerType::try_from)?;
    let (runner, settings) = operation::settings(runner_type, &data.operation)?;
    let mut handler = Handler::new(Name::new("runner", runner)?, settings);
    handler.queue = channel(data.channel.as_deref())?;
    handler.retry = policy::read(data.retry_policy.as_ref())?;
    handler.pooled = data.use_static;
    // In jobworkerp jobs have timeouts, workers do not.
    handler.inherits_timeout = true;
    handler.results = results(data, options)?;
    handler.every = every(data, handler.results.answer)?;
    if data.next_workers.len() > MAX_FOLLOW_UP_HANDLERS {
        let why = format!(
            "{} workers, at most {MAX_FOLLOW_UP_HANDLERS} are allowed",
            data.next_workers.len()
        );
        return Err(Invalid::new(Code::CountRange, "next_workers", why));
    }
    handler.links = links::links(&data.next_workers);
    StoredFields::from_worker(data).store(&mut handler);
    Ok((kind, handler))
}

fn results(data: &WorkerData, options: &Options) -> Result<ResultPolicy, Invalid> {
    let answer = match read_enum(data.response_type, "response_type", ResponseType::try_from)? {
        ResponseType::NoResult => ResultWaiter::None,
        ResponseType::Direct => ResultWaiter::Push,
        ResponseType::ListenAfter => ResultWaiter::Listen,
    };
    let (success, failure) = (data.store_success, data.store_failure);
    Ok(ResultPolicy { answer, success, failure, keep: options.keep_results })
}

fn channel(channel: Option<&str>) -> Result<Name, Invalid> {
    match channel {
        None | Some("" | DEFAULT_CHANNEL) => Name::new("channel", DEFAULT_QUEUE),
        Some(channel) => Name::new("channel", channel),
    }
}

fn every(data: &WorkerData, answer: ResultWaiter) -> Result<Option<Span>, Invalid> {
    match data.periodic_interval {
        0 => Ok(None),
        _ if answer == ResultWaiter::Push => {
            let why = "a periodic worker cannot have response type `DIRECT`";
            Err(wrong("periodic_interval", why))
        }
        interval if interval <= PERIODIC_ABOVE => {
            let why = format!("`{interval}` must be more than {PERIODIC_ABOVE} milliseconds");
            Err(wrong("periodic_interval", why))
        }
        interval => Ok(Some(Span::from_millis(interval.into()))),
    }
}

fn wrong(field: &str, message: impl Into<String>) -> Invalid {
    Invalid::new(Code::Malformed, field, message)
}

/// Reads an enum value.
pub(super) fn read_enum<T, E>(
    value: i32,
    field: &str,
    read: impl FnOnce(i32) -> Result<T, E>,
) -> Result<T, Invalid> {
    read(value).map_err(|_| wrong(field, format!("`{value}` is not a known value")))
}

/// Replaces core field names in an error about a handler with jobworkerp's.
pub(super) fn with_worker_fields(mut invalid: Invalid) -> Invalid {
    let field = match invalid.field.as_str() {
        "runner" => "type",
        "queue" => "channel",
        "kind" => "name",
        "every" => "periodic_interval",
        "next" | "on_failure" => "next_workers",
        "retry.max-attempts" => "retry_policy.max_retry",
        "retry.max-interval" => "retry_policy.max_interval",
        "retry.backoff.factor" => "retry_policy.basis",
        field if field.starts_with("retry.backoff") => "retry_policy.interval",
        field if field == "settings" || field.starts_with("settings.") => "operation",
        _ => return invalid,
    };
    field.clone_into(&mut invalid.field);
    invalid
}

/// A handler as a jobworkerp worker.
pub(super) fn to_worker(kind: &Name, handler: &Handler, workers: &WorkerDirectory) -> Worker {
    if workers::is_reserved(kind.as_str()) {
        return built_in::worker();
    }
    let stored = StoredFields::of(handler);
    let (runner_type, derived) =
        operation::to_operation(handler.runner.as_str(), &handler.settings);
    // The text as written, if it still means the same settings.
    let written = stored.as_ref().map(|stored| &stored.operation).filter(|text| {
        operation::settings(runner_type, text)
            .is_ok_and(|(_, settings)| settings == handler.settings)
    });
    let policy = stored.as_ref().and_then(StoredFields::policy);
    let policy = policy.filter(|policy| policy::read(Some(policy)) == Ok(handler.retry));
    let queue_type = stored.as_ref().map_or(QueueType::Rdb.into(), |stored| stored.queue_type);
    let channel = handler.queue.as_str();
    let data = WorkerData {
        name: kind.to_string(),
        r#type: runner_type.into(),
        operation: written.cloned().unwrap_or(derived),
        retry_policy: Some(policy.unwrap_or_else(|| policy::to_policy(&handler.retry))),
        periodic_interval: handler.every.map_or(0, millis),
        channel: (channel != DEFAULT_QUEUE).then(|| channel.to_owned()),
        queue_type,
        response_type: response_type(handler).into(),
        store_success: handler.results.success,
        store_failure: handler.results.failure,
        next_workers: links::next_workers(handler, workers),
        use_static: handler.pooled,
    };
    Worker { id: workers::worker_id(workers::id(handler)), data: Some(data) }
}

pub(super) const fn response_type(handler: &Handler) -> ResponseType {
    match handler.results.answer {
        ResultWaiter::None => ResponseType::NoResult,
        ResultWaiter::Push => ResponseType::Direct,
        ResultWaiter::Listen => ResponseType::ListenAfter,
    }
}

fn millis(span: Span) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}
