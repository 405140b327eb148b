//! A run: everybody connects, some push, some work, and it ends when every job is accounted for.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, interval, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::load::{Load, Producer, Worker};
use super::plan::End;
use super::progress::Progress;
use super::times::Times;

/// How long it may take until everybody is connected.
const CONNECT_FOR: Duration = Duration::from_secs(30);
/// How long everybody has to leave.
const LEAVE_FOR: Duration = Duration::from_secs(5);
/// How often it is looked whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Drove {
    pub(super) answered: Times,
    pub(super) handed: Times,
    pub(super) finished: Times,
    /// When pushing began.
    pub(super) began: u64,
    /// Why it ended before its time.
    pub(super) failure: Option<anyhow::Error>,
    pub(super) is_interrupted: bool,
}

/// Somebody has ended.
#[derive(Debug)]
enum Ended {
    Producer(Producer, anyhow::Result<()>),
    Worker(Worker, anyhow::Result<()>),
}

/// Everybody who pushes or works.
#[derive(Debug)]
struct Crew {
    load: Arc<Load>,
    tasks: JoinSet<Ended>,
    pushers: usize,
    drove: Drove,
}

/// Runs it.
pub(super) async fn drive(load: &Arc<Load>, interrupt: &CancellationToken) -> Drove {
    let mut crew = Crew::start(load);
    tokio::select! {
        is_ready = crew.until_ready() => if is_ready { crew.run(interrupt).await },
        () = interrupt.cancelled() => crew.drove.is_interrupted = true,
    }
    crew.end().await
}

impl Crew {
    fn start(load: &Arc<Load>) -> Self {
        let mut tasks = JoinSet::new();
        let (plan, door) = (&load.plan, load.door());
        for index in 0..plan.workers {
            let mut worker = Worker::new(load, index);
            tasks.spawn(async move {
                let ended = door.work(&mut worker).await;
                Ended::Worker(worker, ended)
            });
        }
        let pushers = plan.producers * door.tasks(plan.in_flight);
        for _ in 0..pushers {
            let mut producer = Producer::new(load);
            tasks.spawn(async move {
                let ended = door.push(&mut producer).await;
                Ended::Producer(producer, ended)
            });
        }
        Self { load: Arc::clone(load), tasks, pushers, drove: Drove::default() }
    }

    /// Waits until everybody is connected; `false`: somebody cannot.
    async fn until_ready(&mut self) -> bool {
        let load = Arc::clone(&self.load);
        let all = u32::try_from(self.tasks.len()).unwrap_or(u32::MAX);
        tokio::select! {
            ready = timeout(CONNECT_FOR, load.ready.acquire_many(all)) => {
                if ready.is_err() {
                    self.fail(anyhow!("not everybody could connect within {CONNECT_FOR:?}"));
                }
            }
            Some(ended) = self.tasks.join_next() => {
                self.ended(ended);
                if self.drove.failure.is_none() {
                    self.fail(anyhow!("somebody had ended before all had begun"));
                }
            }
        }
        self.drove.failure.is_none()
    }

    /// Until all is pushed and finished, or cannot be.
    async fn run(&mut self, interrupt: &CancellationToken) {
        let load = Arc::clone(&self.load);
        self.drove.began = load.clock.now();
        load.source.begin();
        load.go.cancel();
        let pushed_until = match load.plan.end {
            End::After(span) => Some(Instant::now() + span),
            End::Jobs(_) => None,
        };
        let mut is_closed = false;
        let mut look = interval(LOOK_EVERY);
        let mut progress = Progress::new(&load);
        while self.drove.failure.is_none() {
            tokio::select! {
                Some(ended) = self.tasks.join_next() => self.ended(ended),
                () = at(pushed_until), if !is_closed => {
                    is_closed = true;
                    load.source.end();
                }
                () = interrupt.cancelled() => {
                    self.drove.is_interrupted = true;
                    return;
                }
                _ = look.tick() => progress.show(&load),
            }
            if self.pushers == 0 && (load.plan.workers == 0 || progress.is_over(&load)) {
                break;
            }
        }
        let has_unanswered = !load.door().answers_reports() && load.plan.workers > 0;
        if has_unanswered && self.drove.failure.is_none() {
            self.confirm().await;
        }
    }

    /// Waits until the server has nothing more to hand out, and has taken all reports: where it does not answer
    /// them, it can be asked.
    async fn confirm(&mut self) {
        let until = Instant::now() + self.load.plan.settle;
        let mut look = interval(LOOK_EVERY);
        loop {
            match under_way(&self.load).await {
                Ok(0) => return,
                Ok(_) if Instant::now() >= until => return,
                Ok(_) => drop(look.tick().await),
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Lets everybody leave, those who push first.
    async fn end(mut self) -> Drove {
        self.load.source.end();
        // Whoever still waits for the beginning finds that there is nothing to push.
        self.load.go.cancel();
        let until = Instant::now() + LEAVE_FOR;
        while self.pushers > 0 && self.ended_before(until).await {}
        self.load.stop.cancel();
        let until = Instant::now() + LEAVE_FOR;
        while self.ended_before(until).await {}
        self.tasks.shutdown().await;
        self.drove
    }

    /// Waits for the next one to end; `false`: there is nobody left, or it takes too long.
    async fn ended_before(&mut self, until: Instant) -> bool {
        match timeout_at(until, self.tasks.join_next()).await {
            Ok(Some(ended)) => {
                self.ended(ended);
                true
            }
            Ok(None) | Err(_) => false,
        }
    }

    fn ended(&mut self, ended: Result<Ended, JoinError>) {
        let result = match ended {
            Ok(Ended::Producer(producer, result)) => {
                self.pushers -= 1;
                self.drove.answered.join(&producer.answered);
                result
            }
            Ok(Ended::Worker(worker, result)) => {
                self.drove.handed.join(&worker.handed);
                self.drove.finished.join(&worker.finished);
                result
            }
            Err(error) => Err(error.into()),
        };
        if let Err(error) = result {
            self.fail(error);
        }
    }

    /// The first reason is the one that is told.
    fn fail(&mut self, error: anyhow::Error) {
        self.drove.failure.get_or_insert(error);
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// How many jobs of this run the server has yet to bring to an end.
async fn under_way(load: &Load) -> anyhow::Result<u64> {
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
    let mut connection = load.line.http("application/json").await?;
    let answer = connection.call(Method::GET, &path, Bytes::new()).await?;
    let Counts { counts } = serde_json::from_slice(&answer)?;
    let has_ended = |state: &str| matches!(state, "done" | "dead" | "cancelled");
    let under_way = counts.iter().filter(|one| one.kind == load.name && !has_ended(&one.state));
    Ok(under_way.map(|one| one.n).sum())
}
