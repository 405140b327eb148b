//! Jobs that are due later become ready on time, whichever call scheduled them and whether or not its caller waited
//! for the answer.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use crore::actions::JobAction;
use crore::fetch::Fetch;
use crore::finish::Finish;
use crore::{Engine, Options};
use crore_conformance::sim_disk::SimDisk;
use crore_core::job::{DependencyCondition, DueTime};
use crore_core::machine::{Outcome, Report, RetryDirective};
use crore_core::push::{NewDependency, NewDependencyTarget};
use crore_core::schedule::{Missed, Timing};
use crore_core::{Batch, Clock, Encoding, Job, JobId, Name, NewJob, Payload, Span, Spec, State};
use crore_store::embedded::{self, Embedded};
use crore_testkit::FakeClock;

const SECOND: Span = Span::from_secs(1);

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a name")
}

fn job(due: DueTime) -> NewJob {
    let spec = Spec::new(name("q"), name("k"), Payload::new(Encoding::Bytes, Vec::new()));
    NewJob { due, ..spec.into() }
}

/// An engine on an embedded store without threads, and the clock of both.
struct SteppedEngine {
    clock: FakeClock,
    store: Arc<Embedded>,
    engine: Engine,
}

impl SteppedEngine {
    fn new() -> Self {
        let clock = FakeClock::default();
        let options = embedded::Options::default();
        let disk = Arc::new(SimDisk::new(1));
        let store = Embedded::open_on(disk, Arc::new(clock.clone()), options).expect("opened");
        let store = Arc::new(store);
        let made = crore::block_on(Engine::without_thread(
            store.clone(),
            Arc::new(clock.clone()),
            Options::default(),
        ));
        let stepped = Self { clock, store, engine: made.expect("an engine") };
        stepped.run_upkeep();
        stepped
    }

    /// Runs a call to completion, and commits as often as it needs.
    fn run<T>(&self, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(answer) = call.as_mut().poll(&mut context) {
                return answer;
            }
            self.store.commit_once().expect("no disk error");
        }
    }

    /// Starts a call and drops it before the store answers.
    fn start_and_drop<T>(&self, call: impl Future<Output = T>) {
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(call).as_mut().poll(&mut context).is_pending(), "it waits for a commit");
        self.store.commit_once().expect("no disk error");
    }

    fn push(&self, jobs: Vec<NewJob>) -> Vec<JobId> {
        let pushed = self.run(self.engine.push_all(Batch { groups: Vec::new(), jobs }));
        pushed.expect("pushed").jobs.iter().filter_map(crore::push::PushResult::id).collect()
    }

    /// Runs upkeep until nothing is due.
    fn run_upkeep(&self) {
        while self.engine.upkeep().due_at() <= self.clock.now() {
            self.run(self.engine.upkeep().run_once()).expect("upkeep");
        }
    }

    fn pass(&self, span: Span) {
        self.clock.advance(span);
        self.run_upkeep();
    }

    fn fetch(&self) -> Option<Job> {
        let fetched = self.run(self.engine.fetch(Fetch::new(name("q"), name("w"))));
        fetched.expect("fetched").pop()
    }

    fn finish(&self, job: &Job, report: Report) {
        let delivery = Some(job.live.delivery);
        let finish = Finish { job: job.id.into(), delivery, report };
        self.run(self.engine.finish(finish)).expect("finished");
    }
}

fn done() -> Report {
    Outcome::Done { result: None }.into()
}

#[test]
fn a_job_pushed_by_a_dropped_caller_becomes_ready_when_due() {
    let stepped = SteppedEngine::new();
    let jobs = vec![job(DueTime::After(SECOND))];
    stepped.start_and_drop(stepped.engine.push_all(Batch { groups: Vec::new(), jobs }));
    stepped.run_upkeep();
    stepped.pass(SECOND);
    assert!(stepped.fetch().is_some());
}

#[test]
fn a_failure_is_retried_when_due_although_its_reporter_is_gone() {
    let stepped = SteppedEngine::new();
    stepped.push(vec![job(DueTime::Now)]);
    let fetched = stepped.fetch().expect("a job");
    let again = RetryDirective::After(SECOND);
    let failed = Outcome::Failed { error: "it broke".into(), detail: None, again };
    stepped.start_and_drop(stepped.engine.finish(Finish::of(&fetched, failed)));
    stepped.run_upkeep();
    stepped.pass(SECOND);
    assert_eq!(stepped.fetch().map(|job| job.id), Some(fetched.id));
}

