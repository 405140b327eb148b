//! Bulk operations and their effect on other work: a million jobs are cancelled, a group of a hundred thousand jobs
//! completes, and a job ends that a hundred thousand others wait for. Meanwhile another thread pushes and pops in
//! another queue, and measures its latency.
//!
//! Run with `cargo run --release --example crowds`.
#![expect(clippy::disallowed_methods, reason = "how long it takes is real time")]
#![expect(clippy::expect_used, reason = "an example panics, and says why")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crore::actions::{BulkMode, JobAction, JobFilter};
use crore::core::job::DependencyCondition;
use crore::core::machine::Outcome;
use crore::core::push::{GroupRef, NewDependency, NewDependencyTarget, NewGroup};
use crore::core::{Batch, Encoding, Name, NewJob, Payload, Spec};
use crore::fetch::Fetch;
use crore::finish::Finish;
use crore::{Engine, Error, block_on};

const CANCELS: usize = 1_000_000;
const DEPENDENTS: usize = 100_000;
const AT_ONCE: usize = 1000;

fn main() -> Result<(), Error> {
    println!("in memory");
    all(&Engine::memory())?;
    let dir = tempfile::tempdir().expect("a directory");
    println!("on the disk");
    let engine = Engine::open(dir.path())?;
    all(&engine)?;
    engine.stop()
}

fn all(engine: &Engine) -> Result<(), Error> {
    cancel(engine)?;
    group(engine)?;
    fan_out(engine)
}

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a name")
}

fn job(queue: &str) -> NewJob {
    Spec::new(name(queue), name("work"), Payload::new(Encoding::Bytes, vec![1; 16])).into()
}

/// Runs an operation while another thread works, and prints how long both took.
fn measure_interference<T>(
    engine: &Engine,
    what: &str,
    does: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut took: Vec<Duration> = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let start = Instant::now();
                engine.push("other", "x").wait()?;
                engine.pop_blocking("other", |_| Ok::<(), String>(()))?;
                took.push(start.elapsed());
            }
            Ok::<_, Error>(took)
        });
        let start = Instant::now();
        let done = does();
        let all = start.elapsed();
        is_over.store(true, Ordering::Relaxed);
        let mut took = other.join().expect("no panic")?;
        took.sort_unstable();
        let part = |permille: usize| {
            took.get((took.len() * permille / 1000).min(took.len() - 1))
                .copied()
                .unwrap_or_default()
        };
        println!(
            "  {what}: {all:.1?}; of {} others p50 {:.1?}, p99 {:.1?}, p99.9 {:.1?}, longest {:.1?}",
            took.len(),
            part(500),
            part(990),
            part(999),
            part(1000)
        );
        done
    })
}

fn push_many(engine: &Engine, n: usize, job: &NewJob) -> Result<(), Error> {
    for _ in 0..n / AT_ONCE {
        block_on(engine.push_all(vec![job.clone(); AT_ONCE].into()))?;
    }
    Ok(())
}

fn cancel(engine: &Engine) -> Result<(), Error> {
    measure_interference(engine, "a million pushed", || {
        push_many(engine, CANCELS, &job("cancel"))
    })?;
    let filter = JobFilter { queue: Some(name("cancel")), ..JobFilter::default() };
    let acted = measure_interference(engine, "a million cancelled", || {
        block_on(engine.jobs().act_on_all(&filter, &JobAction::Cancel, BulkMode::Apply, |_| true))
    })?;
    assert_eq!(acted.done, CANCELS as u64);
    Ok(())
}

fn group(engine: &Engine) -> Result<(), Error> {
    let groups = vec![NewGroup { open: true, maker: None }];
    let pushed = block_on(engine.push_all(Batch { groups, jobs: Vec::new() }))?;
    let id = pushed.groups[0];
    let member = NewJob { group: Some(GroupRef::Id(id)), ..job("group") };
    measure_interference(engine, "a group of a hundred thousand pushed", || {
        push_many(engine, DEPENDENTS, &member)
    })?;
    let mut then = job("then");
    then.after.push(NewDependency {
        on: NewDependencyTarget::Group(GroupRef::Id(id)),
        needs: DependencyCondition::Success,
    });
    block_on(engine.push_all(then.into()))?;
    block_on(engine.groups().seal(id))?;
    measure_interference(engine, "and run", || run_all(engine, "group"))?;
    let then = block_on(engine.fetch(Fetch::new(name("then"), name("w"))))?;
    assert_eq!(then.len(), 1, "all have succeeded");
    Ok(())
}

fn run_all(engine: &Engine, queue: &str) -> Result<(), Error> {
    loop {
        let ask = Fetch { n: AT_ONCE, ..Fetch::new(name(queue), name("w")) };
        let jobs = block_on(engine.fetch(ask))?;
        if jobs.is_empty() {
            return Ok(());
        }
        let done = |job| Finish::of(job, Outcome::Done { result: None });
        block_on(engine.deliveries().finish_all(jobs.iter().map(done).collect()))?;
    }
}

fn fan_out(engine: &Engine) -> Result<(), Error> {
    let first = block_on(engine.push_all(job("first").into()))?.jobs[0].id().expect("new");
    let mut waits = job("waits");
    waits.after.push(NewDependency {
        on: NewDependencyTarget::Job(first),
        needs: DependencyCondition::Success,
    });
    measure_interference(engine, "a hundred thousand that wait for one pushed", || {
        push_many(engine, DEPENDENTS, &waits)
    })?;
    measure_interference(engine, "and released", || run_all(engine, "first"))?;
    let counts = block_on(engine.jobs().counts(Some(name("waits"))))?;
    assert_eq!(counts.iter().map(|count| count.n).sum::<u64>(), DEPENDENTS as u64);
    Ok(())
}
