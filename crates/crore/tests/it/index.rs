//! Searches by index: labels, errors, and payload fields that a queue indexes.

use std::sync::Arc;

use crore::actions::{JobAction, JobChanges};
use crore::block_on;
use crore::core::machine::{Outcome, RetryDirective};
use crore::core::{
    Code, Fingerprint, IndexKey, IndexedField, JobId, NewJob, Payload, QueueIndex, SearchFilter,
    Spec, State,
};
use crore::search::{JobSearch, SearchBudget};
use crore::store::registry::QueueSettings;

use crate::test_engine::{MINUTE, SECOND, TestEngine, code, job, jobs, name, on_both, spec};

fn index(fields: &[&str]) -> Option<Arc<QueueIndex>> {
    let fields = fields.iter().map(|text| IndexedField::parse(text).expect("a field"));
    Some(Arc::new(QueueIndex::new(fields.collect()).expect("an index")))
}

fn set_index(scene: &TestEngine, fields: &[&str]) {
    let change = |settings: &mut QueueSettings| settings.index = index(fields);
    block_on(scene.engine.queues().change(name("q"), change)).expect("changed");
}

fn is_complete(scene: &TestEngine) -> bool {
    let settings = block_on(scene.engine.queues().get(&name("q"))).expect("settings");
    settings.index.expect("an index").is_complete()
}

