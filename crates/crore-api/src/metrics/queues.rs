//! Metrics per queue.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crore::observer::{ObservedChange, ObservedPush};
use crore_core::job::DeliveryEnd;
use crore_core::{Job, Name, Span, State, Time};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::key_waits::{KeyWaits, QUANTILES};
use super::table::sentence;

/// Maximum number of queues with their own series.
pub(super) const MAX_QUEUES: usize = 200;

/// Label of the series shared by all other queues. A queue with this name belongs to it.
pub(super) const OTHERS: &str = "(others)";

/// Time after which the series of a queue without jobs and without activity is dropped.
const IDLE_TIMEOUT: Span = Span::from_secs(3600);

/// Buckets of the wait histogram, in seconds, up to a day.
const WAITS: [f64; 14] =
    [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0];

/// Buckets of the run histogram, in seconds, up to two hours.
const RUNS: [f64; 13] =
    [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0];

/// Series of all queues.
#[derive(Debug, Default)]
pub(super) struct QueueMetrics {
    by_queue: RwLock<BTreeMap<Name, Arc<QueueSeries>>>,
    others: Arc<QueueSeries>,
}

/// Series of one queue.
#[derive(Debug)]
pub(super) struct QueueSeries {
    /// Time of the last activity, in milliseconds.
    touched: AtomicI64,
    pushed: Counter,
    wait: Histogram,
    run: Histogram,
    done: Counter,
    failed: Counter,
    dead: Counter,
    cancelled: Counter,
    lapses: Counter,
    /// Waits by fair key, if the queue is shared.
    keys: Mutex<KeyWaits>,
}

impl Default for QueueSeries {
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
            keys: Mutex::default(),
        }
    }
}

impl QueueMetrics {
    /// The series of a queue: its own while there is room, otherwise the shared one.
    pub(super) fn series_of(&self, queue: &Name, at: Time) -> Arc<QueueSeries> {
        let by_queue = self.by_queue.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = by_queue.get(queue) {
            series.touched.store(at.as_millis(), Ordering::Relaxed);
            return Arc::clone(series);
        }
        let is_full = by_queue.len() >= MAX_QUEUES;
        drop(by_queue);
        if is_full || queue.as_str() == OTHERS {
            return self.others(at);
        }
        let mut by_queue = self.by_queue.write().unwrap_or_else(PoisonError::into_inner);
        if by_queue.len() >= MAX_QUEUES && !by_queue.contains_key(queue) {
            return self.others(at);
        }
        let series = Arc::clone(by_queue.entry(queue.clone()).or_default());
        series.touched.store(at.as_millis(), Ordering::Relaxed);
        series
    }

    fn others(&self, at: Time) -> Arc<QueueSeries> {
        self.others.touched.store(at.as_millis(), Ordering::Relaxed);
        Arc::clone(&self.others)
    }

    /// Whether a queue has its own series.
    pub(super) fn has_own_series(&self, queue: &Name) -> bool {
        self.by_queue.read().unwrap_or_else(PoisonError::into_inner).contains_key(queue)
    }

