//! What a power cut leaves of the writes that were not synced.

use std::sync::Arc;

use super::inode::Inode;
use super::random::Random;

/// How a power cut went. Pure styles are drawn as often as mixed ones, since each finds mistakes
/// that the others hide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Nothing that was not synced.
    Lost,
    /// Everything, as if it had been synced.
    Kept,
    /// The oldest writes over all files, and perhaps the beginning of the next one.
    Prefix,
    /// Any sectors of any writes, one of them torn.
    Subset,
    /// Each file stopped at a moment of its own.
    Reordered,
    /// Any sectors of any writes, many of them torn at either end. Drawn only on request.
    Torn,
}

impl Style {
    const ALL: [Self; 5] = [Self::Lost, Self::Kept, Self::Prefix, Self::Subset, Self::Reordered];

    pub(super) fn draw(random: &mut Random) -> Self {
        random.pick(&Self::ALL).unwrap_or(Self::Lost)
    }

    /// Whether a removal that nothing has made durable did not happen.
    pub(super) fn revives(self, random: &mut Random) -> bool {
        match self {
            Self::Lost => true,
            Self::Kept => false,
            Self::Prefix | Self::Subset | Self::Reordered | Self::Torn => random.coin(),
        }
    }
}

/// One power cut, the same for all files of a disk.
pub(super) struct Cut {
    style: Style,
    /// Of the writes to all files: the one that was under way.
    turn: u64,
    odds: usize,
}

impl Cut {
    /// A cut of this style; `turns` are those of all writes that were not synced.
    pub(super) fn draw(style: Style, turns: &[u64], random: &mut Random) -> Self {
        let turn = random.pick(turns).unwrap_or_default();
        Self { style, turn, odds: random.pick(&[1, 4, 7]).unwrap_or_default() }
    }

    /// What it leaves of a file.
    pub(super) fn of(&self, inode: &Inode, random: &mut Random) -> Inode {
        let mut left = Arc::clone(&inode.durable);
        match self.style {
            Style::Lost => {}
            Style::Kept => until(inode, u64::MAX, &mut left, random),
            Style::Prefix => until(inode, self.turn, &mut left, random),
            Style::Reordered => {
                let mut turns: Vec<_> = inode.unsynced.iter().map(|write| write.turn).collect();
                turns.push(u64::MAX);
                let turn = random.pick(&turns).unwrap_or_default();
                until(inode, turn, &mut left, random);
            }
            Style::Torn => {
                inode.unsynced.iter().for_each(|write| write.tear_sectors(&mut left, random));
            }
            Style::Subset => {
                for write in &inode.unsynced {
                    let torn = (write.turn == self.turn).then(|| write.any_sector(random));
                    write.keep_sectors(&mut left, self.odds, torn, random);
                }
            }
        }
        Inode::from_content(left)
    }
}

/// Keeps the writes before this turn, and some first bytes of the one whose turn it is.
fn until(inode: &Inode, turn: u64, left: &mut Arc<Vec<u8>>, random: &mut Random) {
    for write in &inode.unsynced {
        match write.turn.cmp(&turn) {
            std::cmp::Ordering::Less => write.keep(left, usize::MAX),
            std::cmp::Ordering::Equal => write.keep_some(left, random),
            std::cmp::Ordering::Greater => {}
        }
    }
}
