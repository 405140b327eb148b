//! Statistics: counts are collected in memory and written periodically.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crore_core::{Name, Span, Time};
use crore_store::views::Note;

use super::Duty;
use crate::drop_guard::DropGuard;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::timers::NEVER;

/// How long counts are collected before they are written.
const WRITE_INTERVAL: Span = Span::from_secs(5);

/// Counts that have not been written yet.
#[derive(Debug, Default)]
pub(crate) struct PendingStats(Mutex<BTreeMap<&'static str, u64>>);

impl EngineInner {
    /// Adds to a count.
    pub(crate) fn count(&self, what: &'static str, n: usize) {
        if n == 0 {
            return;
        }
        let is_first = {
            let mut counts = self.duties.stats.0.lock().unwrap_or_else(PoisonError::into_inner);
            let is_first = counts.is_empty();
            *counts.entry(what).or_default() += n as u64;
            is_first
        };
        if is_first {
            self.plan_duty(Duty::Stats, self.now().after(WRITE_INTERVAL));
        }
    }

    /// Writes the counts.
    pub(super) async fn stats_once(&self) -> Result<Time, Error> {
        self.write_stats().await.map(|()| NEVER)
    }

    pub(crate) async fn write_stats(&self) -> Result<(), Error> {
        let counts = {
            let mut counts = self.duties.stats.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *counts)
        };
        let stat = |(what, n): (&&str, &u64)| {
            let series = Name::new("series", what).ok()?;
            Some(Note::Stat { series, n: *n })
        };
        let unwritten =
            DropGuard::new(|| counts.iter().for_each(|(what, n)| self.restore_count(what, *n)));
        self.store.note(counts.iter().filter_map(stat).collect()).await?;
        unwritten.disarm();
        Ok(())
    }

    fn restore_count(&self, what: &'static str, n: u64) {
        let mut counts = self.duties.stats.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(what).or_default() += n;
    }
}
