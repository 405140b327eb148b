//! Between the words of LightJQ and ours.
//!
//! | LightJQ | crore |
//! |---|---|
//! | `name` | the kind; all jobs are in one queue, `lightjq`, so that the least priority of all is next |
//! | `argument` | the payload, as MessagePack |
//! | `max_retry` n | n + 1 attempts, exponential delays |
//! | `keep_result` | the result can be read once within the retention time; or it is discarded |
//! | `timeout` | the timeout of a run; the lease is a little longer, since these workers do not renew it |
//! | `queued`, `retrying` | waiting, scheduled or ready, without or with an attempt behind it |
//! | `error` | dead or cancelled |

use crore_core::job::{Keep, Lapse};
use crore_core::machine::{Again, Outcome};
use crore_core::retry::Retry;
use crore_core::{Code, Encoding, Invalid, Job, Name, Payload, Span, Spec, State};
use crore_wire::words::Moment;
use crore_wire::{Format, Raw};

use super::words::{Ended, NewJob, Report, Standing, Status, WorkerJob};

/// The one queue of all LightJQ jobs.
pub(super) const QUEUE: &str = "lightjq";

/// How much longer than its timeout a job's lease is, so that it is the timeout that ends it.
const GRACE: Span = Span::from_secs(10);
/// The longest timeout: the lease of a worker that never says that it is alive has to end.
const LONGEST: u64 = 24 * 60 * 60 - 10;
const DEFAULT_TIMEOUT: u64 = 30;
const DEFAULT_RETRIES: u32 = 10;

/// A job to push, in our words.
pub(super) fn spec(job: &NewJob, keep_results: Span) -> Result<Spec, Invalid> {
    let kind = Name::new("name", &job.name)?;
    let timeout = job.timeout.unwrap_or(DEFAULT_TIMEOUT);
    if !(1..=LONGEST).contains(&timeout) {
        let message = format!("`{timeout}` seconds lie outside 1 to {LONGEST}");
        return Err(Invalid::new(Code::TimeoutRange, "timeout", message));
    }
    let retries = job.max_retry.unwrap_or(DEFAULT_RETRIES);
    let most = crore_core::retry::MAX_ATTEMPTS - 1;
    if retries > most {
        let message = format!("`{retries}` lies outside 0 to {most}");
        return Err(Invalid::new(Code::RetryRange, "max_retry", message));
    }
    let mut spec = Spec::new(Name::new("queue", QUEUE)?, kind, argument(&job.argument)?);
    spec.priority = job.priority.unwrap_or(0);
    spec.retry = Retry { max_attempts: Some(retries + 1), ..Retry::default() };
    spec.timeout = Some(Span::from_secs(timeout));
    spec.lease = Some(Span::from_secs(timeout).plus(GRACE));
    spec.lapse = Lapse::Failure;
    spec.keep =
        if job.keep_result == Some(true) { Keep::Once(keep_results) } else { Keep::Discard };
    Ok(spec)
}

/// The argument as MessagePack, whatever it came as. It is a map.
fn argument(argument: &Raw) -> Result<Payload, Invalid> {
    let payload = packed("argument", argument)?;
    match payload.bytes.first() {
        Some(0x80..=0x8f | 0xde | 0xdf) => Ok(payload),
        _ => Err(Invalid::new(Code::PayloadMalformed, "argument", "is not a map")),
    }
}

/// A value as a MessagePack payload.
fn packed(field: &str, value: &Raw) -> Result<Payload, Invalid> {
    let payload = value.clone().into_payload(field)?;
    if payload.encoding == Encoding::Msgpack {
        return Ok(payload);
    }
    let unsaid = || Invalid::new(Code::PayloadMalformed, field, "cannot be said in MessagePack");
    value.convert(Format::Msgpack).ok_or_else(unsaid)?.into_payload(field)
}

/// A payload as a value, whoever pushed it: what is neither JSON nor MessagePack is a text or bytes.
fn value(payload: &Payload) -> Raw {
    match payload.encoding {
        Encoding::Json => Raw::new(Format::Json, payload.bytes.clone()),
        Encoding::Msgpack => Raw::new(Format::Msgpack, payload.bytes.clone()),
        Encoding::Text => {
            let text = String::from_utf8_lossy(&payload.bytes);
            Raw::new(Format::Msgpack, Format::Msgpack.encode(&text))
        }
        Encoding::Protobuf | Encoding::Bytes => {
            Raw::new(Format::Msgpack, Format::Msgpack.encode(&Bin(&payload.bytes)))
        }
    }
}

