//! Batches: each item of a call has its own result.

use crore::core::job::{DependencyCondition, JobRetention};
use crore::core::machine::Outcome;
use crore::core::push::{NewDependency, NewDependencyTarget};
use crore::core::retry::Retry;
use crore::core::{Name, NewJob, Payload, Spec, State};
use crore::fetch::Fetch;
use crore::finish::{Finish, FinishResult};
use crore::push::PushResult;
use crore::{Engine, block_on};

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

fn job() -> NewJob {
    let mut spec = Spec::new(name("q"), name("k"), Payload::json("{}"));
    spec.retain = JobRetention::AsQueue;
    spec.into()
}

fn after(index: usize) -> NewJob {
    let on = NewDependencyTarget::Earlier(index);
    NewJob { after: vec![NewDependency { on, needs: DependencyCondition::Success }], ..job() }
}

#[test]
fn an_invalid_job_is_left_out_and_references_of_the_batch_stay_valid() {
    let engine = Engine::memory();
    let mut bad = job();
    bad.spec.retry = Retry { max_attempts: Some(0), ..Retry::default() };
    let batch = vec![job(), bad, after(1), after(0), after(3)];
    let taken = block_on(engine.push_all(batch.into())).expect("no error").jobs;
    let [
        PushResult::New(first),
        PushResult::Invalid(why),
        PushResult::BrokenBy(1),
        PushResult::New(second),
        last,
    ] = taken.as_slice()
    else {
        panic!("{taken:?}");
    };
    assert!(why.field.starts_with("jobs[1].retry"), "{why}");
    for (id, on) in [(second, first), (&last.id().expect("stored"), second)] {
        let job = block_on(engine.get(*id)).expect("no error").expect("stored");
        assert_eq!(job.live.state, State::Waiting);
        let waits_for = format!("{:?}", job.spec.after);
        assert!(waits_for.contains(&format!("{on:?}")), "{waits_for} has {on:?}");
    }
}

#[test]
fn the_second_report_about_a_job_in_one_call_is_stale_and_the_others_count() {
    let engine = Engine::memory();
    block_on(engine.push_all(vec![job(), job()].into())).expect("no error");
    let ask = Fetch { n: 2, ..Fetch::new(name("q"), name("w")) };
    let jobs = block_on(engine.fetch(ask)).expect("no error");
    let done = |n: usize| Finish::of(&jobs[n], Outcome::Done { result: None });
    let finished = block_on(engine.deliveries().finish_all(vec![done(0), done(0), done(1)]))
        .expect("no error");
    let yes = FinishResult::Accepted { state: Some(State::Done), pushed: Vec::new() };
    assert_eq!(finished, [yes.clone(), FinishResult::Stale, yes]);
}
