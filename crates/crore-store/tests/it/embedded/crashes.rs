//! The machine goes off, or the disk fails, at every single call that the store makes to it.

use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};

use crore_conformance::sim_disk::{Call, Failure, Fault, SimDisk, Then};
use crore_core::JobId;
use crore_core::machine::{Event, decide};
use crore_store::embedded::Embedded;
use crore_store::jobs::{Pushed, Write};
use crore_store::{Answer, Error, Jobs};
use crore_testkit::FakeClock;

use super::driven::run;
use super::script::{Chapter, Said, View, begin, claim, finish, job, keep_all, open, tell, view};

const CHAPTERS: usize = 30;
const STEPS: usize = 24;
/// So many tests share the work.
const SHARES: usize = 4;
/// Of reads, every so many-th fails.
const READS: u64 = 8;

struct Script {
    chapters: Vec<Chapter>,
    /// No id is above.
    most: u64,
}

fn script() -> &'static Script {
    static SCRIPT: OnceLock<Script> = OnceLock::new();
    SCRIPT.get_or_init(|| {
        let (chapters, most) = tell(CHAPTERS, STEPS, 40);
        Script { chapters, most }
    })
}

/// What callers know of a run that came to its end too early.
#[derive(Debug, Default)]
struct Told {
    /// So many steps are answered, or before one that is.
    answered: usize,
    /// So many were begun.
    begun: usize,
    ids: Vec<JobId>,
    deliveries: Vec<u64>,
    /// Whether the committer or the keeper has failed.
    failed: bool,
}

/// What a run does about an error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnError {
    Stop,
    GoOn,
}

type Pending<'a> = Vec<(usize, bool, Answer<'a, Said>)>;

/// Does the steps of a chapter, three in a commit, until something fails.
fn play(chapter: &Chapter, disk: &SimDisk, clock: &FakeClock, on_error: OnError) -> Told {
    let mut told = Told::default();
    let Ok(store) = open(disk, clock) else { return told };
    let mut pending: Pending<'_> = Vec::new();
    for (nth, verb) in chapter.verbs.iter().enumerate() {
        let waited = verb.is_waited_for();
        pending.push((nth, waited, begin(&store, clock, verb.clone())));
        told.begun = nth + 1;
        let went = told.poll(&mut pending);
        let went = went.and_then(|()| if nth % 3 == 2 { told.work(&store) } else { Ok(()) });
        let went = went.and_then(|()| told.poll(&mut pending));
        if went.is_err() && on_error == OnError::Stop {
            return told;
        }
        if went.is_err() {
            told.goes_on(&store);
            return told;
        }
    }
    // A step that had to wait for room is done when the commit before it is, and answered with the next.
    let mut went = Ok(());
    for _ in 0..3 {
        went = went.and_then(|()| told.work(&store)).and_then(|()| told.poll(&mut pending));
    }
    if went.is_ok() {
        assert!(pending.is_empty(), "all is committed, and not all is answered");
        drop(pending);
        let closed = store.close();
        told.answered = if closed.is_ok() { told.begun } else { told.answered };
    }
    told
}

impl Told {
    /// Looks which answers have come.
    fn poll(&mut self, pending: &mut Pending<'_>) -> Result<(), Error> {
        let mut context = Context::from_waker(Waker::noop());
        let mut failed = Ok(());
        pending.retain_mut(|(nth, waited, answer)| {
            if failed.is_err() {
                // Steps are done in their order: behind one that has failed, none is.
                return true;
            }
            let Poll::Ready(said) = answer.as_mut().poll(&mut context) else { return true };
            match said {
                Err(error) => failed = Err(error),
                Ok(said) => {
                    assert!(
                        !self.failed,
                        "step {nth} is answered after the committer or the keeper has failed"
                    );
                    if *waited {
                        self.answered = self.answered.max(*nth + 1);
                        self.ids.extend(said.ids);
                    }
                    self.deliveries.extend(said.deliveries);
                }
            }
            false
        });
        failed
    }

