//! Notes for people: progress and log lines of jobs, and statistics.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use crore_core::{JobId, Name, Time};

use super::side::Key;
use crate::views::{JobNotes, MAX_LINES, Step};

#[derive(Debug, Default)]
pub(crate) struct Notes {
    jobs: HashMap<JobId, OfJob>,
    stats: BTreeMap<(Name, Step), BTreeMap<Time, u64>>,
    pub(crate) touched: Vec<Key>,
}

pub(crate) type Progress = (Time, u8, Arc<str>);
pub(crate) type Line = (Time, Arc<str>);

#[derive(Debug, Default)]
struct OfJob {
    progress: Option<Progress>,
    /// The newest lines, each with its number.
    lines: VecDeque<(u64, Line)>,
}

impl OfJob {
    /// Adds a line, for which the oldest may have to make room.
    fn add(&mut self, nth: u64, line: Line) {
        if self.lines.len() >= MAX_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back((nth, line));
    }
}

impl Notes {
    pub(crate) fn progress_of(&self, id: JobId) -> Option<Progress> {
        self.jobs.get(&id)?.progress.clone()
    }

    pub(crate) fn line_of(&self, id: JobId, nth: u64) -> Option<Line> {
        let lines = &self.jobs.get(&id)?.lines;
        let place = lines.binary_search_by_key(&nth, |(nth, _)| *nth).ok()?;
        lines.get(place).map(|(_, line)| line.clone())
    }

    pub(crate) fn set_progress(&mut self, id: JobId, progress: Progress) {
        self.jobs.entry(id).or_default().progress = Some(progress);
    }

    /// Puts a line back; lines come in their order.
    pub(crate) fn set_line(&mut self, id: JobId, nth: u64, line: Line) {
        self.jobs.entry(id).or_default().add(nth, line);
    }

    pub(crate) fn count(&self, series: &Name, step: Step, at: Time) -> Option<u64> {
        self.stats.get(&(series.clone(), step))?.get(&at).copied()
    }

    pub(crate) fn set_count(&mut self, series: Name, step: Step, at: Time, n: u64) {
        self.stats.entry((series, step)).or_default().insert(at, n);
    }

    /// How many jobs have notes, and how many counts of statistics there are.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.jobs.len(), self.stats.values().map(BTreeMap::len).sum())
    }

    pub(crate) fn of(&self, id: JobId) -> JobNotes {
        let Some(OfJob { progress, lines }) = self.jobs.get(&id) else {
            return JobNotes::default();
        };
        let lines = lines.iter().map(|(_, line)| line.clone()).collect();
        JobNotes { progress: progress.clone(), lines }
    }

    /// A job is gone, and its notes with it; that is all there is to be known about them.
    pub(crate) fn forget(&mut self, id: JobId) {
        if !self.jobs.is_empty() {
            self.jobs.remove(&id);
        }
    }

    pub(crate) fn progress(&mut self, id: JobId, now: Time, percent: u8, text: &Arc<str>) {
        let progress = Some((now, percent, Arc::clone(text)));
        self.jobs.entry(id).or_default().progress = progress;
        self.touched.push(Key::Progress(id));
    }

    pub(crate) fn line(&mut self, id: JobId, now: Time, text: &Arc<str>) {
        let notes = self.jobs.entry(id).or_default();
        let nth = notes.lines.back().map_or(0, |(nth, _)| nth + 1);
        notes.add(nth, (now, Arc::clone(text)));
        self.touched.push(Key::Line(id, nth));
    }

    pub(crate) fn stat(&mut self, series: &Name, n: u64, now: Time) {
        if n == 0 {
            return;
        }
        for step in Step::ALL {
            let bucket = bucket(step, now);
            let ring = self.stats.entry((series.clone(), step)).or_default();
            let count = ring.entry(bucket).or_default();
            *count = count.saturating_add(n);
            self.touched.push(Key::Stat(series.clone(), step, bucket));
            *ring = ring.split_off(&oldest(step, now));
        }
    }

    /// Drops up to `n` series that nothing is left of.
    pub(crate) fn prune(&mut self, n: usize, now: Time) {
        let is_over = |(series, ring): (&(Name, Step), &BTreeMap<Time, u64>)| {
            let newest = ring.last_key_value().map(|(at, _)| *at);
            newest.is_none_or(|at| at < oldest(series.1, now)).then(|| series.clone())
        };
        let over: Vec<_> = self.stats.iter().filter_map(is_over).take(n).collect();
        for series in &over {
            self.stats.remove(series);
        }
    }

    pub(crate) fn stats(&self, series: &Name, step: Step, now: Time) -> Vec<(Time, u64)> {
        let Some(ring) = self.stats.get(&(series.clone(), step)) else { return Vec::new() };
        ring.range(oldest(step, now)..).map(|(at, n)| (*at, *n)).collect()
    }
}

/// The start of the bucket that an instant falls into.
fn bucket(step: Step, at: Time) -> Time {
    let span = step.span().as_millis() as i64;
    Time::from_millis(at.as_millis() / span * span)
}

/// The oldest bucket that is kept.
fn oldest(step: Step, now: Time) -> Time {
    bucket(step, now).before(step.span().times(step.buckets() - 1))
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test panics, and says why")]
mod tests {
    use super::*;

    #[test]
    fn a_series_that_is_empty_is_pruned() {
        let mut notes = Notes::default();
        let series = |text| Name::new("series", text).expect("a good name");
        let (start, hour) = (Time::from_millis(0), Step::Hour.span());
        notes.stat(&series("old"), 1, start);
        let later = start.after(hour.times(Step::Hour.buckets()));
        notes.stat(&series("new"), 1, later);
        notes.prune(9, later.before(hour));
        assert_eq!(notes.stats.len(), 3, "its hours are left");
        notes.prune(9, later);
        assert_eq!(notes.stats.len(), 2);
        assert_eq!(notes.stats(&series("new"), Step::Minute, later).len(), 1);
    }
}
