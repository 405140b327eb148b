//! A crash or a disk failure at every single call of the store to its disk.

use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};

use crore_conformance::sim_disk::{DiskCall, DiskError, DiskFault, Recurrence, SimDisk};
use crore_core::JobId;
use crore_core::machine::{JobEvent, decide};
use crore_store::embedded::Embedded;
use crore_store::jobs::{Pushed, StoreWrite};
use crore_store::{Error, Jobs, StoreFuture};
use crore_testkit::FakeClock;

use super::driven::run;
use super::script::{
    Chapter, StepAnswer, StoreView, begin, claim, finish, job, open, record_script,
    run_keeper_to_end, view,
};

const CHAPTERS: usize = 30;
const STEPS: usize = 24;
/// Number of tests that share the work.
const SHARES: usize = 4;
/// Every n-th read fails.
const READS: u64 = 8;

struct Script {
    chapters: Vec<Chapter>,
    /// Upper bound of the ids.
    most: u64,
}

fn script() -> &'static Script {
    static SCRIPT: OnceLock<Script> = OnceLock::new();
    SCRIPT.get_or_init(|| {
        let (chapters, most) = record_script(CHAPTERS, STEPS, 40);
        Script { chapters, most }
    })
}

/// Knowledge of the callers after a run that ended early.
#[derive(Debug, Default)]
struct CallerKnowledge {
    /// Number of steps that are acknowledged, or precede an acknowledged one.
    answered: usize,
    /// Number of steps begun.
    begun: usize,
    ids: Vec<JobId>,
    deliveries: Vec<u64>,
    /// Whether the committer or the keeper has failed.
    failed: bool,
}

/// Reaction of a run to an error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnError {
    Stop,
    GoOn,
}

type Pending<'a> = Vec<(usize, bool, StoreFuture<'a, StepAnswer>)>;

/// Runs the steps of a chapter, three per commit, until something fails.
fn play(
    chapter: &Chapter,
    disk: &SimDisk,
    clock: &FakeClock,
    on_error: OnError,
) -> CallerKnowledge {
    let mut known = CallerKnowledge::default();
    let Ok(store) = open(disk, clock) else { return known };
    let mut pending: Pending<'_> = Vec::new();
    for (nth, verb) in chapter.steps.iter().enumerate() {
        let waited = verb.is_durable_when_answered();
        pending.push((nth, waited, begin(&store, clock, verb.clone())));
        known.begun = nth + 1;
        let went = known.poll(&mut pending);
        let went = went.and_then(|()| if nth % 3 == 2 { known.work(&store) } else { Ok(()) });
        let went = went.and_then(|()| known.poll(&mut pending));
        if went.is_err() && on_error == OnError::Stop {
            return known;
        }
        if went.is_err() {
            known.check_after_failure(&store);
            return known;
        }
    }
    // A step that waits for room runs after the current commit and is answered with the next one.
    let mut went = Ok(());
    for _ in 0..3 {
        went = went.and_then(|()| known.work(&store)).and_then(|()| known.poll(&mut pending));
    }
    if went.is_ok() {
        assert!(pending.is_empty(), "everything is committed and some callers have no response");
        drop(pending);
        let closed = store.close();
        known.answered = if closed.is_ok() { known.begun } else { known.answered };
    }
    known
}

impl CallerKnowledge {
    /// Collects answers that have arrived.
    fn poll(&mut self, pending: &mut Pending<'_>) -> Result<(), Error> {
        let mut context = Context::from_waker(Waker::noop());
        let mut failed = Ok(());
        pending.retain_mut(|(nth, waited, answer)| {
            if failed.is_err() {
                // Steps run in order: none behind a failed one has run.
                return true;
            }
            let Poll::Ready(response) = answer.as_mut().poll(&mut context) else { return true };
            match response {
                Err(error) => failed = Err(error),
                Ok(response) => {
                    assert!(
                        !self.failed,
                        "step {nth} is answered after the committer or the keeper has failed"
                    );
                    if *waited {
                        self.answered = self.answered.max(*nth + 1);
                        self.ids.extend(response.ids);
                    }
                    self.deliveries.extend(response.deliveries);
                }
            }
            false
        });
        failed
    }

    /// Commits, and runs some steps of the keeper.
    fn work(&mut self, store: &Embedded) -> Result<(), Error> {
        self.commit(store)?;
        for _ in 0..6 {
            if !self.keep(store)? {
                return Ok(());
            }
            self.commit(store)?;
        }
        Ok(())
    }

    fn keep(&mut self, store: &Embedded) -> Result<bool, Error> {
        let kept = store.maintain_once();
        self.failed |= kept.is_err();
        kept
    }

