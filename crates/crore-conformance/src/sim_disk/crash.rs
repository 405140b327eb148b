//! The effect of a power cut on unsynced writes.

use std::sync::Arc;

use super::inode::Inode;
use super::random::Random;

/// How a power cut affects unsynced writes. Pure styles are drawn as often as mixed ones, since each finds
/// bugs that the others hide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PowerCutStyle {
    /// All unsynced writes are lost.
    Lost,
    /// All unsynced writes survive.
    Kept,
    /// The oldest writes over all files survive, and perhaps a prefix of the next one.
    Prefix,
    /// Random sectors of all writes survive, one of them torn.
    Subset,
    /// Each file keeps its writes up to its own point in time.
    Reordered,
    /// Random sectors of all writes survive, many of them torn at either end. Only on request.
    Torn,
}

impl PowerCutStyle {
    const ALL: [Self; 5] = [Self::Lost, Self::Kept, Self::Prefix, Self::Subset, Self::Reordered];

    pub(super) fn draw(random: &mut Random) -> Self {
        random.pick(&Self::ALL).unwrap_or(Self::Lost)
    }

    /// Whether a removal that is not durable is undone.
    pub(super) fn undoes_removal(self, random: &mut Random) -> bool {
        match self {
            Self::Lost => true,
            Self::Kept => false,
            Self::Prefix | Self::Subset | Self::Reordered | Self::Torn => random.coin(),
        }
    }
}

/// One power cut, the same for all files of a disk.
pub(super) struct PowerCutPlan {
    style: PowerCutStyle,
    /// The write in flight, by its number among the writes to all files.
    turn: u64,
    odds: usize,
}

impl PowerCutPlan {
    /// A cut of this style; `turns` are the numbers of all unsynced writes.
    pub(super) fn draw(style: PowerCutStyle, turns: &[u64], random: &mut Random) -> Self {
        let turn = random.pick(turns).unwrap_or_default();
        Self { style, turn, odds: random.pick(&[1, 4, 7]).unwrap_or_default() }
    }

    /// The content that the cut leaves of a file.
    pub(super) fn of(&self, inode: &Inode, random: &mut Random) -> Inode {
        let mut left = Arc::clone(&inode.durable);
        match self.style {
            PowerCutStyle::Lost => {}
            PowerCutStyle::Kept => persist_until(inode, u64::MAX, &mut left, random),
            PowerCutStyle::Prefix => persist_until(inode, self.turn, &mut left, random),
            PowerCutStyle::Reordered => {
                let mut turns: Vec<_> = inode.unsynced.iter().map(|write| write.sequence).collect();
                turns.push(u64::MAX);
                let turn = random.pick(&turns).unwrap_or_default();
                persist_until(inode, turn, &mut left, random);
            }
            PowerCutStyle::Torn => {
                inode.unsynced.iter().for_each(|write| write.tear_sectors(&mut left, random));
            }
            PowerCutStyle::Subset => {
                for write in &inode.unsynced {
                    let torn = (write.sequence == self.turn).then(|| write.any_sector(random));
                    write.persist_sectors(&mut left, self.odds, torn, random);
                }
            }
        }
        Inode::from_content(left)
    }
}

/// Keeps the writes before this turn, and a prefix of the write of this turn.
fn persist_until(inode: &Inode, turn: u64, left: &mut Arc<Vec<u8>>, random: &mut Random) {
    for write in &inode.unsynced {
        match write.sequence.cmp(&turn) {
            std::cmp::Ordering::Less => write.persist(left, usize::MAX),
            std::cmp::Ordering::Equal => write.persist_prefix(left, random),
            std::cmp::Ordering::Greater => {}
        }
    }
}
