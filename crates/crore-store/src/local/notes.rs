//! Notes for people: progress and log lines of jobs, and statistics.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crore_core::{JobId, Name, Time};

use super::side::Key;
use crate::views::{JobNotes, MAX_LINES, Step};

#[derive(Debug, Default)]
pub(crate) struct Notes {
    jobs: HashMap<JobId, JobNotes>,
    stats: BTreeMap<(Name, Step), BTreeMap<Time, u64>>,
    pub(crate) touched: Vec<Key>,
}

impl Notes {
    pub(crate) fn get(&self, id: JobId) -> Option<JobNotes> {
        self.jobs.get(&id).cloned()
    }

    pub(crate) fn set(&mut self, id: JobId, notes: JobNotes) {
        self.jobs.insert(id, notes);
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
        self.jobs.get(&id).cloned().unwrap_or_default()
    }

    pub(crate) fn forget(&mut self, id: JobId) {
        if self.jobs.remove(&id).is_some() {
            self.touched.push(Key::Notes(id));
        }
    }

    pub(crate) fn progress(&mut self, id: JobId, now: Time, percent: u8, text: &Arc<str>) {
        let progress = Some((now, percent, Arc::clone(text)));
        self.jobs.entry(id).or_default().progress = progress;
        self.touched.push(Key::Notes(id));
    }

    pub(crate) fn line(&mut self, id: JobId, now: Time, text: &Arc<str>) {
        let lines = &mut self.jobs.entry(id).or_default().lines;
        if lines.len() >= MAX_LINES {
            lines.remove(0);
        }
        lines.push((now, Arc::clone(text)));
        self.touched.push(Key::Notes(id));
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
