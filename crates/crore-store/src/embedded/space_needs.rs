//! Estimated disk space of an operation, and its priority when the disk is full.

use crore_core::machine::{Effect, NextRecord, ResultChange};
use crore_core::{NewEvent, NewJob};

use crate::jobs::{MAX_RESUMED, StoreWrite};
use crate::views::Note;

/// Generous estimate of a new job's bytes in the log, without its payload.
const JOB_BYTES: u64 = 512;
/// Generous estimate of a job change, without a result.
const CHANGE_BYTES: u64 = 128;

/// Generous estimate of the statistics of one series in every step.
const STATS_BYTES: u64 = 3 * 512;

/// Disk space that an operation needs, by how it is treated on a full disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpaceNeeds {
    /// Adds about this many bytes of new jobs; refused first.
    NewData(u64),
    /// Continues or ends existing jobs with about this many bytes; may use the reserve.
    Reserve(u64),
    /// Like `Reserve`, but optional: runs only where this many bytes fit, so that a full disk that
    /// the store has not detected yet does not poison it.
    Optional(u64),
    /// Changes nothing.
    Nothing,
}

impl SpaceNeeds {
    /// Estimated bytes.
    pub(super) const fn bytes(self) -> u64 {
        match self {
            Self::NewData(bytes) | Self::Reserve(bytes) | Self::Optional(bytes) => bytes,
            Self::Nothing => 0,
        }
    }

    /// For a push of these jobs.
    pub(super) fn for_push(jobs: &[NewJob]) -> Self {
        Self::NewData(push_bytes(jobs))
    }

    /// For this event.
    pub(super) fn for_event(event: &NewEvent) -> Self {
        Self::NewData(CHANGE_BYTES + event.payload.bytes.len() as u64)
    }

    /// For these decisions and their follow-ups.
    pub(super) fn for_apply(writes: &[StoreWrite]) -> Self {
        Self::Reserve(writes.iter().map(write_bytes).sum())
    }

    /// For these notes. Only statistics of jobs are large: each may write one block for every step.
    pub(super) fn for_notes(notes: &[Note]) -> Self {
        let large = notes.iter().filter(|note| matches!(note, Note::Jobs { .. })).count();
        Self::NewData(large as u64 * STATS_BYTES)
    }

    /// For at most `n` changes.
    pub(super) const fn for_changes(n: usize) -> Self {
        Self::Reserve((n as u64).saturating_mul(CHANGE_BYTES))
    }
}

fn push_bytes(jobs: &[NewJob]) -> u64 {
    let one = |job: &NewJob| JOB_BYTES + job.spec.payload.bytes.len() as u64;
    let follow_up = |job: &NewJob| job.spec.on_expired.as_deref().map_or(0, one);
    jobs.iter().map(|job| one(job) + follow_up(job)).sum()
}

fn write_bytes(write: &StoreWrite) -> u64 {
    let change = match write {
        StoreWrite::Job(change) => change,
        StoreWrite::Tick { push, .. } => return push_bytes(push),
        StoreWrite::Seal(_) => return CHANGE_BYTES,
        StoreWrite::ResumeKeys { key: Some(_), .. } => return CHANGE_BYTES,
        StoreWrite::ResumeKeys { key: None, .. } => return MAX_RESUMED as u64 * CHANGE_BYTES,
    };
    let pushed = change.effects.iter().map(|effect| match effect {
        Effect::Push(jobs) => push_bytes(jobs),
        _ => 0,
    });
    let result = match &change.next {
        NextRecord::Live(next) => match &next.result {
            ResultChange::Set(payload, _) => payload.bytes.len() as u64,
            _ => 0,
        },
        NextRecord::Gone => 0,
    };
    CHANGE_BYTES + result + pushed.sum::<u64>()
}
