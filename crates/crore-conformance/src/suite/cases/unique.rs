//! One job per unique key while its lock is held; and client ids.

use crore_core::job::{JobRetention, Lapse};
use crore_core::machine::{JobEdit, JobEvent, Outcome, RetryDirective};
use crore_core::unique::UniqueHold;
use crore_core::{JobId, NewJob, Span};
use crore_store::jobs::Pushed;

use super::super::job_builder::{MILLI, MINUTE, NewJobBuilder, SECOND, job, name};
use super::super::subject::{JobsSubject, StoreSubject, expect_ok, failed};

/// Every way to hold a key except by a window alone.
const HOLDS: [UniqueHold; 3] =
    [UniqueHold::UntilStart, UniqueHold::UntilSuccess, UniqueHold::UntilEnd];

fn keyed(hold: UniqueHold) -> NewJob {
    job("q").unique("key", hold)
}

async fn assert_taken_by(s: &JobsSubject, id: JobId, why: &str) {
    assert_eq!(s.try_push(keyed(UniqueHold::UntilEnd)).await, Pushed::Duplicate(id), "{why}");
}

/// Checks that the key is free, by pushing a job that is then removed.
async fn assert_free(s: &JobsSubject, why: &str) {
    match s.try_push(keyed(UniqueHold::UntilEnd)).await {
        Pushed::New(id) => s.apply_to_current(id, &JobEvent::Delete).await,
        other => panic!("{why}: the key is free, not {other:?}"),
    };
}

pub(in super::super) async fn a_duplicate_is_answered_with_the_first_and_changes_nothing(
    s: &JobsSubject,
) {
    let first = s.push(keyed(UniqueHold::UntilEnd)).await;
    let before = s.job(first).await;
    s.advance(SECOND);
    let other = job("elsewhere").kind("other").priority(-5).unique("key", UniqueHold::UntilStart);
    assert_eq!(s.try_push(other).await, Pushed::Duplicate(first), "keys share one namespace");
    assert_eq!(s.job(first).await, before);
    assert_eq!(s.claim_ids(&["elsewhere"], 9).await, [], "the second is not stored");
    assert_eq!(s.claim_ids(&["q"], 9).await, [first]);
}

pub(in super::super) async fn one_of_two_concurrent_pushes_is_the_duplicate(s: &JobsSubject) {
    for n in 0..10 {
        let new = || job("q").unique(&format!("key {n}"), UniqueHold::UntilEnd);
        let (a, b) = tokio::join!(s.try_push(new()), s.try_push(new()));
        assert_eq!(a.id(), b.id(), "both return the same job");
        let stored = [a, b].iter().filter(|answer| matches!(answer, Pushed::New(_))).count();
        assert_eq!(stored, 1, "{a:?} and {b:?}");
    }
}

pub(in super::super) async fn a_key_held_until_the_start_is_free_when_claimed(s: &JobsSubject) {
    let first = s.push(keyed(UniqueHold::UntilStart)).await;
    assert_taken_by(s, first, "it waits").await;
    let running = s.claim_one("q").await;
    let second = s.push(keyed(UniqueHold::UntilEnd)).await;
    s.done(&running).await;
    assert_taken_by(s, second, "the end of the first releases nothing that it does not hold").await;
}

pub(in super::super) async fn a_key_held_until_success_outlives_death(s: &JobsSubject) {
    let running = s.start(keyed(UniqueHold::UntilSuccess)).await;
    assert_taken_by(s, running.id, "it runs").await;
    s.fail_for_good(&running).await;
    assert_taken_by(s, running.id, "it is dead").await;
    s.apply_to_current(running.id, &JobEvent::Retry).await;
    s.done(&s.claim_one("q").await).await;
    assert_free(s, "it is done").await;
}

pub(in super::super) async fn a_key_held_until_the_end_is_free_after_any_end(s: &JobsSubject) {
    let ends = [Outcome::Done { result: None }, failed(RetryDirective::Never), Outcome::Cancel];
    for outcome in ends {
        let running = s.start(keyed(UniqueHold::UntilEnd)).await;
        assert_taken_by(s, running.id, "it runs").await;
        s.finish_as_decided(&running, outcome).await;
        assert_free(s, "it has ended").await;
    }
}

pub(in super::super) async fn a_retry_keeps_the_lock(s: &JobsSubject) {
    for hold in [UniqueHold::UntilSuccess, UniqueHold::UntilEnd] {
        let new = keyed(hold).with(|job| job.spec.lapse = Lapse::Crash { quarantine: None });
        let id = s.push(new).await;
        let ends = [
            Outcome::Interrupted,
            Outcome::Snooze(Span::ZERO),
            failed(RetryDirective::After(Span::ZERO)),
        ];
        for outcome in ends {
            let running = s.claim_one("q").await;
            s.finish_as_decided(&running, outcome).await;
            assert_taken_by(s, id, "it comes back").await;
        }
        let running = s.claim_one("q").await;
        s.apply_as_decided(&running, &JobEvent::Lapsed(running.live.delivery)).await;
        assert_taken_by(s, id, "its worker crashed").await;
        s.apply_to_current(id, &JobEvent::Delete).await;
    }
}

