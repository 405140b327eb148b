//! Workers in its words, handlers in ours.

use crore_core::handler::{Answer, DEFAULT_QUEUE, MAX_FOLLOWS, Results};
use crore_core::{Code, Handler, Invalid, Name, Span};
use crore_wire::grpc::jobworkerp::data::{QueueType, ResponseType, RunnerType, Worker, WorkerData};
use crore_wire::grpc::jobworkerp::service::CreateWorkerRequest;

use super::kept::Kept;
use super::options::Options;
use super::workers::{self, Workers};
use super::{built_in, links, operation, policy};

/// What the default channel is called inside jobworkerp.
const DEFAULT_CHANNEL: &str = "__default_job_channel__";
/// Jobs are enqueued again less often than once in so many milliseconds.
const PERIODIC_ABOVE: u32 = 1000;

/// A new worker, with what it left unsaid.
pub(super) fn created(ask: CreateWorkerRequest) -> WorkerData {
    WorkerData {
        name: ask.name,
        r#type: ask.r#type,
        operation: ask.operation,
        retry_policy: ask.retry_policy,
        periodic_interval: ask.periodic_interval.unwrap_or_default(),
        channel: ask.channel,
        queue_type: ask.queue_type.unwrap_or(QueueType::Rdb.into()),
        response_type: ask.response_type.unwrap_or_default(),
        store_success: ask.store_success.unwrap_or_default(),
        store_failure: ask.store_failure.unwrap_or_default(),
        next_workers: ask.next_workers,
        use_static: ask.use_static.unwrap_or_default(),
    }
}

/// A worker in our words: its kind, and how jobs of that kind are run.
pub(super) fn read(data: &WorkerData, options: &Options) -> Result<(Name, Handler), Invalid> {
    let kind = Name::new("name", &data.name)?;
    if workers::is_reserved(&data.name) {
        let why = format!("`{}` is the name of what the server brings along", data.name);
        return Err(wrong("name", why));
    }
    let sort = known(data.r#type, "type", RunnerType::try_from)?;
    let (runner, settings) = operation::settings(sort, &data.operation)?;
    let mut handler = Handler::new(Name::new("runner", runner)?, settings);
    handler.queue = channel(data.channel.as_deref())?;
    handler.retry = policy::read(data.retry_policy.as_ref())?;
    handler.pooled = data.use_static;
    // It has no time-out of its own there: jobs have.
    handler.inherits_timeout = true;
    handler.results = results(data, options)?;
    handler.every = every(data, handler.results.answer)?;
    if data.next_workers.len() > MAX_FOLLOWS {
        let why = format!("{} workers, at most {MAX_FOLLOWS} are allowed", data.next_workers.len());
        return Err(Invalid::new(Code::CountRange, "next_workers", why));
    }
    handler.links = links::links(&data.next_workers);
    Kept::said(data).keep(&mut handler);
    Ok((kind, handler))
}

fn results(data: &WorkerData, options: &Options) -> Result<Results, Invalid> {
    let answer = match known(data.response_type, "response_type", ResponseType::try_from)? {
        ResponseType::NoResult => Answer::None,
        ResponseType::Direct => Answer::Push,
        ResponseType::ListenAfter => Answer::Listen,
    };
    let (success, failure) = (data.store_success, data.store_failure);
    Ok(Results { answer, success, failure, keep: options.keep_results })
}

fn channel(channel: Option<&str>) -> Result<Name, Invalid> {
    match channel {
        None | Some("" | DEFAULT_CHANNEL) => Name::new("channel", DEFAULT_QUEUE),
        Some(channel) => Name::new("channel", channel),
    }
}

fn every(data: &WorkerData, answer: Answer) -> Result<Option<Span>, Invalid> {
    match data.periodic_interval {
        0 => Ok(None),
        _ if answer == Answer::Push => {
            let why = "a job that is enqueued again and again cannot be answered `DIRECT`";
            Err(wrong("periodic_interval", why))
        }
        interval if interval <= PERIODIC_ABOVE => {
            let why = format!("`{interval}` is not more than {PERIODIC_ABOVE} milliseconds");
            Err(wrong("periodic_interval", why))
        }
        interval => Ok(Some(Span::from_millis(interval.into()))),
    }
}

fn wrong(field: &str, message: impl Into<String>) -> Invalid {
    Invalid::new(Code::Malformed, field, message)
}

/// A value of an enum.
pub(super) fn known<T, E>(
    value: i32,
    field: &str,
    read: impl FnOnce(i32) -> Result<T, E>,
) -> Result<T, Invalid> {
    read(value).map_err(|_| wrong(field, format!("`{value}` stands for nothing")))
}

/// The same fault about a handler, in the words of jobworkerp.
pub(super) fn in_its_words(mut invalid: Invalid) -> Invalid {
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

/// A handler in the words of jobworkerp.
pub(super) fn said(kind: &Name, handler: &Handler, workers: &Workers) -> Worker {
    if workers::is_reserved(kind.as_str()) {
        return built_in::worker();
    }
    let kept = Kept::of(handler);
    let (sort, derived) = operation::said(handler.runner.as_str(), &handler.settings);
    // As it was written, if that still means what is run.
    let written = kept.as_ref().map(|kept| &kept.operation).filter(|text| {
        operation::settings(sort, text).is_ok_and(|(_, settings)| settings == handler.settings)
    });
    let policy = kept.as_ref().and_then(Kept::policy);
    let policy = policy.filter(|policy| policy::read(Some(policy)) == Ok(handler.retry));
    let queue_type = kept.as_ref().map_or(QueueType::Rdb.into(), |kept| kept.queue_type);
    let channel = handler.queue.as_str();
    let data = WorkerData {
        name: kind.to_string(),
        r#type: sort.into(),
        operation: written.cloned().unwrap_or(derived),
        retry_policy: Some(policy.unwrap_or_else(|| policy::said(&handler.retry))),
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
        Answer::None => ResponseType::NoResult,
        Answer::Push => ResponseType::Direct,
        Answer::Listen => ResponseType::ListenAfter,
    }
}

fn millis(span: Span) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}
