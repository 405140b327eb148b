//! Gauges that are queried on each scrape.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crore::Engine;
use crore::store::views::{Cursor, ListQuery};
use crore::store::{COMMIT_BUCKETS, StoreMetrics, StoreProblem};
use crore_core::{JobId, Name, State, Time};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, EncodeMetric, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use super::process::ProcessUsage;
use super::queues::{OTHERS, QueueMetrics, seconds};
use super::table::sentence;

/// Maximum number of priorities per queue that are searched for the oldest job.
const PRIORITIES: usize = 16;

/// Values of the gauges at one scrape.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    jobs: BTreeMap<(String, &'static str), u64>,
    oldest: Vec<(String, f64)>,
    unrunnable: BTreeMap<String, u64>,
    leases: u64,
    waiting: u64,
    store: Option<StoreMetrics>,
    faults: [(&'static str, bool); 3],
    process: Option<ProcessUsage>,
}

impl Gauges {
    /// Queries all values.
    pub(super) async fn query(
        engine: &Engine,
        queues: &QueueMetrics,
    ) -> Result<Self, crore::Error> {
        let now = engine.status().now();
        let counts = engine.jobs().counts(None).await?;
        queues.drop_idle(now, |queue| counts.iter().any(|count| count.queue == *queue));
        let mut gauges = Self { waiting: engine.deliveries().waiting() as u64, ..Self::default() };
        let mut ready: BTreeSet<Name> = BTreeSet::new();
        for count in counts {
            // Queues that had jobs before this process started are added here.
            if !queues.has_own_series(&count.queue) {
                queues.series_of(&count.queue, now);
            }
            let is_shown = queues.has_own_series(&count.queue);
            let queue = if is_shown { count.queue.as_str() } else { OTHERS };
            *gauges.jobs.entry((queue.to_owned(), count.state.word())).or_default() += count.n;
            match count.state {
                State::Running => gauges.leases += count.n,
                State::Ready if is_shown => {
                    ready.insert(count.queue);
                }
                _ => {}
            }
        }
        for required in engine.deliveries().unrunnable().await? {
            let is_shown = queues.has_own_series(&required.queue);
            let queue = if is_shown { required.queue.as_str() } else { OTHERS };
            *gauges.unrunnable.entry(queue.to_owned()).or_default() += required.n;
        }
        for queue in queues.names() {
            gauges.unrunnable.entry(queue.to_string()).or_default();
            let since = if ready.contains(&queue) { oldest(engine, &queue).await? } else { None };
            let age = since.map_or(0.0, |since| seconds(now.since(since)));
            gauges.oldest.push((queue.to_string(), age));
            // States without jobs are shown as zero.
            for state in State::ALL {
                gauges.jobs.entry((queue.to_string(), state.word())).or_default();
            }
        }
        gauges.store = engine.telemetry().store_metrics();
        gauges.process = ProcessUsage::own();
        let problem = engine.status().store_problem();
        gauges.faults = [
            ("poisoned", problem == Some(StoreProblem::Poisoned)),
            ("full", matches!(problem, Some(StoreProblem::Full(_)))),
            ("stuck", gauges.store.as_ref().is_some_and(|vitals| vitals.is_stuck)),
        ];
        Ok(gauges)
    }
}

/// When the oldest ready job of a queue became available. Within a priority that is the first job in order, so one
/// job per priority is read.
async fn oldest(engine: &Engine, queue: &Name) -> Result<Option<Time>, crore::Error> {
    let (mut after, mut oldest) = (None, None);
    for _ in 0..PRIORITIES {
        let queue = Some(queue.clone());
        let query = ListQuery { state: State::Ready, queue, kind: None, key: None, after, n: 1 };
        let page = engine.list(query).await?;
        let Some(job) = page.jobs.first() else { break };
        let since = job.live.due.max(job.live.pushed_at);
        oldest = Some(oldest.map_or(since, |oldest: Time| oldest.min(since)));
        // The position after all jobs of this priority.
        let last = JobId::new(i64::MAX as u64);
        after = last.map(|id| Cursor { priority: job.spec.priority, at: Time::MAX, id });
    }
    Ok(oldest)
}

/// Encodes a gauge with labels.
fn gauge<L: EncodeLabelSet, N: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    values: impl IntoIterator<Item = (L, N)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, &sentence(name), None, MetricType::Gauge)?;
    for (labels, value) in values {
        family.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

/// Encodes a gauge without labels.
fn single_gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, value: u64) -> fmt::Result {
    let mut gauge = encoder.encode_descriptor(name, &sentence(name), None, MetricType::Gauge)?;
    gauge.encode_gauge(&i64::try_from(value).unwrap_or(i64::MAX))
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let jobs = self.jobs.iter().map(|((queue, state), n)| {
            ([("queue", queue.as_str()), ("state", *state)], i64::try_from(*n).unwrap_or(i64::MAX))
        });
        gauge(encoder, "crore_jobs", jobs)?;
        let oldest = self.oldest.iter().map(|(queue, age)| ([("queue", queue.as_str())], *age));
        gauge(encoder, "crore_oldest_job_age_seconds", oldest)?;
        let unrunnable = self
            .unrunnable
            .iter()
            .map(|(queue, n)| ([("queue", queue.as_str())], i64::try_from(*n).unwrap_or(i64::MAX)));
        gauge(encoder, "crore_unrunnable_jobs", unrunnable)?;
        single_gauge(encoder, "crore_leases", self.leases)?;
        single_gauge(encoder, "crore_fetches_waiting", self.waiting)?;
        let faults = self
            .faults
            .iter()
            .map(|(fault, is_present)| ([("fault", *fault)], i64::from(*is_present)));
        gauge(encoder, "crore_store_faults", faults)?;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        gauge(encoder, "crore_build_info", [(version, 1_i64)])?;
        if let Some(process) = self.process {
            encode_process(encoder, process)?;
        }
        match &self.store {
            Some(vitals) => encode_store_metrics(encoder, vitals),
            None => Ok(()),
        }
    }
}

fn encode_process(encoder: &mut DescriptorEncoder<'_>, process: ProcessUsage) -> fmt::Result {
    let name = "process_cpu_seconds";
    let cpu = encoder.encode_descriptor(name, &sentence(name), None, MetricType::Counter)?;
    ConstCounter::new(process.cpu_seconds).encode(cpu)?;
    single_gauge(encoder, "process_resident_memory_bytes", process.resident_bytes)
}

fn encode_store_metrics(encoder: &mut DescriptorEncoder<'_>, vitals: &StoreMetrics) -> fmt::Result {
    let name = "crore_store_commit_seconds";
    let mut commits =
        encoder.encode_descriptor(name, &sentence(name), None, MetricType::Histogram)?;
    let ends = COMMIT_BUCKETS.iter().map(|micros| *micros as f64 / 1e6).chain([f64::MAX]);
    let buckets: Vec<(f64, u64)> = ends.zip(vitals.commits).collect();
    let (sum, count) = (vitals.commit_time.as_secs_f64(), vitals.commits.iter().sum());
    commits.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    let name = "crore_store_written_bytes";
    let written = encoder.encode_descriptor(name, &sentence(name), None, MetricType::Counter)?;
    ConstCounter::new(vitals.bytes_written).encode(written)?;
    single_gauge(encoder, "crore_store_disk_bytes", vitals.bytes_on_disk)
}
