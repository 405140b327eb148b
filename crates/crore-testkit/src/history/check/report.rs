//! The report of a check.

use std::fmt;

use crore_core::JobId;

/// The number of an invariant: `I5` is `Invariant(5)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Invariant(pub u8);

impl Invariant {
    /// Not an invariant of a store: the history itself is malformed.
    pub const FORM: Self = Self(0);
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::FORM { f.write_str("form") } else { write!(f, "I{}", self.0) }
    }
}

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// The job it concerns, if any.
    pub job: Option<JobId>,
    /// The events that prove it, by their `i`.
    pub events: Vec<u64>,
    /// Description.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.message)?;
        if let Some(job) = self.job {
            write!(f, " [job {job}]")?;
        }
        write!(f, " {:?}", self.events)
    }
}

/// Counts of what was checked. The five counters after `pushes` are the usual sets of a queue checker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Items that callers tried to push.
    pub pushes: usize,
    /// Jobs that were acknowledged, and were delivered or are in the final dump.
    pub ok: usize,
    /// Jobs that were acknowledged and are missing.
    pub lost: usize,
    /// Jobs that were never pushed.
    pub unexpected: usize,
    /// Jobs that were delivered more than once, legitimately or not.
    pub duplicated: usize,
    /// Jobs whose push ended in `info` and that were seen later.
    pub recovered: usize,
    /// Deliveries.
    pub grants: usize,
    /// Reports that were accepted.
    pub accepted: usize,
    /// Times that a node stopped without a clean close.
    pub crashes: usize,
    /// Deliveries whose order was checked, I8.
    pub ordered: usize,
    /// Deliveries whose order was not checked, because the time at which the job became ready is unknown: it
    /// was due later, limited, waited for a dependency, was retried or edited.
    pub unordered: usize,
    /// Jobs that were left out because a store that may lose data used their id twice.
    pub reused: usize,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// Violations, ordered by invariant.
    pub violations: Vec<Violation>,
    /// Counts of what was checked.
    pub counters: Counters,
}

impl CheckReport {
    /// Whether no invariant was violated.
    pub const fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// Percentage of deliveries whose order could not be checked. Above 20, a run says little about I8.
    pub fn unordered_percent(&self) -> usize {
        let all = self.counters.ordered + self.counters.unordered;
        (self.counters.unordered * 100).checked_div(all).unwrap_or(0)
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        write!(f, "{} violations; {:?}", self.violations.len(), self.counters)
    }
}

/// Collects violations.
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
            invariant: Invariant(promise),
            job: job.into(),
            events,
            message: message.into(),
        });
    }
}