pub(in super::super) async fn a_key_is_free_after_cancel_and_delete(s: &JobsSubject) {
    for hold in HOLDS {
        for event in [JobEvent::Cancel, JobEvent::Delete] {
            for new in [keyed(hold), keyed(hold).later(MINUTE)] {
                let id = s.push(new).await;
                assert_taken_by(s, id, "it waits").await;
                s.apply_to_current(id, &event).await;
                assert_free(s, "it will not run").await;
            }
        }
    }
    let running = s.start(keyed(UniqueHold::UntilSuccess)).await;
    s.fail_for_good(&running).await;
    s.apply_to_current(running.id, &JobEvent::Delete).await;
    assert_free(s, "the dead one was removed").await;
}

pub(in super::super) async fn a_key_is_free_after_its_job_is_done_without_retention(
    s: &JobsSubject,
) {
    for hold in HOLDS {
        let new = keyed(hold).with(|job| job.spec.retain = JobRetention::Nothing);
        s.done(&s.start(new).await).await;
        assert_free(s, "it is done and gone").await;
    }
}

pub(in super::super) async fn a_window_ends_a_lock_in_every_state(s: &JobsSubject) {
    for hold in
        [UniqueHold::UntilStart, UniqueHold::UntilSuccess, UniqueHold::UntilEnd, UniqueHold::Window]
    {
        let id = s.push(job("q").window("key", hold, MINUTE)).await;
        s.advance(Span::from_millis(59_999));
        assert_taken_by(s, id, "within the window").await;
        s.advance(MILLI);
        assert_free(s, "the window is over").await;
        s.apply_to_current(id, &JobEvent::Delete).await;
    }
}

pub(in super::super) async fn a_window_counts_from_the_due_time(s: &JobsSubject) {
    let id = s.push(job("q").later(MINUTE).window("key", UniqueHold::Window, SECOND)).await;
    s.advance(MINUTE);
    assert_taken_by(s, id, "it is only just due").await;
    s.advance(SECOND);
    assert_free(s, "a second after it was due").await;
}

pub(in super::super) async fn an_idempotency_key_outlives_its_job(s: &JobsSubject) {
    let new = job("q").window("key", UniqueHold::Window, MINUTE);
    let gone = s.start(new.with(|job| job.spec.retain = JobRetention::Nothing)).await;
    assert_taken_by(s, gone.id, "it runs").await;
    s.done(&gone).await;
    assert_eq!(s.find(gone.id).await, None);
    assert_taken_by(s, gone.id, "pushes within the window are one push").await;
    s.advance(MINUTE);
    assert_free(s, "the window is over").await;
}

pub(in super::super) async fn a_job_releases_no_lock_but_its_own(s: &JobsSubject) {
    let first = s.push(job("q").window("key", UniqueHold::UntilEnd, SECOND)).await;
    s.advance(SECOND);
    let second = s.push(keyed(UniqueHold::UntilEnd)).await;
    s.apply_to_current(first, &JobEvent::Delete).await;
    assert_taken_by(s, second, "the first lost it to time").await;
}

pub(in super::super) async fn an_unusual_key_is_distinct(s: &JobsSubject) {
    let mut keys = super::push::odd_names();
    keys.push("k".repeat(256));
    let new = |key: &String| job("q").unique(key, UniqueHold::UntilEnd).client("native", key);
    let ids = s.push_all(keys.iter().map(new).collect()).await;
    for (key, id) in keys.iter().zip(ids) {
        let again = s.try_push(job("q").unique(key, UniqueHold::UntilEnd)).await;
        assert_eq!(again, Pushed::Duplicate(id), "key `{key}`");
        let again = s.try_push(job("q").client("native", key)).await;
        assert_eq!(again, Pushed::Duplicate(id), "client id `{key}`");
    }
}

pub(in super::super) async fn a_client_id_is_unique_within_its_door(s: &JobsSubject) {
    let mine = |door| job("q").client(door, "mine");
    let first = s.push(mine("native")).await;
    let other = s.push(mine("faktory")).await;
    assert_eq!(s.try_push(mine("native")).await, Pushed::Duplicate(first));
    assert_eq!(s.try_push(mine("faktory")).await, Pushed::Duplicate(other));
    let keyed = s.push(job("q").unique("mine", UniqueHold::UntilEnd)).await;
    assert!(keyed > other, "a client id is no unique key");
}

