//! Translation between Lakh's messages and crore's types.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crore_core::job::{ClientId, DueTime, Lapse, ReportFencing};
use crore_core::payload::Encoding;
use crore_core::retry::{Backoff, Retry};
use crore_core::{Caps, Code, Invalid, Job, Name, NewJob, Payload, Span, Spec, Time};
use crore_wire::grpc::lakh::{self, job::ExecutionTime};
use crore_wire::{Format, Raw};
use prost_types::{Duration, Timestamp};
use serde_json::Value;

/// Retries before a job is dead.
const RETRIES: u32 = 30;
/// Prefix of the job name in the door part of a client id.
const DOOR_PREFIX: &str = "lakh:";

/// The client id of a job of this name.
pub(super) fn client_id(name: &str, id: &str) -> Result<ClientId, Invalid> {
    let door = Name::new("name", &format!("{DOOR_PREFIX}{name}"))?;
    Ok(ClientId { door, id: id.into() })
}

/// Converts a Lakh job to the core type.
pub(super) fn from_lakh(job: lakh::Job, caps: &Caps) -> Result<NewJob, Invalid> {
    let name = Name::new("name", &job.name)?;
    let lease = job.reservation_time.map(|time| reservation(time, caps)).transpose()?;
    let due = match job.execution_time {
        None | Some(ExecutionTime::Immediate(())) => DueTime::Now,
        Some(ExecutionTime::Delayed(delay)) => DueTime::After(span(delay)),
        Some(ExecutionTime::Scheduled(at)) => DueTime::At(time(at)),
    };
    let id = if job.id.is_empty() { fresh_id()? } else { job.id };
    let args = Value::from(job.args).to_string();
    let retry = Retry {
        backoff: Backoff::Polynomial,
        max_attempts: Some(RETRIES + 1),
        max_interval: None,
        jitter: 0,
    };
    let spec = Spec {
        lease,
        retry,
        client_id: Some(Box::new(client_id(&job.name, &id)?)),
        reports: ReportFencing::Any,
        lapse: match lease {
            Some(_) => Lapse::Again,
            // A job that was not handed over was not tried.
            None => Lapse::Crash { quarantine: None },
        },
        ..Spec::new(name.clone(), name, Payload::json(&args))
    };
    Ok(NewJob { due, ..spec.into() })
}

/// An id for a job that has none, so that its worker can name it.
fn fresh_id() -> Result<String, Invalid> {
    let mut bytes = [0; 16];
    let none = |_| {
        Invalid::new(
            Code::KeyEmpty,
            "id",
            "is empty, and the operating system's random source is unavailable to create one",
        )
    };
    getrandom::fill(&mut bytes).map_err(none)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A reservation as a lease, at least as long as the shortest lease.
fn reservation(time: Duration, caps: &Caps) -> Result<Span, Invalid> {
    if nanos(time.seconds, time.nanos) < 0 {
        let message = format!("`{}s` is negative", time.seconds);
        return Err(Invalid::new(Code::LeaseRange, "reservation_time", message));
    }
    Ok(span(time).max(caps.min_lease))
}

/// In i128, so that no sum of two fields overflows.
fn nanos(seconds: i64, nanos: i32) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanos)
}

/// Milliseconds, rounded up: no job starts early.
fn millis(nanos: i128) -> i128 {
    nanos.div_euclid(1_000_000) + i128::from(nanos.rem_euclid(1_000_000) > 0)
}

/// Negative durations count as zero.
fn span(duration: Duration) -> Span {
    let millis = millis(nanos(duration.seconds, duration.nanos)).max(0);
    u64::try_from(millis).map_or(Span::MAX, Span::from_millis)
}

fn time(at: Timestamp) -> Time {
    let millis = millis(nanos(at.seconds, at.nanos)).max(0);
    i64::try_from(millis).map_or(Time::MAX, Time::from_millis)
}

/// Replaces core field names in an error with Lakh's.
pub(super) fn with_lakh_fields(mut invalid: Invalid) -> Invalid {
    let field = invalid.field.split_once("].").map_or(&*invalid.field, |(_, field)| field);
    let field = match field {
        "payload" => "args",
        "lease" => "reservation_time",
        "due" => "execution_time",
        "client-id" => "id",
        other => other,
    };
    invalid.field = field.to_owned();
    invalid
}

/// The id by which a worker names a job: its producer's, or the job's id in crore for a job from another door.
pub(super) fn id(job: &Job) -> Arc<str> {
    match &job.spec.client_id {
        Some(client) if is_lakh_client(client) => Arc::clone(&client.id),
        _ => format!("crore:{}", job.id).into(),
    }
}

fn is_lakh_client(client: &ClientId) -> bool {
    client.door.as_str().starts_with(DOOR_PREFIX)
}

/// Whether a job was pushed through this door.
pub(super) fn is_from_lakh(job: &Job) -> bool {
    job.spec.client_id.as_deref().is_some_and(is_lakh_client)
}

/// A job as a Lakh message, with the name that the worker asked for. The execution time is the current due time: a
/// retried job has the instant at which it was due.
pub(super) fn to_lakh(job: &Job, name: &Name) -> lakh::Job {
    let due = job.live.due;
    let execution_time = match due > job.live.pushed_at {
        true => ExecutionTime::Scheduled(Timestamp {
            seconds: due.as_millis().div_euclid(1000),
            nanos: (due.as_millis().rem_euclid(1000) * 1_000_000) as i32,
        }),
        false => ExecutionTime::Immediate(()),
    };
    let reservation_time = job.spec.lease.map(|lease| Duration {
        seconds: i64::try_from(lease.as_millis() / 1000).unwrap_or(i64::MAX),
        nanos: (lease.as_millis() % 1000 * 1_000_000) as i32,
    });
    lakh::Job {
        id: id(job).to_string(),
        name: name.to_string(),
        args: args(&job.spec.payload),
        execution_time: Some(execution_time),
        reservation_time,
    }
}

/// Arguments. The payload of another door is one argument, unless it is a list. MessagePack is sent as JSON, if JSON
/// can represent it.
fn args(payload: &Payload) -> Vec<String> {
    let base64 = || vec![STANDARD.encode(&payload.bytes)];
    match payload.encoding {
        Encoding::Json => json_args(&payload.bytes),
        Encoding::Text => vec![String::from_utf8_lossy(&payload.bytes).into_owned()],
        Encoding::Msgpack => Raw::new(Format::Msgpack, payload.bytes.clone())
            .convert(Format::Json)
            .map_or_else(base64, |json| json_args(json.bytes())),
        Encoding::Protobuf | Encoding::Bytes => base64(),
    }
}

fn json_args(json: &[u8]) -> Vec<String> {
    match serde_json::from_slice(json) {
        Ok(Value::Array(all)) => all.into_iter().map(arg).collect(),
        _ => vec![String::from_utf8_lossy(json).into_owned()],
    }
}

fn arg(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