#[test]
fn a_waiting_caller_is_notified_although_the_reporter_is_gone() {
    let stepped = SteppedEngine::new();
    let id = stepped.push(vec![job(DueTime::Now)])[0];
    let fetched = stepped.fetch().expect("a job");
    stepped.store.commit_once().expect("no disk error");
    let mut wait = pin!(stepped.engine.wait(id, SECOND.times(3600)));
    let woken = Arc::new(Flag::default());
    let waker = Waker::from(Arc::clone(&woken));
    assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    stepped.start_and_drop(
        stepped.engine.finish(Finish::of(&fetched, Outcome::Done { result: None })),
    );
    stepped.run_upkeep();
    assert!(woken.0.load(Ordering::Relaxed), "upkeep reads the job and wakes the caller");
    let ended = stepped.run(wait).expect("no error").expect("it has ended");
    assert_eq!(ended.state, Some(State::Done));
}

#[derive(Debug, Default)]
struct Flag(AtomicBool);

impl std::task::Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_follow_up_becomes_ready_when_due() {
    let stepped = SteppedEngine::new();
    stepped.push(vec![job(DueTime::Now)]);
    let fetched = stepped.fetch().expect("a job");
    let on_done = vec![job(DueTime::After(SECOND))];
    stepped.finish(&fetched, Report { on_done, ..done() });
    stepped.run_upkeep();
    assert_eq!(stepped.fetch(), None, "not yet");
    stepped.pass(SECOND);
    assert!(stepped.fetch().is_some());
}

#[test]
fn a_job_due_after_its_dependency_ends_becomes_ready_when_due() {
    let stepped = SteppedEngine::new();
    let mut later = job(DueTime::After(SECOND.times(10)));
    later.after.push(NewDependency {
        on: NewDependencyTarget::Earlier(0),
        needs: DependencyCondition::End,
    });
    let ids = stepped.push(vec![job(DueTime::Now), later]);
    // Upkeep runs when the second job is due, and cannot promote it: the job waits for the first.
    stepped
        .run(stepped.engine.jobs().act(ids[1].into(), &JobAction::Change(due_in_a_minute())))
        .expect("changed");
    stepped.pass(SECOND.times(10));
    let fetched = stepped.fetch().expect("the first");
    stepped.finish(&fetched, done());
    stepped.run_upkeep();
    assert_eq!(stepped.fetch(), None, "not yet");
    stepped.pass(SECOND.times(60));
    assert_eq!(stepped.fetch().map(|job| job.id), Some(ids[1]));
}

/// The first job ends while upkeep checks for waiting jobs: the second job no longer waits, and was not scheduled
/// before.
#[test]
fn a_job_released_during_upkeep_becomes_ready_when_due() {
    let stepped = SteppedEngine::new();
    let mut later = job(DueTime::After(SECOND.times(10)));
    later.after.push(NewDependency {
        on: NewDependencyTarget::Earlier(0),
        needs: DependencyCondition::End,
    });
    let ids = stepped.push(vec![job(DueTime::Now), later]);
    stepped
        .run(stepped.engine.jobs().act(ids[1].into(), &JobAction::Change(due_in_a_minute())))
        .expect("changed");
    stepped.clock.advance(SECOND.times(10));
    let fetched = stepped.fetch().expect("the first");
    let mut context = Context::from_waker(Waker::noop());
    {
        let mut upkeep = pin!(stepped.engine.upkeep().run_once());
        assert!(upkeep.as_mut().poll(&mut context).is_pending(), "its read waits for a commit");
        stepped.finish(&fetched, done());
        stepped.run(upkeep).expect("upkeep");
    }
    stepped.run_upkeep();
    stepped.pass(SECOND.times(60));
    assert_eq!(stepped.fetch().map(|job| job.id), Some(ids[1]));
}

