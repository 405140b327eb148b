//! One job per unique key, for as long as its lock is held; and client ids.

use crore_core::job::{Lapse, Retain};
use crore_core::machine::{Again, Edit, Event, Outcome};
use crore_core::unique::Hold;
use crore_core::{JobId, NewJob, Span};
use crore_store::jobs::Pushed;

use super::super::draft::{Draft, MILLI, MINUTE, SECOND, job, name};
use super::super::subject::{Few, Whole, failed, got};

/// Every way to hold a key but by a window alone.
const HOLDS: [Hold; 3] = [Hold::UntilStart, Hold::UntilSuccess, Hold::UntilEnd];

fn keyed(hold: Hold) -> NewJob {
    job("q").unique("key", hold)
}

async fn taken_by(s: &Few, id: JobId, why: &str) {
    assert_eq!(s.offer(keyed(Hold::UntilEnd)).await, Pushed::Duplicate(id), "{why}");
}

/// The key is free; the job that shows it is removed again.
async fn free(s: &Few, why: &str) {
    match s.offer(keyed(Hold::UntilEnd)).await {
        Pushed::New(id) => s.happens_to(id, &Event::Delete).await,
        other => panic!("{why}: the key is free, not {other:?}"),
    };
}

pub(in super::super) async fn a_duplicate_is_answered_with_the_first_and_changes_nothing(s: &Few) {
    let first = s.push(keyed(Hold::UntilEnd)).await;
    let before = s.job(first).await;
    s.pass(SECOND);
    let other = job("elsewhere").kind("other").priority(-5).unique("key", Hold::UntilStart);
    assert_eq!(s.offer(other).await, Pushed::Duplicate(first), "keys live in one space");
    assert_eq!(s.job(first).await, before);
    assert_eq!(s.claim_ids(&["elsewhere"], 9).await, [], "the second is not stored");
    assert_eq!(s.claim_ids(&["q"], 9).await, [first]);
}

pub(in super::super) async fn of_two_pushes_at_once_one_is_the_duplicate(s: &Few) {
    for n in 0..10 {
        let new = || job("q").unique(&format!("key {n}"), Hold::UntilEnd);
        let (a, b) = tokio::join!(s.offer(new()), s.offer(new()));
        assert_eq!(a.id(), b.id(), "both are answered with the one job");
        let stored = [a, b].iter().filter(|answer| matches!(answer, Pushed::New(_))).count();
        assert_eq!(stored, 1, "{a:?} and {b:?}");
    }
}

pub(in super::super) async fn a_key_held_until_the_start_is_free_when_claimed(s: &Few) {
    let first = s.push(keyed(Hold::UntilStart)).await;
    taken_by(s, first, "it waits").await;
    let running = s.claim_one("q").await;
    let second = s.push(keyed(Hold::UntilEnd)).await;
    s.done(&running).await;
    taken_by(s, second, "the end of the first releases nothing that it does not hold").await;
}

pub(in super::super) async fn a_key_held_until_success_outlives_death(s: &Few) {
    let running = s.start(keyed(Hold::UntilSuccess)).await;
    taken_by(s, running.id, "it runs").await;
    s.dies(&running).await;
    taken_by(s, running.id, "it is dead").await;
    s.happens_to(running.id, &Event::Retry).await;
    s.done(&s.claim_one("q").await).await;
    free(s, "it is done").await;
}

pub(in super::super) async fn a_key_held_until_the_end_is_free_after_any_end(s: &Few) {
    let ends = [Outcome::Done { result: None }, failed(Again::Never), Outcome::Cancel];
    for outcome in ends {
        let running = s.start(keyed(Hold::UntilEnd)).await;
        taken_by(s, running.id, "it runs").await;
        s.ends(&running, outcome).await;
        free(s, "it has ended").await;
    }
}

pub(in super::super) async fn a_retry_keeps_the_lock(s: &Few) {
    for hold in [Hold::UntilSuccess, Hold::UntilEnd] {
        let new = keyed(hold).with(|job| job.spec.lapse = Lapse::Crash { quarantine: None });
        let id = s.push(new).await;
        let ends =
            [Outcome::Interrupted, Outcome::Snooze(Span::ZERO), failed(Again::After(Span::ZERO))];
        for outcome in ends {
            let running = s.claim_one("q").await;
            s.ends(&running, outcome).await;
            taken_by(s, id, "it comes back").await;
        }
        let running = s.claim_one("q").await;
        s.happens(&running, &Event::Lapsed(running.live.delivery)).await;
        taken_by(s, id, "its worker crashed").await;
        s.happens_to(id, &Event::Delete).await;
    }
}

