//! Random jobs to push. No two have the same payload: the checker identifies them by it.

use crore_core::job::{DueTime, JobRetention, Lapse, ResultRetention};
use crore_core::limit::LimitKey;
use crore_core::retry::{Backoff, Retry};
use crore_core::unique::{Unique, UniqueHold};
use crore_core::{Encoding, Name, NewJob, Payload, Span, Spec, Time};
use crore_testkit::SeededRng;
use crore_testkit::history::op::RecordedItem;
use crore_wire::{Format, api};

use crate::push_workers::QUEUE;
use crate::time::wall_clock_ms;

/// The queues of pushed jobs, besides that of push workers.
pub(crate) const QUEUES: [&str; 4] = ["a", "b", "c", "d"];
/// The queues from which streaming workers fetch; other callers fetch from them too.
pub(crate) const STREAMED_QUEUES: [&str; 2] = ["d", "c"];
/// The kind of most jobs, and a kind with a concurrency limit.
pub(crate) const KINDS: [&str; 2] = ["plain", "narrow"];
/// The limit on the second kind: its name, its text and its concurrency.
pub(crate) const KIND_LIMIT: (&str, &str, u32) =
    ("narrow", r#"where kind = "narrow" concurrency 2"#, 2);
/// The limit on all jobs for push workers.
pub(crate) const POSTED_LIMIT: (&str, &str, u32) =
    ("posted", r#"where queue = "lightjq" concurrency 8"#, 8);
/// Number of different unique keys.
const UNIQUE_KEYS: u64 = 12;
const MAX_ATTEMPTS: u32 = 4;
/// The shortest lease that servers are configured to grant.
pub(crate) const MIN_LEASE: Span = Span::from_millis(60);
const HOUR: Span = Span::from_secs(3600);

/// A job to be pushed.
#[derive(Debug, Clone)]
pub(crate) struct JobDraft {
    pub(crate) seq: u64,
    pub(crate) job: NewJob,
    /// The unique key that results from the idempotency key of its push.
    idempotency: Option<Unique>,
}

/// How a job is pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushForm {
    /// Alone: it may have a unique key.
    Alone,
    /// In a batch or as a follow-up: nothing about it can be refused.
    Member,
}

impl JobDraft {
    pub(crate) fn new(rng: &mut SeededRng, seq: u64, format: Format, form: PushForm) -> Self {
        let kind = KINDS[usize::from(rng.percent(10))];
        let is_posted = rng.percent(20);
        let queue = if is_posted { QUEUE } else { QUEUES[rng.below(QUEUES.len() as u64) as usize] };
        let mut spec = Spec::new(name(queue), name(kind), payload(rng, seq, format));
        spec.priority = rng.below(3) as i32;
        spec.lease = Some(Span::from_millis(MIN_LEASE.as_millis() + rng.below(240)));
        if is_posted {
            // Long enough to observe that a lease holds, though the moment when it began is not known exactly.
            spec.lease = Some(Span::from_millis(150 + rng.below(600)));
        }
        let quarantine = if rng.percent(20) { Some(2) } else { None };
        spec.lapse = Lapse::Crash { quarantine };
        let backoff = Backoff::Constant { every: Span::from_millis(rng.below(30)) };
        let (max_attempts, jitter) = (Some(MAX_ATTEMPTS), 0);
        spec.retry = Retry { backoff, max_attempts, jitter, ..Retry::default() };
        spec.keep = match rng.below(10) {
            0..=1 => ResultRetention::For(HOUR),
            2..=3 => ResultRetention::Once(HOUR),
            _ => ResultRetention::Discard,
        };
        if rng.percent(20) {
            spec.retain = JobRetention::Nothing;
        }
        if form == PushForm::Alone && rng.percent(15) {
            let key = format!("key-{}", rng.below(UNIQUE_KEYS)).into();
            spec.unique = Some(Box::new(Unique { key, hold: UniqueHold::UntilEnd, window: None }));
        }
        let mut job = NewJob::from(spec);
        job.due = match rng.below(20) {
            0..=2 => DueTime::After(Span::from_millis(rng.below(80))),
            3 => DueTime::At(Time::from_millis(wall_clock_ms() + rng.below(80) as i64)),
            _ => DueTime::Now,
        };
        Self { seq, job, idempotency: None }
    }

    /// A job for the crowd, with a lease that does not end during the run.
    pub(crate) fn with_long_lease(rng: &mut SeededRng, seq: u64, lease: Span) -> Self {
        let payload = payload(rng, seq, Format::Json);
        let mut spec = Spec::new(name(STREAMED_QUEUES[0]), name(KINDS[0]), payload);
        spec.lease = Some(lease);
        spec.lapse = Lapse::Crash { quarantine: None };
        Self { seq, job: spec.into(), idempotency: None }
    }

    /// The same job, pushed with an idempotency key.
    pub(crate) fn with_idempotency_key(self, key: &str) -> Self {
        let key = format!("idempotency:{key}:0").into();
        let window = Some(Span::from_secs(24 * 60 * 60));
        Self { idempotency: Some(Unique { key, hold: UniqueHold::Window, window }), ..self }
    }

    /// The job in the form of a request.
    pub(crate) fn to_request(&self, format: Format) -> api::push::NewJob {
        api::push::NewJob::of(&self.job, format)
    }

    /// The job in the form of the history.
    pub(crate) fn to_history_item(&self) -> RecordedItem {
        let mut item = RecordedItem::of(self.seq, &self.job);
        item.unique = item.unique.or_else(|| self.idempotency.clone());
        let spec = &self.job.spec;
        let of = [
            (KIND_LIMIT.0, spec.kind == name(KIND_LIMIT.0)),
            (POSTED_LIMIT.0, spec.queue == name(QUEUE)),
        ];
        let of = of.iter().filter(|(_, is_of)| *is_of);
        item.limits = of.map(|(limit, _)| LimitKey { limit: name(limit), value: None }).collect();
        item
    }
}

/// A value in the encoding of the request, or bytes or text.
fn payload(rng: &mut SeededRng, seq: u64, format: Format) -> Payload {
    let len = match rng.below(20) {
        0 => 2_000 + rng.below(8_000),
        _ => rng.below(300),
    };
    let letters = (0..len).map(|_| char::from(b'a' + rng.below(26) as u8));
    let text: String = format!("{seq}:").chars().chain(letters).collect();
    match rng.below(10) {
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
    Name::new("name", text).expect("a valid name")
}
