//! What a verb does to the room on the disk, as far as that can be said before it is done.

use crore_core::NewJob;
use crore_core::machine::{Effect, Next, ResultChange};

use crate::jobs::Write;

/// More than a new job mostly takes in the log, without its payload.
const JOB_BYTES: u64 = 512;
/// More than a change of a job mostly takes, without a result.
const CHANGE_BYTES: u64 = 128;

/// What a verb does to the room on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// It brings something new, of about so many bytes, and is refused first.
    Room(u64),
    /// It goes on with what is there, or ends it, in about so many bytes, and has a reserve.
    Reserve(u64),
    /// The same, in so many bytes, and it can be left: it is done only where it fits, and so a disk
    /// that is full without anybody having noticed yet does not end the store.
    Fit(u64),
    /// It changes nothing.
    Nothing,
}

impl Needs {
    /// Of new jobs.
    pub(super) fn room(jobs: &[NewJob]) -> Self {
        Self::Room(of_pushes(jobs))
    }

    /// Of decisions, and of what they push.
    pub(super) fn reserve(writes: &[Write]) -> Self {
        Self::Reserve(writes.iter().map(of_write).sum())
    }

    /// Of so many changes at the most.
    pub(super) const fn changes(n: usize) -> Self {
        Self::Reserve((n as u64).saturating_mul(CHANGE_BYTES))
    }
}

fn of_pushes(jobs: &[NewJob]) -> u64 {
    jobs.iter().map(|job| JOB_BYTES + job.spec.payload.bytes.len() as u64).sum()
}

fn of_write(write: &Write) -> u64 {
    let change = match write {
        Write::Job(change) => change,
        Write::Tick { push, .. } => return of_pushes(push),
        Write::Seal(_) => return CHANGE_BYTES,
    };
    let pushed = change.effects.iter().map(|effect| match effect {
        Effect::Push(jobs) => of_pushes(jobs),
        _ => 0,
    });
    let result = match &change.next {
        Next::Live(next) => match &next.result {
            ResultChange::Set(payload, _) => payload.bytes.len() as u64,
            _ => 0,
        },
        Next::Gone => 0,
    };
    CHANGE_BYTES + result + pushed.sum::<u64>()
}
