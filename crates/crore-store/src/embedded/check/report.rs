//! The report of `verify`: the contents of a store, and its damage.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use crore_core::State;

/// The contents of a store, and its damage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// Number of files of any kind.
    pub files: usize,
    /// Number of segments of the log.
    pub segments: usize,
    /// First and last commit; zeros if there is none.
    pub commits: (u64, u64),
    /// Number of jobs by state, without zeros.
    pub jobs: BTreeMap<State, u64>,
    /// Bytes of the newest records of jobs.
    pub live: u64,
    /// Bytes of all other records. Compaction removes them with their segments.
    pub waste: u64,
    /// Position of an unfinished commit at the end of the log. Not damage: the commit was never
    /// acknowledged, and the next opening discards it.
    pub unfinished: Option<String>,
    /// Losses that earlier repairs recorded.
    pub holes: Vec<Damage>,
    /// Damage. A store with damage is not opened, or fails when it reads the damaged part.
    pub damage: Vec<Damage>,
}

/// A damaged part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// File name.
    pub file: String,
    /// Offset in the file.
    pub offset: u64,
    /// Length in bytes; 0 if it is unknown.
    pub len: u64,
    /// Description.
    pub what: String,
    /// First and last commit that are lost in whole or in part. With 0 as the first, the number of
    /// lost commits before the last is unknown.
    pub commits: Option<(u64, u64)>,
}

impl VerifyReport {
    /// Whether there is no damage.
    pub const fn is_good(&self) -> bool {
        self.damage.is_empty()
    }
}

impl Display for VerifyReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (first, last) = self.commits;
        writeln!(f, "files      {}, {} of them segments of the log", self.files, self.segments)?;
        writeln!(f, "commits    {first} to {last}")?;
        let all: u64 = self.jobs.values().sum();
        let states: Vec<_> = self.jobs.iter().map(|(state, n)| format!("{n} {state:?}")).collect();
        let states = states.join(", ").to_lowercase();
        let of = if states.is_empty() { "" } else { ": " };
        writeln!(f, "jobs       {all}{of}{states}")?;
        writeln!(f, "bytes      {} live, {} waste", self.live, self.waste)?;
        if let Some(unfinished) = &self.unfinished {
            writeln!(f, "unfinished {unfinished} (not damage: it was never acknowledged)")?;
        }
        list(f, "hole", &self.holes)?;
        list(f, "damage", &self.damage)?;
        match self.damage.len() {
            0 => write!(f, "good: no damage found"),
            1 => write!(f, "DAMAGED in one place"),
            n => write!(f, "DAMAGED in {n} places"),
        }
    }
}

/// Maximum number of damaged places that are printed.
const MAX_PRINTED: usize = 100;

fn list(f: &mut Formatter<'_>, label: &str, all: &[Damage]) -> fmt::Result {
    for one in all.iter().take(MAX_PRINTED) {
        writeln!(f, "{label:<10} {one}")?;
    }
    match all.len().checked_sub(MAX_PRINTED) {
        Some(more @ 1..) => writeln!(f, "{label:<10} and {more} more"),
        _ => Ok(()),
    }
}

impl Display for Damage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if self.offset > 0 {
            write!(f, ", offset {}", self.offset)?;
        }
        if self.len > 0 {
            write!(f, ", {} bytes", self.len)?;
        }
        write!(f, ": {}", self.what)?;
        match self.commits {
            None => Ok(()),
            Some((0, last)) => write!(f, " (commits up to {last})"),
            Some((first, last)) if first == last => write!(f, " (commit {first})"),
            Some((first, last)) => write!(f, " (commits {first} to {last})"),
        }
    }
}
