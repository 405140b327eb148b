//! Progress and log lines of jobs, and statistics.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use crore_core::{JobId, Name, Time};

use super::side::SideKey;
use crate::views::{JobNotes, MAX_LOG_LINES, StatStep};

#[derive(Debug, Default)]
pub(crate) struct NoteTable {
    jobs: HashMap<JobId, StoredJobNotes>,
    stats: BTreeMap<(Name, StatStep), BTreeMap<Time, u64>>,
    pub(crate) touched: Vec<SideKey>,
}

pub(crate) type ProgressNote = (Time, u8, Arc<str>);
pub(crate) type LogLine = (Time, Arc<str>);

#[derive(Debug, Default)]
struct StoredJobNotes {
    progress: Option<ProgressNote>,
    /// The latest lines, each with its sequence number.
    lines: VecDeque<(u64, LogLine)>,
}

impl StoredJobNotes {
    /// Adds a line and drops the oldest one beyond the maximum.
    fn add(&mut self, nth: u64, line: LogLine) {
        if self.lines.len() >= MAX_LOG_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back((nth, line));
    }
}

impl NoteTable {
    pub(crate) fn progress_of(&self, id: JobId) -> Option<ProgressNote> {
        self.jobs.get(&id)?.progress.clone()
    }

    pub(crate) fn line_of(&self, id: JobId, nth: u64) -> Option<LogLine> {
        let lines = &self.jobs.get(&id)?.lines;
        let index = lines.binary_search_by_key(&nth, |(nth, _)| *nth).ok()?;
        lines.get(index).map(|(_, line)| line.clone())
    }

    pub(crate) fn set_progress(&mut self, id: JobId, progress: ProgressNote) {
        self.jobs.entry(id).or_default().progress = Some(progress);
    }

    /// Restores a line; lines arrive in order.
    pub(crate) fn set_line(&mut self, id: JobId, nth: u64, line: LogLine) {
        self.jobs.entry(id).or_default().add(nth, line);
    }

    pub(crate) fn count(&self, series: &Name, step: StatStep, at: Time) -> Option<u64> {
        self.stats.get(&(series.clone(), step))?.get(&at).copied()
    }

    pub(crate) fn set_count(&mut self, series: Name, step: StatStep, at: Time, n: u64) {
        self.stats.entry((series, step)).or_default().insert(at, n);
    }

    /// Returns the number of jobs with notes, and of statistics buckets.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.jobs.len(), self.stats.values().map(BTreeMap::len).sum())
    }

    pub(crate) fn of(&self, id: JobId) -> JobNotes {
        let Some(StoredJobNotes { progress, lines }) = self.jobs.get(&id) else {
            return JobNotes::default();
        };
        let lines = lines.iter().map(|(_, line)| line.clone()).collect();
        JobNotes { progress: progress.clone(), lines }
    }

    /// Drops the notes of a removed job. Nothing is marked as touched: the removal of the job
    /// implies it.
    pub(crate) fn remove_job(&mut self, id: JobId) {
        if !self.jobs.is_empty() {
            self.jobs.remove(&id);
        }
    }

    pub(crate) fn progress(&mut self, id: JobId, now: Time, percent: u8, text: &Arc<str>) {
        let progress = Some((now, percent, Arc::clone(text)));
        self.jobs.entry(id).or_default().progress = progress;
        self.touched.push(SideKey::Progress(id));
    }

    pub(crate) fn line(&mut self, id: JobId, now: Time, text: &Arc<str>) {
        let notes = self.jobs.entry(id).or_default();
        let nth = notes.lines.back().map_or(0, |(nth, _)| nth + 1);
        notes.add(nth, (now, Arc::clone(text)));
        self.touched.push(SideKey::Line(id, nth));
    }

    pub(crate) fn stat(&mut self, series: &Name, n: u64, now: Time) {
        if n == 0 {
            return;
        }
        for step in StatStep::ALL {
            let bucket = bucket(step, now);
            let ring = self.stats.entry((series.clone(), step)).or_default();
            let count = ring.entry(bucket).or_default();
            *count = count.saturating_add(n);
            self.touched.push(SideKey::Stat(series.clone(), step, bucket));
            *ring = ring.split_off(&oldest(step, now));
        }
    }

    /// Removes up to `n` series without live buckets.
    pub(crate) fn prune(&mut self, n: usize, now: Time) {
        let is_over = |(series, ring): (&(Name, StatStep), &BTreeMap<Time, u64>)| {
            let newest = ring.last_key_value().map(|(at, _)| *at);
            newest.is_none_or(|at| at < oldest(series.1, now)).then(|| series.clone())
        };
        let over: Vec<_> = self.stats.iter().filter_map(is_over).take(n).collect();
        for series in &over {
            self.stats.remove(series);
        }
    }

    pub(crate) fn stats(&self, series: &Name, step: StatStep, now: Time) -> Vec<(Time, u64)> {
        let Some(ring) = self.stats.get(&(series.clone(), step)) else { return Vec::new() };
        ring.range(oldest(step, now)..).map(|(at, n)| (*at, *n)).collect()
    }
}

/// Start of the bucket that contains `at`.
pub(super) fn bucket(step: StatStep, at: Time) -> Time {
    let span = step.span().as_millis() as i64;
    Time::from_millis(at.as_millis() / span * span)
}

/// Start of the oldest bucket that is kept.
pub(super) fn oldest(step: StatStep, now: Time) -> Time {
    bucket(step, now).before(step.span().times(step.buckets() - 1))
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_series_that_is_empty_is_pruned() {
        let mut notes = NoteTable::default();
        let series = |text| Name::new("series", text).expect("a valid name");
        let (start, hour) = (Time::from_millis(0), StatStep::Hour.span());
        notes.stat(&series("old"), 1, start);
        let later = start.after(hour.times(StatStep::Hour.buckets()));
        notes.stat(&series("new"), 1, later);
        notes.prune(9, later.before(hour));
        assert_eq!(notes.stats.len(), 5, "its hours and days remain");
        notes.prune(9, later);
        assert_eq!(notes.stats.len(), 4, "its days remain");
        assert_eq!(notes.stats(&series("new"), StatStep::Minute, later).len(), 1);
    }
}
