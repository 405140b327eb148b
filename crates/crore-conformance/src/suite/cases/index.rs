//! Index keys: a list by key has the jobs of the list without it that have the key, in the same order.

use std::collections::BTreeSet;

use crore_core::index::MAX_INDEXED_LABELS;
use crore_core::job::{DependencyCondition, DueTime};
use crore_core::machine::{JobEdit, JobEvent, Outcome, RetryDirective};
use crore_core::push::NewDependencyTarget;
use crore_core::{Fingerprint, IndexKey, Job, JobId, NewJob, Spec, State};
use crore_store::jobs::{Renew, StoreWrite};
use crore_store::registry::QueueSettings;
use crore_store::views::ListQuery;

use super::super::job_builder::{MINUTE, NewJobBuilder, SECOND, job, name};
use super::super::subject::{StoreSubject, change, expect_ok, failed, finished, ids};

/// Index keys of payloads, as the engine computes them.
const RED: IndexKey = IndexKey(7);
const BLUE: IndexKey = IndexKey(u64::MAX);

fn keyed(queue: &str, keys: &[IndexKey]) -> NewJob {
    job(queue).with(|job| job.spec.index = (!keys.is_empty()).then(|| keys.into()))
}

fn labelled(queue: &str, value: &str) -> NewJob {
    job(queue).with(|job| {
        job.spec.labels.insert("team".to_owned(), value.to_owned());
    })
}

fn query(state: State, n: usize) -> ListQuery {
    ListQuery { state, queue: None, kind: None, key: None, after: None, n }
}

async fn listed(s: &StoreSubject, mut query: ListQuery) -> Vec<Job> {
    let mut found = Vec::new();
    for _ in 0..100 {
        let page = expect_ok(s.store.list(query.clone())).await;
        assert!(page.jobs.len() <= query.n, "no page is larger than asked for");
        found.extend(page.jobs);
        query.after = page.next;
        if query.after.is_none() {
            return found;
        }
    }
    panic!("the list has no end");
}

async fn found(s: &StoreSubject, state: State, key: IndexKey) -> Vec<JobId> {
    ids(&listed(s, ListQuery { key: Some(key), ..query(state, 100) }).await)
}

/// Checks every list by key against the list without it.
async fn agree(s: &StoreSubject) {
    let error = IndexKey::error(Fingerprint::of("it broke"));
    let label = |value| IndexKey::label("team", value);
    let keys = [RED, BLUE, error, label("a"), label("b"), IndexKey::MANY_LABELS, IndexKey(0)];
    for state in State::ALL {
        let all = listed(s, query(state, 100)).await;
        let mut queues: BTreeSet<_> = all.iter().map(|job| Some(job.spec.queue.clone())).collect();
        queues.insert(None);
        for key in keys {
            for queue in &queues {
                let has = |job: &&Job| {
                    let is_there = queue.as_ref().is_none_or(|queue| job.spec.queue == *queue);
                    is_there && IndexKey::of_job(job).contains(&key)
                };
                let expected: Vec<Job> = all.iter().filter(has).cloned().collect();
                for n in [1, 2, 100] {
                    let query =
                        ListQuery { key: Some(key), queue: queue.clone(), ..query(state, n) };
                    assert_eq!(listed(s, query).await, expected, "{state:?} {key:?} by {n}");
                }
            }
        }
    }
}

pub(in super::super) async fn jobs_are_found_by_label_and_payload_key(s: &StoreSubject) {
    if !s.store.has_index() {
        return;
    }
    let new = vec![
        keyed("q", &[RED, BLUE]),
        keyed("q", &[BLUE]).priority(-1),
        job("q"),
        labelled("r", "a").kind("other"),
        labelled("q", "b").priority(3),
        labelled("q", "a").with(|job| job.spec.index = Some([RED].into())),
    ];
    let p = s.push_all(new).await;
    assert_eq!(found(s, State::Ready, RED).await, [p[0], p[5]]);
    assert_eq!(found(s, State::Ready, BLUE).await, [p[1], p[0]]);
    assert_eq!(found(s, State::Ready, IndexKey::label("team", "a")).await, [p[3], p[5]]);
    assert_eq!(found(s, State::Ready, IndexKey::label("team", "c")).await, []);
    assert_eq!(found(s, State::Dead, RED).await, []);
    let of_kind = |kind| ListQuery {
        key: Some(IndexKey::label("team", "a")),
        kind: Some(name(kind)),
        ..query(State::Ready, 9)
    };
    assert_eq!(ids(&listed(s, of_kind("other")).await), [p[3]]);
    assert_eq!(ids(&listed(s, of_kind("work")).await), [p[5]]);
    agree(s).await;
}

