//! Runs with and without a pool.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crore_core::machine::RetryDirective;
use crore_core::{Invalid, Name};
use crore_runner::{
    FailureClass, MakeFuture, Output, RunContext, RunFailure, RunFuture, RunSpec, Runner,
    RunnerFactory, Runners, Task,
};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::command_fixture::{LogRecorder, task, text};

/// How many runners were made, and how many are left.
#[derive(Debug, Default)]
struct RunnerCounts {
    made: AtomicUsize,
    left: AtomicUsize,
}

/// Makes runners that obey the payload: `panic`, `wait` for the gate, or return their number.
#[derive(Debug, Clone)]
struct CountingFactory {
    counts: Arc<RunnerCounts>,
    gate: Arc<Semaphore>,
    needs_leave: bool,
}

#[derive(Debug)]
struct CountingRunner {
    number: usize,
    makes: CountingFactory,
}

impl CountingFactory {
    fn new() -> Self {
        Self { counts: Arc::default(), gate: Arc::new(Semaphore::new(0)), needs_leave: false }
    }

    fn counts(&self) -> (usize, usize) {
        let counts = &self.counts;
        (counts.made.load(Ordering::SeqCst), counts.left.load(Ordering::SeqCst))
    }
}

impl RunnerFactory for CountingFactory {
    fn name(&self) -> &'static str {
        "does"
    }

    fn must_be_allowed(&self) -> bool {
        self.needs_leave
    }

    fn check(&self, _: &Value) -> Result<(), Invalid> {
        Ok(())
    }

    fn make<'a>(&'a self, settings: &'a Value) -> MakeFuture<'a> {
        assert_ne!(*settings, json!("panic"), "cannot be made");
        Box::pin(async move {
            self.counts.left.fetch_add(1, Ordering::SeqCst);
            let number = self.counts.made.fetch_add(1, Ordering::SeqCst);
            let runner: Box<dyn Runner> = Box::new(CountingRunner { number, makes: self.clone() });
            Ok(runner)
        })
    }
}

impl Runner for CountingRunner {
    fn run<'a>(&'a self, task: &'a Task, context: &'a RunContext) -> RunFuture<'a> {
        Box::pin(async move {
            match &*task.payload.bytes {
                b"panic" => panic!("by {}", "order"),
                b"fail" => return Err(RunFailure::temporary("as it should")),
                b"wait" => {
                    context.line("waiting");
                    self.makes.gate.acquire().await.expect("it is open").forget();
                }
                _ => {}
            }
            Ok(Output::bytes(self.number.to_string()))
        })
    }
}

impl Drop for CountingRunner {
    fn drop(&mut self) {
        self.makes.counts.left.fetch_sub(1, Ordering::SeqCst);
    }
}

const NONE: &Value = &Value::Null;

fn pooled(revision: u64, size: usize) -> RunSpec<'static> {
    RunSpec { revision, runner: "does", settings: NONE, pool: NonZeroUsize::new(size) }
}

async fn run(runners: &Runners, recipe: RunSpec<'_>, payload: &str) -> Result<String, RunFailure> {
    let output =
        runners.run(recipe, &task(payload.as_bytes()), &LogRecorder::default().context()).await;
    output.map(|output| text(&output))
}

#[tokio::test]
async fn without_a_pool_each_job_has_its_own_runner() {
    let makes = CountingFactory::new();
    let runners = Runners::new().with(makes.clone());
    let alone = RunSpec { pool: None, ..pooled(1, 1) };
    assert_eq!(run(&runners, alone, "").await.expect("it ran"), "0");
    assert_eq!(run(&runners, alone, "").await.expect("it ran"), "1");
    assert_eq!(makes.counts(), (2, 0));
}

#[tokio::test]
async fn a_pooled_runner_is_reused_also_after_a_failure() {
    let makes = CountingFactory::new();
    let runners = Runners::new().with(makes.clone());
    assert_eq!(run(&runners, pooled(1, 4), "").await.expect("it ran"), "0");
    assert_eq!(
        run(&runners, pooled(1, 4), "fail").await.expect_err("it failed").class,
        FailureClass::Temporary
    );
    assert_eq!(run(&runners.clone(), pooled(1, 4), "").await.expect("it ran"), "0");
    assert_eq!(makes.counts(), (1, 1));
}

#[tokio::test]
async fn pool_size_limits_runs_and_waiting_can_be_stopped() {
    let makes = CountingFactory::new();
    let runners = Runners::new().with(makes.clone());
    let recorders = [LogRecorder::default(), LogRecorder::default()];
    let slow: Vec<_> = recorders
        .iter()
        .cloned()
        .map(|recorder| {
            let runners = runners.clone();
            tokio::spawn(async move {
                runners.run(pooled(1, 2), &task(b"wait"), &recorder.context()).await
            })
        })
        .collect();
    for recorder in &recorders {
        recorder.wait_for_line("waiting").await;
    }
    let impatient = LogRecorder::default();
    let (task, context) = (task(b""), impatient.context());
    let mut third = Box::pin(runners.run(pooled(1, 2), &task, &context));
    assert!(timeout(Duration::from_millis(50), &mut third).await.is_err());
    // Jobs of another handler do not wait.
    let other = Name::new("kind", "other").expect("a name");
    let others = Task { kind: other, ..task.clone() };
    let ran = runners.run(pooled(1, 2), &others, &context).await;
    assert_eq!(text(&ran.expect("it ran")), "2");
    impatient.stop.cancel();
    assert_eq!(third.await.expect_err("it was stopped").class, FailureClass::Stopped);
    makes.gate.add_permits(2);
    for slow in slow {
        assert!(slow.await.expect("no panic").is_ok());
    }
    assert_eq!(makes.counts(), (3, 3));
}

