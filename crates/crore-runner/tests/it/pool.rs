//! Runs by a handler's runner, with a pool and without.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crore_core::machine::Again;
use crore_core::{Invalid, Name};
use crore_runner::{
    Class, Context, Failure, Maker, Making, Output, Recipe, Runner, Runners, Running, Task,
};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::given::{Ear, task, text};

/// How many runners were made, and how many of them are left.
#[derive(Debug, Default)]
struct Counts {
    made: AtomicUsize,
    left: AtomicUsize,
}

/// Makes runners that do as the payload says: `panic`, `wait` for the gate, or answer who they are.
#[derive(Debug, Clone)]
struct Makes {
    counts: Arc<Counts>,
    gate: Arc<Semaphore>,
    needs_leave: bool,
}

#[derive(Debug)]
struct Does {
    number: usize,
    makes: Makes,
}

impl Makes {
    fn new() -> Self {
        Self { counts: Arc::default(), gate: Arc::new(Semaphore::new(0)), needs_leave: false }
    }

    fn counts(&self) -> (usize, usize) {
        let counts = &self.counts;
        (counts.made.load(Ordering::SeqCst), counts.left.load(Ordering::SeqCst))
    }
}

impl Maker for Makes {
    fn name(&self) -> &'static str {
        "does"
    }

    fn needs_leave(&self) -> bool {
        self.needs_leave
    }

    fn check(&self, _: &Value) -> Result<(), Invalid> {
        Ok(())
    }

    fn make<'a>(&'a self, settings: &'a Value) -> Making<'a> {
        assert_ne!(*settings, json!("panic"), "cannot be made");
        Box::pin(async move {
            self.counts.left.fetch_add(1, Ordering::SeqCst);
            let number = self.counts.made.fetch_add(1, Ordering::SeqCst);
            let runner: Box<dyn Runner> = Box::new(Does { number, makes: self.clone() });
            Ok(runner)
        })
    }
}