/// The store decides before the instant of the follow-up, and answers after it.
#[test]
fn a_follow_up_that_is_due_before_the_response_becomes_ready() {
    let stepped = SteppedEngine::new();
    stepped.push(vec![job(DueTime::Now)]);
    let fetched = stepped.fetch().expect("a job");
    stepped.run_upkeep();
    let on_done = vec![job(DueTime::At(stepped.clock.now().after(SECOND)))];
    let report = Report { on_done, ..done() };
    let (id, delivery) = (fetched.id, Some(fetched.live.delivery));
    let mut finish = pin!(stepped.engine.finish(Finish { job: id.into(), delivery, report }));
    let mut context = Context::from_waker(Waker::noop());
    assert!(finish.as_mut().poll(&mut context).is_pending(), "it waits for a commit");
    stepped.clock.advance(SECOND.times(2));
    stepped.run(finish).expect("finished");
    stepped.run_upkeep();
    assert!(stepped.fetch().is_some(), "it is due");
}

fn due_in_a_minute() -> crore::actions::JobChanges {
    let due = Some(DueTime::After(SECOND.times(60)));
    crore::actions::JobChanges { due, ..crore::actions::JobChanges::default() }
}

#[test]
fn a_scheduled_job_that_is_due_after_its_tick_becomes_ready_when_due() {
    let stepped = SteppedEngine::new();
    let timing = Timing::parse("timing", "every 1h").expect("a timing");
    let late = job(DueTime::After(SECOND.times(5)));
    let set = stepped.engine.schedules().set(name("s"), timing, Missed::Skip, late);
    stepped.run(set).expect("set");
    stepped.run_upkeep();
    stepped.pass(SECOND.times(3600));
    let waits = stepped.engine.upkeep().due_at().since(stepped.clock.now());
    assert!(waits <= SECOND.times(5), "upkeep wakes up when its job is due, not after {waits:?}");
    stepped.pass(SECOND.times(5));
    assert!(stepped.fetch().is_some());
}

#[test]
fn dropped_upkeep_is_completed_by_the_next_run() {
    let stepped = SteppedEngine::new();
    stepped.push(vec![job(DueTime::Now)]);
    let fetched = stepped.fetch().expect("a job");
    stepped.clock.advance(fetched.spec.lease.expect("a lease"));
    stepped.start_and_drop(stepped.engine.upkeep().run_once());
    assert!(stepped.engine.upkeep().due_at() <= stepped.clock.now(), "it is still due");
    stepped.run_upkeep();
    let job = stepped.run(stepped.engine.get(fetched.id)).expect("no error").expect("it exists");
    assert_ne!(job.live.state, State::Running, "its lease was taken back");
}

/// A fetch that waits for a job, until `left` is set.
fn fetch_until_left(engine: &Engine, left: &Arc<AtomicBool>) -> impl Future<Output = Vec<Job>> {
    let (engine, left) = (engine.clone(), Arc::clone(left));
    async move {
        let ask = Fetch { wait: SECOND, ..Fetch::new(name("q"), name("w")) };
        let leaves = poll_fn(|_| match left.load(Ordering::Relaxed) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        });
        engine.deliveries().fetch_with_cancel(ask, leaves).await.expect("fetched")
    }
}

#[test]
fn a_cancelled_wait_gets_no_job_and_delays_no_other_fetch() {
    let here = SteppedEngine::new();
    let left = Arc::new(AtomicBool::new(false));
    let mut waiting = pin!(fetch_until_left(&here.engine, &left));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    assert_eq!(here.engine.deliveries().waiting(), 1);
    left.store(true, Ordering::Relaxed);
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(Vec::new()));
    assert_eq!(here.engine.deliveries().waiting(), 0);
    let ids = here.push(vec![job(DueTime::Now)]);
    assert_eq!(here.fetch().map(|job| job.id), ids.first().copied());
}

#[test]
fn a_fetch_cancelled_during_a_claim_gets_the_job() {
    let here = SteppedEngine::new();
    let left = Arc::new(AtomicBool::new(false));
    let batch = Batch { groups: Vec::new(), jobs: vec![job(DueTime::Now)] };
    let mut pushing = pin!(here.engine.push_all(batch));
    let mut context = Context::from_waker(Waker::noop());
    assert!(pushing.as_mut().poll(&mut context).is_pending(), "it waits for a commit");
    // The fetch gets the job when its push is on the disk.
    let mut waiting = pin!(fetch_until_left(&here.engine, &left));
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    left.store(true, Ordering::Relaxed);
    assert_eq!(here.run(waiting).len(), 1);
}
