//! Runs the load: producers and workers connect, push and work until every job is accounted for.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, interval, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::latency::LatencyHistogram;
use super::load::{BenchProducer, BenchWorker, LoadState};
use super::plan::PushEnd;
use super::progress::RunProgress;

/// Time for all tasks to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for all tasks to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which the end of the run is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Outcome of a run.
#[derive(Debug, Default)]
pub(super) struct RunOutcome {
    pub(super) acknowledged: LatencyHistogram,
    pub(super) delivered: LatencyHistogram,
    pub(super) finished: LatencyHistogram,
    /// When pushing began.
    pub(super) began: u64,
    /// Why the run ended early.
    pub(super) failure: Option<anyhow::Error>,
    pub(super) is_interrupted: bool,
}

/// A task that has ended, with its measurements.
#[derive(Debug)]
enum EndedTask {
    Producer(BenchProducer, anyhow::Result<()>),
    Worker(BenchWorker, anyhow::Result<()>),
}

/// All producer and worker tasks of a run.
#[derive(Debug)]
struct RunTasks {
    load: Arc<LoadState>,
    tasks: JoinSet<EndedTask>,
    pushers: usize,
    outcome: RunOutcome,
}

/// Performs a run.
pub(super) async fn drive(load: &Arc<LoadState>, interrupt: &CancellationToken) -> RunOutcome {
    let mut tasks = RunTasks::start(load);
    tokio::select! {
        is_ready = tasks.until_ready() => if is_ready { tasks.run(interrupt).await },
        () = interrupt.cancelled() => tasks.outcome.is_interrupted = true,
    }
    tasks.end().await
}

impl RunTasks {
    fn start(load: &Arc<LoadState>) -> Self {
        let mut tasks = JoinSet::new();
        let (plan, door) = (&load.plan, load.door());
        for index in 0..plan.workers {
            let mut worker = BenchWorker::new(load, index);
            tasks.spawn(async move {
                let ended = door.work(&mut worker).await;
                EndedTask::Worker(worker, ended)
            });
        }
        let pushers = plan.producers * door.tasks(plan.in_flight);
        for _ in 0..pushers {
            let mut producer = BenchProducer::new(load);
            tasks.spawn(async move {
                let ended = door.push(&mut producer).await;
                EndedTask::Producer(producer, ended)
            });
        }
        Self { load: Arc::clone(load), tasks, pushers, outcome: RunOutcome::default() }
    }

    /// Waits until all tasks are connected; `false` if one fails.
    async fn until_ready(&mut self) -> bool {
        let load = Arc::clone(&self.load);
        let all = u32::try_from(self.tasks.len()).unwrap_or(u32::MAX);
        tokio::select! {
            ready = timeout(CONNECT_TIMEOUT, load.ready.acquire_many(all)) => {
                if ready.is_err() {
                    self.fail(anyhow!("not all producers and workers could connect within {CONNECT_TIMEOUT:?}"));
                }
            }
            Some(ended) = self.tasks.join_next() => {
                self.ended(ended);
                if self.outcome.failure.is_none() {
                    self.fail(anyhow!("a producer or worker ended before all were connected"));
                }
            }
        }
        self.outcome.failure.is_none()
    }

    /// Waits until every job is pushed and finished, or the run fails.
    async fn run(&mut self, interrupt: &CancellationToken) {
        let load = Arc::clone(&self.load);
        self.outcome.began = load.clock.now();
        load.source.begin();
        load.go.cancel();
        let pushed_until = match load.plan.end {
            PushEnd::After(span) => Some(Instant::now() + span),
            PushEnd::Jobs(_) => None,
        };
        let mut is_closed = false;
        let mut ticker = interval(CHECK_INTERVAL);
        let mut progress = RunProgress::new(&load);
        while self.outcome.failure.is_none() {
            tokio::select! {
                Some(ended) = self.tasks.join_next() => self.ended(ended),
                () = sleep_until_some(pushed_until), if !is_closed => {
                    is_closed = true;
                    load.source.end();
                }
                () = interrupt.cancelled() => {
                    self.outcome.is_interrupted = true;
                    return;
                }
                _ = ticker.tick() => progress.show(&load),
            }
            if self.pushers == 0 && (load.plan.workers == 0 || progress.is_over(&load)) {
                break;
            }
        }
        let has_unanswered = !load.door().acknowledges_reports() && load.plan.workers > 0;
        if has_unanswered && self.outcome.failure.is_none() {
            self.confirm().await;
        }
    }

    /// Waits until the server has no unfinished job of this run. Needed for doors that do not acknowledge reports.
    async fn confirm(&mut self) {
        let until = Instant::now() + self.load.plan.settle;
        let mut ticker = interval(CHECK_INTERVAL);
        loop {
            match unfinished_jobs(&self.load).await {
                Ok(0) => return,
                Ok(_) if Instant::now() >= until => return,
                Ok(_) => drop(ticker.tick().await),
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Stops all tasks, producers first.
    async fn end(mut self) -> RunOutcome {
        self.load.source.end();
        // Tasks that still wait for the start find nothing to push.
        self.load.go.cancel();
        let until = Instant::now() + STOP_TIMEOUT;
        while self.pushers > 0 && self.ended_before(until).await {}
        self.load.stop.cancel();
        let until = Instant::now() + STOP_TIMEOUT;
        while self.ended_before(until).await {}
        self.tasks.shutdown().await;
        self.outcome
    }

    /// Waits for the next task to end; `false` if there is none left or the time is over.
    async fn ended_before(&mut self, until: Instant) -> bool {
        match timeout_at(until, self.tasks.join_next()).await {
            Ok(Some(ended)) => {
                self.ended(ended);
                true
            }
            Ok(None) | Err(_) => false,
        }
    }

    fn ended(&mut self, ended: Result<EndedTask, JoinError>) {
        let result = match ended {
            Ok(EndedTask::Producer(producer, result)) => {
                self.pushers -= 1;
                self.outcome.acknowledged.merge(&producer.acknowledged);
                result
            }
            Ok(EndedTask::Worker(worker, result)) => {
                self.outcome.delivered.merge(&worker.delivered);
                self.outcome.finished.merge(&worker.finished);
                result
            }
            Err(error) => Err(error.into()),
        };
        if let Err(error) = result {
            self.fail(error);
        }
    }

    /// Records the failure; the first one is reported.
    fn fail(&mut self, error: anyhow::Error) {
        self.outcome.failure.get_or_insert(error);
    }
}

async fn sleep_until_some(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Number of jobs of this run that have not ended on the server.
async fn unfinished_jobs(load: &LoadState) -> anyhow::Result<u64> {
    #[derive(Deserialize)]
    struct Counts {
        counts: Vec<Count>,
    }
    #[derive(Deserialize)]
    struct Count {
        kind: String,
        state: String,
        n: u64,
    }
    let path = format!("/v1/counts?queue={}", load.door().queue(&load.name));
    let mut connection = load.target.http("application/json").await?;
    let answer = connection.call(Method::GET, &path, Bytes::new()).await?;
    let Counts { counts } = serde_json::from_slice(&answer)?;
    let has_ended = |state: &str| matches!(state, "done" | "dead" | "cancelled");
    let unfinished = counts.iter().filter(|one| one.kind == load.name && !has_ended(&one.state));
    Ok(unfinished.map(|one| one.n).sum())
}
