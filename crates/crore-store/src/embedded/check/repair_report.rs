//! The report of `repair`: every step, and what is lost.

use std::fmt::{self, Display, Formatter};

use crore_core::JobId;

/// Maximum number of ids that are printed.
const MAX_PRINTED_IDS: usize = 100;

/// The report of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepairReport {
    /// The steps in order; empty if there was no damage and nothing was changed.
    pub steps: Vec<RepairStep>,
    /// Number of jobs that were removed because their push is lost.
    pub removed: u64,
    /// The first of their ids.
    pub removed_ids: Vec<JobId>,
}

/// A step of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepairStep {
    /// File name.
    pub file: String,
    /// Offset in the file.
    pub offset: u64,
    /// Length in bytes; 0 if not applicable.
    pub len: u64,
    /// Description.
    pub what: String,
    /// Number of records in the damaged part that were kept.
    pub kept: usize,
    /// Number of records known to be lost, besides those of whole commits.
    pub lost: usize,
    /// Jobs that lost records seem to belong to; a damaged record may name a wrong one.
    pub jobs: Vec<JobId>,
    /// First and last commit that are lost in whole or in part. With 0 as the first, the number of
    /// lost commits before the last is unknown.
    pub commits: Option<(u64, u64)>,
    /// The file with the overwritten bytes.
    pub saved: Option<String>,
}

impl RepairStep {
    pub(super) fn new(file: String, offset: u64, what: &str) -> Self {
        Self { file, offset, what: what.to_owned(), ..Self::default() }
    }
}

impl RepairReport {
    /// Whether there was nothing to do.
    pub const fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.removed == 0
    }

    /// Whether anything is lost.
    pub fn has_losses(&self) -> bool {
        let loses = |step: &RepairStep| step.lost > 0 || step.commits.is_some();
        self.removed > 0 || self.steps.iter().any(loses)
    }

    pub(super) fn add_removed(&mut self, id: JobId) {
        self.removed += 1;
        if self.removed_ids.len() < MAX_PRINTED_IDS {
            self.removed_ids.push(id);
        }
    }
}

impl Display for RepairReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            writeln!(f, "repaired   {step}")?;
        }
        if self.removed > 0 {
            let ids = ids(&self.removed_ids);
            let more = self.removed - self.removed_ids.len() as u64;
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            writeln!(f, "removed    {}: the push is lost: {ids}{more}", jobs(self.removed))?;
        }
        match self.steps.len() {
            _ if self.is_empty() => write!(f, "nothing to repair: no damage found"),
            _ if self.has_losses() => {
                writeln!(f, "repaired: the store can be opened")?;
                write!(f, "changes in lost commits and records are reverted")
            }
            _ => write!(f, "repaired: the store can be opened, and nothing is lost"),
        }
    }
}

fn jobs(n: u64) -> String {
    if n == 1 { "1 job".to_owned() } else { format!("{n} jobs") }
}

fn ids(ids: &[JobId]) -> String {
    let ids: Vec<_> = ids.iter().take(MAX_PRINTED_IDS).map(ToString::to_string).collect();
    ids.join(", ")
}

impl Display for RepairStep {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if self.offset > 0 {
            write!(f, ", offset {}", self.offset)?;
        }
        if self.len > 0 {
            write!(f, ", {} bytes", self.len)?;
        }
        write!(f, ": {}", self.what)?;
        if self.kept + self.lost > 0 {
            write!(f, "; records: {} kept, {} lost", self.kept, self.lost)?;
        }
        match self.commits {
            None => {}
            Some((0, last)) => write!(f, "; lost: commits up to {last}")?,
            Some((first, last)) if first == last => write!(f, "; lost: commit {first}")?,
            Some((first, last)) => write!(f, "; lost: commits {first} to {last}")?,
        }
        if !self.jobs.is_empty() {
            write!(f, "; probably of job {}", ids(&self.jobs))?;
        }
        match &self.saved {
            None => Ok(()),
            Some(saved) => write!(f, "; the old bytes are in `{saved}`"),
        }
    }
}
