//! Its words and ours.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crore_core::job::{ClientId, Lapse, Reports, When};
use crore_core::payload::Encoding;
use crore_core::retry::{Backoff, Retry};
use crore_core::{Caps, Code, Invalid, Job, Name, NewJob, Payload, Span, Spec, Time};
use crore_wire::grpc::lakh::{self, job::ExecutionTime};
use prost_types::{Duration, Timestamp};
use serde_json::Value;

/// A job is tried again so often before it is dead.
const RETRIES: u32 = 30;
/// What stands before the name of a job in the door of its client id.
const DOOR: &str = "lakh:";

/// The id that a producer gave to a job of this name.
pub(super) fn client_id(name: &str, id: &str) -> Result<ClientId, Invalid> {
    let door = Name::new("name", &format!("{DOOR}{name}"))?;
    Ok(ClientId { door, id: id.into() })
}

/// A job in our words.
pub(super) fn read(job: lakh::Job, caps: &Caps) -> Result<NewJob, Invalid> {
    let name = Name::new("name", &job.name)?;
    let lease = job.reservation_time.map(|time| reservation(time, caps)).transpose()?;
    let due = match job.execution_time {
        None | Some(ExecutionTime::Immediate(())) => When::Now,
        Some(ExecutionTime::Delayed(delay)) => When::After(span(delay)),
        Some(ExecutionTime::Scheduled(at)) => When::At(time(at)),
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
        client_id: Some(client_id(&job.name, &id)?),
        reports: Reports::Any,
        lapse: match lease {
            Some(_) => Lapse::Again,
            // What was not handed over was not tried.
            None => Lapse::Crash { quarantine: None },
        },
        ..Spec::new(name.clone(), name, Payload::json(&args))
    };
    Ok(NewJob { due, ..spec.into() })
}

/// An id for a job whose producer gave it none, so that its worker can name it.
fn fresh_id() -> Result<String, Invalid> {
    let mut bytes = [0; 16];
    let none = |_| Invalid::new(Code::KeyEmpty, "id", "it is empty, and there is no randomness");
    getrandom::fill(&mut bytes).map_err(none)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A reservation. One that is shorter than any lease lasts as long as the shortest.
fn reservation(time: Duration, caps: &Caps) -> Result<Span, Invalid> {
    if nanos(time.seconds, time.nanos) < 0 {
        let message = format!("`{}s` is less than nothing", time.seconds);
        return Err(Invalid::new(Code::LeaseRange, "reservation_time", message));
    }
    Ok(span(time).max(caps.min_lease))
}

/// In numbers that no sum of two fields can leave.
fn nanos(seconds: i64, nanos: i32) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanos)
}

/// Milliseconds, and the rest of one as a whole one: nothing is early.
fn millis(nanos: i128) -> i128 {
    nanos.div_euclid(1_000_000) + i128::from(nanos.rem_euclid(1_000_000) > 0)
}

/// What is less than nothing is nothing.
fn span(duration: Duration) -> Span {
    let millis = millis(nanos(duration.seconds, duration.nanos)).max(0);
    u64::try_from(millis).map_or(Span::MAX, Span::from_millis)
}

fn time(at: Timestamp) -> Time {
    let millis = millis(nanos(at.seconds, at.nanos)).max(0);
    i64::try_from(millis).map_or(Time::MAX, Time::from_millis)
}

/// What a job breaks, by the names that its producer knows.
pub(super) fn in_its_words(mut invalid: Invalid) -> Invalid {
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

/// The id by which a worker names a job: its producer's, or our own number if it came through another door.
pub(super) fn id(job: &Job) -> Arc<str> {
    match &job.spec.client_id {
        Some(client) if is_of_lakh(client) => Arc::clone(&client.id),
        _ => format!("crore:{}", job.id).into(),
    }
}

fn is_of_lakh(client: &ClientId) -> bool {
    client.door.as_str().starts_with(DOOR)
}

/// Whether a job came through this door.
pub(super) fn came_here(job: &Job) -> bool {
    job.spec.client_id.as_ref().is_some_and(is_of_lakh)
}

/// A job in its words. Its name is that of its queue, which is what its worker asked for. When it may start
/// is said as it is now: a job that waited stands at the instant at which it was due.
pub(super) fn say(job: &Job) -> lakh::Job {
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
        name: job.spec.queue.to_string(),
        args: args(&job.spec.payload),
        execution_time: Some(execution_time),
        reservation_time,
    }
}

/// Arguments. What came through another door is one argument, unless it is a list.
fn args(payload: &Payload) -> Vec<String> {
    let text = || String::from_utf8_lossy(&payload.bytes).into_owned();
    match payload.encoding {
        Encoding::Json => match serde_json::from_slice(&payload.bytes) {
            Ok(Value::Array(all)) => all.into_iter().map(arg).collect(),
            _ => vec![text()],
        },
        Encoding::Text => vec![text()],
        Encoding::Msgpack | Encoding::Protobuf | Encoding::Bytes => {
            vec![STANDARD.encode(&payload.bytes)]
        }
    }
}

fn arg(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
