//! Statistics: collected in memory by queue and kind, and written periodically.
//!
//! A push, a fetch and a write of reports each take the lock once, however many jobs they have.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crore_core::job::{DeliveryEnd, EndReason};
use crore_core::{Job, JobCounter, JobStats, Name, NewJob, Span, State, Time};
use crore_store::jobs::Pushed;
use crore_store::views::{MAX_SERIES, Note};

use super::Duty;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::observer::ObservedChange;
use crate::timers::NEVER;

/// How long statistics are collected before they are written.
const WRITE_INTERVAL: Span = Span::from_secs(5);

/// Maximum number of series per write, so that the store is not locked for long.
const WRITE_SERIES: usize = 250;

/// Queue and kind; `None`: the jobs count as `other`.
type SeriesKey = Option<(Name, Name)>;

/// Statistics that have not been written yet.
#[derive(Debug, Default)]
pub(crate) struct PendingStats(Mutex<StatsTable>);

impl PendingStats {
    fn lock(&self) -> MutexGuard<'_, StatsTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Statistics by queue and kind.
#[derive(Debug, Default)]
pub(crate) struct StatsTable {
    series: Vec<(SeriesKey, JobStats)>,
    /// Index into `series`.
    indexes: HashMap<(Name, Name), usize>,
    /// Index of `other`.
    other: Option<usize>,
    /// The series of the last job: mostly that of the next one.
    last: usize,
}

impl StatsTable {
    /// The statistics of a queue and kind. Beyond the maximum number of series, those of `other`.
    fn of(&mut self, queue: &Name, kind: &Name) -> &mut JobStats {
        let is_last = |((q, k), _): (&(Name, Name), &JobStats)| q == queue && k == kind;
        let last = self.series.get(self.last).and_then(|(key, stats)| Some((key.as_ref()?, stats)));
        if !last.is_some_and(is_last) {
            let key = (queue.clone(), kind.clone());
            self.last = match self.indexes.get(&key) {
                Some(index) => *index,
                None if self.indexes.len() < MAX_SERIES => self.insert(Some(key)),
                None => self.other.unwrap_or_else(|| self.insert(None)),
            };
        }
        &mut self.series[self.last].1
    }

    fn insert(&mut self, key: SeriesKey) -> usize {
        let index = self.series.len();
        match key.clone() {
            Some(key) => drop(self.indexes.insert(key, index)),
            None => self.other = Some(index),
        }
        self.series.push((key, JobStats::default()));
        index
    }

    fn restore(&mut self, series: Vec<(SeriesKey, JobStats)>) {
        for (key, stats) in series {
            match &key {
                Some((queue, kind)) => self.of(queue, kind).merge(&stats),
                None => {
                    let index = self.other.unwrap_or_else(|| self.insert(None));
                    self.series[index].1.merge(&stats);
                }
            }
        }
    }

    /// Counts deliveries.
    pub(crate) fn started(&mut self, jobs: &[Job], at: Time) {
        for job in jobs {
            let stats = self.of(&job.spec.queue, &job.spec.kind);
            stats.started(job.live.due, job.live.pushed_at, at);
        }
    }

    /// Counts a change of a job.
    pub(crate) fn changed(&mut self, change: &ObservedChange<'_>) {
        let before = change.job.live.state;
        if change.state == Some(before) && (before.has_ended() || change.ended.is_none()) {
            return;
        }
        let stats = self.of(&change.job.spec.queue, &change.job.spec.kind);
        let has_failed = matches!(change.ended, Some(DeliveryEnd::Failed | DeliveryEnd::TimedOut));
        let has_lapsed = change.ended == Some(DeliveryEnd::Lapsed);
        if change.ended.is_some() {
            stats.run.record(change.at.since(change.job.live.started_at), 1);
        }
        if has_failed {
            stats.add(JobCounter::Failed, 1);
        }
        if has_lapsed {
            stats.add(JobCounter::Lapsed, 1);
        }
        match change.state {
            None | Some(State::Done) if change.ended == Some(DeliveryEnd::Done) => {
                stats.add(JobCounter::Done, 1);
            }
            Some(State::Dead) if before != State::Dead => stats.add(JobCounter::Dead, 1),
            Some(State::Cancelled) if before != State::Cancelled => {
                stats.add(JobCounter::Cancelled, 1);
                if change.why == Some(EndReason::Expired) {
                    stats.add(JobCounter::Expired, 1);
                }
            }
            Some(state) if !state.has_ended() && (has_failed || has_lapsed) => {
                stats.add(JobCounter::Retried, 1);
            }
            _ => {}
        }
    }
}

/// Queues and kinds of the jobs of a batch, as runs of equal ones.
#[derive(Debug)]
pub(crate) struct NameRuns(Vec<(Name, Name, usize)>);

impl NameRuns {
    pub(crate) fn of(jobs: &[NewJob]) -> Self {
        let mut runs: Vec<(Name, Name, usize)> = Vec::new();
        for NewJob { spec, .. } in jobs {
            match runs.last_mut() {
                Some((queue, kind, n)) if *queue == spec.queue && *kind == spec.kind => *n += 1,
                _ => runs.push((spec.queue.clone(), spec.kind.clone(), 1)),
            }
        }
        Self(runs)
    }
}

impl EngineInner {
    /// Counts events, under one lock.
    pub(crate) fn tally(&self, count: impl FnOnce(&mut StatsTable)) {
        let is_first = {
            let mut table = self.duties.stats.lock();
            let was_empty = table.series.is_empty();
            count(&mut table);
            was_empty && !table.series.is_empty()
        };
        if is_first {
            self.plan_duty(Duty::Stats, self.now().after(WRITE_INTERVAL));
        }
    }