fn of(customer: &str) -> NewJob {
    Spec { payload: Payload::json(&format!(r#"{{"customer":{customer}}}"#)), ..spec("q") }.into()
}

fn search(text: &str, n: usize) -> JobSearch {
    let filter = SearchFilter::parse("q", text).expect(text);
    JobSearch { filter, within: None, after: None, n, budget: SearchBudget::default() }
}

/// The ids of all pages, and the number of jobs read.
fn all(scene: &TestEngine, text: &str, n: usize) -> (Vec<JobId>, usize) {
    let (mut ids, mut scanned, mut search) = (Vec::new(), 0, search(text, n));
    loop {
        let found = block_on(scene.engine.search(&search)).expect("searched");
        ids.extend(found.jobs.iter().map(|job| job.id));
        scanned += found.scanned;
        search.after = found.next;
        if search.after.is_none() {
            return (ids, scanned);
        }
    }
}

fn fail(scene: &TestEngine, error: &str) -> JobId {
    let job = scene.fetch("q");
    let again = RetryDirective::Never;
    scene.finish(&job, Outcome::Failed { error: error.into(), detail: None, again });
    job.id
}

#[test]
fn an_indexed_field_finds_its_jobs_without_reading_others() {
    on_both(|scene| {
        set_index(scene, &["payload.customer", "payload.a.b"]);
        scene.pass(SECOND);
        assert!(is_complete(scene));
        scene.push_all(jobs("q", 300));
        let number = scene.push(of("42"));
        let text = scene.push(of(r#""42""#));
        let other = scene.push(of("7"));
        scene.push_all(jobs("q", 300));
        for n in [1, 2, 100] {
            assert_eq!(all(scene, "queue:q payload.customer=42", n), (vec![number, text], 2));
        }
        assert_eq!(all(scene, "queue:q payload.customer=\"42\"", 9), (vec![text], 1));
        assert_eq!(all(scene, "queue:q payload.customer=42.0,7", 9), (vec![number, other], 2));
        assert_eq!(all(scene, "queue:q payload.customer=42 state:dead", 9), (vec![], 0));
        let (ids, scanned) = all(scene, "payload.customer=42", 9);
        assert_eq!((ids, scanned), (vec![number, text], 603), "other queues may have no index");
        let (ids, scanned) = all(scene, "queue:q payload.customer=null", 9);
        assert_eq!((ids, scanned), (vec![], 603), "null has no key");
        let (ids, _) = all(scene, "queue:q -payload.customer=42 payload.customer=7", 9);
        assert_eq!(ids, [other]);
    });
}

#[test]
fn jobs_that_were_pushed_before_are_added_in_every_state() {
    on_both(|scene| {
        let pushed: Vec<JobId> = (0..6).map(|_| scene.push(of("1"))).collect();
        let later = scene.push(NewJob { due: crore::core::job::DueTime::After(MINUTE), ..of("1") });
        let done = scene.fetch("q");
        scene.done(&done);
        fail(scene, "no");
        scene.act(pushed[2], &JobAction::Cancel);
        let running = scene.fetch("q");
        scene.push_all(jobs("q", 750));
        scene.push_all(jobs("q", 750));
        let revision = scene.get(pushed[0]).live.revision;
        set_index(scene, &["payload.customer"]);
        assert!(!is_complete(scene));
        let (ids, scanned) = all(scene, "queue:q payload.customer=1", 9);
        assert_eq!((ids.len(), scanned), (7, 1507), "an incomplete index is not used");
        scene.pass(SECOND);
        assert!(is_complete(scene));
        let (ids, scanned) = all(scene, "queue:q payload.customer=1", 3);
        let expected = [later, pushed[4], pushed[5], running.id, done.id, pushed[1], pushed[2]];
        assert_eq!((ids, scanned), (expected.to_vec(), 7));
        assert!(scene.get(pushed[0]).live.revision > revision);
        // The job of a worker that did not notice is reported as before.
        scene.done(&running);
        assert_eq!(all(scene, "queue:q payload.customer=1 state:done", 9).0, [running.id, done.id]);
        set_index(scene, &[]);
        scene.pass(SECOND);
        assert_eq!(scene.get(done.id).spec.index, None, "the keys are removed");
        let settings = block_on(scene.engine.queues().get(&name("q"))).expect("settings");
        assert_eq!(settings.index, None);
    });
}

#[test]
fn a_field_that_stays_indexed_stays_usable() {
    let scene = TestEngine::memory();
    set_index(&scene, &["payload.customer"]);
    scene.pass(SECOND);
    let id = scene.push(of("1"));
    scene.push_all(jobs("q", 10));
    set_index(&scene, &["payload.other", "payload.customer"]);
    assert_eq!(all(&scene, "queue:q payload.customer=1", 9), (vec![id], 1));
    assert_eq!(all(&scene, "queue:q payload.other=1", 9), (vec![], 11));
    scene.pass(SECOND);
    assert_eq!(all(&scene, "queue:q payload.other=1", 9), (vec![], 0));
    // Other settings change nothing.
    block_on(scene.engine.queues().pause(name("q"))).expect("paused");
    assert!(is_complete(&scene));
}

#[test]
fn an_index_is_completed_after_a_restart() {
    let scene = TestEngine::embedded();
    let ids: Vec<JobId> = (0..3).map(|_| scene.push(of("1"))).collect();
    set_index(&scene, &["payload.customer"]);
    let scene = scene.restarted();
    assert!(!is_complete(&scene));
    scene.pass(SECOND);
    assert!(is_complete(&scene));
    assert_eq!(all(&scene, "queue:q payload.customer=1", 9), (ids.clone(), 3));
    let scene = scene.restarted();
    assert_eq!(all(&scene, "queue:q payload.customer=1", 9), (ids, 3), "it stays complete");
}

#[test]
fn labels_and_errors_are_indexed_in_all_queues() {
    on_both(|scene| {
        let labelled = |queue: &str, team: &str| {
            let mut job = job(queue);
            job.spec.labels.insert("team".to_owned(), team.to_owned());
            job
        };
        let first = scene.push(labelled("q", "a"));
        scene.push_all(jobs("q", 200));
        let other = scene.push(labelled("r", "a"));
        let third = scene.push(labelled("r", "b"));
        assert_eq!(all(scene, "label:team=a", 9), (vec![first, other], 2));
        assert_eq!(all(scene, "label:team=a,team=b queue:r", 1), (vec![other, third], 2));
        assert_eq!(all(scene, "label:team=a*", 9).1, 203, "a pattern has no key");
        assert_eq!(fail(scene, "timeout after 3s"), first);
        let fingerprint = Fingerprint::of("timeout after 77s");
        assert_eq!(all(scene, &format!("error={fingerprint}"), 9), (vec![first], 1));
        assert_eq!(all(scene, &format!("error={fingerprint} label:team=b"), 9), (vec![], 1));
        scene.act(first, &JobAction::Retry);
        assert_eq!(scene.state(first), State::Ready);
        assert_eq!(all(scene, &format!("error={fingerprint}"), 9), (vec![first], 1));
    });
}

/// A job with several of the keys is in several lists.
#[test]
fn a_job_is_found_once_whatever_labels_it_has() {
    on_both(|scene| {
        let mut both = job("q");
        for team in ["a", "b", "c"] {
            both.spec.labels.insert(team.to_owned(), "x".to_owned());
        }
        let mut many = job("q");
        for n in 0..20 {
            many.spec.labels.insert(format!("l{n}"), "x".to_owned());
        }
        many.spec.labels.insert("a".to_owned(), "x".to_owned());
        let (both, many) = (scene.push(both), scene.push(many));
        for n in [1, 2, 9] {
            let mut found = all(scene, "label:a=x,b=x,c=x,d=x", n).0;
            found.sort_unstable();
            assert_eq!(found, [both, many], "{n} at once");
        }
        assert_eq!(all(scene, "label:l3=x", 9).0, [many]);
    });
}

#[test]
fn a_page_does_not_continue_in_an_index_that_is_gone() {
    let scene = TestEngine::memory();
    set_index(&scene, &["payload.customer"]);
    scene.pass(SECOND);
    for _ in 0..3 {
        scene.push(of("1"));
    }
    let mut search = search("queue:q payload.customer=1", 2);
    search.after = block_on(scene.engine.search(&search)).expect("searched").next;
    assert!(search.after.is_some());
    set_index(&scene, &[]);
    assert_eq!(code(scene.engine.search(&search)), Some(Code::CursorInvalid));
    // A scan continues, although there is an index now.
    search.after = None;
    search.after = block_on(scene.engine.search(&search)).expect("searched").next;
    set_index(&scene, &["payload.customer"]);
    scene.pass(SECOND);
    let rest = block_on(scene.engine.search(&search)).expect("searched");
    assert_eq!((rest.jobs.len(), rest.next), (1, None));
}

#[test]
fn an_edited_job_is_found_in_its_new_queue() {
    let scene = TestEngine::memory();
    set_index(&scene, &["payload.customer"]);
    scene.pass(SECOND);
    let id = scene.push(NewJob::from(Spec { queue: name("other"), ..of("1").spec }));
    assert_eq!(scene.get(id).spec.index, None);
    let change = JobChanges { queue: Some(name("q")), ..JobChanges::default() };
    scene.act(id, &JobAction::Change(change));
    assert_eq!(all(&scene, "queue:q payload.customer=1", 9), (vec![id], 1));
    assert_eq!(scene.get(id).spec.index.as_ref().map(|keys: &Arc<[IndexKey]>| keys.len()), Some(1));
}

#[cfg(feature = "bug-drill")]
#[test]
fn planted_bugs_of_the_index_are_detected() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    let detected = |bug: &'static str, test: fn()| {
        crore::store::bug::arm(bug);
        let is_detected = catch_unwind(AssertUnwindSafe(test)).is_err();
        crore::store::bug::arm("");
        assert!(is_detected, "{bug} is not detected");
    };
    detected("bug-32", jobs_that_were_pushed_before_are_added_in_every_state);
    detected("bug-34", a_job_is_found_once_whatever_labels_it_has);
    detected("bug-63", jobs_that_were_pushed_before_are_added_in_every_state);
}
