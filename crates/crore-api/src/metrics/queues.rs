//! What is counted for each queue.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crore::watch::{Changed, Pushed};
use crore_core::job::Ended;
use crore_core::{Job, Name, Span, State, Time};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::table::sentence;

/// So many queues are shown singly.
pub(super) const MOST: usize = 200;

/// All others together. A queue of this name is one of them.
pub(super) const OTHERS: &str = "(others)";

/// A queue without jobs in which nothing has happened for so long is not shown any more.
const GONE_AFTER: Span = Span::from_secs(3600);

/// Seconds; from what is picked up at once to what has waited for a day.
const WAITS: [f64; 14] =
    [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0];

/// Seconds; from what hardly takes any time to what runs for hours.
const RUNS: [f64; 13] =
    [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0];

/// The queues that are shown singly, and all others.
#[derive(Debug, Default)]
pub(super) struct Queues {
    known: RwLock<BTreeMap<Name, Arc<Series>>>,
    others: Arc<Series>,
}

/// What is counted for a queue.
#[derive(Debug)]
pub(super) struct Series {
    /// When something happened last.
    touched: AtomicI64,
    pushed: Counter,
    wait: Histogram,
    run: Histogram,
    done: Counter,
    failed: Counter,
    dead: Counter,
    cancelled: Counter,
    lapses: Counter,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            touched: AtomicI64::new(0),
            pushed: Counter::default(),
            wait: Histogram::new(WAITS),
            run: Histogram::new(RUNS),
            done: Counter::default(),
            failed: Counter::default(),
            dead: Counter::default(),
            cancelled: Counter::default(),
            lapses: Counter::default(),
        }
    }
}

impl Queues {
    /// The series of a queue, which is one of its own as long as there is room.
    pub(super) fn of(&self, queue: &Name, at: Time) -> Arc<Series> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = known.get(queue) {
            series.touched.store(at.as_millis(), Ordering::Relaxed);
            return Arc::clone(series);
        }
        let is_full = known.len() >= MOST;
        drop(known);
        if is_full || queue.as_str() == OTHERS {
            return self.others(at);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST && !known.contains_key(queue) {
            return self.others(at);
        }
        let series = Arc::clone(known.entry(queue.clone()).or_default());
        series.touched.store(at.as_millis(), Ordering::Relaxed);
        series
    }

    fn others(&self, at: Time) -> Arc<Series> {
        self.others.touched.store(at.as_millis(), Ordering::Relaxed);
        Arc::clone(&self.others)
    }

    /// Whether a queue is shown singly.
    pub(super) fn is_known(&self, queue: &Name) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).contains_key(queue)
    }

    /// The queues that are shown singly.
    pub(super) fn names(&self) -> Vec<Name> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Forgets queues that are gone: those for which nothing speaks any more.
    pub(super) fn forget(&self, now: Time, has_jobs: impl Fn(&Name) -> bool) {
        let is_there = |queue: &Name, series: &Arc<Series>| {
            let touched = Time::from_millis(series.touched.load(Ordering::Relaxed));
            has_jobs(queue) || now.since(touched) < GONE_AFTER
        };
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|queue, series| is_there(queue, series));
    }

    pub(super) fn pushed(&self, jobs: &mut dyn Iterator<Item = Pushed<'_>>) {
        // Jobs of one batch are mostly of one queue, which is looked up once.
        let mut last: Option<(&Name, Arc<Series>)> = None;
        for job in jobs {
            match &last {
                Some((queue, series)) if *queue == job.queue => series.pushed.inc(),
                _ => {
                    let series = self.of(job.queue, job.at);
                    let n = series.pushed.inc();
                    last = Some((job.queue, series));
                    n
                }
            };
        }
    }

    pub(super) fn started(&self, jobs: &[Job], at: Time) {
        for job in jobs {
            let since = job.live.due.max(job.live.pushed_at);
            self.of(&job.spec.queue, at).wait.observe(seconds(at.since(since)));
        }
    }

    pub(super) fn changed(&self, change: &Changed<'_>) {
        let series = self.of(&change.job.spec.queue, change.at);
        if let Some(ended) = change.ended {
            series.run.observe(seconds(change.at.since(change.job.live.started_at)));
            if ended == Ended::Lapsed {
                series.lapses.inc();
            }
        }
        let is_done = change.ended == Some(Ended::Done);
        let has_failed = matches!(change.ended, Some(Ended::Failed | Ended::TimedOut));
        match change.state {
            None | Some(State::Done) if is_done => series.done.inc(),
            Some(State::Dead) if change.job.live.state != State::Dead => series.dead.inc(),
            Some(State::Cancelled) if change.job.live.state != State::Cancelled => {
                series.cancelled.inc()
            }
            _ if has_failed => series.failed.inc(),
            _ => return,
        };
    }

    /// The series as they are shown.
    pub(super) fn shown(&self) -> Shown {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut queues: Vec<(String, Arc<Series>)> =
            known.iter().map(|(queue, series)| (queue.to_string(), Arc::clone(series))).collect();
        if known.len() >= MOST || self.others.touched.load(Ordering::Relaxed) > 0 {
            queues.push((OTHERS.to_owned(), Arc::clone(&self.others)));
        }
        Shown(queues)
    }
}

