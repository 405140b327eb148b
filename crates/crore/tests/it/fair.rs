//! Shared queues: fair keys of jobs, and changes of how a queue is shared.

use std::sync::Arc;

use crore::block_on;
use crore::core::fair::{FairField, FairKey, FairShare};
use crore::core::{Code, NewJob, Payload, Spec};
use crore::explain::Reason;
use crore::store::registry::QueueSettings;

use crate::test_engine::{MINUTE, TestEngine, code, job, name, on_both};

fn share(weights: &[(&str, u32)]) -> Option<Arc<FairShare>> {
    let by = FairField::parse("payload.tenant").expect("a field");
    let weights = weights.iter().map(|(key, weight)| ((*key).to_owned(), *weight)).collect();
    Some(Arc::new(FairShare { by, weights }))
}

fn set_share(scene: &TestEngine, fair: Option<&Arc<FairShare>>) {
    let change = |settings: &mut QueueSettings| settings.fair = fair.cloned();
    block_on(scene.engine.queues().change(name("q"), change)).expect("changed");
}

fn of(tenant: &str) -> NewJob {
    let payload = Payload::json(&format!(r#"{{"tenant":"{tenant}"}}"#));
    Spec { payload, ..job("q").spec }.into()
}

fn push(scene: &TestEngine, tenant: &str, n: usize) {
    for _ in 0..n {
        scene.push(of(tenant));
    }
}

/// The keys of the next `n` jobs, in order.
fn fetch(scene: &TestEngine, n: usize) -> String {
    let key = |job: &crore::core::Job| {
        job.spec.fair.as_ref().map_or("-".to_owned(), |key| key.as_str().to_owned())
    };
    scene.fetch_n("q", n).iter().map(key).collect()
}

#[test]
fn tenants_of_a_shared_queue_take_turns() {
    on_both(|scene| {
        set_share(scene, share(&[("b", 2)]).as_ref());
        push(scene, "a", 6);
        push(scene, "b", 6);
        assert_eq!(fetch(scene, 7), "abbabba");
        scene.push(job("q"));
        assert_eq!(fetch(scene, 1), "", "jobs without the field have one key of their own");
    });
}

#[test]
fn sharing_applies_to_jobs_that_wait_already() {
    on_both(|scene| {
        push(scene, "a", 3);
        push(scene, "b", 3);
        set_share(scene, share(&[]).as_ref());
        scene.pass(MINUTE);
        assert_eq!(fetch(scene, 4), "abab");
        set_share(scene, None);
        scene.pass(MINUTE);
        assert_eq!(fetch(scene, 2), "--");
    });
}

#[test]
fn a_restarted_engine_shares_the_queue_as_before() {
    let scene = TestEngine::embedded();
    set_share(&scene, share(&[("b", 3)]).as_ref());
    push(&scene, "a", 4);
    push(&scene, "b", 4);
    let scene = scene.restarted();
    assert_eq!(fetch(&scene, 4), "abbb");
    push(&scene, "c", 1);
    assert_eq!(fetch(&scene, 1), "c", "new jobs get their key");
}

#[test]
fn weights_out_of_range_are_refused_and_nothing_is_stored() {
    let scene = TestEngine::memory();
    for weight in [0, 1001, u32::MAX] {
        let settings = QueueSettings { fair: share(&[("a", weight)]), ..QueueSettings::default() };
        let refused = code(scene.engine.queues().set(name("q"), settings));
        assert_eq!(refused, Some(Code::CountRange), "{weight}");
    }
    assert_eq!(block_on(scene.engine.queues().get(&name("q"))).expect("settings").fair, None);
}

#[test]
fn an_explanation_names_the_share_and_the_place() {
    let scene = TestEngine::memory();
    set_share(&scene, share(&[("b", 2)]).as_ref());
    push(&scene, "a", 3);
    let first = scene.push(of("b"));
    let second = scene.push(of("b"));
    let reasons =
        |id| block_on(scene.engine.explain(id)).expect("no error").expect("it is").reasons;
    let shared = |place| Reason::Shared {
        key: FairKey::new(Some("b".into())),
        weight: 2,
        place,
        keys: 1,
        or_more: false,
    };
    assert_eq!(reasons(first), [shared(0), Reason::NoWorkerWaiting]);
    assert_eq!(reasons(second), [shared(1), Reason::NoWorkerWaiting]);
    while let Some(job) = scene.try_fetch("q").filter(|job| job.id != first) {
        scene.done(&job);
    }
    assert_eq!(reasons(second).last(), Some(&Reason::NoWorkerWaiting));
}
