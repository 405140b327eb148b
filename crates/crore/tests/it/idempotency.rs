//! Idempotent pushes: a batch that is pushed twice under one key is stored once.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use crore::core::job::{ClientId, JobRetention};
use crore::core::push::{GroupRef, NewGroup, UnsetFields};
use crore::core::unique::{Unique, UniqueHold};
use crore::core::{Batch, Code, GroupId, JobId, NewJob, Payload, Span, Spec};
use crore::push::{BatchResult, PushResult};
use crore::{Error, IdempotencyKey, block_on};

use crate::handlers::handler;
use crate::test_engine::{SECOND, TestEngine, name, on_both};

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new("key", text).expect("a valid key")
}

fn job(payload: &str) -> NewJob {
    Spec::new(name("q"), name("k"), Payload::json(payload)).into()
}

fn jobs(payloads: &[&str]) -> Batch {
    payloads.iter().map(|payload| job(payload)).collect::<Vec<_>>().into()
}

fn try_push(scene: &TestEngine, text: &str, batch: impl Into<Batch>) -> Result<BatchResult, Error> {
    block_on(scene.engine.push_once(&key(text), batch.into()))
}

fn push(scene: &TestEngine, text: &str, batch: impl Into<Batch>) -> BatchResult {
    try_push(scene, text, batch).expect("pushed")
}

/// Expects that the key is refused, and returns its first job.
fn refused(scene: &TestEngine, text: &str, batch: impl Into<Batch>) -> Option<JobId> {
    match try_push(scene, text, batch) {
        Err(error @ Error::KeyReused { first, .. }) => {
            assert_eq!(error.code(), Code::KeyReused);
            first
        }
        other => panic!("refused, not {other:?}"),
    }
}

fn stored(scene: &TestEngine) -> u64 {
    block_on(scene.engine.jobs().counts(None)).expect("counted").iter().map(|count| count.n).sum()
}

#[test]
fn the_same_batch_under_one_key_is_stored_once_with_the_same_response() {
    on_both(|scene| {
        let first = push(scene, "k", jobs(&["1", "2"]));
        assert!(first.jobs.iter().all(|taken| matches!(taken, PushResult::New(_))), "{first:?}");
        scene.pass(SECOND);
        assert_eq!(push(scene, "k", jobs(&["1", "2"])).jobs, first.jobs);
        let other = push(scene, "other", jobs(&["1", "2"]));
        assert_ne!(other.jobs, first.jobs);
        let restarted = scene.restarted();
        assert_eq!(push(&restarted, "k", jobs(&["1", "2"])).jobs, first.jobs);
        assert_eq!(stored(scene), 4);
    });
}

#[test]
fn another_batch_under_a_used_key_is_refused_and_stores_nothing() {
    on_both(|scene| {
        let first = push(scene, "k", jobs(&["1", "2"])).jobs[0].id();
        let later = |scene: &TestEngine| {
            let mut batch = jobs(&["1", "2"]);
            batch.jobs[1].due = crore::core::job::DueTime::After(SECOND);
            refused(scene, "k", batch)
        };
        for batch in [&["1"][..], &["1", "3"], &["1", "2", "3"]] {
            assert_eq!(refused(scene, "k", jobs(batch)), first, "{batch:?}");
        }
        assert_eq!(later(scene), first, "the due time is part of the batch");
        // A new engine knows only what is stored, and cannot tell a prefix of the batch from the batch.
        for batch in [&["3"][..], &["1", "2", "3"], &["1", "2", "3", "4"]] {
            assert_eq!(refused(&scene.restarted(), "k", jobs(batch)), first, "{batch:?}");
        }
        assert_eq!(stored(scene), 2);
    });
}

#[test]
fn an_idempotency_key_is_held_for_a_day_although_its_jobs_are_removed() {
    on_both(|scene| {
        let gone = || {
            let mut job = job("1");
            job.spec.retain = JobRetention::Nothing;
            job
        };
        let first = push(scene, "k", gone()).jobs;
        let running = scene.fetch("q");
        scene.done(&running);
        assert_eq!(stored(scene), 0);
        scene.pass(Span::from_secs(24 * 3600 - 1));
        assert_eq!(push(&scene.restarted(), "k", gone()).jobs, first);
        scene.pass(SECOND);
        let again = push(&scene.restarted(), "k", gone()).jobs;
        assert!(
            matches!(again[..], [PushResult::New(id)] if Some(id) != first[0].id()),
            "{again:?}"
        );
    });
}

