//! Blocks selected by a query, to be decoded and added up.

use std::collections::BTreeMap;
use std::sync::Arc;

use crore_core::{JobStats, Name, Time};

use super::block::{self, BlockReader, SERIES};
use crate::views::{JobStatsQuery, JobStatsRow, StatsShape};

/// Blocks selected by a query, with the names of the series.
#[derive(Debug)]
pub(crate) struct SeriesSnapshot {
    pub(super) blocks: Vec<(Time, u32, Arc<[u8]>)>,
    /// Selected series by number.
    pub(super) named: BTreeMap<u32, (Name, Name)>,
    pub(super) query: JobStatsQuery,
}

/// Sort key of a row: the time, or the series with `other` at the end.
type RowKey = (Time, bool, Option<(Name, Name)>);

impl SeriesSnapshot {
    /// Adds up the statistics.
    pub(crate) fn rows(self) -> Vec<JobStatsRow> {
        let mut rows: BTreeMap<RowKey, (Time, JobStats)> = BTreeMap::new();
        for (at, nth, block) in &self.blocks {
            for (offset, bytes) in BlockReader::new(block) {
                let Some(key) = self.row_of(*at, nth.saturating_mul(SERIES) + offset) else {
                    continue;
                };
                // A block is checked when it is read from the log.
                let Ok(stats) = block::get_stats(bytes) else { continue };
                rows.entry(key).or_insert_with(|| (*at, JobStats::default())).1.merge(&stats);
            }
        }
        let row = |((_, _, series), (at, stats)): (RowKey, (Time, JobStats))| JobStatsRow {
            series,
            at,
            stats,
        };
        rows.into_iter().map(row).collect()
    }

    /// The row to which a series belongs; `None`: it is not selected.
    fn row_of(&self, at: Time, number: u32) -> Option<RowKey> {
        let series = self.named.get(&number);
        if series.is_none() && !self.query.includes_other() {
            return None;
        }
        Some(match self.query.shape {
            StatsShape::OverTime => (at, false, None),
            StatsShape::BySeries => (Time::ZERO, series.is_none(), series.cloned()),
        })
    }
}
