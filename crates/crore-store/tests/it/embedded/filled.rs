//! Others fill the disk at any moment: existing jobs continue and end, and new ones are refused
//! until there is space again.

use crore_core::{Job, NewJob};
use std::sync::Arc;

use crore_conformance::sim_disk::SimDisk;
use crore_core::job::{DependencyCondition, JobRetention};
use crore_core::machine::{JobEvent, Outcome, decide};
use crore_core::push::{NewDependency, NewDependencyTarget};
use crore_store::embedded::{Embedded, Options};
use crore_store::jobs::StoreWrite;
use crore_store::{Error, Jobs};
use crore_testkit::FakeClock;

use super::driven::run;
use super::script::{claim, finish, job, run_keeper_to_end};

/// Large enough that file heads and frame headers, which are not counted exactly, hardly matter.
fn options() -> Options {
    Options { segment_bytes: 64 << 10, ..Options::default() }
}

/// A job that is removed when it is done.
fn short_lived(text: &str) -> NewJob {
    let mut job = job(text);
    job.spec.retain = JobRetention::Nothing;
    job
}

/// A store with this batch and `small` small jobs, on a disk that is then filled to the last byte.
fn filled(batch: Vec<NewJob>, small: usize) -> (SimDisk, Embedded) {
    let disk = SimDisk::new(1);
    let clock = Arc::new(FakeClock::default());
    let store = Embedded::open_on(Arc::new(disk.clone()), clock, options()).expect("opened");
    if !batch.is_empty() {
        let _ = run(&store, store.push(batch.into())).expect("pushed");
    }
    for _ in 0..small {
        let _ = run(&store, store.push(short_lived(&"x".repeat(40)).into())).expect("pushed");
    }
    run_keeper_to_end(&store);
    disk.capacity(disk.image().values().map(|bytes| bytes.len() as u64).sum());
    (disk, store)
}

/// Ends all jobs one by one; on a full disk the keeper makes room.
fn end_all(store: &Embedded) -> usize {
    let mut n = 0;
    while let Some(job) = retry_when_full(store, || run(store, store.claim(claim(1)))).jobs.pop() {
        let _ = retry_when_full(store, || run(store, store.apply(vec![done(&job)])));
        n += 1;
    }
    n
}

/// The write that ends a job.
fn done(job: &Job) -> StoreWrite {
    let report = Outcome::Done { result: None }.into();
    let event = JobEvent::Finished { delivery: Some(job.live.delivery), report };
    StoreWrite::Job(decide(job, &event, 7).expect("the event applies"))
}

fn retry_when_full<T>(store: &Embedded, verb: impl Fn() -> Result<T, Error>) -> T {
    match verb() {
        Err(Error::Full { .. }) => {
            run_keeper_to_end(store);
            verb().expect("room for reports")
        }
        answer => answer.expect("done"),
    }
}

fn has_room_again(disk: &SimDisk, store: &Embedded) {
    disk.capacity(u64::MAX);
    run_keeper_to_end(store);
    let _ = run(store, store.push(job("more").into())).expect("there is room again");
}

/// Number of small jobs that fill two files.
const TWO_FILES: usize = 1200;

#[test]
fn reports_are_accepted_on_a_full_disk_wherever_the_last_segment_ends() {
    for small in (1..TWO_FILES).step_by(13) {
        let (disk, store) = filled(Vec::new(), small);
        assert_eq!(end_all(&store), small);
        has_room_again(&disk, &store);
    }
}

#[test]
fn no_report_uses_the_reserve() {
    for small in (30..TWO_FILES).step_by(3) {
        let (disk, store) = filled(Vec::new(), small);
        let files = disk.image().len();
        // This frame is far longer than any before.
        let jobs = run(&store, store.claim(claim(30))).expect("claimed").jobs;
        let writes = jobs.iter().map(done).collect();
        let _ = run(&store, store.apply(writes)).expect("applied");
        assert_eq!(disk.image().len(), files, "after {small} jobs");
    }
}

#[test]
fn a_push_without_room_is_refused_and_nothing_is_lost() {
    let larger = short_lived(&"z".repeat(900));
    for small in (0..TWO_FILES / 2).step_by(13) {
        let (disk, store) = filled(Vec::new(), small);
        let mut pushed = 0;
        let refused = loop {
            match run(&store, store.push(larger.clone().into())) {
                Ok(_) => pushed += 1,
                Err(error) => break error,
            }
            store.maintain_once().expect("kept");
            assert!(pushed < 100, "the disk is full");
        };
        assert!(matches!(refused, Error::Full { .. }), "after {small} jobs: {refused}");
        assert_eq!(end_all(&store), small + pushed);
        has_room_again(&disk, &store);
    }
}

#[test]
fn a_change_far_larger_than_estimated_uses_the_reserve() {
    // They are released with the job that they wait for, whose write does not show how many they
    // are.
    let waits = || {
        let mut waits = job("w");
        waits.after.push(NewDependency {
            on: NewDependencyTarget::Earlier(0),
            needs: DependencyCondition::End,
        });
        waits
    };
    let batch: Vec<_> = std::iter::once(job("first")).chain((0..400).map(|_| waits())).collect();
    for small in (0..TWO_FILES / 2).step_by(13) {
        let (disk, store) = filled(batch.clone(), small);
        let first = run(&store, store.claim(claim(1))).expect("claimed").jobs.remove(0);
        assert_eq!(first.spec.payload.bytes, job("first").spec.payload.bytes);
        finish(&store, &first);
        has_room_again(&disk, &store);
    }
}
