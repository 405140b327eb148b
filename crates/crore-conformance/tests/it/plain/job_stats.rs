//! Statistics of jobs: every note is kept, and a query examines all of them.

use std::collections::BTreeMap;

use crore_core::{JobStats, Name, Span, Time};
use crore_store::views::{JobStatsQuery, JobStatsRow, MAX_SERIES, StatStep, StatsShape};

use super::records::Records;
use super::views::bucket;

const WEEK: Span = Span::from_secs(7 * 24 * 3600);

/// Every note, with the index of its series; `None`: there were too many.
#[derive(Debug, Default)]
pub(super) struct PlainJobStats {
    series: Vec<PlainSeries>,
    notes: Vec<(Time, Option<usize>, JobStats)>,
}

#[derive(Debug)]
struct PlainSeries {
    /// `None`: it gave up its place.
    name: Option<(Name, Name)>,
    newest: Time,
}

impl PlainJobStats {
    pub(super) fn note(&mut self, name: Option<(Name, Name)>, stats: JobStats, now: Time) {
        if !stats.is_empty() {
            let minute = bucket(now, StatStep::Minute);
            let series = name.and_then(|name| self.place(name, minute, now));
            self.notes.push((now, series, stats));
        }
    }

    fn place(&mut self, name: (Name, Name), newest: Time, now: Time) -> Option<usize> {
        if let Some(n) = self.series.iter().position(|one| one.name.as_ref() == Some(&name)) {
            self.series[n].newest = newest;
            return Some(n);
        }
        let named = self.series.iter_mut().filter(|one| one.name.is_some());
        if named.count() >= MAX_SERIES {
            let named = self.series.iter_mut().filter(|one| one.name.is_some());
            let idle = named.min_by_key(|one| one.newest)?;
            if idle.newest.after(WEEK) > now {
                return None;
            }
            idle.name = None;
        }
        self.series.push(PlainSeries { name: Some(name), newest });
        Some(self.series.len() - 1)
    }
}

impl Records {
    pub(super) fn job_stats(&self, query: &JobStatsQuery) -> Vec<JobStatsRow> {
        let step = query.step;
        let age = step.span().times(step.buckets());
        let mut rows: BTreeMap<_, (Time, JobStats)> = BTreeMap::new();
        for (at, series, stats) in &self.job_stats.notes {
            let at = bucket(*at, step);
            let name = series.and_then(|n| self.job_stats.series[n].name.clone());
            let is_selected = match &name {
                Some((queue, kind)) => query.matches(queue, kind),
                None => query.includes_other(),
            };
            let is_in_time = at.after(step.span()) > query.from && at < query.to;
            if !is_selected || !is_in_time || at.after(age) <= bucket(self.now, step) {
                continue;
            }
            let key = match query.shape {
                StatsShape::OverTime => (at, false, None),
                StatsShape::BySeries => (Time::ZERO, name.is_none(), name),
            };
            rows.entry(key).or_insert_with(|| (at, JobStats::default())).1.merge(stats);
        }
        let rows = rows.into_iter();
        rows.map(|((_, _, series), (at, stats))| JobStatsRow { series, at, stats }).collect()
    }
}
