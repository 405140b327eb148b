//! The small sets that names and values are taken from.

use std::sync::Arc;

use crore_core::job::ClientId;
use crore_core::limit::{Limit, LimitKey};
use crore_core::schedule::{Missed, Timing};
use crore_core::{Encoding, Name, NewJob, Payload, Span, Spec};
use crore_store::registry::{QueueSettings, Schedule, Table, Value};
use crore_testkit::FakeClock;

use super::op::Word;

pub(super) fn name(prefix: char, word: Word) -> Name {
    Name::new("name", &format!("{prefix}{word}")).expect("a letter and a number are a name")
}

pub(super) fn queue(word: Word) -> Name {
    name('q', word)
}

pub(super) fn kind(word: Word) -> Name {
    name('k', word)
}

pub(super) fn worker(word: Word) -> Name {
    name('w', word)
}

/// Every kind of bytes that a store might mangle.
pub(super) fn payload(n: u8) -> Payload {
    match n {
        0 => Payload::json("{}"),
        1 => Payload::json(r#"{"tenant":"ü \u0000"}"#),
        2 => Payload::new(Encoding::Bytes, [0_u8, 0xff, 0x0a, 0x27].as_slice()),
        3 => Payload::new(Encoding::Text, b"" as &[u8]),
        _ => Payload::new(Encoding::Msgpack, [0x93_u8, 1, 2, 3].as_slice()),
    }
}

/// How many unique keys there are.
pub(super) const KEYS: Word = 3;

pub(super) fn unique_key(word: Word) -> Arc<str> {
    format!("u{word}").into()
}

pub(super) fn client_id((door, id): (Word, Word)) -> ClientId {
    ClientId { door: name('d', door), id: format!("c{id}").into() }
}

pub(super) fn limit_key((limit, value): (Word, Option<Word>)) -> LimitKey {
    LimitKey { limit: name('l', limit), value: value.map(|value| format!("v{value}").into()) }
}

/// What the entries of a table are called.
pub(super) fn entry(table: Table, word: Word) -> Name {
    match table {
        Table::Limits => name('l', word),
        Table::Queues => queue(word),
        Table::Schedules => name('s', word),
        Table::Handlers => kind(word),
        Table::Workers => worker(word),
        Table::Tokens => name('t', word),
    }
}

/// How many values a table has.
pub(super) const VALUES: u8 = 5;

const LIMITS: [&str; VALUES as usize] =
    ["concurrency 1", "concurrency 2", "rate 2/1s", "rate 2/1m burst 3", "rate 5/1s concurrency 1"];

/// The n-th value of a table.
pub(super) fn value(table: Table, n: u8) -> Value {
    let n = n % VALUES;
    let text = || format!(r#"{{"n":{n}}}"#).into();
    match table {
        Table::Limits => Value::Limit(limit(n)),
        Table::Queues => Value::Queue(settings(n)),
        Table::Schedules => Value::Schedule(Box::new(schedule(n))),
        Table::Handlers => Value::Handler(text()),
        Table::Workers => Value::Worker(text()),
        Table::Tokens => Value::Token(text()),
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
