//! Limits that count costs: pushes, reports, pauses of keys, and changes of a limit.

use crore::block_on;
use crore::core::limit::{Limit, LimitKey, PauseEnd};
use crore::core::machine::{Outcome, Report};
use crore::core::{Code, Job, NewJob, Payload, Spec, State};
use crore::explain::Reason;
use crore::finish::{Finish, FinishResult};
use crore::push::PushResult;

use crate::test_engine::{MINUTE, SECOND, TestEngine, job, name, on_both};

fn set(scene: &TestEngine, text: &str) {
    let limit = Limit::parse(text).expect("a limit");
    block_on(scene.engine.limits().set(name("tokens"), limit)).expect("set");
}

fn payload(text: &str) -> NewJob {
    Spec { payload: Payload::json(text), ..job("q").spec }.into()
}

fn costing(tokens: u32) -> NewJob {
    payload(&format!(r#"{{"tokens":{tokens}}}"#))
}

fn finish(scene: &TestEngine, job: &Job, report: impl Into<Report>) {
    let finished = block_on(scene.engine.finish(Finish::of(job, report))).expect("a result");
    assert!(matches!(finished, FinishResult::Accepted { .. }), "{finished:?}");
}

fn exhausted() -> Outcome {
    Outcome::Exhausted { limit: name("tokens"), until: PauseEnd::After(MINUTE) }
}

#[test]
fn a_push_with_a_bad_cost_is_refused_and_stores_nothing() {
    on_both(|scene| {
        set(scene, "rate 100/1m cost payload.tokens");
        for bad in ["{}", r#"{"tokens":-1}"#, r#"{"tokens":1.5}"#, r#"{"tokens":101}"#] {
            let pushed = scene.push_all(vec![costing(1), payload(bad)]);
            let [PushResult::New(good), PushResult::Invalid(invalid)] = pushed.as_slice() else {
                panic!("{bad}: {pushed:?}")
            };
            assert_eq!(invalid.code, Code::CostRange, "{bad}");
            assert_eq!(invalid.field, "jobs[1].payload.tokens", "{bad}");
            assert!(invalid.message.contains("`tokens`"), "{}", invalid.message);
            assert_eq!(scene.get(*good).spec.costs, None, "a cost of one is not stored");
        }
    });
}

#[test]
fn starts_cost_what_the_payload_says_and_reports_settle_it() {
    on_both(|scene| {
        set(scene, "rate 60/1m cost payload.tokens");
        for tokens in [50, 20, 10] {
            scene.push(costing(tokens));
        }
        let first = scene.fetch_n("q", 9);
        assert_eq!(first.len(), 1);
        let mut done = Report::from(Outcome::Done { result: None });
        done.costs.insert(name("tokens"), 30);
        finish(scene, &first[0], done);
        assert_eq!(scene.fetch_n("q", 9).len(), 2, "20 were given back");
    });
}

#[test]
fn a_limit_set_later_lets_every_waiting_job_run() {
    on_both(|scene| {
        for text in ["{}", r#"{"tokens":"x"}"#, r#"{"tokens":500}"#, r#"{"tokens":3}"#] {
            scene.push(payload(text));
        }
        set(scene, "rate 60/1m burst 10 cost payload.tokens");
        scene.settle();
        let mut costs = Vec::new();
        for _ in 0..4 {
            let jobs = scene.fetch_n("q", 9);
            costs.extend(jobs.iter().map(|job| job.spec.costs.as_ref().map_or(1, |all| all[0])));
            scene.clock.advance(MINUTE);
        }
        assert_eq!(costs, [1, 1, 10, 3], "an invalid cost is one, a large one the burst");
    });
}

#[test]
fn an_exhausted_key_waits_and_costs_no_attempt() {
    on_both(|scene| {
        set(scene, "rate 60/1m cost payload.tokens");
        let id = scene.push(costing(60));
        let first = scene.fetch_n("q", 1).remove(0);
        finish(scene, &first, exhausted());
        assert_eq!(scene.fetch_n("q", 1), []);
        let job = scene.get(id);
        assert_eq!((job.live.state, job.live.attempt), (State::Ready, 0));
        let key = LimitKey { limit: name("tokens"), value: None };
        let until = scene.now().after(MINUTE);
        let why = block_on(scene.engine.explain(id)).expect("a result").expect("it exists");
        assert!(why.reasons.contains(&Reason::KeyPaused { key, until }), "{why:?}");
        let paused = scene.engine.limits().paused_keys(Some(name("tokens")), 9);
        assert_eq!(block_on(paused).expect("a result").len(), 1);
        scene.clock.advance(MINUTE);
        assert_eq!(scene.fetch_n("q", 1).len(), 1);
    });
}

#[test]
fn setting_a_limit_ends_its_pauses() {
    on_both(|scene| {
        set(scene, "concurrency 3");
        scene.push(job("q"));
        let first = scene.fetch_n("q", 1).remove(0);
        finish(scene, &first, exhausted());
        assert_eq!(scene.fetch_n("q", 1), []);
        set(scene, "concurrency 2");
        assert_eq!(scene.fetch_n("q", 1).len(), 1);
    });
}

#[test]
fn without_such_a_limit_only_the_job_waits() {
    on_both(|scene| {
        scene.push(job("q"));
        let first = scene.fetch_n("q", 1).remove(0);
        scene.push(job("q"));
        finish(scene, &first, exhausted());
        let other = scene.fetch_n("q", 9);
        assert!(other.len() == 1 && other[0].id != first.id);
        scene.clock.advance(MINUTE);
        scene.clock.advance(SECOND);
        scene.settle();
        assert_eq!(scene.fetch_n("q", 1).len(), 1);
    });
}