#[test]
fn a_job_with_a_unique_key_is_refused_under_an_idempotency_key() {
    on_both(|scene| {
        let unique = || {
            let mut job = job("1");
            let key = "mine".into();
            job.spec.unique =
                Some(Box::new(Unique { key, hold: UniqueHold::UntilEnd, window: None }));
            job
        };
        let fields = |pushes: BatchResult| -> Vec<_> {
            let field = |taken: &PushResult| match taken {
                PushResult::Invalid(invalid) => Some((invalid.code, invalid.field.clone())),
                _ => None,
            };
            pushes.jobs.iter().map(field).collect()
        };
        let malformed = |place: usize| Some((Code::Malformed, format!("jobs[{place}].unique")));
        assert_eq!(fields(push(scene, "k", unique())), [malformed(0)]);
        let mixed = || vec![job("1"), unique()];
        assert_eq!(fields(push(scene, "k", mixed())), [None, malformed(1)]);
        assert_eq!(fields(push(&scene.restarted(), "k", mixed())), [None, malformed(1)]);
        assert_eq!(stored(scene), 1);
    });
}

#[test]
fn a_repeated_batch_returns_its_group_and_its_refusals() {
    on_both(|scene| {
        let batch = || {
            let member = NewJob { group: Some(GroupRef::New(0)), ..job("1") };
            let broken = NewJob { group: Some(GroupRef::Id(GroupId(4711))), ..job("2") };
            let invalid = job("no JSON");
            Batch {
                groups: vec![NewGroup::default()],
                jobs: vec![member, broken, invalid, job("3")],
            }
        };
        let first = push(scene, "k", batch());
        assert!(matches!(
            first.jobs[..],
            [PushResult::New(_), PushResult::Broken(_), PushResult::Invalid(_), PushResult::New(_)]
        ));
        for scene in [scene, &scene.restarted()] {
            let again = push(scene, "k", batch());
            assert_eq!((again.groups, again.jobs), (first.groups.clone(), first.jobs.clone()));
        }
    });
}

#[test]
fn a_used_client_id_is_a_duplicate_each_time() {
    on_both(|scene| {
        let named = |payload: &str| {
            let mut job = job(payload);
            job.spec.client_id =
                Some(Box::new(ClientId { door: name("native"), id: "mine".into() }));
            job
        };
        let first = push(scene, "first", named("1")).jobs;
        let id = first[0].id().expect("stored");
        for scene in [scene, &scene.restarted()] {
            assert_eq!(push(scene, "second", named("1")).jobs, [PushResult::Duplicate(id)]);
            assert_eq!(push(scene, "first", named("1")).jobs, first);
        }
    });
}

#[test]
fn fields_filled_in_by_a_handler_are_not_compared() {
    on_both(|scene| {
        let mut handler = handler();
        handler.timeout = Some(Span::from_secs(7));
        block_on(scene.engine.handlers().set(name("k"), handler)).expect("set");
        let batch = || NewJob { unset: UnsetFields::ALL, ..job("1") };
        let first = push(scene, "k", batch()).jobs;
        assert_eq!(push(scene, "k", batch()).jobs, first);
        assert_eq!(push(&scene.restarted(), "k", batch()).jobs, first);
    });
}

#[test]
fn pushes_under_one_key_at_the_same_time_are_one_push() {
    let scene = TestEngine::embedded();
    let push = |n: usize| try_push(&scene, "k", vec![job("1"); n]);
    let answers: Vec<_> = std::thread::scope(|threads| {
        let all: Vec<_> = (2..6).map(|n| threads.spawn(move || push(n))).collect();
        all.into_iter().map(|push| push.join().expect("no panic")).collect()
    });
    let good: Vec<_> = answers.iter().flatten().map(|pushes| pushes.jobs.len() as u64).collect();
    assert_eq!((good.len(), stored(&scene)), (1, good[0]), "{answers:?}");
}

#[test]
fn a_dropped_caller_does_not_block_its_key() {
    let scene = TestEngine::embedded();
    let key = key("k");
    {
        let mut left = pin!(scene.engine.push_once(&key, jobs(&["1", "2"])));
        // Whether the batch was already stored does not matter.
        let _ = left.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    push(&scene, "k", jobs(&["1", "2"]));
    assert_eq!(stored(&scene), 2);
}

#[test]
fn only_short_ascii_texts_are_keys() {
    for (text, code) in [
        ("", Code::KeyEmpty),
        (&*"x".repeat(201), Code::KeyTooLong),
        ("ä", Code::KeyControl),
        ("a\nb", Code::KeyControl),
    ] {
        let invalid = IdempotencyKey::new("key", text).expect_err("no key");
        assert_eq!((invalid.code, &*invalid.field), (code, "key"), "{text}");
    }
    assert!(IdempotencyKey::new("key", &"x".repeat(200)).is_ok());
    let scene = TestEngine::memory();
    let refused = scene.engine.push("q", "1").idempotent("").wait().expect_err("no key");
    assert_eq!(refused.code(), Code::KeyEmpty);
}