    /// Commits, and does some of what nobody waits for.
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
        let kept = store.keep_once();
        self.failed |= kept.is_err();
        kept
    }

    fn commit(&mut self, store: &Embedded) -> Result<(), Error> {
        let committed = store.commit_once();
        self.failed |= committed.is_err();
        committed.map(|_| ())
    }

    /// After a failure: if the committer or the keeper has failed nothing is answered any more, and
    /// otherwise what is answered is there.
    fn goes_on(&mut self, store: &Embedded) {
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

/// What a run left is what the script has shown after one of the steps that it may have come to.
fn check<'a>(
    disk: &SimDisk,
    clock: &FakeClock,
    told: &Told,
    chapter: &'a Chapter,
) -> (Embedded, &'a View) {
    let store = open(disk, clock).unwrap_or_else(|error| panic!("it opens: {error}; {told:?}"));
    let seen = view(&store, script().most).expect("seen");
    let may = &chapter.views[told.answered..=told.begun];
    let found = may.iter().rev().find(|view| **view == seen);
    let Some(found) = found else {
        let nth = chapter.views.iter().position(|view| *view == seen);
        panic!(
            "{told:?}: what is there was there after step {nth:?}; {:?}",
            chapter.views[told.answered].differs(&seen)
        )
    };
    (store, found)
}

/// A store that was opened again works.
fn works(store: &Embedded, disk: &SimDisk, clock: &FakeClock, told: &Told) {
    let pushed = run(store, store.push(job("new").into())).expect("pushed").into_inner();
    let Pushed::New(id) = pushed.jobs[0] else { panic!("a new job is {pushed:?}") };
    assert!(told.ids.iter().all(|old| *old < id), "{id:?} was given to a caller before");
    let claimed = run(store, store.claim(claim(100))).expect("claimed").jobs;
    let old = told.deliveries.iter().max().copied().unwrap_or_default();
    assert!(claimed.iter().all(|job| job.live.delivery.0 > old), "a delivery is given out twice");
    let mine = claimed.iter().find(|job| job.id == id).expect("it is there to claim");
    finish(store, mine);
    keep_all(store);
    let before = view(store, script().most + 1).expect("seen");
    store.close().expect("closed");
    let store = open(disk, clock).expect("opened again");
    assert_eq!(store.found().unfinished, None);
    assert!(view(&store, script().most + 1).expect("seen") == before, "closing changes nothing");
}

/// The chapters of one test.
fn share(of: usize) -> impl Iterator<Item = &'static Chapter> {
    script().chapters.iter().skip(of).step_by(SHARES)
}

/// How many calls a chapter makes.
fn calls(chapter: &Chapter, kind: Call) -> u64 {
    let (disk, clock) = (chapter.fresh(), chapter.time());
    let told = play(chapter, &disk, &clock, OnError::Stop);
    assert_eq!(told.answered, chapter.verbs.len());
    disk.count(kind)
}

fn off_at_every_call(of: usize) {
    let mut all = 0;
    for chapter in share(of) {
        let calls = calls(chapter, Call::Any);
        all += calls;
        let mut reads = 0;
        for n in 1..=calls {
            let (disk, clock) = (chapter.fresh(), chapter.time());
            disk.crash_at(n);
            let told = play(chapter, &disk, &clock, OnError::Stop);
            let is_read =
                std::mem::replace(&mut reads, disk.count(Call::Read)) < disk.count(Call::Read);
            // What a read leaves is what was there before it, so that one of several is enough.
            if is_read && !n.is_multiple_of(READS) {
                continue;
            }
            for seed in 0..3 {
                check(&disk.crash(n * 3 + seed), &clock, &told, chapter);
            }
            let after = disk.kill();
            let (store, _) = check(&after, &clock, &told, chapter);
            works(&store, &after, &clock, &told);
        }
    }
    assert!(all > 2000 / SHARES as u64, "{all} calls are too few");
}

#[test]
fn off_at_every_call_loses_nothing_1() {
    off_at_every_call(0);
}

#[test]
fn off_at_every_call_loses_nothing_2() {
    off_at_every_call(1);
}

#[test]
fn off_at_every_call_loses_nothing_3() {
    off_at_every_call(2);
}

