//! What is due later becomes ready, whoever made it so, and whether or not he waited for the answer.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use crore::act::Act;
use crore::fetch::Fetch;
use crore::finish::Finish;
use crore::{Engine, Options};
use crore_conformance::sim_disk::SimDisk;
use crore_core::job::{Needs, When};
use crore_core::machine::{Again, Outcome, Report};
use crore_core::push::{After, AfterRef};
use crore_core::schedule::{Missed, Timing};
use crore_core::{Batch, Clock, Encoding, Job, JobId, Name, NewJob, Payload, Span, Spec, State};
use crore_store::embedded::{self, Embedded};
use crore_testkit::FakeClock;

const SECOND: Span = Span::from_secs(1);

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a name")
}

fn job(due: When) -> NewJob {
    let spec = Spec::new(name("q"), name("k"), Payload::new(Encoding::Bytes, Vec::new()));
    NewJob { due, ..spec.into() }
}

/// An engine on a store that does nothing by itself, and the clock of both.
struct ByHand {
    clock: FakeClock,
    store: Arc<Embedded>,
    engine: Engine,
}

impl ByHand {
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
        let by_hand = Self { clock, store, engine: made.expect("an engine") };
        by_hand.keep_up();
        by_hand
    }

    /// Runs a call to its end, with all the commits that it needs.
    fn run<T>(&self, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(answer) = call.as_mut().poll(&mut context) {
                return answer;
            }
            self.store.commit_once().expect("a good disk");
        }
    }

    /// A call is begun, and its caller is gone before the answer.
    fn begin<T>(&self, call: impl Future<Output = T>) {
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(call).as_mut().poll(&mut context).is_pending(), "it waits for a commit");
        self.store.commit_once().expect("a good disk");
    }

    fn push(&self, jobs: Vec<NewJob>) -> Vec<JobId> {
        let pushed = self.run(self.engine.push_all(Batch { groups: Vec::new(), jobs }));
        pushed.expect("pushed").jobs.iter().filter_map(crore::push::Taken::id).collect()
    }

    /// Upkeep is done as long as it says that there is something to do.
    fn keep_up(&self) {
        while self.engine.upkeep().due_at() <= self.clock.now() {
            self.run(self.engine.upkeep().run_once()).expect("upkeep");
        }
    }

    fn pass(&self, span: Span) {
        self.clock.advance(span);
        self.keep_up();
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
fn a_push_whose_caller_is_gone_becomes_ready_in_its_time() {
    let by_hand = ByHand::new();
    let jobs = vec![job(When::After(SECOND))];
    by_hand.begin(by_hand.engine.push_all(Batch { groups: Vec::new(), jobs }));
    by_hand.keep_up();
    by_hand.pass(SECOND);
    assert!(by_hand.fetch().is_some());
}

#[test]
fn a_failure_whose_reporter_is_gone_is_retried_in_its_time() {
    let by_hand = ByHand::new();
    by_hand.push(vec![job(When::Now)]);
    let fetched = by_hand.fetch().expect("a job");
    let again = Again::After(SECOND);
    let failed = Outcome::Failed { error: "it broke".into(), detail: None, again };
    by_hand.begin(by_hand.engine.finish(Finish::of(&fetched, failed)));
    by_hand.keep_up();
    by_hand.pass(SECOND);
    assert_eq!(by_hand.fetch().map(|job| job.id), Some(fetched.id));
}

#[test]
fn who_waits_for_a_job_is_told_although_its_reporter_is_gone() {
    let by_hand = ByHand::new();
    let id = by_hand.push(vec![job(When::Now)])[0];
    let fetched = by_hand.fetch().expect("a job");
    by_hand.store.commit_once().expect("a good disk");
    let mut wait = pin!(by_hand.engine.wait(id, SECOND.times(3600)));
    let woken = Arc::new(Flag::default());
    let waker = Waker::from(Arc::clone(&woken));
    assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    by_hand.begin(by_hand.engine.finish(Finish::of(&fetched, Outcome::Done { result: None })));
    by_hand.keep_up();
    assert!(woken.0.load(Ordering::Relaxed), "upkeep has looked, and tells him");
    let ended = by_hand.run(wait).expect("no error").expect("it has ended");
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
fn a_follow_up_becomes_ready_in_its_time() {
    let by_hand = ByHand::new();
    by_hand.push(vec![job(When::Now)]);
    let fetched = by_hand.fetch().expect("a job");
    let on_done = vec![job(When::After(SECOND))];
    by_hand.finish(&fetched, Report { on_done, ..done() });
    by_hand.keep_up();
    assert_eq!(by_hand.fetch(), None, "not yet");
    by_hand.pass(SECOND);
    assert!(by_hand.fetch().is_some());
}

#[test]
fn a_job_that_is_due_later_than_what_it_waits_for_becomes_ready_in_its_time() {
    let by_hand = ByHand::new();
    let mut later = job(When::After(SECOND.times(10)));
    later.after.push(After { on: AfterRef::Earlier(0), needs: Needs::End });
    let ids = by_hand.push(vec![job(When::Now), later]);
    // Upkeep comes by when the second is due, and cannot do anything: it waits for the first.
    by_hand
        .run(by_hand.engine.jobs().act(ids[1].into(), &Act::Change(to_minute())))
        .expect("changed");
    by_hand.pass(SECOND.times(10));
    let fetched = by_hand.fetch().expect("the first");
    by_hand.finish(&fetched, done());
    by_hand.keep_up();
    assert_eq!(by_hand.fetch(), None, "not yet");
    by_hand.pass(SECOND.times(60));
    assert_eq!(by_hand.fetch().map(|job| job.id), Some(ids[1]));
}

/// The first job ends while upkeep looks for jobs that wait: the second does not wait any more, and was not
/// scheduled before.
#[test]
fn a_job_that_is_released_while_upkeep_looks_becomes_ready_in_its_time() {
    let by_hand = ByHand::new();
    let mut later = job(When::After(SECOND.times(10)));
    later.after.push(After { on: AfterRef::Earlier(0), needs: Needs::End });
    let ids = by_hand.push(vec![job(When::Now), later]);
    by_hand
        .run(by_hand.engine.jobs().act(ids[1].into(), &Act::Change(to_minute())))
        .expect("changed");
    by_hand.clock.advance(SECOND.times(10));
    let fetched = by_hand.fetch().expect("the first");
    let mut context = Context::from_waker(Waker::noop());
    {
        let mut upkeep = pin!(by_hand.engine.upkeep().run_once());
        assert!(upkeep.as_mut().poll(&mut context).is_pending(), "its look waits for a commit");
        by_hand.finish(&fetched, done());
        by_hand.run(upkeep).expect("upkeep");
    }
    by_hand.keep_up();
    by_hand.pass(SECOND.times(60));
    assert_eq!(by_hand.fetch().map(|job| job.id), Some(ids[1]));
}

/// The store decides before the instant of the follow-up, and answers after it.
#[test]
fn a_follow_up_whose_instant_passes_before_the_answer_becomes_ready() {
    let by_hand = ByHand::new();
    by_hand.push(vec![job(When::Now)]);
    let fetched = by_hand.fetch().expect("a job");
    by_hand.keep_up();
    let on_done = vec![job(When::At(by_hand.clock.now().after(SECOND)))];
    let report = Report { on_done, ..done() };
    let (id, delivery) = (fetched.id, Some(fetched.live.delivery));
    let mut finish = pin!(by_hand.engine.finish(Finish { job: id.into(), delivery, report }));
    let mut context = Context::from_waker(Waker::noop());
    assert!(finish.as_mut().poll(&mut context).is_pending(), "it waits for a commit");
    by_hand.clock.advance(SECOND.times(2));
    by_hand.run(finish).expect("finished");
    by_hand.keep_up();
    assert!(by_hand.fetch().is_some(), "it is due");
}

fn to_minute() -> crore::act::Other {
    let due = Some(When::After(SECOND.times(60)));
    crore::act::Other { due, ..crore::act::Other::default() }
}

#[test]
fn a_job_of_a_schedule_that_is_due_after_its_tick_becomes_ready_in_its_time() {
    let by_hand = ByHand::new();
    let timing = Timing::parse("timing", "every 1h").expect("a timing");
    let late = job(When::After(SECOND.times(5)));
    let set = by_hand.engine.schedules().set(name("s"), timing, Missed::Skip, late);
    by_hand.run(set).expect("set");
    by_hand.keep_up();
    by_hand.pass(SECOND.times(3600));
    let waits = by_hand.engine.upkeep().due_at().since(by_hand.clock.now());
    assert!(waits <= SECOND.times(5), "upkeep knows when its job is due, and not in {waits:?}");
    by_hand.pass(SECOND.times(5));
    assert!(by_hand.fetch().is_some());
}

#[test]
fn upkeep_that_is_left_in_the_middle_is_done_the_next_time() {
    let by_hand = ByHand::new();
    by_hand.push(vec![job(When::Now)]);
    let fetched = by_hand.fetch().expect("a job");
    by_hand.clock.advance(fetched.spec.lease.expect("a lease"));
    by_hand.begin(by_hand.engine.upkeep().run_once());
    assert!(by_hand.engine.upkeep().due_at() <= by_hand.clock.now(), "it is still to be done");
    by_hand.keep_up();
    let job = by_hand.run(by_hand.engine.get(fetched.id)).expect("no error").expect("it is there");
    assert_ne!(job.live.state, State::Running, "its lease was taken back");
}

/// Somebody who waits for a job, and whether he has left.
fn waits(engine: &Engine, left: &Arc<AtomicBool>) -> impl Future<Output = Vec<Job>> {
    let (engine, left) = (engine.clone(), Arc::clone(left));
    async move {
        let ask = Fetch { wait: SECOND, ..Fetch::new(name("q"), name("w")) };
        let leaves = poll_fn(|_| match left.load(Ordering::Relaxed) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        });
        engine.deliveries().fetch_unless(ask, leaves).await.expect("fetched")
    }
}

#[test]
fn who_leaves_while_he_waits_is_given_nothing_and_holds_up_nobody() {
    let here = ByHand::new();
    let left = Arc::new(AtomicBool::new(false));
    let mut waiting = pin!(waits(&here.engine, &left));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    assert_eq!(here.engine.deliveries().waiting(), 1);
    left.store(true, Ordering::Relaxed);
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(Vec::new()));
    assert_eq!(here.engine.deliveries().waiting(), 0);
    let ids = here.push(vec![job(When::Now)]);
    assert_eq!(here.fetch().map(|job| job.id), ids.first().copied());
}

#[test]
fn who_leaves_while_a_job_is_taken_for_him_is_given_it() {
    let here = ByHand::new();
    let left = Arc::new(AtomicBool::new(false));
    let batch = Batch { groups: Vec::new(), jobs: vec![job(When::Now)] };
    let mut pushing = pin!(here.engine.push_all(batch));
    let mut context = Context::from_waker(Waker::noop());
    assert!(pushing.as_mut().poll(&mut context).is_pending(), "it waits for a commit");
    // The job is his when its push is on the disk.
    let mut waiting = pin!(waits(&here.engine, &left));
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    left.store(true, Ordering::Relaxed);
    assert_eq!(here.run(waiting).len(), 1);
}
