//! The report of `repair`: every step, and what is lost.

use std::fmt::{self, Display, Formatter};

use crore_core::JobId;

/// Maximum number of ids that are printed.
const NAMED: usize = 100;

/// The report of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repairs {
    /// The steps in order; empty if there was no damage and nothing was changed.
    pub steps: Vec<Step>,
    /// Number of jobs that were removed because their push is lost.
    pub left_out: u64,
    /// The first of their ids.
    pub left_out_ids: Vec<JobId>,
}

/// One step of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// File name.
    pub file: String,
    /// Offset in the file.
    pub offset: u64,
    /// Length in bytes; 0 if it does not apply.
    pub len: u64,
    /// Description.
    pub what: String,
    /// Number of records in the damaged part that were kept.
    pub kept: usize,
    /// Number of records known to be lost, besides those of whole commits.
    pub lost: usize,
    /// The jobs that lost records seem to belong to; a damaged record may name a wrong one.
    pub jobs: Vec<JobId>,
    /// First and last commit that are lost in whole or in part; 0 as the first: it is unknown how many
    /// before the last.
    pub commits: Option<(u64, u64)>,
    /// The file with the overwritten bytes.
    pub saved: Option<String>,
}

impl Step {
    pub(super) fn new(file: String, offset: u64, what: &str) -> Self {
        Self { file, offset, what: what.to_owned(), ..Self::default() }
    }
}

impl Repairs {
    /// Whether there was nothing to do.
    pub const fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.left_out == 0
    }

    /// Whether anything is lost.
    pub fn loses(&self) -> bool {
        let loses = |step: &Step| step.lost > 0 || step.commits.is_some();
        self.left_out > 0 || self.steps.iter().any(loses)
    }

    pub(super) fn leave_out(&mut self, id: JobId) {
        self.left_out += 1;
        if self.left_out_ids.len() < NAMED {
            self.left_out_ids.push(id);
        }
    }
}

impl Display for Repairs {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            writeln!(f, "mended     {step}")?;
        }
        if self.left_out > 0 {
            let ids = ids(&self.left_out_ids);
            let more = self.left_out - self.left_out_ids.len() as u64;
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            writeln!(f, "left out   {} whose push is lost: {ids}{more}", jobs(self.left_out))?;
        }
        match self.steps.len() {
            _ if self.is_empty() => write!(f, "nothing to repair: no damage found"),
            _ if self.loses() => {
                writeln!(f, "repaired: the store can be opened")?;
                write!(f, "what changed in a lost commit or record is as it was before that")
            }
            _ => write!(f, "repaired: the store can be opened, and nothing is lost"),
        }
    }
}

fn jobs(n: u64) -> String {
    if n == 1 { "1 job".to_owned() } else { format!("{n} jobs") }
}

fn ids(ids: &[JobId]) -> String {
    let ids: Vec<_> = ids.iter().take(NAMED).map(ToString::to_string).collect();
    ids.join(", ")
}

impl Display for Step {
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
