//! What pages and people ask of a store, and the notes that it keeps for them.

use std::sync::Arc;

use crore_core::{Delivery, Job, JobId, Name, Span, State, Time};

use crate::{Answer, Part};

/// The verbs of looking.
pub trait Views: Part {
    /// Keeps notes: progress and log lines of a running delivery, and statistics. A note of another
    /// delivery than the one that is running is dropped and not counted. Gives how many were kept,
    /// statistics included. Notes of a job stay until it is removed, whatever runs next. Not waited
    /// to be durable: notes may be lost in a crash.
    fn note(&self, notes: Vec<Note>) -> Answer<'_, usize>;

    /// The notes of a job; empty if there are none.
    fn notes(&self, id: JobId) -> Answer<'_, JobNotes>;

    /// A page of jobs. State, queue and kind are served by indexes; `kind` without `queue` looks at
    /// every queue that has the kind.
    ///
    /// Each state has an order of its own, the one that people look for: Ready as jobs will be
    /// claimed, Scheduled by when they are due, Waiting and Running by id, and Done, Dead and
    /// Cancelled by when they ended, newest first, and of those that ended together the larger id
    /// first.
    fn list(&self, query: Query) -> Answer<'_, Page>;

    /// How many jobs there are, by queue, kind and state; kept, never counted anew. Zeros are left
    /// out. In the order of queue, kind, state.
    fn counts(&self, queue: Option<Name>) -> Answer<'_, Vec<Count>>;

    /// A statistic over time, oldest first, each bucket by its start; empty buckets are left out.
    /// Buckets start at multiples of the step since the epoch, and the current one is one of those
    /// that are kept ([`Step::buckets`]).
    fn stats(&self, series: Name, step: Step) -> Answer<'_, Vec<(Time, u64)>>;
}

/// Something to keep for people.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// How far a delivery is.
    Progress {
        /// The job.
        id: JobId,
        /// The delivery.
        delivery: Delivery,
        /// From 0 to 100.
        percent: u8,
        /// In words.
        text: Arc<str>,
    },
    /// A log line of a delivery.
    Line {
        /// The job.
        id: JobId,
        /// The delivery.
        delivery: Delivery,
        /// The line.
        text: Arc<str>,
    },
    /// Something happened so many times now.
    Stat {
        /// What.
        series: Name,
        /// How many times.
        n: u64,
    },
}

/// How many log lines a job keeps; older ones make room.
pub const MAX_LINES: usize = 100;

/// The notes of a job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobNotes {
    /// The newest progress: when, percent, words.
    pub progress: Option<(Time, u8, Arc<str>)>,
    /// The newest lines, oldest first.
    pub lines: Vec<(Time, Arc<str>)>,
}

/// How fine a statistic is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// By minute, for a day.
    Minute,
    /// By hour, for 90 days.
    Hour,
}

impl Step {
    /// Every step.
    pub const ALL: [Self; 2] = [Self::Minute, Self::Hour];

    /// The length of a bucket.
    pub const fn span(self) -> Span {
        match self {
            Self::Minute => Span::from_secs(60),
            Self::Hour => Span::from_secs(3600),
        }
    }

    /// How many buckets are kept.
    pub const fn buckets(self) -> u64 {
        match self {
            Self::Minute => 24 * 60,
            Self::Hour => 90 * 24,
        }
    }
}

/// Which jobs to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// In this state.
    pub state: State,
    /// In this queue.
    pub queue: Option<Name>,
    /// Of this kind.
    pub kind: Option<Name>,
    /// After this place.
    pub after: Option<Cursor>,
    /// At most so many.
    pub n: usize,
}

/// A place in a list: where the last page ended. Valid for the same state, queue and kind; jobs
/// that come and go meanwhile are seen or not, but none that stays is skipped or seen twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The priority, for ready jobs.
    pub priority: i32,
    /// The time by which the state is ordered; zero where it is ordered by id.
    pub at: Time,
    /// The job.
    pub id: JobId,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Where to go on; `None`: that was all.
    pub next: Option<Cursor>,
}

/// How many jobs of one sort there are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count {
    /// The queue.
    pub queue: Name,
    /// The kind.
    pub kind: Name,
    /// The state.
    pub state: State,
    /// How many.
    pub n: u64,
}
