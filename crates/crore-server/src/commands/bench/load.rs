//! State shared by all producers and workers of a run, and the state of each of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::doors::BenchDoor;
use super::latency::LatencyHistogram;
use super::ledger::LoadLedger;
use super::payload;
use super::plan::RunPlan;
use super::source::{BatchSource, PushBatch, RunClock, SourceLimits};
use super::target::BenchTarget;

/// Shared state of a run.
#[derive(Debug)]
pub(super) struct LoadState {
    pub(super) plan: RunPlan,
    pub(super) target: BenchTarget,
    /// Kind of all jobs of this run, and of no others.
    pub(super) name: String,
    pub(super) clock: RunClock,
    pub(super) source: BatchSource,
    pub(super) ledger: LoadLedger,
    /// One permit per connected task.
    pub(super) ready: Semaphore,
    /// Start signal for producers.
    pub(super) go: CancellationToken,
    /// Stop signal for workers.
    pub(super) stop: CancellationToken,
    pub(super) pushed: EventCounter,
    pub(super) delivered: EventCounter,
    pub(super) finished: EventCounter,
}

/// A counter with the time of the last event.
#[derive(Debug, Default)]
pub(super) struct EventCounter {
    n: AtomicU64,
    last: AtomicU64,
}

impl EventCounter {
    fn add(&self, n: u64, at: u64) {
        self.n.fetch_add(n, Relaxed);
        self.last.fetch_max(at, Relaxed);
    }

    pub(super) fn n(&self) -> u64 {
        self.n.load(Relaxed)
    }

    pub(super) fn last(&self) -> u64 {
        self.last.load(Relaxed)
    }
}

impl LoadState {
    pub(super) fn new(plan: RunPlan, target: BenchTarget, name: String) -> Self {
        let clock = RunClock::start();
        let limits = SourceLimits {
            batch: plan.batch,
            max_jobs: plan.max_jobs(),
            rate: plan.rate,
            backlog: plan.backlog,
        };
        Self {
            target,
            name,
            clock,
            source: BatchSource::new(limits, clock),
            ledger: LoadLedger::new(plan.door.lease()),
            ready: Semaphore::new(0),
            go: CancellationToken::new(),
            stop: CancellationToken::new(),
            pushed: EventCounter::default(),
            delivered: EventCounter::default(),
            finished: EventCounter::default(),
            plan,
        }
    }

    pub(super) fn door(&self) -> BenchDoor {
        self.plan.door
    }

    /// Announces that this task is connected, and waits for the start signal.
    pub(super) async fn wait_for_start(&self) {
        self.ready.add_permits(1);
        self.go.cancelled().await;
    }
}

/// A producer.
#[derive(Debug)]
pub(super) struct BenchProducer {
    pub(super) load: Arc<LoadState>,
    pub(super) acknowledged: LatencyHistogram,
}

impl BenchProducer {
    pub(super) fn new(load: &Arc<LoadState>) -> Self {
        Self { load: Arc::clone(load), acknowledged: LatencyHistogram::default() }
    }

    /// Records an acknowledged push.
    pub(super) fn pushed(&mut self, batch: &PushBatch) {
        let now = self.load.clock.now();
        self.acknowledged.add(now.saturating_sub(batch.begun), batch.len());
        self.load.ledger.pushed(batch.numbers.clone());
        self.load.pushed.add(batch.len(), now);
    }
}

/// A delivered job.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldJob {
    number: u64,
    begun: u64,
}

/// A worker.
#[derive(Debug)]
pub(super) struct BenchWorker {
    pub(super) load: Arc<LoadState>,
    pub(super) index: usize,
    pub(super) delivered: LatencyHistogram,
    pub(super) finished: LatencyHistogram,
}

impl BenchWorker {
    pub(super) fn new(load: &Arc<LoadState>, index: usize) -> Self {
        let (deliveries, finished) = (LatencyHistogram::default(), LatencyHistogram::default());
        Self { load: Arc::clone(load), index, delivered: deliveries, finished }
    }

    /// Unique name of the worker.
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.load.name, self.index)
    }

    /// Records deliveries of jobs with these payloads, and appends the jobs to `to`. `None` marks a job that this run
    /// did not push.
    pub(super) fn delivered<'a>(
        &mut self,
        texts: impl IntoIterator<Item = Option<&'a [u8]>>,
        to: &mut Vec<Option<HeldJob>>,
    ) {
        let (now, before) = (self.load.clock.now(), to.len());
        for text in texts {
            let held =
                text.and_then(payload::read).map(|(number, begun)| HeldJob { number, begun });
            match held {
                Some(held) => {
                    self.load.ledger.delivered(held.number, now);
                    self.delivered.add(now.saturating_sub(held.begun), 1);
                }
                None => self.load.ledger.stranger(),
            }
            to.push(held);
        }
        self.load.delivered.add((to.len() - before) as u64, now);
    }

    /// Records reports that the server has acknowledged.
    pub(super) fn finished(&mut self, held: impl IntoIterator<Item = HeldJob>) {
        let now = self.load.clock.now();
        let mut n = 0;
        for held in held {
            self.finished.add(now.saturating_sub(held.begun), 1);
            self.load.ledger.finished(held.number);
            n += 1;
        }
        self.end(n, now);
    }

    /// Records reports of a door that does not acknowledge them.
    pub(super) fn reported(&mut self, held: impl IntoIterator<Item = HeldJob>) {
        let mut n = 0;
        for held in held {
            self.load.ledger.finished(held.number);
            n += 1;
        }
        self.end(n, self.load.clock.now());
    }

    fn end(&self, n: usize, now: u64) {
        self.load.finished.add(n as u64, now);
        self.load.source.release(n);
    }
}