pub(in super::super) async fn a_key_is_free_after_cancel_and_delete(s: &Few) {
    for hold in HOLDS {
        for event in [Event::Cancel, Event::Delete] {
            for new in [keyed(hold), keyed(hold).later(MINUTE)] {
                let id = s.push(new).await;
                taken_by(s, id, "it waits").await;
                s.happens_to(id, &event).await;
                free(s, "it will not run").await;
            }
        }
    }
    let running = s.start(keyed(Hold::UntilSuccess)).await;
    s.dies(&running).await;
    s.happens_to(running.id, &Event::Delete).await;
    free(s, "the dead one was removed").await;
}

pub(in super::super) async fn a_key_is_free_after_its_job_is_done_and_not_kept(s: &Few) {
    for hold in HOLDS {
        let new = keyed(hold).with(|job| job.spec.retain = Retain::Nothing);
        s.done(&s.start(new).await).await;
        free(s, "it is done and gone").await;
    }
}

pub(in super::super) async fn a_window_ends_a_lock_whatever_happens(s: &Few) {
    for hold in [Hold::UntilStart, Hold::UntilSuccess, Hold::UntilEnd, Hold::Window] {
        let id = s.push(job("q").window("key", hold, MINUTE)).await;
        s.pass(Span::from_millis(59_999));
        taken_by(s, id, "within the window").await;
        s.pass(MILLI);
        free(s, "the window is over").await;
        s.happens_to(id, &Event::Delete).await;
    }
}

pub(in super::super) async fn a_window_counts_from_when_the_job_is_due(s: &Few) {
    let id = s.push(job("q").later(MINUTE).window("key", Hold::Window, SECOND)).await;
    s.pass(MINUTE);
    taken_by(s, id, "it is only just due").await;
    s.pass(SECOND);
    free(s, "a second after it was due").await;
}

pub(in super::super) async fn an_idempotency_key_outlives_its_job(s: &Few) {
    let new = job("q").window("key", Hold::Window, MINUTE);
    let gone = s.start(new.with(|job| job.spec.retain = Retain::Nothing)).await;
    taken_by(s, gone.id, "it runs").await;
    s.done(&gone).await;
    assert_eq!(s.find(gone.id).await, None);
    taken_by(s, gone.id, "pushes within the window are one push").await;
    s.pass(MINUTE);
    free(s, "the window is over").await;
}

pub(in super::super) async fn a_job_releases_no_lock_but_its_own(s: &Few) {
    let first = s.push(job("q").window("key", Hold::UntilEnd, SECOND)).await;
    s.pass(SECOND);
    let second = s.push(keyed(Hold::UntilEnd)).await;
    s.happens_to(first, &Event::Delete).await;
    taken_by(s, second, "the first lost it to time").await;
}

pub(in super::super) async fn an_odd_key_is_a_key_of_its_own(s: &Few) {
    let mut keys = super::push::odd_names();
    keys.push("k".repeat(256));
    let new = |key: &String| job("q").unique(key, Hold::UntilEnd).client("native", key);
    let ids = s.push_all(keys.iter().map(new).collect()).await;
    for (key, id) in keys.iter().zip(ids) {
        let again = s.offer(job("q").unique(key, Hold::UntilEnd)).await;
        assert_eq!(again, Pushed::Duplicate(id), "key `{key}`");
        let again = s.offer(job("q").client("native", key)).await;
        assert_eq!(again, Pushed::Duplicate(id), "client id `{key}`");
    }
}

pub(in super::super) async fn a_client_id_is_unique_within_its_door(s: &Few) {
    let mine = |door| job("q").client(door, "mine");
    let first = s.push(mine("native")).await;
    let other = s.push(mine("faktory")).await;
    assert_eq!(s.offer(mine("native")).await, Pushed::Duplicate(first));
    assert_eq!(s.offer(mine("faktory")).await, Pushed::Duplicate(other));
    let keyed = s.push(job("q").unique("mine", Hold::UntilEnd)).await;
    assert!(keyed > other, "a client id is no unique key");
}

