//! What a check found.

use std::fmt;

use crore_core::JobId;

/// The number of a promise: `I5` is `Promise(5)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Promise(pub u8);

impl Promise {
    /// Not a promise of a store: the history itself contradicts its form.
    pub const FORM: Self = Self(0);
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::FORM { f.write_str("form") } else { write!(f, "I{}", self.0) }
    }
}

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// The job that it is about, if it is about one.
    pub job: Option<JobId>,
    /// The events that show it, by their `i`.
    pub events: Vec<u64>,
    /// How, in words.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.message)?;
        if let Some(job) = self.job {
            write!(f, " [job {job}]")?;
        }
        write!(f, " {:?}", self.events)
    }
}

/// What was looked at. The first five after `pushes` are the sets that queues are judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Items that callers tried to push.
    pub pushes: usize,
    /// Jobs that were acknowledged, and were handed out or are there in the end.
    pub ok: usize,
    /// Jobs that were acknowledged, and are nowhere.
    pub lost: usize,
    /// Jobs that nobody pushed.
    pub unexpected: usize,
    /// Jobs that were handed out more than once, rightly or not.
    pub duplicated: usize,
    /// Jobs whose push ended in `info`, and that were seen later.
    pub recovered: usize,
    /// Deliveries.
    pub grants: usize,
    /// Reports that were accepted.
    pub accepted: usize,
    /// Times that a node stopped without being closed.
    pub crashes: usize,
    /// Deliveries whose place in the order was judged, I8.
    pub ordered: usize,
    /// Deliveries whose place in the order was not judged, because nobody can say when the job
    /// became ready: it was due later, limited, waited, was retried or edited.
    pub unordered: usize,
    /// Jobs that were left out because a store that may lose data used their number twice.
    pub reused: usize,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// What was not kept, in the order of the promises.
    pub violations: Vec<Violation>,
    /// What was looked at.
    pub counters: Counters,
}

impl Report {
    /// Whether every promise was kept.
    pub const fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// How much of the order could not be judged, in percent. A run of which more than 20 were
    /// skipped says little about I8.
    pub fn unordered_percent(&self) -> usize {
        let all = self.counters.ordered + self.counters.unordered;
        (self.counters.unordered * 100).checked_div(all).unwrap_or(0)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        write!(f, "{} violations; {:?}", self.violations.len(), self.counters)
    }
}

/// Where checks write what they find.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) violations: Vec<Violation>,
}

impl Findings {
    pub(super) fn add(
        &mut self,
        promise: u8,
        job: impl Into<Option<JobId>>,
        events: &[u64],
        message: impl Into<String>,
    ) {
        let mut events = events.to_vec();
        events.sort_unstable();
        events.dedup();
        self.violations.push(Violation {
            promise: Promise(promise),
            job: job.into(),
            events,
            message: message.into(),
        });
    }
}
