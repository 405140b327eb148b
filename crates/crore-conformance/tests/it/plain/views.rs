//! Views and notes.

use std::collections::BTreeMap;

use crore_core::{Delivery, IndexKey, Job, JobId, Name, State, Time};
use crore_store::views::{
    Cursor, JobCount, JobNotes, ListPage, ListQuery, MAX_LOG_LINES, Note, RequiredVersion, StatStep,
};

use super::records::Records;

impl Records {
    /// Whether the note was kept.
    pub(super) fn note(&mut self, note: Note) -> bool {
        let now = self.now;
        match note {
            Note::Progress { id, delivery, percent, text } => self
                .notes_of(id, delivery)
                .map(|notes| notes.progress = Some((now, percent, text)))
                .is_some(),
            Note::Line { id, delivery, text } => self
                .notes_of(id, delivery)
                .map(|notes| {
                    notes.lines.push((now, text));
                    let old = notes.lines.len().saturating_sub(MAX_LOG_LINES);
                    notes.lines.drain(..old);
                })
                .is_some(),
            Note::Jobs { series, stats } => {
                self.job_stats.note(series, *stats, now);
                true
            }
            Note::Stat { series, n } => {
                for step in StatStep::ALL {
                    let count = self.stats.entry((series.clone(), step, bucket(now, step)));
                    let count = count.or_default();
                    *count = count.saturating_add(n);
                }
                true
            }
        }
    }

    /// The notes of a job, if this delivery of it is running.
    fn notes_of(&mut self, id: JobId, delivery: Delivery) -> Option<&mut JobNotes> {
        let live = &self.jobs.get(&id)?.live;
        let current = live.state == State::Running && live.delivery == delivery;
        current.then(|| self.notes.entry(id).or_default())
    }

    pub(super) fn list(&self, query: &ListQuery) -> ListPage {
        let jobs = self.jobs.values().filter(|job| job.live.state == query.state);
        let jobs = jobs.filter(|job| query.queue.as_ref().is_none_or(|q| *q == job.spec.queue));
        let jobs = jobs.filter(|job| query.kind.as_ref().is_none_or(|k| *k == job.spec.kind));
        let jobs = jobs.filter(|job| query.key.is_none_or(|k| IndexKey::of_job(job).contains(&k)));
        let mut jobs: Vec<(Cursor, &Job)> = jobs.map(|job| (position(job), job)).collect();
        jobs.sort_unstable_by_key(|(position, _)| *position);
        let is_after = |a: Cursor, b: Cursor| if query.state.has_ended() { a < b } else { a > b };
        if query.state.has_ended() {
            jobs.reverse();
        }
        jobs.retain(|(position, _)| query.after.is_none_or(|after| is_after(*position, after)));
        let more = jobs.len() > query.n;
        jobs.truncate(query.n);
        let next = jobs.last().map(|(position, _)| *position).or(query.after).filter(|_| more);
        ListPage { jobs: jobs.into_iter().map(|(_, job)| job.clone()).collect(), next }
    }

    pub(super) fn counts(&self, queue: Option<&Name>) -> Vec<JobCount> {
        let mut counts = BTreeMap::new();
        for job in self.jobs.values().filter(|job| queue.is_none_or(|q| *q == job.spec.queue)) {
            let key = (job.spec.queue.clone(), job.spec.kind.clone(), job.live.state);
            *counts.entry(key).or_default() += 1;
        }
        let count = |((queue, kind, state), n)| JobCount { queue, kind, state, n };
        counts.into_iter().map(count).collect()
    }

    pub(super) fn required_versions(&self, queue: Option<&Name>) -> Vec<RequiredVersion> {
        let mut counts = BTreeMap::new();
        let ready = self.jobs.values().filter(|job| job.live.state == State::Ready);
        for job in ready.filter(|job| queue.is_none_or(|q| *q == job.spec.queue)) {
            let Some(version) = job.spec.worker_version.as_deref() else { continue };
            let key = (job.spec.queue.clone(), job.spec.kind.clone(), *version);
            *counts.entry(key).or_default() += 1;
        }
        let count = |((queue, kind, version), n)| RequiredVersion { queue, kind, version, n };
        counts.into_iter().map(count).collect()
    }

    pub(super) fn stats(&self, series: &Name, step: StatStep) -> Vec<(Time, u64)> {
        let age = step.span().times(step.buckets());
        let of_series = self.stats.iter().filter(|((name, s, _), _)| name == series && *s == step);
        let kept =
            of_series.filter(|((.., at), n)| at.after(age) > bucket(self.now, step) && **n > 0);
        kept.map(|((.., at), n)| (*at, *n)).collect()
    }
}

/// Sort key of a job in the list of its state; ended jobs are listed in reverse.
fn position(job: &Job) -> Cursor {
    let live = &job.live;
    let (priority, at) = match live.state {
        State::Waiting | State::Running => (0, Time::ZERO),
        State::Scheduled => (0, live.due),
        State::Ready => (job.spec.priority, live.due),
        State::Done | State::Dead | State::Cancelled => (0, live.ended_at.unwrap_or_default()),
    };
    Cursor { priority, at, id: job.id }
}

/// The start of the bucket that contains an instant.
pub(super) fn bucket(now: Time, step: StatStep) -> Time {
    let length = step.span().as_millis().cast_signed();
    Time::from_millis(now.as_millis() / length * length)
}
