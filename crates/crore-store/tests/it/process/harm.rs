//! The kinds of harm that a store must survive, and a number of rounds of each.

use std::fmt::{self, Display, Formatter};

use crore_testkit::Error;

use super::draft;
use super::full::{fill, push_until_disk_fails};
use super::ledger::{BrokenPromise, EventTally};
use super::rounds::Rounds;
use crore_testkit::mount::{FileSystem, Mounts};

/// Segment size, small enough for constant rolling and compaction, and the number of jobs at which
/// pushing stops.
pub(crate) const SMALL: (u64, u64) = (256 << 10, 250);
/// The same for a small disk that fills up.
const TIGHT: (u64, u64) = (512 << 10, 1_000_000);
/// Segment size on a disk filled by one thread: many times the largest job.
const FILLED: u64 = 1 << 20;
pub(crate) const KIB_PER_MIB: u64 = 1 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    /// Kill the process.
    Kill,
    /// Cut the power, on XFS.
    Power,
    /// Cut the power, on ext4.
    PowerExt4,
    /// Fill the disk.
    Full,
    /// Fill the disk and kill the process.
    FullKill,
    /// Fail the disk under the file system.
    Eio,
}

/// Why there is no tally.
#[derive(Debug)]
pub(crate) enum HarmFailed {
    /// This machine cannot run it.
    Unsupported(Error),
    Broken(BrokenPromise),
}

/// Runs rounds of one kind of harm on a new store.
pub(crate) fn harm(harm: Harm, rounds: u32, seed: u64) -> Result<EventTally, HarmFailed> {
    match harm {
        Harm::Kill => {
            let dir = tempfile::Builder::new().prefix("crore-kill-").tempdir();
            let dir = dir.expect("a directory is made");
            kill_repeatedly(Rounds::new(dir.path().join("store"), SMALL, seed), rounds)
        }
        Harm::Power => power(FileSystem::Xfs, 320, (rounds, seed)),
        Harm::PowerExt4 => power(FileSystem::Ext4, 64, (rounds, seed)),
        Harm::Full => {
            let mut tally = EventTally::default();
            for nth in 0..rounds {
                let kind =
                    if nth % 2 == 0 { draft::DraftKind::Member } else { draft::DraftKind::InOrder };
                let mounts = Mounts::new(7 * KIB_PER_MIB)?;
                tally = fill(&mounts.outer().join("store"), FILLED, kind)?;
            }
            Ok(tally)
        }
        Harm::FullKill => {
            let mounts = Mounts::new(5 * KIB_PER_MIB)?;
            kill_repeatedly(Rounds::new(mounts.outer().join("store"), TIGHT, seed), rounds)
        }
        Harm::Eio => {
            let mut tally = EventTally::default();
            for _ in 0..rounds {
                let mounts = Mounts::with_image(14 * KIB_PER_MIB, FileSystem::Ext4, 64)?;
                tally = push_until_disk_fails(&mounts)?;
            }
            Ok(tally)
        }
    }
}

fn kill_repeatedly(mut rounds: Rounds, n: u32) -> Result<EventTally, HarmFailed> {
    for _ in 0..n {
        let round = rounds.run_child(|_| {}).and_then(|()| rounds.check());
        round.map_err(|broken| rounds.with_seed(&broken))?;
    }
    Ok(rounds.ledger.tally)
}

fn power(
    file_system: FileSystem,
    mib: u64,
    (n, seed): (u32, u64),
) -> Result<EventTally, HarmFailed> {
    let mounts = Mounts::with_image((mib + 32) * KIB_PER_MIB, file_system, mib)?;
    cut_power_repeatedly(Rounds::new(mounts.inner().join("store"), SMALL, seed), n, &mounts)
}

/// Cuts the power `n` times.
pub(crate) fn cut_power_repeatedly(
    mut rounds: Rounds,
    n: u32,
    mounts: &Mounts,
) -> Result<EventTally, HarmFailed> {
    for _ in 0..n {
        let mut cut = Ok(());
        let round = rounds.run_child(|child| cut = mounts.cut_power(Some(child)));
        cut.and_then(|()| mounts.unmount()).and_then(|()| mounts.mount())?;
        let round = round.and_then(|()| rounds.check());
        round.map_err(|broken| rounds.with_seed(&broken))?;
    }
    Ok(rounds.ledger.tally)
}

impl From<Error> for HarmFailed {
    fn from(error: Error) -> Self {
        Self::Unsupported(error)
    }
}

impl From<BrokenPromise> for HarmFailed {
    fn from(broken: BrokenPromise) -> Self {
        Self::Broken(broken)
    }
}

impl Display for HarmFailed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(error) => error.fmt(f),
            Self::Broken(broken) => f.write_str(broken),
        }
    }
}