    fn commit(&mut self, store: &Embedded) -> Result<(), Error> {
        let committed = store.commit_once();
        self.failed |= committed.is_err();
        committed.map(|_| ())
    }

    /// After a failure of the committer or the keeper nothing more is acknowledged; after another
    /// failure, acknowledged changes are there.
    fn check_after_failure(&mut self, store: &Embedded) {
        if self.failed {
            let pushed = run(store, store.push(job("after the failure").into()));
            assert!(matches!(pushed, Err(Error::Poisoned)), "{pushed:?}");
            let claimed = run(store, store.claim(claim(1)));
            assert!(matches!(claimed, Err(Error::Poisoned)), "{claimed:?}");
            assert!(store.commit_once().is_err());
            return;
        }
        while store.commit_once().is_ok_and(|did| did) {}
    }
}

/// The content after a run equals the recorded one after a step that the run may have reached.
fn check<'a>(
    disk: &SimDisk,
    clock: &FakeClock,
    known: &CallerKnowledge,
    chapter: &'a Chapter,
) -> (Embedded, &'a StoreView) {
    let store = open(disk, clock).unwrap_or_else(|error| panic!("it opens: {error}; {known:?}"));
    let seen = view(&store, script().most).expect("seen");
    let may = &chapter.views[known.answered..=known.begun];
    let found = may.iter().rev().find(|view| **view == seen);
    let Some(found) = found else {
        let nth = chapter.views.iter().position(|view| *view == seen);
        panic!(
            "{known:?}: the content is that of step {nth:?}; {:?}",
            chapter.views[known.answered].differs(&seen)
        )
    };
    (store, found)
}

/// The reopened store works.
fn works(store: &Embedded, disk: &SimDisk, clock: &FakeClock, known: &CallerKnowledge) {
    let pushed = run(store, store.push(job("new").into())).expect("pushed").into_inner();
    let Pushed::New(id) = pushed.jobs[0] else { panic!("a new job is {pushed:?}") };
    assert!(known.ids.iter().all(|old| *old < id), "{id:?} was delivered before");
    let claimed = run(store, store.claim(claim(100))).expect("claimed").jobs;
    let old = known.deliveries.iter().max().copied().unwrap_or_default();
    assert!(claimed.iter().all(|job| job.live.delivery.0 > old), "a delivery is given out twice");
    let mine = claimed.iter().find(|job| job.id == id).expect("it is there to claim");
    finish(store, mine);
    run_keeper_to_end(store);
    let before = view(store, script().most + 1).expect("seen");
    store.close().expect("closed");
    let store = open(disk, clock).expect("opened again");
    assert_eq!(store.open_report().unfinished, None);
    assert!(view(&store, script().most + 1).expect("seen") == before, "closing changes nothing");
}

/// The chapters of one test.
fn share(of: usize) -> impl Iterator<Item = &'static Chapter> {
    script().chapters.iter().skip(of).step_by(SHARES)
}

/// Number of calls that a chapter makes.
fn calls(chapter: &Chapter, kind: DiskCall) -> u64 {
    let (disk, clock) = (chapter.fresh(), chapter.time());
    let known = play(chapter, &disk, &clock, OnError::Stop);
    assert_eq!(known.answered, chapter.steps.len());
    disk.count(kind)
}

fn crash_at_every_call(of: usize) {
    let mut all = 0;
    for chapter in share(of) {
        let calls = calls(chapter, DiskCall::Any);
        all += calls;
        let mut reads = 0;
        for n in 1..=calls {
            let (disk, clock) = (chapter.fresh(), chapter.time());
            disk.crash_at(n);
            let known = play(chapter, &disk, &clock, OnError::Stop);
            let is_read = std::mem::replace(&mut reads, disk.count(DiskCall::Read))
                < disk.count(DiskCall::Read);
            // A read changes nothing, so testing some of them is enough.
            if is_read && !n.is_multiple_of(READS) {
                continue;
            }
            for seed in 0..3 {
                check(&disk.crash(n * 3 + seed), &clock, &known, chapter);
            }
            let after = disk.kill();
            let (store, _) = check(&after, &clock, &known, chapter);
            works(&store, &after, &clock, &known);
        }
    }
    assert!(all > 2000 / SHARES as u64, "{all} calls are too few");
}

#[test]
fn crash_at_every_call_loses_nothing_1() {
    crash_at_every_call(0);
}

#[test]
fn crash_at_every_call_loses_nothing_2() {
    crash_at_every_call(1);
}

#[test]
fn crash_at_every_call_loses_nothing_3() {
    crash_at_every_call(2);
}

#[test]
fn crash_at_every_call_loses_nothing_4() {
    crash_at_every_call(3);
}