#[test]
fn off_at_every_call_loses_nothing_4() {
    off_at_every_call(3);
}

/// Which calls of an opening change something.
fn changes(disk: &dyn Fn() -> SimDisk, clock: &FakeClock) -> Vec<u64> {
    let mut changes = vec![1];
    for kind in [Call::Write, Call::Sync, Call::Remove] {
        for n in 0.. {
            let failing = disk();
            failing.fail(Fault::AfterCalls { n, kind, error: Failure::Eio, then: Then::Once });
            if open(&failing, clock).is_ok() {
                break;
            }
            changes.push(failing.calls());
        }
    }
    changes
}

/// Goes off at every call of an opening that changes something, and opens what that left; `depth` times
/// in a row.
fn off_while_opening(
    disk: &dyn Fn() -> SimDisk,
    clock: &FakeClock,
    (told, chapter): (&Told, &Chapter),
    depth: usize,
) -> u64 {
    let mut all = 0;
    for n in changes(disk, clock) {
        let again = disk();
        again.crash_at(n);
        assert!(open(&again, clock).is_err(), "call {n} is missing");
        all += 1;
        check(&again.kill(), clock, told, chapter);
        check(&again.crash(n), clock, told, chapter);
        if depth > 1 {
            all += off_while_opening(&|| again.crash(n), clock, (told, chapter), depth - 1);
            all += off_while_opening(&|| again.kill(), clock, (told, chapter), depth - 1);
        }
    }
    all
}

fn off_at_some_calls_and_while_opening(of: usize) {
    let mut all = 0;
    for chapter in share(of) {
        for n in (1..=calls(chapter, Call::Any)).step_by(131) {
            let (disk, clock) = (chapter.fresh(), chapter.time());
            disk.crash_at(n);
            let told = play(chapter, &disk, &clock, OnError::Stop);
            all += off_while_opening(&|| disk.crash(n), &clock, (&told, chapter), 1);
            all += off_while_opening(&|| disk.kill(), &clock, (&told, chapter), 2);
        }
    }
    assert!(all > 200, "{all} calls are too few");
}

#[test]
fn off_while_opening_loses_nothing_1() {
    off_at_some_calls_and_while_opening(0);
}

#[test]
fn off_while_opening_loses_nothing_2() {
    off_at_some_calls_and_while_opening(3);
}

/// The n-th call of a kind fails, once, and all others go well.
fn fails_once(kind: Call) {
    for chapter in share(0).chain(share(1)) {
        let step = if kind == Call::Read { READS as usize } else { 1 };
        for n in (0..calls(chapter, kind)).step_by(step) {
            let (disk, clock) = (chapter.fresh(), chapter.time());
            disk.fail(Fault::AfterCalls { n, kind, error: Failure::Eio, then: Then::Once });
            let told = play(chapter, &disk, &clock, OnError::GoOn);
            for seed in 0..2 {
                check(&disk.crash(n * 2 + seed), &clock, &told, chapter);
            }
            let after = disk.kill();
            let (store, _) = check(&after, &clock, &told, chapter);
            works(&store, &after, &clock, &told);
        }
    }
}

#[test]
fn a_write_that_fails_once_ends_the_store_and_loses_nothing() {
    fails_once(Call::Write);
}

#[test]
fn a_sync_that_fails_once_ends_the_store_and_loses_nothing() {
    fails_once(Call::Sync);
}

#[test]
fn a_read_that_fails_once_loses_nothing() {
    fails_once(Call::Read);
}

#[test]
fn an_open_a_list_or_a_removal_that_fails_once_loses_nothing() {
    fails_once(Call::Open);
    fails_once(Call::List);
    fails_once(Call::Remove);
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
        let change = decide(&done.expect("it is kept"), &Event::Delete, 7).expect("it is there");
        let _ = run(&store, store.apply(vec![Write::Job(change)])).expect("applied");
        store.keep_once().expect("kept");
    }
    keep_all(&store);
    let files = disk.image();
    let (hints, logs): (Vec<_>, Vec<_>) = files.keys().partition(|name| name.starts_with("hint"));
    assert!(hints.len() < logs.len(), "{hints:?} and {logs:?}");
}