pub(in super::super) async fn a_job_is_found_in_its_state_after_every_transition(s: &StoreSubject) {
    if !s.store.has_index() {
        return;
    }
    let new = |team: &str| labelled("q", team).with(|job| job.spec.index = Some([RED].into()));
    let first = s.push(new("a")).await;
    let waiting = new("b").after(NewDependencyTarget::Job(first), DependencyCondition::End);
    let waiting = s.push(waiting).await;
    let later = s.push(new("a").later(SECOND)).await;
    agree(s).await;
    let running = s.claim_one("q").await;
    agree(s).await;
    let (id, delivery) = (running.id, running.live.delivery);
    expect_ok(s.store.renew(vec![Renew { id, delivery, span: Some(MINUTE) }])).await;
    agree(s).await;
    let running = s.find(id).await.expect("a job");
    s.finish_as_decided(&running, failed(RetryDirective::After(SECOND))).await;
    agree(s).await;
    s.advance(SECOND);
    expect_ok(s.store.promote(9)).await;
    agree(s).await;
    assert_eq!(found(s, State::Ready, RED).await, [first, later]);
    let running = s.claim(&["q"], 2).await;
    s.done(&running[0]).await;
    agree(s).await;
    assert_eq!(found(s, State::Ready, RED).await, [waiting]);
    s.fail_for_good(&running[1]).await;
    assert_eq!(found(s, State::Dead, IndexKey::error(Fingerprint::of("it broke"))).await, [later]);
    assert_eq!(found(s, State::Running, RED).await, []);
    agree(s).await;
    s.apply_to_current(later, &JobEvent::Retry).await;
    agree(s).await;
    s.apply_to_current(later, &JobEvent::Cancel).await;
    agree(s).await;
    s.apply_to_current(waiting, &JobEvent::Delete).await;
    agree(s).await;
    let settings = QueueSettings { max_done: 0, max_dead: 0, ..QueueSettings::default() };
    s.set_queue("q", settings).await;
    expect_ok(s.store.prune(9)).await;
    for state in State::ALL {
        assert_eq!(found(s, state, RED).await, []);
    }
}

pub(in super::super) async fn a_changed_job_is_found_under_its_new_keys_only(s: &StoreSubject) {
    if !s.store.has_index() {
        return;
    }
    let ready = s.push(keyed("q", &[RED])).await;
    let edit = |change: &dyn Fn(&mut Spec), job: &Job| {
        let mut spec = Spec::clone(&job.spec);
        change(&mut spec);
        JobEvent::Edit(JobEdit { spec: Some(spec.into()), due: None })
    };
    let to_other = |spec: &mut Spec| {
        spec.index = Some([BLUE].into());
        spec.queue = name("r");
        spec.labels.insert("team".to_owned(), "a".to_owned());
    };
    let found_job = s.find(ready).await.expect("a job");
    s.apply_as_decided(&found_job, &edit(&to_other, &found_job)).await;
    assert_eq!(found(s, State::Ready, RED).await, []);
    assert_eq!(found(s, State::Ready, BLUE).await, [ready]);
    agree(s).await;
    let due = Some(DueTime::After(MINUTE));
    s.apply_to_current(ready, &JobEvent::Edit(JobEdit { spec: None, due })).await;
    agree(s).await;
    s.apply_to_current(ready, &JobEvent::Retry).await;
    // In every other state, only the keys change.
    let running = s.claim_one("r").await;
    s.apply_to_current(running.id, &JobEvent::Index(Some([RED, BLUE].into()))).await;
    agree(s).await;
    assert_eq!(found(s, State::Running, RED).await, [ready]);
    let running = s.find(ready).await.expect("a job");
    s.fail_for_good(&running).await;
    s.apply_to_current(ready, &JobEvent::Index(None)).await;
    agree(s).await;
    assert_eq!(found(s, State::Dead, BLUE).await, []);
    s.apply_to_current(ready, &JobEvent::Index(Some([BLUE].into()))).await;
    assert_eq!(found(s, State::Dead, BLUE).await, [ready]);
    agree(s).await;
}

pub(in super::super) async fn a_job_is_found_by_its_newest_error_only(s: &StoreSubject) {
    if !s.store.has_index() {
        return;
    }
    let id = s.push(job("q")).await;
    let key = |error: &str| IndexKey::error(Fingerprint::of(error));
    for n in 0..3 {
        let running = s.claim_one("q").await;
        let error = if n == 1 { "timeout after 5s" } else { "it broke" };
        let again = RetryDirective::After(crore_core::Span::ZERO);
        let outcome = Outcome::Failed { error: error.into(), detail: None, again };
        let write = StoreWrite::Job(change(&running, &finished(&running, outcome)));
        s.write(write).await;
        let (one, other) = (key("it broke"), key("timeout after 99s"));
        let expected = if n == 1 { (vec![], vec![id]) } else { (vec![id], vec![]) };
        let now = (found(s, State::Ready, one).await, found(s, State::Ready, other).await);
        assert_eq!(now, expected, "after failure {n}");
        agree(s).await;
    }
    // Deliveries without an error push it out of the history.
    for _ in 0..crore_core::job::MAX_HISTORY {
        let running = s.claim_one("q").await;
        s.finish_as_decided(&running, Outcome::Interrupted).await;
    }
    assert_eq!(found(s, State::Ready, key("it broke")).await, []);
    agree(s).await;
}

pub(in super::super) async fn a_job_with_many_labels_is_found_under_one_key(s: &StoreSubject) {
    if !s.store.has_index() {
        return;
    }
    let many = (0..=MAX_INDEXED_LABELS).map(|n| (format!("l{n}"), "v".to_owned()));
    let job = job("q").with(|job| job.spec.labels = many.collect());
    let id = s.push(job).await;
    assert_eq!(found(s, State::Ready, IndexKey::MANY_LABELS).await, [id]);
    assert_eq!(found(s, State::Ready, IndexKey::label("l0", "v")).await, []);
    s.claim_one("q").await;
    agree(s).await;
}
