//! Translates between LightJQ and crore.
//!
//! | LightJQ | crore |
//! |---|---|
//! | `name` | the kind; all jobs are in one queue, `lightjq`, so that priorities order all of them |
//! | `argument` | the payload, as MessagePack |
//! | `max_retry` n | n + 1 attempts, exponential back-off |
//! | `keep_result` | the result can be read once within `lightjq.keep-results`; otherwise it is discarded |
//! | `timeout` | the timeout of a run; the lease is 10 s longer, since push workers do not renew it |
//! | `queued`, `retrying` | waiting, scheduled or ready, before or after the first attempt |
//! | `error` | dead or cancelled |

use crore_core::job::{Attempt, DeliveryEnd, Lapse, ReportDetails, ResultRetention};
use crore_core::machine::{Outcome, Report, RetryDirective};
use crore_core::retry::Retry;
use crore_core::{Code, Encoding, Invalid, Job, Live, Name, Payload, Span, Spec, State, Time};
use crore_wire::api::DeliveryId;
use crore_wire::units::Moment;
use crore_wire::{Format, Raw};

use super::messages::{
    FailureReason, LightJqNewJob, LightJqReport, LightJqState, LightJqStatus, ReportType,
};

/// The queue of all LightJQ jobs.
pub(crate) const QUEUE: &str = "lightjq";

/// Difference between the lease and the timeout, so that the timeout comes first.
const GRACE: Span = Span::from_secs(10);
/// Maximum timeout, in seconds: with the grace it must not exceed the longest lease.
const MAX_TIMEOUT_SECS: u64 = 24 * 60 * 60 - 10;
const DEFAULT_TIMEOUT: u64 = 30;
const DEFAULT_RETRIES: u32 = 10;

/// Converts a new job to the core type.
pub(super) fn spec(job: &LightJqNewJob, keep_results: Span) -> Result<Spec, Invalid> {
    let kind = Name::new("name", &job.name)?;
    let timeout = job.timeout.unwrap_or(DEFAULT_TIMEOUT);
    if !(1..=MAX_TIMEOUT_SECS).contains(&timeout) {
        let message = format!("`{timeout}` seconds is out of range: 1 to {MAX_TIMEOUT_SECS}");
        return Err(Invalid::new(Code::TimeoutRange, "timeout", message));
    }
    let retries = job.max_retry.unwrap_or(DEFAULT_RETRIES);
    let max = crore_core::retry::MAX_ATTEMPTS - 1;
    if retries > max {
        let message = format!("`{retries}` is out of range: 0 to {max}");
        return Err(Invalid::new(Code::RetryRange, "max_retry", message));
    }
    let mut spec = Spec::new(Name::new("queue", QUEUE)?, kind, argument(&job.argument)?);
    spec.priority = job.priority.unwrap_or(0);
    spec.retry = Retry { max_attempts: Some(retries + 1), ..Retry::default() };
    spec.timeout = Some(Span::from_secs(timeout));
    spec.lease = Some(Span::from_secs(timeout).plus(GRACE));
    spec.lapse = Lapse::Failure;
    spec.keep = if job.keep_result == Some(true) {
        ResultRetention::Once(keep_results)
    } else {
        ResultRetention::Discard
    };
    Ok(spec)
}

/// The argument as MessagePack. It may be any value, also one that JSON cannot represent.
fn argument(argument: &Raw) -> Result<Payload, Invalid> {
    match argument.format() {
        Format::Json => to_msgpack("argument", argument),
        Format::Msgpack => Ok(Payload::new(Encoding::Msgpack, argument.bytes())),
    }
}

/// A value as a MessagePack payload.
fn to_msgpack(field: &str, value: &Raw) -> Result<Payload, Invalid> {
    let payload = value.clone().into_payload(field)?;
    if payload.encoding == Encoding::Msgpack {
        return Ok(payload);
    }
    let unrepresentable =
        || Invalid::new(Code::PayloadMalformed, field, "cannot be represented in MessagePack");
    value.convert(Format::Msgpack).ok_or_else(unrepresentable)?.into_payload(field)
}

