//! Others fill the disk, at any moment: what is there goes on and comes to its end, and what is new is
//! refused until there is room again.

use crore_core::Batch;
use crore_core::job::Needs;
use crore_core::push::{After, AfterRef};
use crore_store::embedded::Embedded;
use crore_store::embedded::disk::sim::SimDisk;
use crore_store::{Error, Jobs};
use crore_testkit::FakeClock;

use super::driven::run;
use super::script::{OPTIONS, claim, finish, job, keep_all, open};

/// A store with so many bytes of jobs in it, whose disk is then filled to the last byte.
fn filled(bytes: usize, batch: Option<&Batch>) -> (SimDisk, Embedded) {
    let disk = SimDisk::new(1);
    let store = open(&disk, &FakeClock::default()).expect("opened");
    if let Some(batch) = batch {
        let _ = run(&store, store.push(batch.clone())).expect("pushed");
    }
    let _ = run(&store, store.push(job(&"x".repeat(bytes)).into())).expect("pushed");
    keep_all(&store);
    disk.capacity(disk.image().values().map(|bytes| bytes.len() as u64).sum());
    (disk, store)
}

/// Ends all jobs, one after the other.
fn work_off(store: &Embedded) -> usize {
    let mut n = 0;
    while let Some(job) = run(store, store.claim(claim(1))).expect("claimed").jobs.pop() {
        finish(store, &job);
        store.keep_once().expect("kept");
        n += 1;
    }
    n
}

fn has_room_again(disk: &SimDisk, store: &Embedded) {
    disk.capacity(u64::MAX);
    keep_all(store);
    let _ = run(store, store.push(job("more").into())).expect("there is room again");
}

#[test]
fn reports_go_on_wherever_the_last_file_is_written_to() {
    let jobs: Vec<_> = (0..20).map(|_| job(&"y".repeat(300))).collect();
    for bytes in (0..2 * OPTIONS.segment_bytes as usize).step_by(97) {
        let (disk, store) = filled(bytes, Some(&jobs.clone().into()));
        assert_eq!(work_off(&store), 21, "after {bytes} bytes");
        has_room_again(&disk, &store);
    }
}

#[test]
fn a_push_that_finds_no_room_is_refused_and_nothing_is_lost() {
    let large = job(&"z".repeat(900));
    for bytes in (0..OPTIONS.segment_bytes as usize).step_by(97) {
        let (disk, store) = filled(bytes, None);
        let mut pushed = 1;
        let refused = loop {
            match run(&store, store.push(large.clone().into())) {
                Ok(_) => pushed += 1,
                Err(error) => break error,
            }
            store.keep_once().expect("kept");
            assert!(pushed < 100, "the disk is full");
        };
        assert!(matches!(refused, Error::Full { .. }), "after {bytes} bytes: {refused}");
        assert_eq!(work_off(&store), pushed, "after {bytes} bytes");
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
    let batch: Vec<_> = std::iter::once(job("first")).chain((0..60).map(|_| waits())).collect();
    for bytes in (0..OPTIONS.segment_bytes as usize).step_by(97) {
        let (disk, store) = filled(bytes, Some(&batch.clone().into()));
        let first = run(&store, store.claim(claim(1))).expect("claimed").jobs.remove(0);
        assert_eq!(first.spec.payload.bytes, job("first").spec.payload.bytes);
        finish(&store, &first);
        has_room_again(&disk, &store);
    }
}
