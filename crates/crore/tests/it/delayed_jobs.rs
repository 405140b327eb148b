//! Delayed jobs are handed out when they are due, whatever happens in between.

use std::sync::Arc;

use crore::core::job::DueTime;
use crore::core::machine::Outcome;
use crore::core::push::{NewDependency, NewDependencyTarget};
use crore::core::{Job, Name, NewJob, Payload, Span, Spec};
use crore::fetch::Fetch;
use crore::finish::Finish;
use crore::store::Memory;
use crore::{Engine, Options, block_on};
use crore_testkit::FakeClock;

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

fn job(after: u64) -> NewJob {
    let spec = Spec::new(name("q"), name("k"), Payload::json("{}"));
    NewJob { due: DueTime::After(Span::from_secs(after)), ..spec.into() }
}

fn fetch(engine: &Engine) -> Option<Job> {
    block_on(engine.upkeep().run_once()).expect("upkeep runs");
    let jobs = block_on(engine.fetch(Fetch::new(name("q"), name("w"))));
    jobs.expect("no error").pop()
}

fn at(clock: &FakeClock, start: crore::core::Time, seconds: u64) {
    clock.set(start.after(Span::from_secs(seconds)));
}

#[test]
fn a_dependent_job_with_a_delay_is_not_forgotten() {
    let clock = FakeClock::default();
    let memory = Arc::new(Memory::new(Arc::new(clock.clone())));
    let start = crore::core::Clock::now(&clock);
    let engine = block_on(Engine::without_thread(
        memory.clone(),
        Arc::new(clock.clone()),
        Options::default(),
    ));
    let engine = engine.expect("an engine");
    let mut waits = job(10);
    waits.after = vec![NewDependency {
        on: NewDependencyTarget::Earlier(0),
        needs: crore::core::job::DependencyCondition::Success,
    }];
    block_on(engine.push_all(vec![job(0), waits.clone(), job(5)].into())).expect("pushed");
    let first = fetch(&engine).expect("due at once");
    at(&clock, start, 5);
    assert!(fetch(&engine).is_some(), "due after five seconds");
    at(&clock, start, 6);
    let done = Outcome::Done { result: None };
    block_on(engine.finish(Finish::of(&first, done))).expect("finished");
    assert!(fetch(&engine).is_none(), "not before it is due");
    at(&clock, start, 10);
    assert!(engine.upkeep().due_at() <= start.after(Span::from_secs(10)), "upkeep runs in time");
    assert!(fetch(&engine).is_some(), "due after ten seconds");
}