/// A payload of any encoding as a value; text and bytes become a MessagePack string or binary.
fn value(payload: &Payload) -> Raw {
    match payload.encoding {
        Encoding::Json => Raw::new(Format::Json, payload.bytes.clone()),
        Encoding::Msgpack => Raw::new(Format::Msgpack, payload.bytes.clone()),
        Encoding::Text => {
            let text = String::from_utf8_lossy(&payload.bytes);
            Raw::new(Format::Msgpack, Format::Msgpack.encode(&text))
        }
        Encoding::Protobuf | Encoding::Bytes => {
            Raw::new(Format::Msgpack, Format::Msgpack.encode(&MsgpackBytes(&payload.bytes)))
        }
    }
}

/// Serializes as bytes, not as a list of numbers.
struct MsgpackBytes<'a>(&'a [u8]);

impl serde::Serialize for MsgpackBytes<'_> {
    fn serialize<S: serde::Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
        writer.serialize_bytes(self.0)
    }
}

/// The status of a job; `stored` is its result, or the details of its failure.
pub(super) fn status(job: &Job, stored: Option<&Payload>) -> LightJqStatus {
    let live = &job.live;
    let was_run = live.attempt > 0;
    let status = match live.state {
        State::Waiting | State::Scheduled | State::Ready if was_run => LightJqState::Retrying,
        State::Waiting | State::Scheduled | State::Ready => LightJqState::Queued,
        State::Running => LightJqState::Running,
        State::Done => LightJqState::Done,
        State::Dead | State::Cancelled => LightJqState::Error,
    };
    let failure = live.history.iter().find(|attempt| attempt.error.is_some());
    let last_error = failure.and_then(|attempt| attempt.error.as_deref());
    let (message, last_error) = match live.state {
        State::Done => ("", None),
        State::Cancelled => split_error_text(last_error.unwrap_or("cancelled")),
        _ => split_error_text(last_error.unwrap_or_default()),
    };
    let stored = stored.map(value);
    let (result, error) =
        if status == LightJqState::Error { (None, stored) } else { (stored, None) };
    let error = error.or(last_error);
    let worker = live.worker.as_ref().filter(|_| status != LightJqState::Queued);
    LightJqStatus {
        status,
        worker_id: worker.map(ToString::to_string),
        result,
        error,
        message: message.to_owned(),
        reason: failure.filter(|_| status != LightJqState::Done).map(reason),
        // A job that waits for a retry counts that retry.
        retry_count: live.attempt.saturating_sub(u32::from(status != LightJqState::Retrying)),
        finished_at: finished_at(live).map(Moment),
    }
}

/// When the job ended: as its worker reported, if its report ended the job.
fn finished_at(live: &Live) -> Option<Time> {
    let is_reported = matches!(live.state, State::Done | State::Dead);
    let last = live.history.first().filter(|_| is_reported);
    live.ended_at.map(|at| last.and_then(|attempt| attempt.details.finished_at).unwrap_or(at))
}

const TIMEOUT: &str = "timeout";
const OTHER: &str = "other";

fn reason(attempt: &Attempt) -> FailureReason {
    let is_timeout = match attempt.details.reason.as_deref() {
        Some(reason) => reason == TIMEOUT,
        None => attempt.ended == DeliveryEnd::TimedOut,
    };
    if is_timeout { FailureReason::Timeout } else { FailureReason::Other }
}

/// Converts a report to the core type.
pub(super) fn report(report: LightJqReport) -> Result<Report, Invalid> {
    let details = ReportDetails {
        finished_at: report.finished_at.as_deref().map(iso_time).transpose()?,
        reason: report.reason.map(|reason| match reason {
            FailureReason::Timeout => TIMEOUT.into(),
            FailureReason::Other => OTHER.into(),
        }),
    };
    Ok(Report { details, ..outcome(report)?.into() })
}