pub(in super::super) async fn a_client_id_refers_to_its_job_until_removed(s: &JobsSubject) {
    let mine = || job("q").client("native", "mine");
    let first = s.start(mine()).await;
    s.done(&first).await;
    assert_eq!(
        s.try_push(mine()).await,
        Pushed::Duplicate(first.id),
        "it is done and still stored"
    );
    s.apply_to_current(first.id, &JobEvent::Delete).await;
    s.push(mine()).await;
}

/// An edit that moves a job keeps its unique key.
pub(in super::super) async fn a_moved_job_keeps_its_key(s: &JobsSubject) {
    let id = s.push(keyed(UniqueHold::UntilEnd)).await;
    let mut spec = (*s.job(id).await.spec).clone();
    spec.queue = name("r");
    s.apply_to_current(id, &JobEvent::Edit(JobEdit { spec: Some(spec.into()), due: None })).await;
    assert_taken_by(s, id, "it was only moved").await;
}

pub(in super::super) async fn holders_are_named_in_order_and_reserve_nothing(s: &JobsSubject) {
    let keys = super::push::odd_names();
    let new = |key: &String| job("q").unique(key, UniqueHold::UntilEnd).client("native", "mine");
    let first = s.push(job("q").unique(&keys[0], UniqueHold::UntilEnd)).await;
    let second = s.push(new(&keys[1])).await;
    let asked = [&keys[1], &keys[2], &keys[0], &keys[1]];
    let expected = [Some(second), None, Some(first), Some(second)];
    assert_eq!(s.holders(&asked.map(String::as_str)).await, expected);
    assert_eq!(s.holders(&["mine", "native"]).await, [None, None], "a client id is no unique key");
    assert_eq!(s.holders(&[]).await, []);
    s.push(job("q").unique(&keys[2], UniqueHold::UntilEnd)).await;
}

pub(in super::super) async fn an_ended_job_is_named_as_long_as_it_holds_its_key(s: &JobsSubject) {
    let dead = s.start(keyed(UniqueHold::UntilSuccess)).await;
    s.fail_for_good(&dead).await;
    assert_eq!(s.holders(&["key"]).await, [Some(dead.id)], "a dead job may be retried");
    let done = s.start(job("q").window("done", UniqueHold::Window, MINUTE)).await;
    s.done(&done).await;
    assert_eq!(s.holders(&["done"]).await, [Some(done.id)], "the key is held within its window");
    let new = job("q").window("gone", UniqueHold::Window, MINUTE);
    let gone = s.start(new.with(|job| job.spec.retain = JobRetention::Nothing)).await;
    s.done(&gone).await;
    assert_eq!(s.find(gone.id).await, None);
    assert_eq!(s.holders(&["gone"]).await, [Some(gone.id)], "the key outlives its job");
    let ended = s.start(job("q").unique("ended", UniqueHold::UntilEnd)).await;
    s.fail_for_good(&ended).await;
    assert_eq!(s.holders(&["ended"]).await, [None]);
}

pub(in super::super) async fn a_key_is_free_after_its_window(s: &JobsSubject) {
    for hold in [UniqueHold::UntilEnd, UniqueHold::Window] {
        let id = s.push(job("q").window("key", hold, MINUTE)).await;
        s.advance(Span::from_millis(59_999));
        assert_eq!(s.holders(&["key"]).await, [Some(id)], "{hold:?}");
        s.advance(MILLI);
        assert_eq!(s.holders(&["key"]).await, [None], "{hold:?}");
        s.apply_to_current(id, &JobEvent::Delete).await;
    }
}

pub(in super::super) async fn a_key_is_free_after_its_job_is_removed(s: &JobsSubject) {
    for hold in HOLDS {
        let id = s.push(keyed(hold)).await;
        assert_eq!(s.holders(&["key"]).await, [Some(id)], "{hold:?}");
        s.apply_to_current(id, &JobEvent::Delete).await;
        assert_eq!(s.holders(&["key"]).await, [None], "{hold:?}");
    }
    let claimed = s.start(keyed(UniqueHold::UntilStart)).await;
    assert_eq!(s.holders(&["key"]).await, [None], "{:?} has started", claimed.id);
}

pub(in super::super) async fn an_expired_lock_is_pruned(s: &StoreSubject) {
    let new = || job("q").window("key", UniqueHold::Window, MINUTE);
    let id = s.push(new()).await;
    expect_ok(s.store.prune(100)).await;
    assert_eq!(s.try_push(new()).await, Pushed::Duplicate(id), "not before it is due");
    s.advance(MINUTE);
    let pruned = expect_ok(s.store.prune(100)).await;
    assert_eq!((pruned.jobs, pruned.others), (0, 1));
    s.push(new()).await;
}
