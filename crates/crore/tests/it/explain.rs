//! Explanations of why a job is not running.

use crore::actions::JobAction;
use crore::block_on;
use crore::core::job::{DependencyCondition, EndReason, JobRetention};
use crore::core::limit::Limit;
use crore::core::machine::{Outcome, RetryDirective};
use crore::core::push::{GroupRef, NewDependency, NewDependencyTarget, NewGroup};
use crore::core::{Batch, JobId, Spec, State};
use crore::explain::{AwaitedDependency, AwaitedTarget, Reason};
use crore::fetch::Fetch;

use crate::test_engine::{LEASE, MINUTE, Task, TestEngine, job, name, on_both, spec, wait_for};

fn reasons(scene: &TestEngine, id: JobId) -> Vec<Reason> {
    let explained = block_on(scene.engine.explain(id)).expect("no error").expect("it exists");
    assert_eq!((explained.id, explained.state), (id, scene.state(id)));
    explained.reasons
}

#[test]
fn every_state_has_a_reason() {
    on_both(|scene| {
        let first = scene.push(job("q"));
        assert_eq!(reasons(scene, first), [Reason::NoWorkerWaiting]);
        let second = scene.push(job("q"));
        let behind = Reason::Behind { jobs: 1, or_more: false };
        assert_eq!(reasons(scene, second), [behind, Reason::NoWorkerWaiting]);
        let running = scene.fetch("q");
        let (since, lease_until) = (scene.now(), scene.now().after(LEASE));
        let worker = Some(name("w"));
        let runs = Reason::Running { since, worker, lease_until, stop: false };
        assert_eq!(reasons(scene, first), [runs]);
        let mut held = job("q");
        let on = NewDependencyTarget::Job(first);
        held.after.push(NewDependency { on, needs: DependencyCondition::Success });
        let held = scene.push(held);
        let needs = DependencyCondition::Success;
        let on = AwaitedTarget::Job(first, Some(State::Running));
        let on = vec![AwaitedDependency { needs, on }];
        assert_eq!(reasons(scene, held), [Reason::WaitsFor { left: 1, of: 1, on, broken: false }]);
        scene.finish(&running, Outcome::Snooze(MINUTE));
        let at = scene.now().after(MINUTE);
        let due = Reason::DueAt { at, after: MINUTE, attempts: 0, error: None };
        assert_eq!(reasons(scene, first), [due]);
        scene.act(second, &JobAction::Cancel);
        let ended = Reason::Ended { at: Some(scene.now()), why: Some(EndReason::Asked) };
        assert_eq!(reasons(scene, second), [ended]);
        assert_eq!(block_on(scene.engine.explain(JobId(4711))).expect("no error"), None);
    });
}

#[test]
fn a_job_that_is_held_by_a_pause_and_a_limit_says_both() {
    let scene = TestEngine::memory();
    let limit = Limit::parse("concurrency 1").expect("a limit");
    block_on(scene.engine.limits().set(name("l"), limit)).expect("set");
    let ids = [scene.push(job("q")), scene.push(job("q"))];
    scene.fetch("q");
    block_on(scene.engine.queues().pause(name("q"))).expect("paused");
    let waiter = Task::waiting(scene.engine.fetch(wait_for("q")));
    let key = scene.get(ids[1]).spec.limits[0].clone();
    let limited = Reason::Limited { key, running: 1, most: Some(1) };
    assert_eq!(reasons(&scene, ids[1]), [Reason::Paused(name("q")), limited]);
    drop(waiter);
}

#[test]
fn a_rate_limit_is_a_reason_only_while_it_holds_the_job() {
    on_both(|scene| {
        let limit = Limit::parse("rate 2/1m burst 2").expect("a limit");
        block_on(scene.engine.limits().set(name("l"), limit)).expect("set");
        let limited = |id, running| {
            let key = scene.get(id).spec.limits[0].clone();
            Reason::Limited { key, running, most: None }
        };
        // The rate has room, but no fetch waits.
        let id = scene.push(job("q"));
        assert_eq!(reasons(scene, id), [Reason::NoWorkerWaiting]);
        scene.done(&scene.fetch("q"));
        // The rate has room for one more start.
        let id = scene.push(Spec { retain: JobRetention::Nothing, ..spec("q") });
        assert_eq!(reasons(scene, id), [Reason::NoWorkerWaiting]);
        let running = scene.fetch("q");
        let id = scene.push(job("q"));
        assert_eq!(reasons(scene, id), [limited(id, 1), Reason::NoWorkerWaiting]);
        // The run of a removed job is not on record; but a waiting fetch gets nothing.
        scene.done(&running);
        let waiter = Task::waiting(scene.engine.fetch(wait_for("q")));
        assert_eq!(reasons(scene, id), [limited(id, 0)]);
        drop(waiter);
        scene.pass(MINUTE);
        assert_eq!(reasons(scene, id), [Reason::NoWorkerWaiting]);
    });
}

#[test]
fn a_fetch_for_other_jobs_does_not_count_as_waiting() {
    let scene = TestEngine::memory();
    let id = scene.push(job("q"));
    let other_kind = Fetch { kinds: Some(vec![name("other")]), ..wait_for("q") };
    let others = [
        Task::waiting(scene.engine.fetch(wait_for("other"))),
        Task::waiting(scene.engine.fetch(other_kind)),
    ];
    assert_eq!(reasons(&scene, id), [Reason::NoWorkerWaiting]);
    drop(others);
    block_on(scene.engine.queues().pause(name("q"))).expect("paused");
    let waiter = Task::waiting(scene.engine.fetch(wait_for("q")));
    assert_eq!(reasons(&scene, id), [Reason::Paused(name("q"))]);
    drop(waiter);
}

#[test]
fn a_waiting_job_names_what_it_waits_for() {
    on_both(|scene| {
        let group = NewGroup { open: true, maker: None };
        let mut member = job("q");
        member.group = Some(GroupRef::New(0));
        let (first, satisfied) = (scene.push(job("first")), scene.push(job("satisfied")));
        scene.done(&scene.fetch("satisfied"));
        let mut waits = job("then");
        let (success, end) = (DependencyCondition::Success, DependencyCondition::End);
        waits.after = vec![
            NewDependency { on: NewDependencyTarget::Job(satisfied), needs: success },
            NewDependency { on: NewDependencyTarget::Job(first), needs: success },
            NewDependency { on: NewDependencyTarget::Group(GroupRef::New(0)), needs: end },
        ];
        let batch = Batch { groups: vec![group], jobs: vec![member, waits] };
        let pushed = block_on(scene.engine.push_all(batch)).expect("pushed");
        let (id, group) = (pushed.jobs[1].id().expect("stored"), pushed.groups[0]);
        let again = RetryDirective::Never;
        let failed = Outcome::Failed { error: "no".into(), detail: None, again };
        scene.finish(&scene.fetch("first"), failed);
        scene.done(&scene.fetch("q"));
        let counts = block_on(scene.engine.groups().get(group)).expect("no error");
        assert_eq!(counts.map(|group| (group.size, group.ran, group.sealed)), Some((1, 1, false)));
        let dead = AwaitedTarget::Job(first, Some(State::Dead));
        let on = vec![
            AwaitedDependency { needs: success, on: dead },
            AwaitedDependency { needs: end, on: AwaitedTarget::Group(group, counts) },
        ];
        assert_eq!(reasons(scene, id), [Reason::WaitsFor { left: 2, of: 3, on, broken: false }]);
    });
}