/// A time in ISO 8601. Workers may write it without a zone; it is then in UTC.
fn iso_time(text: &str) -> Result<Time, Invalid> {
    let time = text.parse::<Moment>().or_else(|_| format!("{text}Z").parse::<Moment>());
    let wrong = |_| {
        let text: String = text.chars().take(40).collect();
        let why = format!("`{text}` is not a time such as `2026-11-15T08:00:00Z`");
        Invalid::new(Code::Malformed, "finished_at", why)
    };
    time.map(|Moment(time)| time).map_err(wrong)
}

fn outcome(report: LightJqReport) -> Result<Outcome, Invalid> {
    let missing =
        |field: &str| Invalid::new(Code::Malformed, field, format!("missing field `{field}`"));
    if report.ended == ReportType::Success {
        let result = report.result.map(|result| to_msgpack("result", &result)).transpose()?;
        return Ok(Outcome::Done { result });
    }
    report.reason.ok_or_else(|| missing("reason"))?;
    let should_retry = report.should_retry.ok_or_else(|| missing("should_retry"))?;
    let message = report.message.ok_or_else(|| missing("message"))?;
    let error = error_text(message, report.error.as_ref()).into();
    let detail = report.error.map(|error| to_msgpack("error", &error)).transpose()?;
    let again = if should_retry { RetryDirective::ByPolicy } else { RetryDirective::Never };
    Ok(Outcome::Failed { error, detail, again })
}

/// Separates message and error of a failure in the stored error text.
const ERROR_SEPARATOR: &str = "\nerror: ";

/// The stored error text of a failure: its message and its error. The details are stored like a result, so they are
/// not always retained, and not before the job has ended.
fn error_text(message: String, error: Option<&Raw>) -> String {
    let error = error.and_then(|error| error.convert(Format::Json));
    match error.as_ref().and_then(|error| std::str::from_utf8(error.bytes()).ok()) {
        Some(error) => message + ERROR_SEPARATOR + error,
        None => message,
    }
}

/// The message of a stored error text, and the error if it is complete.
fn split_error_text(text: &str) -> (&str, Option<Raw>) {
    let parts = text.rsplit_once(ERROR_SEPARATOR).and_then(|(message, error)| {
        let error = Raw::new(Format::Json, error.as_bytes()).convert(Format::Json)?;
        Some((message, Some(error)))
    });
    parts.unwrap_or((text, None))
}

/// A job as a push worker receives it: [`LightJqWorkerJob`] and its argument, whose bytes are sent as they are.
pub(super) fn worker_job(job: &Job) -> Vec<u8> {
    let id = job.id.to_string();
    let timeout = job.spec.timeout.map_or(0, |timeout| timeout.as_millis().div_ceil(1000));
    let argument = match job.spec.payload.encoding {
        Encoding::Msgpack => job.spec.payload.bytes.to_vec(),
        _ => Format::Msgpack.encode(&value(&job.spec.payload)),
    };
    let fields = [
        ("id", Format::Msgpack.encode(&id)),
        ("job_id", Format::Msgpack.encode(&id)),
        ("name", Format::Msgpack.encode(&job.spec.kind)),
        ("argument", argument),
        ("timeout", Format::Msgpack.encode(&timeout)),
        ("delivery", Format::Msgpack.encode(&DeliveryId::from(job.live.delivery))),
        ("retry_count", Format::Msgpack.encode(&job.live.attempt.saturating_sub(1))),
    ];
    let mut body = vec![FIXMAP | fields.len() as u8];
    for (key, value) in fields {
        body.extend(Format::Msgpack.encode(&key));
        body.extend(value);
    }
    body
}

/// The first byte of a map with few entries, without their number.
const FIXMAP: u8 = 0x80;

#[cfg(test)]
mod tests;
