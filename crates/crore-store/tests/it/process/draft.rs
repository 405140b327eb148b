//! The jobs that children push. A **tag** identifies a job and determines its whole content, so
//! every changed bit is detected.

use std::collections::BTreeMap;

use crore_core::job::{DueTime, JobRetention, Lapse, ResultRetention, Spec};
use crore_core::retry::{Backoff, Retry};
use crore_core::unique::{Unique, UniqueHold};
use crore_core::{Encoding, Job, Name, NewJob, Payload, Span};
use crore_testkit::SeededRng;

/// The queues that children use.
pub(crate) const QUEUES: [&str; 3] = ["a", "b", "c"];
/// Number of unique keys.
const KEYS: u64 = 12;
/// Maximum attempts of a job.
pub(crate) const ATTEMPTS: u32 = 4;
const TAG: &str = "tag";

/// A job's tag. Its two highest bits are the [kind](DraftKind) of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tag(pub(crate) u64);

/// How a job is pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DraftKind {
    /// Alone, possibly with a unique key.
    Alone,
    /// As part of a batch.
    Member,
    /// Alone, to be claimed in push order.
    InOrder,
}

impl Tag {
    const KIND_BITS: u32 = 62;

    /// The first tag of a worker in a round; the next ones follow.
    pub(crate) const fn first(round: u32, thread: u32, kind: DraftKind) -> Self {
        Self((kind as u64) << Self::KIND_BITS | (round as u64) << 28 | (thread as u64) << 24)
    }

    pub(crate) const fn plus(self, n: u64) -> Self {
        Self(self.0 + n)
    }

    const fn is(self, kind: DraftKind) -> bool {
        self.0 >> Self::KIND_BITS == kind as u64
    }

    /// The tag of a stored job.
    pub(crate) fn of(job: &Job) -> Option<Self> {
        job.spec.labels.get(TAG)?.parse().ok().map(Self)
    }

    /// The job as it is pushed.
    pub(crate) fn draft(self) -> NewJob {
        let mut rng = SeededRng(self.0);
        let queue = QUEUES[rng.below(QUEUES.len() as u64) as usize];
        let mut spec = Spec::new(name(queue), name("work"), payload(&mut rng));
        spec.labels = BTreeMap::from([(TAG.to_owned(), self.0.to_string())]);
        spec.priority = rng.below(3) as i32;
        spec.lease = Some(Span::from_millis(20 + rng.below(200)));
        spec.lapse = Lapse::Crash { quarantine: None };
        let backoff = Backoff::Constant { every: Span::from_millis(rng.below(20)) };
        spec.retry = Retry { backoff, max_attempts: Some(ATTEMPTS), ..Retry::default() };
        if rng.percent(70) {
            spec.retain = JobRetention::Nothing;
        } else {
            spec.keep = ResultRetention::For(Span::from_secs(3600));
        }
        if self.is(DraftKind::Alone) && rng.percent(20) {
            let key = format!("key-{}", rng.below(KEYS)).into();
            spec.unique = Some(Box::new(Unique { key, hold: UniqueHold::UntilEnd, window: None }));
        }
        if self.is(DraftKind::InOrder) {
            (spec.queue, spec.priority) = (name(QUEUES[0]), 0);
            return spec.into();
        }
        let mut job = NewJob::from(spec);
        if rng.percent(20) {
            job.due = DueTime::After(Span::from_millis(rng.below(50)));
        }
        job
    }

    /// The result of the job.
    pub(crate) fn result(self) -> Payload {
        payload(&mut SeededRng(!self.0))
    }
}

/// Mostly short, sometimes empty, sometimes long.
fn payload(rng: &mut SeededRng) -> Payload {
    let len = match rng.below(20) {
        0 => 0,
        1 => 4_000 + rng.below(30_000),
        _ => rng.below(500),
    };
    let bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
    Payload::new(Encoding::Bytes, bytes)
}

pub(crate) fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}