/// The calls of an opening that change something.
fn changes(disk: &dyn Fn() -> SimDisk, clock: &FakeClock) -> Vec<u64> {
    let mut changes = vec![1];
    for kind in [DiskCall::Write, DiskCall::Sync, DiskCall::Remove] {
        for n in 0.. {
            let failing = disk();
            failing.fail(DiskFault::AfterCalls {
                n,
                kind,
                error: DiskError::Eio,
                then: Recurrence::Once,
            });
            if open(&failing, clock).is_ok() {
                break;
            }
            changes.push(failing.calls());
        }
    }
    changes
}

/// Crashes at every call of an opening that changes something, and opens the result; nested `depth`
/// times.
fn crash_while_opening(
    disk: &dyn Fn() -> SimDisk,
    clock: &FakeClock,
    (known, chapter): (&CallerKnowledge, &Chapter),
    depth: usize,
) -> u64 {
    let mut all = 0;
    for n in changes(disk, clock) {
        let again = disk();
        again.crash_at(n);
        assert!(open(&again, clock).is_err(), "call {n} is missing");
        all += 1;
        check(&again.kill(), clock, known, chapter);
        check(&again.crash(n), clock, known, chapter);
        if depth > 1 {
            all += crash_while_opening(&|| again.crash(n), clock, (known, chapter), depth - 1);
            all += crash_while_opening(&|| again.kill(), clock, (known, chapter), depth - 1);
        }
    }
    all
}

fn crash_at_some_calls_and_while_opening(of: usize) {
    let mut all = 0;
    for chapter in share(of) {
        for n in (1..=calls(chapter, DiskCall::Any)).step_by(131) {
            let (disk, clock) = (chapter.fresh(), chapter.time());
            disk.crash_at(n);
            let known = play(chapter, &disk, &clock, OnError::Stop);
            all += crash_while_opening(&|| disk.crash(n), &clock, (&known, chapter), 1);
            all += crash_while_opening(&|| disk.kill(), &clock, (&known, chapter), 2);
        }
    }
    assert!(all > 200, "{all} calls are too few");
}

#[test]
fn crash_while_opening_loses_nothing_1() {
    crash_at_some_calls_and_while_opening(0);
}

#[test]
fn crash_while_opening_loses_nothing_2() {
    crash_at_some_calls_and_while_opening(3);
}

/// The n-th call of a kind fails once; all others succeed.
fn fails_once(kind: DiskCall) {
    for chapter in share(0).chain(share(1)) {
        let step = if kind == DiskCall::Read { READS as usize } else { 1 };
        for n in (0..calls(chapter, kind)).step_by(step) {
            let (disk, clock) = (chapter.fresh(), chapter.time());
            disk.fail(DiskFault::AfterCalls {
                n,
                kind,
                error: DiskError::Eio,
                then: Recurrence::Once,
            });
            let known = play(chapter, &disk, &clock, OnError::GoOn);
            for seed in 0..2 {
                check(&disk.crash(n * 2 + seed), &clock, &known, chapter);
            }
            let after = disk.kill();
            let (store, _) = check(&after, &clock, &known, chapter);
            works(&store, &after, &clock, &known);
        }
    }
}

#[test]
fn a_write_that_fails_once_ends_the_store_and_loses_nothing() {
    fails_once(DiskCall::Write);
}

#[test]
fn a_sync_that_fails_once_ends_the_store_and_loses_nothing() {
    fails_once(DiskCall::Sync);
}

#[test]
fn a_read_that_fails_once_loses_nothing() {
    fails_once(DiskCall::Read);
}

#[test]
fn an_open_a_list_or_a_removal_that_fails_once_loses_nothing() {
    fails_once(DiskCall::Open);
    fails_once(DiskCall::List);
    fails_once(DiskCall::Remove);
}

#[test]
fn no_hint_outlives_its_segment() {
    let (disk, clock) = (SimDisk::new(1), FakeClock::default());
    let store = open(&disk, &clock).expect("opened");
    for _ in 0..200 {
        let _ = run(&store, store.push(job(&"x".repeat(2000)).into())).expect("pushed");
        let jobs = run(&store, store.claim(claim(1))).expect("claimed").jobs;
        finish(&store, &jobs[0]);
        let done = run(&store, store.get(vec![jobs[0].id.into()])).expect("seen").remove(0);
        let change = decide(&done.expect("it is kept"), &JobEvent::Delete, 7).expect("it exists");
        let _ = run(&store, store.apply(vec![StoreWrite::Job(change)])).expect("applied");
        store.maintain_once().expect("kept");
    }
    run_keeper_to_end(&store);
    let files = disk.image();
    let (hints, logs): (Vec<_>, Vec<_>) = files.keys().partition(|name| name.starts_with("hint"));
    assert!(hints.len() < logs.len(), "{hints:?} and {logs:?}");
}
