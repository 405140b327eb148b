//! The jobs that are pushed. No two have the same payload, which is how the checker knows them again.

use crore_core::job::{Keep, Lapse, Retain, When};
use crore_core::limit::LimitKey;
use crore_core::retry::{Backoff, Retry};
use crore_core::unique::{Hold, Unique};
use crore_core::{Encoding, Name, NewJob, Payload, Span, Spec, Time};
use crore_testkit::Dice;
use crore_testkit::history::op::Item;
use crore_wire::{Format, api};

use crate::pause::wall;
use crate::posted::QUEUE;

/// The queues that callers use.
pub(crate) const QUEUES: [&str; 4] = ["a", "b", "c", "d"];
/// The queues from which streams are served, besides other callers.
pub(crate) const STREAMED: [&str; 2] = ["d", "c"];
/// The kind of most jobs, and the one of which only few run at a time.
pub(crate) const KINDS: [&str; 2] = ["plain", "narrow"];
/// The limit on the second kind: its name, its text, and how many may run at a time.
pub(crate) const LIMIT: (&str, &str, u32) = ("narrow", r#"where kind = "narrow" concurrency 2"#, 2);
/// The limit on all jobs that are posted.
pub(crate) const POSTED: (&str, &str, u32) =
    ("posted", r#"where queue = "lightjq" concurrency 8"#, 8);
/// How many unique keys there are.
const KEYS: u64 = 12;
const ATTEMPTS: u32 = 4;
/// The shortest lease that servers are told to give.
pub(crate) const SHORTEST: Span = Span::from_millis(60);
const HOUR: Span = Span::from_secs(3600);

/// A job to be pushed.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) seq: u64,
    pub(crate) job: NewJob,
    /// The unique key that it has because its push is named, so that it can be said again.
    named: Option<Unique>,
}

/// What a job may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Pushed alone: anything.
    Alone,
    /// One of a batch, or a follow-up: nothing by which it could be refused.
    Member,
}

impl Draft {
    pub(crate) fn new(dice: &mut Dice, seq: u64, format: Format, sort: Sort) -> Self {
        let kind = KINDS[usize::from(dice.percent(10))];
        let is_posted = dice.percent(20);
        let queue =
            if is_posted { QUEUE } else { QUEUES[dice.below(QUEUES.len() as u64) as usize] };
        let mut spec = Spec::new(name(queue), name(kind), payload(dice, seq, format));
        spec.priority = dice.below(3) as i32;
        spec.lease = Some(Span::from_millis(SHORTEST.as_millis() + dice.below(240)));
        if is_posted {
            // Long enough that a lease is seen to hold, though nobody knows exactly when it began.
            spec.lease = Some(Span::from_millis(150 + dice.below(600)));
        }
        let quarantine = if dice.percent(20) { Some(2) } else { None };
        spec.lapse = Lapse::Crash { quarantine };
        let backoff = Backoff::Constant { every: Span::from_millis(dice.below(30)) };
        let (max_attempts, jitter) = (Some(ATTEMPTS), 0);
        spec.retry = Retry { backoff, max_attempts, jitter, ..Retry::default() };
        spec.keep = match dice.below(10) {
            0..=1 => Keep::For(HOUR),
            2..=3 => Keep::Once(HOUR),
            _ => Keep::Discard,
        };
        if dice.percent(20) {
            spec.retain = Retain::Nothing;
        }
        if sort == Sort::Alone && dice.percent(15) {
            let key = format!("key-{}", dice.below(KEYS)).into();
            spec.unique = Some(Unique { key, hold: Hold::UntilEnd, window: None });
        }
        let mut job = NewJob::from(spec);
        job.due = match dice.below(20) {
            0..=2 => When::After(Span::from_millis(dice.below(80))),
            3 => When::At(Time::from_millis(wall() + dice.below(80) as i64)),
            _ => When::Now,
        };
        Self { seq, job, named: None }
    }

    /// A job for those who come and go, with a lease that nobody waits for.
    pub(crate) fn patient(dice: &mut Dice, seq: u64, lease: Span) -> Self {
        let payload = payload(dice, seq, Format::Json);
        let mut spec = Spec::new(name(STREAMED[0]), name(KINDS[0]), payload);
        spec.lease = Some(lease);
        spec.lapse = Lapse::Crash { quarantine: None };
        Self { seq, job: spec.into(), named: None }
    }

    /// The same, in a push that has a name.
    pub(crate) fn under(self, key: &str) -> Self {
        let key = format!("idempotency:{key}:0").into();
        let window = Some(Span::from_secs(24 * 60 * 60));
        Self { named: Some(Unique { key, hold: Hold::Window, window }), ..self }
    }

    /// The job as it is said.
    pub(crate) fn said(&self, format: Format) -> api::push::NewJob {
        api::push::NewJob::of(&self.job, format)
    }

    /// The job as it is written down.
    pub(crate) fn item(&self) -> Item {
        let mut item = Item::of(self.seq, &self.job);
        item.unique = item.unique.or_else(|| self.named.clone());
        let spec = &self.job.spec;
        let of = [(LIMIT.0, spec.kind == name(LIMIT.0)), (POSTED.0, spec.queue == name(QUEUE))];
        let of = of.iter().filter(|(_, is_of)| *is_of);
        item.limits = of.map(|(limit, _)| LimitKey { limit: name(limit), value: None }).collect();
        item
    }
}

/// A value in the encoding of the body, or bytes that are none.
fn payload(dice: &mut Dice, seq: u64, format: Format) -> Payload {
    let len = match dice.below(20) {
        0 => 2_000 + dice.below(8_000),
        _ => dice.below(300),
    };
    let letters = (0..len).map(|_| char::from(b'a' + dice.below(26) as u8));
    let text: String = format!("{seq}:").chars().chain(letters).collect();
    match dice.below(10) {
        0 => Payload::new(Encoding::Bytes, text.into_bytes()),
        1 => Payload::new(Encoding::Text, text.into_bytes()),
        _ => value(&text, format),
    }
}

/// A text as a value of an encoding.
pub(crate) fn value(text: &str, format: Format) -> Payload {
    Payload::new(format.encoding(), format.encode(&text))
}

pub(crate) fn name(text: &str) -> Name {
    Name::new("name", text).expect("a good name")
}
