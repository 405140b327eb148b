//! Bodies of the native API in JSON and MessagePack, as far as they are read without a server.
//!
//! ```text
//! input = name of the reader, line feed, body
//! ```

use std::fmt::Debug;

use crore_wire::api::{
    act, backups, fetch, finish, handlers, limits, notes, problem, push, queues, schedules, tokens,
    workers,
};
use crore_wire::{Format, Raw};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::memory::MemoryBound;
use crate::properties::check_invalid;

/// An empty follow-up takes three bytes of the body; in memory it is held as sent, and as a job of the engine.
const MEMORY: MemoryBound = MemoryBound { base: 64 << 10, per_byte: 1024 };

const FORMATS: [Format; 2] = [Format::Json, Format::Msgpack];

pub(crate) fn run(input: &[u8]) {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else { return };
    let (reader, body) = (&input[..end], &input[end + 1..]);
    for format in FORMATS {
        MEMORY.check(body.len(), || read(reader, format, body));
    }
}

fn read(reader: &[u8], format: Format, body: &[u8]) {
    match reader {
        b"push" => push(format, body),
        b"raw" => raw(format, body),
        b"finish" => check(format, body, |finish: &finish::Finish| {
            finish.jobs.iter().all(|job| job.clone().read(format).is_ok())
        }),
        b"handler" => check(format, body, |handler: &handlers::SetHandler| {
            let Ok(read) = handler.clone().read() else { return false };
            assert_eq!(handlers::SetHandler::of(&read, format).read(), Ok(read));
            true
        }),
        b"schedule" => check(format, body, |schedule: &schedules::SetSchedule| {
            schedule.job.clone().read(format).is_ok()
        }),
        b"act" => check(format, body, |_: &act::ActOnAll| true),
        b"backup" => check(format, body, |_: &backups::NewBackup| true),
        b"change" => check(format, body, |_: &act::Change| true),
        b"fetch" => check(format, body, |_: &fetch::Fetch| true),
        b"limit" => check(format, body, |_: &limits::SetLimit| true),
        b"notes" => check(format, body, |_: &notes::NewNotes| true),
        b"problem" => check(format, body, |_: &problem::Problem| true),
        b"queue" => check(format, body, |_: &queues::ChangeQueue| true),
        b"renew" => check(format, body, |_: &fetch::Renew| true),
        b"token" => check(format, body, |_: &tokens::NewToken| true),
        b"worker" => check(format, body, |_: &workers::SetWorker| true),
        _ => {}
    }
}

/// Reads a body. If `is_valid` accepts its values, which may check fields of any type, the body must survive printing
/// and reading it again.
fn check<T>(format: Format, body: &[u8], is_valid: impl FnOnce(&T) -> bool)
where
    T: DeserializeOwned + Serialize + Debug,
{
    let value: T = match format.decode(body) {
        Ok(value) => value,
        Err(invalid) => return check_invalid(&invalid, None),
    };
    if !is_valid(&value) {
        return;
    }
    let printed = format.encode(&value);
    let again: T = format.decode(&printed).expect("a printed body can be read");
    assert!(format.encode(&again) == printed, "{value:?} is read as {again:?}");
}

fn push(format: Format, body: &[u8]) {
    let jobs = match push::Push::decode(format, body) {
        Ok(push::Push::One(_)) => {
            return check(format, body, |job: &push::NewJob| is_valid_job(job, format));
        }
        Ok(push::Push::Many(jobs)) => jobs.jobs,
        Err(invalid) => return check_invalid(&invalid, None),
    };
    for (n, job) in jobs.iter().enumerate() {
        match format.decode_at::<push::NewJob>(&format!("jobs[{n}]"), job.bytes()) {
            Ok(job) => {
                is_valid_job(&job, format);
            }
            Err(invalid) => check_invalid(&invalid, None),
        }
    }
}

fn is_valid_job(job: &push::NewJob, format: Format) -> bool {
    let read = match job.clone().read(format) {
        Ok(read) => read,
        Err(invalid) => {
            check_invalid(&invalid, None);
            return false;
        }
    };
    let printed = push::NewJob::of(&read, format);
    let again = printed.clone().read(format).expect("a printed job can be read");
    assert_eq!(push::NewJob::of(&again, format), printed);
    assert_eq!(again.spec.payload, read.spec.payload);
    true
}

/// Two parsers must accept the same values, and convert a value that both formats can represent without loss.
fn raw(format: Format, body: &[u8]) {
    let raw = Raw::new(format, body);
    let is_valid = match raw.clone().into_payload("payload") {
        Ok(_) => true,
        Err(invalid) => {
            check_invalid(&invalid, None);
            false
        }
    };
    assert_eq!(raw.convert(format).is_some(), is_valid);
    let json = raw.convert(Format::Json).filter(|_| is_valid);
    let Some(packed) = json.and_then(|json| json.convert(Format::Msgpack)) else { return };
    let json = packed.convert(Format::Json).expect("a value that came from JSON");
    assert_eq!(json.convert(Format::Msgpack).as_ref(), Some(&packed));
    serde_json::from_slice::<serde::de::IgnoredAny>(json.bytes()).expect("another parser agrees");
    rmp_serde::from_slice::<serde::de::IgnoredAny>(packed.bytes()).expect("another parser agrees");
}
