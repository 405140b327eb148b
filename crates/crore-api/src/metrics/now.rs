//! How much there is of everything, asked for when somebody reads the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crore::Engine;
use crore::store::views::{Cursor, Query};
use crore::store::{Ailment, COMMIT_BUCKETS, Vitals};
use crore_core::{JobId, Name, State, Time};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, EncodeMetric, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use super::process::Process;
use super::queues::{OTHERS, Queues, seconds};
use super::table::sentence;

/// How many priorities of a queue are looked at for its oldest job.
const PRIORITIES: usize = 16;

/// What there is.
#[derive(Debug, Default)]
pub(super) struct Now {
    jobs: BTreeMap<(String, &'static str), u64>,
    oldest: Vec<(String, f64)>,
    leases: u64,
    waiting: u64,
    vitals: Option<Vitals>,
    faults: [(&'static str, bool); 3],
    process: Option<Process>,
}

impl Now {
    /// Looks at everything.
    pub(super) async fn look(engine: &Engine, queues: &Queues) -> Result<Self, crore::Error> {
        let now = engine.status().now();
        let counts = engine.jobs().counts(None).await?;
        queues.forget(now, |queue| counts.iter().any(|count| count.queue == *queue));
        let mut seen = Self { waiting: engine.deliveries().waiting() as u64, ..Self::default() };
        let mut ready: BTreeSet<Name> = BTreeSet::new();
        for count in counts {
            // Before what is known was counted, it is known by having jobs.
            if !queues.is_known(&count.queue) {
                queues.of(&count.queue, now);
            }
            let is_shown = queues.is_known(&count.queue);
            let queue = if is_shown { count.queue.as_str() } else { OTHERS };
            *seen.jobs.entry((queue.to_owned(), word(count.state))).or_default() += count.n;
            match count.state {
                State::Running => seen.leases += count.n,
                State::Ready if is_shown => {
                    ready.insert(count.queue);
                }
                _ => {}
            }
        }
        for queue in queues.names() {
            let since = if ready.contains(&queue) { oldest(engine, &queue).await? } else { None };
            let age = since.map_or(0.0, |since| seconds(now.since(since)));
            seen.oldest.push((queue.to_string(), age));
            // What there is none of is shown as zero, and not left out.
            for state in State::ALL {
                seen.jobs.entry((queue.to_string(), word(state))).or_default();
            }
        }
        seen.vitals = engine.telemetry().vitals();
        seen.process = Process::own();
        let ailment = engine.status().ailment();
        seen.faults = [
            ("poisoned", ailment == Some(Ailment::Poisoned)),
            ("full", matches!(ailment, Some(Ailment::Full(_)))),
            ("stuck", seen.vitals.as_ref().is_some_and(|vitals| vitals.is_stuck)),
        ];
        Ok(seen)
    }
}

/// Since when the job could have been fetched that has been ready longest. Of each priority that is the first in
/// line, so one is looked at for each.
async fn oldest(engine: &Engine, queue: &Name) -> Result<Option<Time>, crore::Error> {
    let (mut after, mut oldest) = (None, None);
    for _ in 0..PRIORITIES {
        let queue = Some(queue.clone());
        let query = Query { state: State::Ready, queue, kind: None, after, n: 1 };
        let page = engine.list(query).await?;
        let Some(job) = page.jobs.first() else { break };
        let since = job.live.due.max(job.live.pushed_at);
        oldest = Some(oldest.map_or(since, |oldest: Time| oldest.min(since)));
        // The place after all jobs of this priority.
        let last = JobId::new(i64::MAX as u64);
        after = last.map(|id| Cursor { priority: job.spec.priority, at: Time::MAX, id });
    }
    Ok(oldest)
}

pub(crate) const fn word(state: State) -> &'static str {
    match state {
        State::Waiting => "waiting",
        State::Scheduled => "scheduled",
        State::Ready => "ready",
        State::Running => "running",
        State::Done => "done",
        State::Dead => "dead",
        State::Cancelled => "cancelled",
    }
}

/// One gauge with all its values.
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

/// One gauge that has no labels.
fn alone(encoder: &mut DescriptorEncoder<'_>, name: &str, value: u64) -> fmt::Result {
    let mut gauge = encoder.encode_descriptor(name, &sentence(name), None, MetricType::Gauge)?;
    gauge.encode_gauge(&i64::try_from(value).unwrap_or(i64::MAX))
}

impl Collector for Now {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let jobs = self.jobs.iter().map(|((queue, state), n)| {
            ([("queue", queue.as_str()), ("state", *state)], i64::try_from(*n).unwrap_or(i64::MAX))
        });
        gauge(encoder, "crore_jobs", jobs)?;
        let oldest = self.oldest.iter().map(|(queue, age)| ([("queue", queue.as_str())], *age));
        gauge(encoder, "crore_oldest_job_age_seconds", oldest)?;
        alone(encoder, "crore_leases", self.leases)?;
        alone(encoder, "crore_fetches_waiting", self.waiting)?;
        let faults =
            self.faults.iter().map(|(fault, is_so)| ([("fault", *fault)], i64::from(*is_so)));
        gauge(encoder, "crore_store_faults", faults)?;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        gauge(encoder, "crore_build_info", [(version, 1_i64)])?;
        if let Some(process) = self.process {
            encode_process(encoder, process)?;
        }
        match &self.vitals {
            Some(vitals) => encode_vitals(encoder, vitals),
            None => Ok(()),
        }
    }
}

fn encode_process(encoder: &mut DescriptorEncoder<'_>, process: Process) -> fmt::Result {
    let name = "process_cpu_seconds";
    let cpu = encoder.encode_descriptor(name, &sentence(name), None, MetricType::Counter)?;
    ConstCounter::new(process.cpu_seconds).encode(cpu)?;
    alone(encoder, "process_resident_memory_bytes", process.resident_bytes)
}

fn encode_vitals(encoder: &mut DescriptorEncoder<'_>, vitals: &Vitals) -> fmt::Result {
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
    alone(encoder, "crore_store_disk_bytes", vitals.bytes_on_disk)
}
