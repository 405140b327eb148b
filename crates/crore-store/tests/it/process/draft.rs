//! The jobs that children push. A job is known by its **tag**, and everything about it follows from
//! that, so that whoever finds it can tell whether a single bit of it has changed.

use std::collections::BTreeMap;

use crore_core::job::{Keep, Lapse, Retain, Spec, When};
use crore_core::retry::{Backoff, Retry};
use crore_core::unique::{Hold, Unique};
use crore_core::{Encoding, Job, Name, NewJob, Payload, Span};
use crore_testkit::Dice;

/// The queues that children use.
pub(crate) const QUEUES: [&str; 3] = ["a", "b", "c"];
/// How many unique keys there are.
const KEYS: u64 = 12;
/// How often a job may be tried.
pub(crate) const ATTEMPTS: u32 = 4;
const TAG: &str = "tag";

/// A job's own number. Its two highest bits say what [sort](Sort) of job it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tag(pub(crate) u64);

/// What sort of job a tag is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Pushed alone, perhaps with a unique key.
    Alone,
    /// Pushed as part of a batch.
    Member,
    /// Claimed in the order in which it was pushed.
    InOrder,
}

impl Tag {
    const SORT_BITS: u32 = 62;

    /// The first tag of one hand in one round; the next ones follow.
    pub(crate) const fn first(round: u32, hand: u32, sort: Sort) -> Self {
        Self((sort as u64) << Self::SORT_BITS | (round as u64) << 28 | (hand as u64) << 24)
    }

    pub(crate) const fn plus(self, n: u64) -> Self {
        Self(self.0 + n)
    }

    const fn is(self, sort: Sort) -> bool {
        self.0 >> Self::SORT_BITS == sort as u64
    }

    /// The tag that a stored job carries.
    pub(crate) fn of(job: &Job) -> Option<Self> {
        job.spec.labels.get(TAG)?.parse().ok().map(Self)
    }

    /// The job as it is pushed.
    pub(crate) fn draft(self) -> NewJob {
        let mut dice = Dice(self.0);
        let queue = QUEUES[dice.below(QUEUES.len() as u64) as usize];
        let mut spec = Spec::new(name(queue), name("work"), payload(&mut dice));
        spec.labels = BTreeMap::from([(TAG.to_owned(), self.0.to_string())]);
        spec.priority = dice.below(3) as i32;
        spec.lease = Some(Span::from_millis(20 + dice.below(200)));
        spec.lapse = Lapse::Crash { quarantine: None };
        let backoff = Backoff::Constant { every: Span::from_millis(dice.below(20)) };
        spec.retry = Retry { backoff, max_attempts: Some(ATTEMPTS), ..Retry::default() };
        if dice.percent(70) {
            spec.retain = Retain::Nothing;
        } else {
            spec.keep = Keep::For(Span::from_secs(3600));
        }
        if self.is(Sort::Alone) && dice.percent(20) {
            let key = format!("key-{}", dice.below(KEYS)).into();
            spec.unique = Some(Unique { key, hold: Hold::UntilEnd, window: None });
        }
        if self.is(Sort::InOrder) {
            (spec.queue, spec.priority) = (name(QUEUES[0]), 0);
            return spec.into();
        }
        let mut job = NewJob::from(spec);
        if dice.percent(20) {
            job.due = When::After(Span::from_millis(dice.below(50)));
        }
        job
    }

    /// What the job gives when it is done.
    pub(crate) fn result(self) -> Payload {
        payload(&mut Dice(!self.0))
    }
}

/// Mostly short, sometimes nothing, sometimes long.
fn payload(dice: &mut Dice) -> Payload {
    let len = match dice.below(20) {
        0 => 0,
        1 => 4_000 + dice.below(30_000),
        _ => dice.below(500),
    };
    let bytes: Vec<u8> = (0..len).map(|_| dice.roll() as u8).collect();
    Payload::new(Encoding::Bytes, bytes)
}

pub(crate) fn name(text: &str) -> Name {
    Name::new("name", text).expect("a good name")
}