    /// Counts the jobs of a batch that were stored.
    pub(crate) fn tally_pushed(&self, stored: &[Pushed], runs: &NameRuns) {
        self.tally(|table| {
            let mut rest = stored;
            for (queue, kind, n) in &runs.0 {
                let (run, others) = rest.split_at_checked(*n).unwrap_or((rest, &[]));
                rest = others;
                let new = run.iter().filter(|one| matches!(one, Pushed::New(_))).count();
                if new > 0 {
                    table.of(queue, kind).add(JobCounter::Pushed, new as u64);
                }
            }
        });
    }

    /// Writes the statistics.
    pub(super) async fn stats_once(&self) -> Result<Time, Error> {
        self.write_stats().await.map(|()| NEVER)
    }

    pub(crate) async fn write_stats(&self) -> Result<(), Error> {
        let table = std::mem::take(&mut *self.duties.stats.lock());
        let mut unwritten = UnwrittenStats { pending: &self.duties.stats, series: table.series };
        while !unwritten.series.is_empty() {
            let rest = unwritten.series.len().saturating_sub(WRITE_SERIES);
            self.store.note(notes(&unwritten.series[rest..])).await?;
            unwritten.series.truncate(rest);
        }
        Ok(())
    }
}

/// The statistics of these series, and their sums by counter, which older versions of crore wrote alone.
fn notes(series: &[(SeriesKey, JobStats)]) -> Vec<Note> {
    let of_series = series
        .iter()
        .map(|(key, stats)| Note::Jobs { series: key.clone(), stats: Box::new(stats.clone()) });
    let sums = SUMS.into_iter().filter_map(|(name, counter)| {
        let n = series.iter().map(|(_, stats)| stats.count(counter)).sum();
        let series = Name::new("series", name).ok()?;
        (n > 0).then_some(Note::Stat { series, n })
    });
    of_series.chain(sums).collect()
}

/// Sums over all queues and kinds, with the names of their series.
const SUMS: [(&str, JobCounter); 5] = [
    ("pushed", JobCounter::Pushed),
    ("done", JobCounter::Done),
    ("failed", JobCounter::Failed),
    ("dead", JobCounter::Dead),
    ("cancelled", JobCounter::Cancelled),
];

/// Statistics being written. Those that are left when the write fails, or its future is dropped, are collected
/// again.
struct UnwrittenStats<'a> {
    pending: &'a PendingStats,
    series: Vec<(SeriesKey, JobStats)>,
}

impl Drop for UnwrittenStats<'_> {
    fn drop(&mut self) {
        if !self.series.is_empty() {
            self.pending.lock().restore(std::mem::take(&mut self.series));
        }
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "tests may panic")]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new("name", text).expect("a name")
    }

    #[test]
    fn more_series_than_the_store_keeps_are_collected_as_other() {
        let mut table = StatsTable::default();
        for n in 0..MAX_SERIES + 5 {
            table.of(&name("q"), &name(&format!("k{n}"))).add(JobCounter::Done, 1);
        }
        table.of(&name("q"), &name("k0")).add(JobCounter::Done, 1);
        let taken = std::mem::take(&mut table).series;
        assert_eq!(taken.len(), MAX_SERIES + 1);
        table.of(&name("q"), &name("k1")).add(JobCounter::Done, 1);
        table.restore(taken);
        let count = |key: SeriesKey| {
            let found = table.series.iter().find(|(it, _)| *it == key);
            found.map(|(_, stats)| stats.count(JobCounter::Done))
        };
        assert_eq!(count(None), Some(5));
        assert_eq!(count(Some((name("q"), name("k0")))), Some(2));
        assert_eq!(count(Some((name("q"), name("k1")))), Some(2), "a failed write loses nothing");
    }
}