impl Runner for Does {
    fn run<'a>(&'a self, task: &'a Task, context: &'a Context) -> Running<'a> {
        Box::pin(async move {
            match &*task.payload.bytes {
                b"panic" => panic!("by {}", "order"),
                b"fail" => return Err(Failure::again("as it should")),
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

impl Drop for Does {
    fn drop(&mut self) {
        self.makes.counts.left.fetch_sub(1, Ordering::SeqCst);
    }
}

const NONE: &Value = &Value::Null;

fn pooled(revision: u64, size: usize) -> Recipe<'static> {
    Recipe { revision, runner: "does", settings: NONE, pool: NonZeroUsize::new(size) }
}

async fn run(runners: &Runners, recipe: Recipe<'_>, payload: &str) -> Result<String, Failure> {
    let output = runners.run(recipe, &task(payload.as_bytes()), &Ear::default().context()).await;
    output.map(|output| text(&output))
}

#[tokio::test]
async fn without_a_pool_each_job_has_a_runner_of_its_own() {
    let makes = Makes::new();
    let runners = Runners::new().with(makes.clone());
    let alone = Recipe { pool: None, ..pooled(1, 1) };
    assert_eq!(run(&runners, alone, "").await.expect("it ran"), "0");
    assert_eq!(run(&runners, alone, "").await.expect("it ran"), "1");
    assert_eq!(makes.counts(), (2, 0));
}

#[tokio::test]
async fn a_pooled_runner_runs_many_also_after_a_failure() {
    let makes = Makes::new();
    let runners = Runners::new().with(makes.clone());
    assert_eq!(run(&runners, pooled(1, 4), "").await.expect("it ran"), "0");
    assert_eq!(
        run(&runners, pooled(1, 4), "fail").await.expect_err("it failed").class,
        Class::Again
    );
    assert_eq!(run(&runners.clone(), pooled(1, 4), "").await.expect("it ran"), "0");
    assert_eq!(makes.counts(), (1, 1));
}

#[tokio::test]
async fn no_more_run_at_once_than_the_pool_holds_and_who_waits_no_longer_than_it_may() {
    let makes = Makes::new();
    let runners = Runners::new().with(makes.clone());
    let ears = [Ear::default(), Ear::default()];
    let slow: Vec<_> = ears
        .iter()
        .cloned()
        .map(|ear| {
            let runners = runners.clone();
            tokio::spawn(
                async move { runners.run(pooled(1, 2), &task(b"wait"), &ear.context()).await },
            )
        })
        .collect();
    for ear in &ears {
        ear.hear("waiting").await;
    }
    let impatient = Ear::default();
    let (task, context) = (task(b""), impatient.context());
    let mut third = Box::pin(runners.run(pooled(1, 2), &task, &context));
    assert!(timeout(Duration::from_millis(50), &mut third).await.is_err());
    // Somebody else's handler does not wait for it.
    let other = Name::new("kind", "other").expect("a name");
    let others = Task { kind: other, ..task.clone() };
    let ran = runners.run(pooled(1, 2), &others, &context).await;
    assert_eq!(text(&ran.expect("it ran")), "2");
    impatient.stop.cancel();
    assert_eq!(third.await.expect_err("it was stopped").class, Class::Stopped);
    makes.gate.add_permits(2);
    for slow in slow {
        assert!(slow.await.expect("no panic").is_ok());
    }
    assert_eq!(makes.counts(), (3, 3));
}

#[tokio::test]
async fn a_new_revision_has_new_runners_and_the_old_are_dropped() {
    let makes = Makes::new();
    let runners = Runners::new().with(makes.clone());
    assert_eq!(run(&runners, pooled(1, 2), "").await.expect("it ran"), "0");
    assert_eq!(run(&runners, pooled(2, 2), "").await.expect("it ran"), "1");
    assert_eq!(makes.counts(), (2, 1));
    // A job that was fetched before the change is still run as it was then.
    assert_eq!(run(&runners, pooled(1, 2), "").await.expect("it ran"), "2");
    assert_eq!(run(&runners, pooled(2, 2), "").await.expect("it ran"), "1");
    assert_eq!(makes.counts(), (3, 1));
    drop(runners);
    assert_eq!(makes.counts(), (3, 0));
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the clock is paused, and moves by this alone")]
async fn runners_that_no_job_needs_are_dropped_after_a_while_and_nothing_ticks_on() {
    const MINUTE: Duration = Duration::from_secs(60);
    let makes = Makes::new();
    let runners = Runners::new().with(makes.clone());
    for _ in 0..3 {
        assert_eq!(run(&runners, pooled(1, 1), "").await.expect("it ran"), "0");
        sleep(4 * MINUTE).await;
        assert_eq!(makes.counts(), (1, 1), "it was needed not long ago");
    }
    sleep(2 * MINUTE).await;
    assert_eq!(makes.counts(), (1, 0));
    let tasks = Handle::current().metrics();
    assert_eq!(tasks.num_alive_tasks(), 0, "nothing is left to be looked at");
    // One that has been running for long is needed until it ends, and a while after.
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
async fn a_panic_costs_its_job_and_its_runner_and_nothing_else() {
    let makes = Makes::new();
    let runners = Runners::new().with(makes.clone());
    assert_eq!(run(&runners, pooled(1, 1), "").await.expect("it ran"), "0");
    let failure = run(&runners, pooled(1, 1), "panic").await.expect_err("it panicked");
    assert_eq!(failure.error, "the runner `does` panicked: by order");
    assert_eq!((failure.class, failure.again), (Class::Other, Again::Never));
    assert_eq!(makes.counts(), (1, 0));
    assert_eq!(run(&runners, pooled(1, 1), "").await.expect("it ran"), "1");
    let alone = Recipe { pool: None, ..pooled(1, 1) };
    assert!(run(&runners, alone, "panic").await.is_err());
    let failure = run(&runners, Recipe { settings: &json!("panic"), ..alone }, "").await;
    assert_eq!(failure.expect_err("it panicked").class, Class::Other);
}

#[tokio::test]
async fn a_runner_that_is_dropped_halfway_is_not_used_again() {
    let makes = Makes::new();
    let runners = Runners::new().with(makes.clone());
    let dropped = timeout(Duration::from_millis(20), run(&runners, pooled(1, 1), "wait")).await;
    assert!(dropped.is_err());
    assert_eq!(makes.counts(), (1, 0));
    assert_eq!(run(&runners, pooled(1, 1), "").await.expect("it ran"), "1");
}

#[tokio::test]
async fn what_is_unknown_or_not_allowed_is_not_run() {
    let makes = Makes { needs_leave: true, ..Makes::new() };
    let runners = Runners::new().with(makes.clone());
    for (name, reason) in [("does", "runner-forbidden"), ("did", "runner-unknown")] {
        let failure = run(&runners, Recipe { runner: name, ..pooled(1, 1) }, "").await;
        let failure = failure.expect_err("it is refused");
        assert_eq!((failure.class, &failure.detail["reason"]), (Class::Fatal, &json!(reason)));
    }
    assert_eq!(makes.counts(), (0, 0));
    assert!(run(&runners.allow("does"), pooled(1, 1), "").await.is_ok());
}
