//! Jobs that are not started by their deadline expire in time, with their follow-ups.

use std::sync::Arc;
use std::time::Duration;

use crore::actions::{ActionResult, JobAction};
use crore::core::job::{EndReason, StartDeadline};
use crore::core::limit::Limit;
use crore::core::machine::{Outcome, RetryDirective};
use crore::core::schedule::{Missed, Timing};
use crore::core::{Clock, Job, JobId, Name, NewJob, Payload, Span, Spec, State, Time};
use crore::fetch::Fetch;
use crore::finish::Finish;
use crore::store::Memory;
use crore::{Engine, Error, Options, block_on};
use crore_testkit::FakeClock;

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

fn job(queue: &str) -> NewJob {
    Spec::new(name(queue), name("k"), Payload::json("{}")).into()
}

struct Scene {
    clock: FakeClock,
    engine: Engine,
}

impl Scene {
    fn new() -> Self {
        let clock = FakeClock::default();
        let memory = Arc::new(Memory::new(Arc::new(clock.clone())));
        let engine = Engine::without_thread(memory, Arc::new(clock.clone()), Options::default());
        Self { clock, engine: block_on(engine).expect("an engine") }
    }

    fn now(&self) -> Time {
        Clock::now(&self.clock)
    }

    fn upkeep(&self) {
        while self.engine.upkeep().due_at() <= self.now() {
            block_on(self.engine.upkeep().run_once()).expect("upkeep runs");
        }
    }

    /// Advances the clock, and runs upkeep only if it is planned by then.
    fn advance(&self, seconds: u64) {
        self.clock.advance(Span::from_secs(seconds));
        self.upkeep();
    }

    fn push(&self, job: NewJob) -> JobId {
        let pushed = block_on(self.engine.push_all(job.into())).expect("pushed");
        pushed.jobs[0].id().expect("stored")
    }

    fn job(&self, id: JobId) -> Job {
        block_on(self.engine.get(id)).expect("read").expect("it exists")
    }

    fn fetch(&self, queue: &str) -> Option<Job> {
        let jobs = block_on(self.engine.fetch(Fetch::new(name(queue), name("w"))));
        jobs.expect("no error").pop()
    }
}

fn expired(job: &Job) -> bool {
    (job.live.state, job.live.why) == (State::Cancelled, Some(EndReason::Expired))
}

#[test]
fn a_job_expires_at_its_deadline_and_pushes_its_follow_up() {
    let scene = Scene::new();
    let pushed = scene.engine.push("q", "1").start_within(Duration::from_secs(10));
    let id = pushed.retain().on_expired(job("late")).wait().expect("pushed");
    scene.advance(9);
    assert_eq!(scene.job(id).live.state, State::Ready);
    assert!(scene.engine.upkeep().due_at() <= scene.now().after(Span::from_secs(1)), "planned");
    scene.advance(1);
    assert!(expired(&scene.job(id)));
    let follow_up = scene.fetch("late").expect("pushed with the end");
    assert_eq!(follow_up.spec.parent, Some((id, 0)));
    assert!(scene.fetch("late").is_none() && scene.fetch("q").is_none());
}

#[test]
fn a_deadline_in_the_past_expires_a_job_at_once() {
    let scene = Scene::new();
    let id = scene.engine.push("q", "1").deadline(Time::ZERO).wait().expect("accepted");
    assert!(scene.fetch("q").is_none(), "never handed out");
    scene.upkeep();
    assert!(expired(&scene.job(id)));
}

#[test]
fn a_started_job_has_met_its_deadline() {
    let scene = Scene::new();
    let deadline = Some(StartDeadline::Within(Span::from_secs(10)));
    scene.push(NewJob { deadline, ..job("q") });
    let running = scene.fetch("q").expect("in time");
    scene.advance(20);
    let again = RetryDirective::After(Span::from_secs(5));
    let failed = Outcome::Failed { error: "no".into(), detail: None, again };
    block_on(scene.engine.finish(Finish::of(&running, failed))).expect("reported");
    scene.advance(5);
    assert_eq!(scene.fetch("q").map(|job| job.id), Some(running.id), "retried after the deadline");
}

