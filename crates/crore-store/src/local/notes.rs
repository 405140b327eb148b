//! Notes for people: progress and log lines of jobs, and statistics.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crore_core::{JobId, Name, Time};

use crate::views::{JobNotes, MAX_LINES, Step};

#[derive(Debug, Default)]
pub(crate) struct Notes {
    jobs: HashMap<JobId, JobNotes>,
    stats: BTreeMap<(Name, Step), BTreeMap<Time, u64>>,
}

impl Notes {
    pub(crate) fn of(&self, id: JobId) -> JobNotes {
        self.jobs.get(&id).cloned().unwrap_or_default()
    }

    pub(crate) fn forget(&mut self, id: JobId) {
        self.jobs.remove(&id);
    }

    pub(crate) fn progress(&mut self, id: JobId, now: Time, percent: u8, text: &Arc<str>) {
        let progress = Some((now, percent, Arc::clone(text)));
        self.jobs.entry(id).or_default().progress = progress;
    }

    pub(crate) fn line(&mut self, id: JobId, now: Time, text: &Arc<str>) {
        let lines = &mut self.jobs.entry(id).or_default().lines;
        if lines.len() >= MAX_LINES {
            lines.remove(0);
        }
        lines.push((now, Arc::clone(text)));
    }

    pub(crate) fn stat(&mut self, series: &Name, n: u64, now: Time) {
        for step in Step::ALL {
            let bucket = bucket(step, now);
            let ring = self.stats.entry((series.clone(), step)).or_default();
            let count = ring.entry(bucket).or_default();
            *count = count.saturating_add(n);
            *ring = ring.split_off(&oldest(step, now));
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
