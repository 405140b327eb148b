//! Statistics of jobs by queue and kind (*series*) over time.
//!
//! Each step (minute, hour, day) has a ring: blocks of encoded statistics by bucket of time, up to the age of
//! [`StatStep::buckets`] and the size of [`max_bytes`]. Beyond either, the oldest are dropped.
//!
//! A series has a number, which is never used again. At most [`MAX_SERIES`] series have a name; statistics
//! without a named series count as `other`: those of series beyond the maximum (number 0), and those of series
//! that gave up their name after [`IDLE`].

mod block;
mod snapshot;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crore_core::{JobStats, Name, Span, Time};

use super::notes::{bucket, oldest};
use super::side::SideKey;
use crate::bug::planted;
use crate::views::{JobStatsQuery, MAX_SERIES, StatStep};
pub(crate) use block::check as check_block;
use block::{BlockReader, SERIES};
pub(crate) use snapshot::SeriesSnapshot;

/// Bytes that a block takes in memory besides its content: its place in a B-tree, and its allocation.
const BLOCK_OVERHEAD: usize = 96;

/// A series without activity for this long gives up its name when another one needs it.
const IDLE: Span = Span::from_secs(7 * 24 * 3600);

/// Maximum size of a ring, overhead included. Together they leave 8 of the 32 MiB for names, for keys in the log
/// and for what the engine collects between two writes.
const fn max_bytes(step: StatStep) -> usize {
    match step {
        StatStep::Minute | StatStep::Hour => 10 << 20,
        StatStep::Day => 4 << 20,
    }
}

/// The series and their rings.
#[derive(Debug, Default)]
pub(crate) struct SeriesTable {
    numbers: BTreeMap<(Name, Name), u32>,
    rows: BTreeMap<u32, SeriesRow>,
    last_number: u32,
    rings: BTreeMap<StatStep, SeriesRing>,
    touched: BTreeSet<SideKey>,
}

#[derive(Debug)]
struct SeriesRow {
    queue: Name,
    kind: Name,
    /// Start of the newest bucket of any step.
    newest: Time,
}

#[derive(Debug, Default)]
struct SeriesRing {
    /// By start of the bucket, and number of the block.
    blocks: BTreeMap<(Time, u32), Arc<[u8]>>,
    /// Size of the blocks, overhead included.
    bytes: usize,
}

impl SeriesRing {
    fn put(&mut self, key: (Time, u32), block: Arc<[u8]>) {
        self.bytes += block.len() + BLOCK_OVERHEAD;
        if let Some(old) = self.blocks.insert(key, block) {
            self.bytes -= old.len() + BLOCK_OVERHEAD;
        }
    }

    /// Drops one of the oldest blocks if it is older than `oldest` or the ring is too large.
    fn drop_oldest(&mut self, oldest: Time, max: usize) -> Option<(Time, u32)> {
        let first = self.blocks.first_entry()?;
        if first.key().0 >= oldest && self.bytes <= max {
            return None;
        }
        let (key, block) = first.remove_entry();
        self.bytes -= block.len() + BLOCK_OVERHEAD;
        Some(key)
    }
}

impl SeriesTable {
    /// Adds to the statistics of a series, or of `other`, at the current time.
    pub(crate) fn note(&mut self, series: Option<&(Name, Name)>, stats: &JobStats, now: Time) {
        if stats.is_empty() {
            return;
        }
        let number = series.map_or(0, |series| self.number(series, now));
        for step in StatStep::ALL {
            let key = (bucket(step, now), number / SERIES);
            let ring = self.rings.entry(step).or_default();
            let block = ring.blocks.get(&key).map(AsRef::as_ref).unwrap_or_default();
            let block = block::add(block, number % SERIES, stats);
            ring.put(key, block.into());
            self.touched.insert(SideKey::Series(step, key.0, key.1));
        }
        self.drop_old(usize::MAX, now);
    }

    /// The number of a series; 0 if there are too many. Makes it the most recently used.
    fn number(&mut self, series: &(Name, Name), now: Time) -> u32 {
        if let Some(number) = self.numbers.get(series) {
            if let Some(row) = self.rows.get_mut(number) {
                row.newest = row.newest.max(bucket(StatStep::Minute, now));
            }
            return *number;
        }
        if self.rows.len() >= MAX_SERIES && !self.retire_idle(now) && !planted!("bug-50") {
            return 0;
        }
        self.last_number += 1;
        self.name(self.last_number, series.clone(), bucket(StatStep::Minute, now));
        self.touched.insert(SideKey::SeriesName(self.last_number));
        self.last_number
    }