/// Bytes that are written as bytes, and not as a list of numbers.
struct Bin<'a>(&'a [u8]);

impl serde::Serialize for Bin<'_> {
    fn serialize<S: serde::Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
        writer.serialize_bytes(self.0)
    }
}

/// How a job stands; `kept` is its result, or the details of its failure.
pub(super) fn status(job: &Job, kept: Option<&Payload>) -> Status {
    let live = &job.live;
    let was_run = live.attempt > 0;
    let status = match live.state {
        State::Waiting | State::Scheduled | State::Ready if was_run => Standing::Retrying,
        State::Waiting | State::Scheduled | State::Ready => Standing::Queued,
        State::Running => Standing::Running,
        State::Done => Standing::Done,
        State::Dead | State::Cancelled => Standing::Error,
    };
    let said = live.history.iter().find_map(|attempt| attempt.error.as_deref());
    let (message, said) = match live.state {
        State::Done => ("", None),
        State::Cancelled => told(said.unwrap_or("cancelled")),
        _ => told(said.unwrap_or_default()),
    };
    let kept = kept.map(value);
    let (result, error) = if status == Standing::Error { (None, kept) } else { (kept, None) };
    let error = error.or(said);
    let worker = live.worker.as_ref().filter(|_| status != Standing::Queued);
    Status {
        status,
        worker_id: worker.map(ToString::to_string),
        result,
        error,
        message: message.to_owned(),
        // A job that waits to be retried is at the retry that it waits for.
        retry_count: live.attempt.saturating_sub(u32::from(status != Standing::Retrying)),
        finished_at: live.ended_at.map(Moment),
    }
}

/// A report, in our words.
pub(super) fn outcome(report: Report) -> Result<Outcome, Invalid> {
    let missing =
        |field: &str| Invalid::new(Code::Malformed, field, format!("missing field `{field}`"));
    if report.ended == Ended::Success {
        let result = report.result.map(|result| packed("result", &result)).transpose()?;
        return Ok(Outcome::Done { result });
    }
    report.reason.ok_or_else(|| missing("reason"))?;
    let should_retry = report.should_retry.ok_or_else(|| missing("should_retry"))?;
    let message = report.message.ok_or_else(|| missing("message"))?;
    let error = telling(message, report.error.as_ref()).into();
    let detail = report.error.map(|error| packed("error", &error)).transpose()?;
    let again = if should_retry { Again::ByPolicy } else { Again::Never };
    Ok(Outcome::Failed { error, detail, again })
}

/// Between the message and the error of a failure, where both stand in one text.
const ERROR: &str = "\nerror: ";

/// What a failure says, for people and for whoever asks while the job is tried again: its details are
/// kept like a result, and thus neither always nor from the start.
fn telling(message: String, error: Option<&Raw>) -> String {
    let error = error.and_then(|error| error.convert(Format::Json));
    match error.as_ref().and_then(|error| std::str::from_utf8(error.bytes()).ok()) {
        Some(error) => message + ERROR + error,
        None => message,
    }
}

/// What a failure said: its message, and its error if it is there whole.
fn told(text: &str) -> (&str, Option<Raw>) {
    let parts = text.rsplit_once(ERROR).and_then(|(message, error)| {
        let error = Raw::new(Format::Json, error.as_bytes()).convert(Format::Json)?;
        Some((message, Some(error)))
    });
    parts.unwrap_or((text, None))
}

/// A job as a worker is given it.
pub(super) fn worker_job(job: &Job) -> Vec<u8> {
    let id = job.id.to_string();
    let timeout = job.spec.timeout.map_or(0, |timeout| timeout.as_millis().div_ceil(1000));
    Format::Msgpack.encode(&WorkerJob {
        id: &id,
        job_id: &id,
        name: job.spec.kind.as_str(),
        argument: value(&job.spec.payload),
        timeout,
        delivery: job.live.delivery.into(),
        retry_count: job.live.attempt.saturating_sub(1),
    })
}

#[cfg(test)]
mod tests;
