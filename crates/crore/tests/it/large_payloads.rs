//! Fetches are limited by the size of their payloads.

use std::sync::Arc;

use crore::core::{Encoding, Job, NewJob, Payload, Span, Spec, State};
use crore::fetch::Fetch;
use crore::store::{Memory, SystemClock};
use crore::{Engine, Options, block_on};

use crate::test_engine::{ask, name};

/// An engine with this cap on the bytes of a fetch, and payloads of at most 1000 bytes.
fn engine(fetch_bytes: usize) -> Engine {
    let mut options = Options::default();
    (options.caps.fetch_bytes, options.caps.payload_bytes) = (fetch_bytes, 1000);
    let clock = Arc::new(SystemClock);
    Engine::on(Arc::new(Memory::new(clock.clone())), clock, options).expect("an engine")
}

fn push(engine: &Engine, sizes: &[usize]) {
    let job = |size: &usize| -> NewJob {
        let payload = Payload::new(Encoding::Bytes, vec![0; *size]);
        Spec::new(name("q"), name("work"), payload).into()
    };
    let jobs: Vec<NewJob> = sizes.iter().map(job).collect();
    block_on(engine.push_all(jobs.into())).expect("pushed");
}

fn fetch(engine: &Engine, n: usize) -> Vec<Job> {
    block_on(engine.fetch(Fetch { n, ..ask("q") })).expect("an answer")
}

fn sizes(jobs: &[Job]) -> Vec<usize> {
    jobs.iter().map(|job| job.spec.payload.bytes.len()).collect()
}

#[test]
fn a_fetch_stops_at_the_payload_maximum_and_leaves_other_jobs_ready() {
    let engine = engine(10_000);
    push(&engine, &[1000; 25]);
    assert_eq!(sizes(&fetch(&engine, 100)), [1000; 10]);
    let counts = block_on(engine.jobs().counts(None)).expect("counts");
    let ready = counts.iter().find(|count| count.state == State::Ready).map(|count| count.n);
    assert_eq!(ready, Some(15));
    let rest = [fetch(&engine, 100), fetch(&engine, 100)];
    assert_eq!(rest.each_ref().map(Vec::len), [10, 5]);
    let costs = |job: &Job| (job.live.attempt, job.live.history.len());
    assert!(rest.iter().flatten().all(|job| costs(job) == (1, 0)), "read once, and never before");
    assert_eq!(fetch(&engine, 100), []);
}

#[test]
fn a_fetch_returns_several_small_jobs_or_one_of_any_size() {
    let engine = engine(10_000);
    push(&engine, &[1; 1000]);
    assert_eq!(fetch(&engine, 1000).len(), 1000);
    let engine = self::engine(1);
    push(&engine, &[1000, 1000]);
    assert_eq!([fetch(&engine, 9).len(), fetch(&engine, 9).len()], [1, 1]);
}

#[test]
fn a_fetch_that_could_not_take_all_jobs_wakes_the_next() {
    let engine = engine(1000);
    let wait = Fetch { n: 3, wait: Span::from_secs(60), ..ask("q") };
    let threads = [(); 3].map(|()| {
        let (engine, wait) = (engine.clone(), wait.clone());
        std::thread::spawn(move || block_on(engine.fetch(wait)).expect("an answer").len())
    });
    crore_testkit::eventually(std::time::Duration::from_secs(20), || {
        engine.deliveries().waiting() == 3
    });
    push(&engine, &[1000; 3]);
    assert_eq!(threads.map(|thread| thread.join().expect("no panic")), [1, 1, 1]);
}
