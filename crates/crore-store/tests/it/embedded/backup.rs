//! Backups: complete, never partial, and without blocking other operations.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use crore_conformance::sim_disk::{DiskCall, DiskError, DiskFault, Recurrence, SimDisk};
use crore_core::job::JobRetention;
use crore_core::machine::{JobEvent, Outcome, decide};
use crore_core::version::KindVersions;
use crore_core::{JobId, NewJob};
use crore_store::embedded::{Embedded, verify};
use crore_store::jobs::{Claim, QueueOrder, StoreWrite};
use crore_store::{Error, Jobs, StoreFuture, SystemClock};

use super::image::{content, disk, flip, frames, look, rich, segments};
use super::rich::{SteppedStore, describe, name, small, spec};

#[test]
fn a_backup_has_the_content_of_the_store() {
    let image = rich();
    let stepped = SteppedStore::open(Arc::new(disk(&image))).expect("opened");
    let to = SimDisk::new(5);
    let backup = stepped.store.backup_to(&to).expect("backed up");
    let report = look(&to.image());
    assert!(report.is_good(), "{report}");
    assert_eq!((backup.segments, backup.commit), (report.segments, report.commits.1));
    assert_eq!(backup.bytes, to.image().values().map(|bytes| bytes.len() as u64).sum::<u64>());
    assert_eq!(content(&to.image()), describe(&stepped));
    // A backup of the backup is equal, too.
    let second = SimDisk::new(6);
    let opened = SteppedStore::open(Arc::new(to.clone())).expect("opened");
    opened.store.backup_to(&second).expect("backed up");
    assert_eq!(content(&second.image()), describe(&opened));
}

#[test]
fn a_pending_commit_is_in_the_backup() {
    let stepped = SteppedStore::open(Arc::new(SimDisk::new(1))).expect("opened");
    let mut push = stepped.store.push(NewJob::from(spec("q", "1")).into());
    let polled = push.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "it is not committed");
    let to = SimDisk::new(2);
    stepped.store.backup_to(&to).expect("backed up");
    let opened = SteppedStore::open(Arc::new(to)).expect("opened");
    assert!(opened.job(JobId(1)).is_some());
}

#[test]
fn a_directory_that_is_not_empty_is_refused() {
    let stepped = SteppedStore::open(Arc::new(SimDisk::new(1))).expect("opened");
    let to = disk(&[("mine.txt".to_owned(), vec![1])].into());
    let error = stepped.store.backup_to(&to).expect_err("not empty");
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    assert!(error.to_string().contains("`mine.txt`"), "{error}");
    assert_eq!(to.image().len(), 1);
}

#[test]
fn an_interrupted_backup_opens_complete_or_not_at_all() {
    let stepped = SteppedStore::open(Arc::new(disk(&rich()))).expect("opened");
    let whole = SimDisk::new(5);
    stepped.store.backup_to(&whole).expect("backed up");
    let expected = describe(&stepped);
    for n in 0..whole.calls() {
        for seed in 0..4 {
            let to = SimDisk::new(7);
            to.crash_at(n);
            stepped.store.backup_to(&to).expect_err("the power is cut");
            let left = to.crash(n * 13 + seed);
            match (SteppedStore::open(Arc::new(left.kill())), left.image()) {
                (Ok(_), image) if image.is_empty() => {}
                (Ok(opened), _) => assert_eq!(describe(&opened), expected, "call {n}"),
                (Err(error), image) => {
                    assert!(matches!(error, Error::Foreign { .. }), "call {n}: {error}");
                    assert!(verify(&disk(&image)).is_err(), "call {n}");
                }
            }
        }
    }
}