    fn name(&mut self, number: u32, key: (Name, Name), newest: Time) {
        let (queue, kind) = key.clone();
        self.numbers.insert(key, number);
        self.rows.insert(number, SeriesRow { queue, kind, newest });
    }

    /// Takes the name from the series that was idle for the longest time, if that is long enough.
    fn retire_idle(&mut self, now: Time) -> bool {
        let idle = self.rows.iter().min_by_key(|(_, row)| row.newest);
        let idle = idle.filter(|(_, row)| row.newest.after(IDLE) <= now);
        let Some(number) = idle.map(|(number, _)| *number) else { return false };
        self.remove_name(number);
        true
    }

    fn remove_name(&mut self, number: u32) {
        if let Some(row) = self.rows.remove(&number) {
            self.numbers.remove(&(row.queue, row.kind));
            self.touched.insert(SideKey::SeriesName(number));
        }
    }

    /// Drops up to `n` blocks that are too old or too much.
    fn drop_old(&mut self, n: usize, now: Time) {
        let mut left = n;
        for (step, ring) in &mut self.rings {
            let oldest = oldest(*step, now);
            while left > 0
                && let Some((at, block)) = ring.drop_oldest(oldest, max_bytes(*step))
            {
                self.touched.insert(SideKey::Series(*step, at, block));
                left -= 1;
            }
        }
    }

    /// Removes up to `n` old blocks, and names without any statistics.
    pub(crate) fn prune(&mut self, n: usize, now: Time) {
        self.drop_old(n, now);
        let oldest = oldest(StatStep::Day, now);
        let over = self.rows.iter().filter(|(_, row)| row.newest < oldest).take(n);
        for number in over.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.remove_name(number);
        }
    }

    /// The blocks of a query. They are decoded later, without the store's lock.
    pub(crate) fn select(&self, query: &JobStatsQuery, now: Time) -> SeriesSnapshot {
        let matching = |(number, row): (&u32, &SeriesRow)| {
            let series = (row.queue.clone(), row.kind.clone());
            query.matches(&row.queue, &row.kind).then_some((*number, series))
        };
        let named = self.rows.iter().filter_map(matching).collect();
        let from = oldest(query.step, now).max(bucket(query.step, query.from));
        let ring = self.rings.get(&query.step);
        let blocks = ring.into_iter().flat_map(|ring| {
            let selected = ring.blocks.range((from, 0)..).take_while(|((at, _), _)| *at < query.to);
            selected.map(|((at, nth), block)| (*at, *nth, Arc::clone(block)))
        });
        SeriesSnapshot { blocks: blocks.collect(), named, query: query.clone() }
    }

    /// Moves the touched keys to `all`. Called after every operation; most operations touch none.
    pub(crate) fn take_touched(&mut self, all: &mut Vec<SideKey>) {
        if !self.touched.is_empty() {
            all.extend(std::mem::take(&mut self.touched));
        }
    }

    pub(crate) fn block(&self, step: StatStep, at: Time, nth: u32) -> Option<Arc<[u8]>> {
        self.rings.get(&step)?.blocks.get(&(at, nth)).cloned()
    }

    pub(crate) fn name_of(&self, number: u32) -> Option<(Name, Name)> {
        self.rows.get(&number).map(|row| (row.queue.clone(), row.kind.clone()))
    }

    /// Restores a block. Names are restored before.
    pub(crate) fn set_block(&mut self, step: StatStep, (at, nth): (Time, u32), block: Arc<[u8]>) {
        for (offset, _) in BlockReader::new(&block) {
            let number = nth.saturating_mul(SERIES).saturating_add(offset);
            self.last_number = self.last_number.max(number);
            if let Some(row) = self.rows.get_mut(&number) {
                row.newest = row.newest.max(at);
            }
        }
        let ring = self.rings.entry(step).or_default();
        ring.put((at, nth), block);
        ring.drop_oldest(Time::ZERO, max_bytes(step));
    }

    pub(crate) fn set_name(&mut self, number: u32, series: (Name, Name)) {
        if number > 0 && self.rows.len() < MAX_SERIES {
            self.last_number = self.last_number.max(number);
            self.name(number, series, Time::ZERO);
        }
    }

    /// Number of names and of blocks.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.rows.len(), self.rings.values().map(|ring| ring.blocks.len()).sum())
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test may panic")]
mod tests;
