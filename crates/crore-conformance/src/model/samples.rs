//! Small sets of names and values from which operations are drawn.

use std::sync::Arc;

use crore_core::job::ClientId;
use crore_core::limit::{Limit, LimitKey};
use crore_core::schedule::{Missed, Timing};
use crore_core::version::{KindVersions, Version, VersionRequirement};
use crore_core::{Encoding, Fingerprint, IndexKey, Name, NewJob, Payload, Span, Spec};
use crore_store::registry::{QueueSettings, RegistryTable, RegistryValue, Schedule};
use crore_testkit::FakeClock;

use super::op::NameIndex;

pub(super) fn name(prefix: char, word: NameIndex) -> Name {
    Name::new("name", &format!("{prefix}{word}")).expect("a valid name")
}

pub(super) fn queue(word: NameIndex) -> Name {
    name('q', word)
}

pub(super) fn kind(word: NameIndex) -> Name {
    name('k', word)
}

pub(super) fn worker(word: NameIndex) -> Name {
    name('w', word)
}

pub(super) fn event(word: NameIndex) -> Name {
    name('e', word)
}

/// Payload bytes that a store might corrupt.
pub(super) fn payload(n: u8) -> Payload {
    match n {
        0 => Payload::json("{}"),
        1 => Payload::json(r#"{"tenant":"ü \u0000"}"#),
        2 => Payload::new(Encoding::Bytes, [0_u8, 0xff, 0x0a, 0x27].as_slice()),
        3 => Payload::new(Encoding::Text, b"" as &[u8]),
        _ => Payload::new(Encoding::Msgpack, [0x93_u8, 1, 2, 3].as_slice()),
    }
}

/// Number of unique keys.
pub(super) const KEYS: NameIndex = 3;

pub(super) fn unique_key(word: NameIndex) -> Arc<str> {
    format!("u{word}").into()
}

pub(super) fn client_id((door, id): (NameIndex, NameIndex)) -> ClientId {
    ClientId { door: name('d', door), id: format!("c{id}").into() }
}

pub(super) fn limit_key((limit, value): (NameIndex, Option<NameIndex>)) -> LimitKey {
    LimitKey { limit: name('l', limit), value: value.map(|value| format!("v{value}").into()) }
}

/// Number of values of the label that jobs are drawn with, and of index keys of payloads.
pub(super) const INDEXED: NameIndex = 3;

/// Name and value of a job's label.
pub(super) fn label(value: NameIndex) -> (String, String) {
    ("l".to_owned(), format!("v{value}"))
}

/// The index keys of a job's payload.
pub(super) fn payload_keys(keys: &[NameIndex]) -> Option<Arc<[IndexKey]>> {
    let keys: Vec<IndexKey> = keys.iter().map(|key| IndexKey(u64::from(*key))).collect();
    (!keys.is_empty()).then(|| keys.into())
}

/// The error of failed deliveries.
pub(super) const ERROR: &str = "it's \"broken\"";

/// An index key of a label, of a payload or of an error.
pub(super) fn index_key(n: NameIndex) -> IndexKey {
    match n {
        0..INDEXED => {
            let (name, value) = label(n);
            IndexKey::label(&name, &value)
        }
        n if n < 2 * INDEXED => IndexKey(u64::from(n - INDEXED)),
        n => {
            let errors = [ERROR, "lease expired", "timed out"];
            IndexKey::error(Fingerprint::of(errors[usize::from(n) % errors.len()]))
        }
    }
}

/// Required versions of jobs.
pub(super) const REQUIRED: [&str; 3] = [">=2", "=1.1", "<2"];
/// Versions of workers.
pub(super) const VERSIONS: [&str; 3] = ["2.0.1", "1.1.9", "1"];

pub(super) fn worker_version(n: NameIndex) -> VersionRequirement {
    let text = REQUIRED[usize::from(n) % REQUIRED.len()];
    VersionRequirement::parse("worker_version", text).expect("a requirement")
}

pub(super) fn kind_versions(versions: &[(NameIndex, NameIndex)]) -> KindVersions {
    let version = |n: NameIndex| VERSIONS[usize::from(n) % VERSIONS.len()];
    let version = |n| Version::parse("version", version(n)).expect("a version");
    versions.iter().map(|(of, n)| (kind(*of), version(*n))).collect()
}

/// Names of a table's entries.
pub(super) fn entry(table: RegistryTable, word: NameIndex) -> Name {
    match table {
        RegistryTable::Limits => name('l', word),
        RegistryTable::Queues => queue(word),
        RegistryTable::Schedules => name('s', word),
        RegistryTable::Handlers => kind(word),
        RegistryTable::Workers => worker(word),
        RegistryTable::Tokens => name('t', word),
        RegistryTable::Operations => name('o', word),
    }
}

/// Number of values per table.
pub(super) const VALUES: u8 = 5;

const LIMITS: [&str; VALUES as usize] =
    ["concurrency 1", "concurrency 2", "rate 2/1s", "rate 2/1m burst 3", "rate 5/1s concurrency 1"];

/// The n-th value of a table.
pub(super) fn value(table: RegistryTable, n: u8) -> RegistryValue {
    let n = n % VALUES;
    let text = || format!(r#"{{"n":{n}}}"#).into();
    match table {
        RegistryTable::Limits => RegistryValue::Limit(limit(n)),
        RegistryTable::Queues => RegistryValue::Queue(settings(n)),
        RegistryTable::Schedules => RegistryValue::Schedule(Box::new(schedule(n))),
        RegistryTable::Handlers => RegistryValue::Handler(text()),
        RegistryTable::Workers => RegistryValue::Worker(text()),
        RegistryTable::Tokens => RegistryValue::Token(text()),
        RegistryTable::Operations => RegistryValue::Operation(text()),
    }
}

fn limit(n: u8) -> Limit {
    let text = LIMITS.get(usize::from(n)).expect("one text for each value");
    Limit::parse(text).expect("the texts are limits")
}

fn settings(n: u8) -> QueueSettings {
    let default = QueueSettings::default();
    let second = Span::from_secs(1);
    match n {
        0 | 1 => default,
        2 => QueueSettings { paused: true, ..default },
        3 => QueueSettings { keep_done: second, keep_dead: second.times(60), ..default },
        _ => QueueSettings { max_done: 1, max_dead: 2, ..default },
    }
}

fn schedule(n: u8) -> Schedule {
    let timing = Timing::parse("timing", "every 90s").expect("the text is a timing");
    Schedule {
        timing,
        missed: Missed::Once,
        job: NewJob::from(Spec::new(queue(n), kind(0), payload(n))),
        cursor: FakeClock::START,
        paused: n == 1,
    }
}