#[test]
fn an_expired_job_can_be_retried_by_hand() {
    let scene = Scene::new();
    let deadline = Some(StartDeadline::Within(Span::from_secs(10)));
    let id = scene.push(NewJob { deadline, ..job("q") });
    scene.advance(10);
    let retried = block_on(scene.engine.jobs().act(id.into(), &JobAction::Retry));
    assert_eq!(retried.expect("retried"), ActionResult::Applied(Some(State::Ready)));
    scene.advance(100);
    assert_eq!(scene.fetch("q").map(|job| job.id), Some(id), "without a deadline");
}

#[test]
fn a_follow_up_has_the_limits_of_the_time_at_which_it_is_pushed() {
    let scene = Scene::new();
    let deadline = Some(StartDeadline::Within(Span::from_secs(10)));
    let mut expiring = NewJob { deadline, ..job("q") };
    expiring.spec.on_expired = Some(Box::new(job("late")));
    scene.push(expiring);
    let limit = Limit::parse("where queue = \"late\" concurrency 0").expect("a limit");
    block_on(scene.engine.limits().set(name("l"), limit)).expect("set");
    scene.advance(10);
    assert!(scene.fetch("late").is_none(), "the limit was defined after the push");
}

#[test]
fn an_explanation_has_the_deadline() {
    let scene = Scene::new();
    let deadline = Some(StartDeadline::Within(Span::from_secs(10)));
    let id = scene.push(NewJob { deadline, ..job("q") });
    let explained = block_on(scene.engine.explain(id)).expect("read").expect("it exists");
    assert_eq!(explained.deadline, Some(scene.now().after(Span::from_secs(10))));
}

#[test]
fn an_invalid_deadline_is_refused_with_its_field() {
    let scene = Scene::new();
    let late = scene.engine.push("q", "1").after(Duration::from_secs(60));
    let refused = late.start_within(Duration::from_secs(60)).wait().expect_err("never starts");
    assert!(refused.to_string().starts_with("start-within: "), "{refused}");
    let refused = scene.engine.push("q", "1").on_expired(job("late")).wait();
    let refused = refused.expect_err("there is no deadline");
    assert!(refused.to_string().starts_with("on-expired: "), "{refused}");
}

#[test]
fn a_scheduled_job_must_start_within_a_span_of_its_tick() {
    let scene = Scene::new();
    let timing = || Timing::parse("timing", "every 60s").expect("a timing");
    let deadline = |deadline| NewJob { deadline: Some(deadline), ..job("q") };
    let schedules = scene.engine.schedules();
    let at = deadline(StartDeadline::At(Time::MAX));
    let refused = block_on(schedules.set(name("s"), timing(), Missed::All, at));
    let Err(Error::Invalid(refused)) = refused else { panic!("accepted: {refused:?}") };
    assert_eq!(refused.field, "job.deadline");
    let within = deadline(StartDeadline::Within(Span::from_secs(90)));
    block_on(schedules.set(name("s"), timing(), Missed::All, within)).expect("set");
    // Some ticks were missed, and the first is more than 90 s ago.
    scene.clock.advance(Span::from_secs(170));
    scene.upkeep();
    let counts = block_on(scene.engine.jobs().counts(None)).expect("counted");
    let count =
        |state| counts.iter().filter(|one| one.state == state).map(|one| one.n).sum::<u64>();
    assert!(count(State::Cancelled) > 0 && count(State::Ready) > 0, "{counts:?}");
    while let Some(started) = scene.fetch("q") {
        let deadline = started.live.due.after(Span::from_secs(90));
        assert!(deadline > scene.now(), "{started:?}");
    }
}