#[tokio::test]
async fn a_new_revision_gets_new_runners_and_drops_the_old_ones() {
    let makes = CountingFactory::new();
    let runners = Runners::new().with(makes.clone());
    assert_eq!(run(&runners, pooled(1, 2), "").await.expect("it ran"), "0");
    assert_eq!(run(&runners, pooled(2, 2), "").await.expect("it ran"), "1");
    assert_eq!(makes.counts(), (2, 1));
    // A job that was fetched before the change runs with the old revision.
    assert_eq!(run(&runners, pooled(1, 2), "").await.expect("it ran"), "2");
    assert_eq!(run(&runners, pooled(2, 2), "").await.expect("it ran"), "1");
    assert_eq!(makes.counts(), (3, 1));
    drop(runners);
    assert_eq!(makes.counts(), (3, 0));
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the clock is paused, and moves by this alone")]
async fn idle_runners_are_dropped_and_no_timer_remains() {
    const MINUTE: Duration = Duration::from_secs(60);
    let makes = CountingFactory::new();
    let runners = Runners::new().with(makes.clone());
    for _ in 0..3 {
        assert_eq!(run(&runners, pooled(1, 1), "").await.expect("it ran"), "0");
        sleep(4 * MINUTE).await;
        assert_eq!(makes.counts(), (1, 1), "it was used recently");
    }
    sleep(2 * MINUTE).await;
    assert_eq!(makes.counts(), (1, 0));
    let tasks = Handle::current().metrics();
    assert_eq!(tasks.num_alive_tasks(), 0, "nothing is left to read");
    // A pool with a long run is in use until the run ends, and then expires later.
    let (slow, gate) = (runners.clone(), makes.gate.clone());
    let slow = tokio::spawn(async move { run(&slow, pooled(1, 1), "wait").await });
    sleep(60 * MINUTE).await;
    gate.add_permits(1);
    assert_eq!(slow.await.expect("no panic").expect("it ran"), "1");
    sleep(4 * MINUTE).await;
    assert_eq!(run(&runners, pooled(1, 1), "").await.expect("it ran"), "1");
    sleep(6 * MINUTE).await;
    assert_eq!((makes.counts(), tasks.num_alive_tasks()), ((2, 0), 0));
}

#[tokio::test]
async fn a_panic_fails_its_job_and_drops_its_runner_only() {
    let makes = CountingFactory::new();
    let runners = Runners::new().with(makes.clone());
    assert_eq!(run(&runners, pooled(1, 1), "").await.expect("it ran"), "0");
    let failure = run(&runners, pooled(1, 1), "panic").await.expect_err("it panicked");
    assert_eq!(failure.error, "the runner `does` panicked: by order");
    assert_eq!((failure.class, failure.retry), (FailureClass::Other, RetryDirective::Never));
    assert_eq!(makes.counts(), (1, 0));
    assert_eq!(run(&runners, pooled(1, 1), "").await.expect("it ran"), "1");
    let alone = RunSpec { pool: None, ..pooled(1, 1) };
    assert!(run(&runners, alone, "panic").await.is_err());
    let failure = run(&runners, RunSpec { settings: &json!("panic"), ..alone }, "").await;
    assert_eq!(failure.expect_err("it panicked").class, FailureClass::Other);
}

#[tokio::test]
async fn a_runner_dropped_during_a_run_is_not_reused() {
    let makes = CountingFactory::new();
    let runners = Runners::new().with(makes.clone());
    let dropped = timeout(Duration::from_millis(20), run(&runners, pooled(1, 1), "wait")).await;
    assert!(dropped.is_err());
    assert_eq!(makes.counts(), (1, 0));
    assert_eq!(run(&runners, pooled(1, 1), "").await.expect("it ran"), "1");
}

#[tokio::test]
async fn unknown_or_disallowed_runner_is_refused() {
    let makes = CountingFactory { needs_leave: true, ..CountingFactory::new() };
    let runners = Runners::new().with(makes.clone());
    for (name, reason) in [("does", "runner-forbidden"), ("did", "runner-unknown")] {
        let failure = run(&runners, RunSpec { runner: name, ..pooled(1, 1) }, "").await;
        let failure = failure.expect_err("it is refused");
        assert_eq!(
            (failure.class, &failure.detail["reason"]),
            (FailureClass::Fatal, &json!(reason))
        );
    }
    assert_eq!(makes.counts(), (0, 0));
    assert!(run(&runners.allow("does"), pooled(1, 1), "").await.is_ok());
}