pub(in super::super) async fn a_client_id_names_its_job_until_that_is_gone(s: &Few) {
    let mine = || job("q").client("native", "mine");
    let first = s.start(mine()).await;
    s.done(&first).await;
    assert_eq!(s.offer(mine()).await, Pushed::Duplicate(first.id), "it is done, but there");
    s.happens_to(first.id, &Event::Delete).await;
    s.push(mine()).await;
}

/// An edit that moves a job does not let go of its key.
pub(in super::super) async fn a_moved_job_keeps_its_key(s: &Few) {
    let id = s.push(keyed(Hold::UntilEnd)).await;
    let mut spec = (*s.job(id).await.spec).clone();
    spec.queue = name("r");
    s.happens_to(id, &Event::Edit(Edit { spec: Some(spec.into()), due: None })).await;
    taken_by(s, id, "it was only moved").await;
}

pub(in super::super) async fn holders_are_named_in_order_and_reserve_nothing(s: &Few) {
    let keys = super::push::odd_names();
    let new = |key: &String| job("q").unique(key, Hold::UntilEnd).client("native", "mine");
    let first = s.push(job("q").unique(&keys[0], Hold::UntilEnd)).await;
    let second = s.push(new(&keys[1])).await;
    let asked = [&keys[1], &keys[2], &keys[0], &keys[1]];
    let expected = [Some(second), None, Some(first), Some(second)];
    assert_eq!(s.holders(&asked.map(String::as_str)).await, expected);
    assert_eq!(s.holders(&["mine", "native"]).await, [None, None], "a client id is no unique key");
    assert_eq!(s.holders(&[]).await, []);
    s.push(job("q").unique(&keys[2], Hold::UntilEnd)).await;
}

pub(in super::super) async fn an_ended_job_is_named_as_long_as_it_holds_its_key(s: &Few) {
    let dead = s.start(keyed(Hold::UntilSuccess)).await;
    s.dies(&dead).await;
    assert_eq!(s.holders(&["key"]).await, [Some(dead.id)], "a dead job may be retried");
    let done = s.start(job("q").window("done", Hold::Window, MINUTE)).await;
    s.done(&done).await;
    assert_eq!(s.holders(&["done"]).await, [Some(done.id)], "within its window");
    let new = job("q").window("gone", Hold::Window, MINUTE);
    let gone = s.start(new.with(|job| job.spec.retain = Retain::Nothing)).await;
    s.done(&gone).await;
    assert_eq!(s.find(gone.id).await, None);
    assert_eq!(s.holders(&["gone"]).await, [Some(gone.id)], "the key outlives its job");
    let ended = s.start(job("q").unique("ended", Hold::UntilEnd)).await;
    s.dies(&ended).await;
    assert_eq!(s.holders(&["ended"]).await, [None]);
}

pub(in super::super) async fn nobody_holds_a_key_whose_window_is_over(s: &Few) {
    for hold in [Hold::UntilEnd, Hold::Window] {
        let id = s.push(job("q").window("key", hold, MINUTE)).await;
        s.pass(Span::from_millis(59_999));
        assert_eq!(s.holders(&["key"]).await, [Some(id)], "{hold:?}");
        s.pass(MILLI);
        assert_eq!(s.holders(&["key"]).await, [None], "{hold:?}");
        s.happens_to(id, &Event::Delete).await;
    }
}

pub(in super::super) async fn nobody_holds_a_key_that_went_with_its_job(s: &Few) {
    for hold in HOLDS {
        let id = s.push(keyed(hold)).await;
        assert_eq!(s.holders(&["key"]).await, [Some(id)], "{hold:?}");
        s.happens_to(id, &Event::Delete).await;
        assert_eq!(s.holders(&["key"]).await, [None], "{hold:?}");
    }
    let claimed = s.start(keyed(Hold::UntilStart)).await;
    assert_eq!(s.holders(&["key"]).await, [None], "{:?} has started", claimed.id);
}

pub(in super::super) async fn a_lock_whose_time_is_over_is_pruned(s: &Whole) {
    let new = || job("q").window("key", Hold::Window, MINUTE);
    let id = s.push(new()).await;
    got(s.store.prune(100)).await;
    assert_eq!(s.offer(new()).await, Pushed::Duplicate(id), "not before its time");
    s.pass(MINUTE);
    let pruned = got(s.store.prune(100)).await;
    assert_eq!((pruned.jobs, pruned.others), (0, 1));
    s.push(new()).await;
}