#[test]
fn a_failed_backup_releases_the_segments() {
    let on = SimDisk::new(1);
    let stepped = SteppedStore::open(Arc::new(on.clone())).expect("opened");
    let to = SimDisk::new(2);
    to.fail(DiskFault::AfterCalls {
        n: 2,
        kind: DiskCall::Write,
        error: DiskError::Enospc,
        then: Recurrence::FromThenOn,
    });
    for _ in 0..3 {
        let mut spec = spec("q", &format!("\"{}\"", "x".repeat(900)));
        spec.retain = JobRetention::Nothing;
        stepped.run_job(spec, Outcome::Done { result: None });
        stepped.settle();
    }
    let error = stepped.store.backup_to(&to).expect_err("the target is full");
    assert!(matches!(error, Error::Full { .. }), "{error}");
    for _ in 0..200 {
        let mut spec = spec("q", &format!("\"{}\"", "x".repeat(900)));
        spec.retain = JobRetention::Nothing;
        stepped.run_job(spec, Outcome::Done { result: None });
        stepped.settle();
    }
    let files = on.image().len();
    assert!(files < 12, "files are used again: {files}");
}

#[test]
fn a_backup_of_damaged_records_fails() {
    let mut image = rich();
    let (_, name) = segments(&image)[0].clone();
    // The segment has a hint, so opening does not read it.
    let (start, ..) = frames(&image, &name)[1];
    flip(&mut image, &name, start + 60);
    let stepped = SteppedStore::open(Arc::new(disk(&image))).expect("opened");
    let error = stepped.store.backup_to(&SimDisk::new(2)).expect_err("damaged");
    assert!(matches!(&error, Error::Corrupt { what } if what.contains(&name)), "{error}");
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait<T>(mut answer: StoreFuture<'_, T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match answer.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer.expect("the store answers"),
            Poll::Pending => thread::park(),
        }
    }
}

fn open(dir: &Path) -> Embedded {
    Embedded::open(dir, Arc::new(SystemClock), small()).expect("opened")
}

/// Pushes jobs that stay and jobs that are run and removed, until it is stopped.
fn work(store: &Embedded, queue: &str, kept: &Mutex<BTreeSet<JobId>>, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        let stays = wait(store.push(NewJob::from(spec("bleibt", "{}")).into())).into_inner();
        kept.lock().expect("lock").extend(stays.jobs[0].id());
        let mut goes = spec(queue, &format!("\"{}\"", "x".repeat(500)));
        goes.retain = JobRetention::Nothing;
        let _ = wait(store.push(NewJob::from(goes).into()));
        let (queues, worker) = (vec![name(queue)], name("w"));
        let claim = Claim {
            queues,
            kinds: None,
            versions: KindVersions::default(),
            n: 1,
            order: QueueOrder::Merged,
            worker,
        };
        for job in wait(store.claim(claim)).jobs {
            let report = Outcome::Done { result: None }.into();
            let event = JobEvent::Finished { delivery: Some(job.live.delivery), report };
            let change = decide(&job, &event, 1).expect("running");
            let _ = wait(store.apply(vec![StoreWrite::Job(change)]));
        }
    }
}

#[test]
fn a_backup_under_load_has_all_writes_acknowledged_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir.path().join("store"));
    let (kept, stop) = (Mutex::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        for queue in ["eins", "zwei"] {
            let (store, kept, stop) = (&store, &kept, &stop);
            scope.spawn(move || work(store, queue, kept, stop));
        }
        for n in 1..=8 {
            let enough = || kept.lock().expect("lock").len() >= n * 20;
            while !enough() {
                thread::yield_now();
            }
            let answered = kept.lock().expect("lock").clone();
            let to = dir.path().join(format!("backup-{n}"));
            let backup = store.backup(&to).expect("backed up");
            let opened = open(&to);
            assert!(
                opened.open_report().commit >= backup.commit,
                "{backup:?}, {:?}",
                opened.open_report()
            );
            assert_eq!(opened.open_report().unfinished, None);
            let which = answered.iter().map(|id| (*id).into()).collect();
            let missing = wait(opened.get(which)).iter().filter(|job| job.is_none()).count();
            assert_eq!(missing, 0, "of {} jobs", answered.len());
        }
        stop.store(true, Ordering::SeqCst);
    });
}
