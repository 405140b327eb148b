//! Others fill the disk, at any moment: what is there goes on and comes to its end, and what is new is
//! refused until there is room again.

use crore_core::{Job, NewJob};
use std::sync::Arc;

use crore_conformance::sim_disk::SimDisk;
use crore_core::job::{Needs, Retain};
use crore_core::machine::{Event, Outcome, decide};
use crore_core::push::{After, AfterRef};
use crore_store::embedded::{Embedded, Options};
use crore_store::jobs::Write;
use crore_store::{Error, Jobs};
use crore_testkit::FakeClock;

use super::driven::run;
use super::script::{claim, finish, job, keep_all};

/// Large enough that what is not counted exactly, the heads of files and frames, is little of it.
fn options() -> Options {
    Options { segment_bytes: 64 << 10, ..Options::default() }
}

/// A job that is gone when it is done.
fn brief(text: &str) -> NewJob {
    let mut job = job(text);
    job.spec.retain = Retain::Nothing;
    job
}

/// A store with this batch and so many small jobs in it, whose disk is then filled to the last byte.
fn filled(batch: Vec<NewJob>, small: usize) -> (SimDisk, Embedded) {
    let disk = SimDisk::new(1);
    let clock = Arc::new(FakeClock::default());
    let store = Embedded::open_on(Arc::new(disk.clone()), clock, options()).expect("opened");
    if !batch.is_empty() {
        let _ = run(&store, store.push(batch.into())).expect("pushed");
    }
    for _ in 0..small {
        let _ = run(&store, store.push(brief(&"x".repeat(40)).into())).expect("pushed");
    }
    keep_all(&store);
    disk.capacity(disk.image().values().map(|bytes| bytes.len() as u64).sum());
    (disk, store)
}

/// Ends all jobs, one after the other; where there is no room the keeper makes some.
fn work_off(store: &Embedded) -> usize {
    let mut n = 0;
    while let Some(job) = patiently(store, || run(store, store.claim(claim(1)))).jobs.pop() {
        let _ = patiently(store, || run(store, store.apply(vec![done(&job)])));
        n += 1;
    }
    n
}

/// A job is done.
fn done(job: &Job) -> Write {
    let report = Outcome::Done { result: None }.into();
    let event = Event::Finished { delivery: Some(job.live.delivery), report };
    Write::Job(decide(job, &event, 7).expect("it means something"))
}

fn patiently<T>(store: &Embedded, verb: impl Fn() -> Result<T, Error>) -> T {
    match verb() {
        Err(Error::Full { .. }) => {
            keep_all(store);
            verb().expect("there is room for what ends")
        }
        answer => answer.expect("done"),
    }
}

fn has_room_again(disk: &SimDisk, store: &Embedded) {
    disk.capacity(u64::MAX);
    keep_all(store);
    let _ = run(store, store.push(job("more").into())).expect("there is room again");
}

/// So many small jobs fill two files.
const TWO_FILES: usize = 1200;

#[test]
fn reports_go_on_wherever_the_last_file_is_written_to() {
    for small in (1..TWO_FILES).step_by(13) {
        let (disk, store) = filled(Vec::new(), small);
        assert_eq!(work_off(&store), small);
        has_room_again(&disk, &store);
    }
}

#[test]
fn no_report_costs_the_reserve() {
    for small in (30..TWO_FILES).step_by(3) {
        let (disk, store) = filled(Vec::new(), small);
        let files = disk.image().len();
        // What is written is far longer than what was written before.
        let jobs = run(&store, store.claim(claim(30))).expect("claimed").jobs;
        let writes = jobs.iter().map(done).collect();
        let _ = run(&store, store.apply(writes)).expect("applied");
        assert_eq!(disk.image().len(), files, "after {small} jobs");
    }
}

#[test]
fn a_push_that_finds_no_room_is_refused_and_nothing_is_lost() {
    let larger = brief(&"z".repeat(900));
    for small in (0..TWO_FILES / 2).step_by(13) {
        let (disk, store) = filled(Vec::new(), small);
        let mut pushed = 0;
        let refused = loop {
            match run(&store, store.push(larger.clone().into())) {
                Ok(_) => pushed += 1,
                Err(error) => break error,
            }
            store.keep_once().expect("kept");
            assert!(pushed < 100, "the disk is full");
        };
        assert!(matches!(refused, Error::Full { .. }), "after {small} jobs: {refused}");
        assert_eq!(work_off(&store), small + pushed);
        has_room_again(&disk, &store);
    }
}

#[test]
fn a_change_of_far_more_than_could_be_seen_before_takes_the_reserve() {
    // They are released with the job that they wait for, and that says nothing of how many they are.
    let waits = || {
        let mut waits = job("w");
        waits.after.push(After { on: AfterRef::Earlier(0), needs: Needs::End });
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