    /// Queues with their own series.
    pub(super) fn names(&self) -> Vec<Name> {
        self.by_queue.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Drops the series of queues without jobs and without recent activity.
    pub(super) fn drop_idle(&self, now: Time, has_jobs: impl Fn(&Name) -> bool) {
        let is_in_use = |queue: &Name, series: &Arc<QueueSeries>| {
            let touched = Time::from_millis(series.touched.load(Ordering::Relaxed));
            has_jobs(queue) || now.since(touched) < IDLE_TIMEOUT
        };
        let mut by_queue = self.by_queue.write().unwrap_or_else(PoisonError::into_inner);
        by_queue.retain(|queue, series| is_in_use(queue, series));
    }

    pub(super) fn pushed(&self, jobs: &mut dyn Iterator<Item = ObservedPush<'_>>) {
        // Jobs of a batch mostly share a queue, so the last one is cached.
        let mut last: Option<(&Name, Arc<QueueSeries>)> = None;
        for job in jobs {
            match &last {
                Some((queue, series)) if *queue == job.queue => series.pushed.inc(),
                _ => {
                    let series = self.series_of(job.queue, job.at);
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
            let (series, wait) = (self.series_of(&job.spec.queue, at), at.since(since));
            series.wait.observe(seconds(wait));
            if let Some(key) = &job.spec.fair {
                series.keys.lock().unwrap_or_else(PoisonError::into_inner).observe(key, wait);
            }
        }
    }

    pub(super) fn changed(&self, change: &ObservedChange<'_>) {
        let series = self.series_of(&change.job.spec.queue, change.at);
        if let Some(ended) = change.ended {
            series.run.observe(seconds(change.at.since(change.job.live.started_at)));
            if ended == DeliveryEnd::Lapsed {
                series.lapses.inc();
            }
        }
        let is_done = change.ended == Some(DeliveryEnd::Done);
        let has_failed = matches!(change.ended, Some(DeliveryEnd::Failed | DeliveryEnd::TimedOut));
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

    /// A snapshot of the series, for encoding.
    pub(super) fn collector(&self) -> QueueCollector {
        let by_queue = self.by_queue.read().unwrap_or_else(PoisonError::into_inner);
        let mut queues: Vec<(String, Arc<QueueSeries>)> = by_queue
            .iter()
            .map(|(queue, series)| (queue.to_string(), Arc::clone(series)))
            .collect();
        if by_queue.len() >= MAX_QUEUES || self.others.touched.load(Ordering::Relaxed) > 0 {
            queues.push((OTHERS.to_owned(), Arc::clone(&self.others)));
        }
        QueueCollector(queues)
    }
}

pub(super) fn seconds(span: Span) -> f64 {
    span.as_millis() as f64 / 1000.0
}

/// Series of all queues, to encode.
#[derive(Debug)]
pub(super) struct QueueCollector(Vec<(String, Arc<QueueSeries>)>);

impl QueueCollector {
    /// Encodes one metric for every queue.
    fn each<M: EncodeMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, kind): (&str, MetricType),
        metric: impl Fn(&QueueSeries) -> &M,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, &sentence(name), None, kind)?;
        for (queue, series) in &self.0 {
            metric(series).encode(family.encode_family(&[("queue", queue.as_str())])?)?;
        }
        Ok(())
    }
}

impl QueueCollector {
    /// Encodes the waits of the top keys of shared queues. The series that all other queues share has none: equal keys
    /// of different queues have nothing to do with each other.
    fn encode_key_waits(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let name = "crore_key_wait_seconds";
        let kind = MetricType::Gauge;
        let mut family = encoder.encode_descriptor(name, &sentence(name), None, kind)?;
        for (queue, series) in self.0.iter().filter(|(queue, _)| queue != OTHERS) {
            let keys = series.keys.lock().unwrap_or_else(PoisonError::into_inner).quantiles();
            for (key, waits) in keys {
                for ((quantile, _), ms) in QUANTILES.into_iter().zip(waits) {
                    let labels =
                        [("queue", queue.as_str()), ("key", key.as_str()), ("quantile", quantile)];
                    family.encode_family(&labels)?.encode_gauge(&(ms as f64 / 1000.0))?;
                }
            }
        }
        Ok(())
    }
}

impl Collector for QueueCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let (counter, histogram) = (MetricType::Counter, MetricType::Histogram);
        self.each(encoder, ("crore_jobs_pushed", counter), |series| &series.pushed)?;
        self.each(encoder, ("crore_job_wait_seconds", histogram), |series| &series.wait)?;
        self.each(encoder, ("crore_job_run_seconds", histogram), |series| &series.run)?;
        self.each(encoder, ("crore_lapses", counter), |series| &series.lapses)?;
        self.encode_key_waits(encoder)?;
        let name = "crore_job_outcomes";
        let mut family = encoder.encode_descriptor(name, &sentence(name), None, counter)?;
        for (queue, series) in &self.0 {
            let QueueSeries { done, failed, dead, cancelled, .. } = &**series;
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
#[expect(clippy::expect_used, reason = "tests may panic")]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new("queue", text).expect("a name")
    }

    #[test]
    fn queues_beyond_the_maximum_share_one_series() {
        let (queues, at) = (QueueMetrics::default(), Time::from_millis(1));
        for n in 0..MAX_QUEUES {
            queues.series_of(&name(&format!("q{n}")), at).pushed.inc();
        }
        queues.series_of(&name("one-more"), at).pushed.inc();
        queues.series_of(&name("and-another"), at).pushed.inc();
        assert_eq!(queues.others.pushed.get(), 2);
        let shown = queues.collector();
        assert_eq!(shown.0.len(), MAX_QUEUES + 1);
        assert_eq!(shown.0.last().map(|(name, _)| name.as_str()), Some(OTHERS));
    }

    #[test]
    fn idle_queues_without_jobs_are_dropped_after_an_hour() {
        let (queues, start) = (QueueMetrics::default(), Time::from_millis(1));
        queues.series_of(&name("old"), start).pushed.inc();
        queues.series_of(&name("full"), start).pushed.inc();
        let later = start.after(IDLE_TIMEOUT);
        queues.series_of(&name("new"), later).pushed.inc();
        queues.drop_idle(later.before(Span::from_secs(1)), |_| false);
        assert!(queues.has_own_series(&name("old")), "not yet");
        queues.drop_idle(later, |queue| queue.as_str() == "full");
        assert!(!queues.has_own_series(&name("old")));
        assert!(queues.has_own_series(&name("full")) && queues.has_own_series(&name("new")));
    }

    #[test]
    fn a_queue_with_the_name_of_the_shared_series_uses_it() {
        let queues = QueueMetrics::default();
        queues.series_of(&name(OTHERS), Time::from_millis(1)).pushed.inc();
        assert_eq!((queues.others.pushed.get(), queues.has_own_series(&name(OTHERS))), (1, false));
    }
}