pub(super) fn seconds(span: Span) -> f64 {
    span.as_millis() as f64 / 1000.0
}

/// The series of all queues that are shown, to be read.
#[derive(Debug)]
pub(super) struct Shown(Vec<(String, Arc<Series>)>);

impl Shown {
    /// One metric of every queue.
    fn each<M: EncodeMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, kind): (&str, MetricType),
        metric: impl Fn(&Series) -> &M,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, &sentence(name), None, kind)?;
        for (queue, series) in &self.0 {
            metric(series).encode(family.encode_family(&[("queue", queue.as_str())])?)?;
        }
        Ok(())
    }
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let (counter, histogram) = (MetricType::Counter, MetricType::Histogram);
        self.each(encoder, ("crore_jobs_pushed", counter), |series| &series.pushed)?;
        self.each(encoder, ("crore_job_wait_seconds", histogram), |series| &series.wait)?;
        self.each(encoder, ("crore_job_run_seconds", histogram), |series| &series.run)?;
        self.each(encoder, ("crore_lapses", counter), |series| &series.lapses)?;
        let name = "crore_job_outcomes";
        let mut family = encoder.encode_descriptor(name, &sentence(name), None, counter)?;
        for (queue, series) in &self.0 {
            let Series { done, failed, dead, cancelled, .. } = &**series;
            let all =
                [("done", done), ("failed", failed), ("dead", dead), ("cancelled", cancelled)];
            for (outcome, count) in all {
                let labels = [("queue", queue.as_str()), ("outcome", outcome)];
                count.encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test panics, and says why")]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new("queue", text).expect("a name")
    }

    #[test]
    fn beyond_so_many_queues_all_others_are_counted_together() {
        let (queues, at) = (Queues::default(), Time::from_millis(1));
        for n in 0..MOST {
            queues.of(&name(&format!("q{n}")), at).pushed.inc();
        }
        queues.of(&name("one-more"), at).pushed.inc();
        queues.of(&name("and-another"), at).pushed.inc();
        assert_eq!(queues.others.pushed.get(), 2);
        let shown = queues.shown();
        assert_eq!(shown.0.len(), MOST + 1);
        assert_eq!(shown.0.last().map(|(name, _)| name.as_str()), Some(OTHERS));
    }

    #[test]
    fn a_queue_is_forgotten_when_it_has_no_jobs_and_nothing_has_happened_for_an_hour() {
        let (queues, start) = (Queues::default(), Time::from_millis(1));
        queues.of(&name("old"), start).pushed.inc();
        queues.of(&name("full"), start).pushed.inc();
        let later = start.after(GONE_AFTER);
        queues.of(&name("new"), later).pushed.inc();
        queues.forget(later.before(Span::from_secs(1)), |_| false);
        assert!(queues.is_known(&name("old")), "not yet");
        queues.forget(later, |queue| queue.as_str() == "full");
        assert!(!queues.is_known(&name("old")));
        assert!(queues.is_known(&name("full")) && queues.is_known(&name("new")));
    }

    #[test]
    fn a_queue_with_the_name_of_all_others_is_one_of_them() {
        let queues = Queues::default();
        queues.of(&name(OTHERS), Time::from_millis(1)).pushed.inc();
        assert_eq!((queues.others.pushed.get(), queues.is_known(&name(OTHERS))), (1, false));
    }
}
