//! The kinds of harm that a store has to survive, so many rounds of each.

use std::fmt::{self, Display, Formatter};

use crore_testkit::Error;

use super::draft;
use super::full::{fill, wear_out};
use super::ledger::{Broken, Tally};
use super::rounds::Rounds;
use crore_testkit::mount::{Mounts, Sort};

/// The size of segments, so small that rolling and compaction are at work all the time, and how many
/// jobs are enough.
pub(crate) const SMALL: (u64, u64) = (256 << 10, 250);
/// The same for a small disk that is to be full.
const TIGHT: (u64, u64) = (512 << 10, 1_000_000);
/// The size of segments on a disk that is filled by one hand: many times that of the largest job.
const FILLED: u64 = 1 << 20;
pub(crate) const MIB: u64 = 1 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    /// The process is killed.
    Kill,
    /// The power goes, on XFS.
    Power,
    /// The power goes, on ext4.
    PowerExt4,
    /// The disk is full.
    Full,
    /// The disk is full, and the process is killed too.
    FullKill,
    /// The disk fails under the file system.
    Eio,
}

/// Why there is no tally.
#[derive(Debug)]
pub(crate) enum Failed {
    /// It cannot be tried here.
    Here(Error),
    Broken(Broken),
}

/// So many rounds of one harm, on a new store.
pub(crate) fn harm(harm: Harm, rounds: u32, seed: u64) -> Result<Tally, Failed> {
    match harm {
        Harm::Kill => {
            let dir = tempfile::Builder::new().prefix("crore-kill-").tempdir();
            let dir = dir.expect("a directory is made");
            killed(Rounds::new(dir.path().join("store"), SMALL, seed), rounds)
        }
        Harm::Power => power(Sort::Xfs, 320, (rounds, seed)),
        Harm::PowerExt4 => power(Sort::Ext4, 64, (rounds, seed)),
        Harm::Full => {
            let mut tally = Tally::default();
            for nth in 0..rounds {
                let sort = if nth % 2 == 0 { draft::Sort::Member } else { draft::Sort::InOrder };
                let mounts = Mounts::new(7 * MIB)?;
                tally = fill(&mounts.outer().join("store"), FILLED, sort)?;
            }
            Ok(tally)
        }
        Harm::FullKill => {
            let mounts = Mounts::new(5 * MIB)?;
            killed(Rounds::new(mounts.outer().join("store"), TIGHT, seed), rounds)
        }
        Harm::Eio => {
            let mut tally = Tally::default();
            for _ in 0..rounds {
                let mounts = Mounts::with_image(14 * MIB, Sort::Ext4, 64)?;
                tally = wear_out(&mounts)?;
            }
            Ok(tally)
        }
    }
}

fn killed(mut rounds: Rounds, n: u32) -> Result<Tally, Failed> {
    for _ in 0..n {
        let round = rounds.run_child(|| {}).and_then(|()| rounds.check());
        round.map_err(|broken| rounds.named(&broken))?;
    }
    Ok(rounds.ledger.tally)
}

fn power(sort: Sort, mib: u64, (n, seed): (u32, u64)) -> Result<Tally, Failed> {
    let mounts = Mounts::with_image((mib + 32) * MIB, sort, mib)?;
    cut_off(Rounds::new(mounts.inner().join("store"), SMALL, seed), n, &mounts)
}

/// The power goes so many times.
pub(crate) fn cut_off(mut rounds: Rounds, n: u32, mounts: &Mounts) -> Result<Tally, Failed> {
    for _ in 0..n {
        let mut cut = Ok(());
        let round = rounds.run_child(|| cut = mounts.cut_power());
        cut.and_then(|()| mounts.unmount()).and_then(|()| mounts.mount())?;
        let round = round.and_then(|()| rounds.check());
        round.map_err(|broken| rounds.named(&broken))?;
    }
    Ok(rounds.ledger.tally)
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Here(error)
    }
}

impl From<Broken> for Failed {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl Display for Failed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(error) => error.fmt(f),
            Self::Broken(broken) => f.write_str(broken),
        }
    }
}
