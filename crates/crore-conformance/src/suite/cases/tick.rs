//! A schedule fires once for each tick, however many nodes try.

use crore_core::schedule::{Missed, Timing};
use crore_core::{NewJob, Revision, Time};
use crore_store::jobs::{Applied, StoreWrite};
use crore_store::registry::{Define, RegistryEntry, RegistryTable, RegistryValue, Schedule};

use super::super::job_builder::{MINUTE, job, jobs, name};
use super::super::subject::{StoreSubject, expect_ok};

async fn schedule(s: &StoreSubject) -> RegistryEntry {
    let timing = Timing::parse("schedule", "every 1m").expect("a timing");
    let schedule =
        Schedule { timing, missed: Missed::Skip, job: job("q"), cursor: s.now(), paused: false };
    let define = Define::set(name("it"), RegistryValue::Schedule(Box::new(schedule)));
    s.define(define).await;
    entry(s).await
}

async fn entry(s: &StoreSubject) -> RegistryEntry {
    let mut entries = expect_ok(s.store.entries(RegistryTable::Schedules, None, 9)).await;
    assert_eq!(entries.len(), 1);
    entries.remove(0)
}

fn tick(seen: Revision, cursor: Time, push: Vec<NewJob>) -> StoreWrite {
    StoreWrite::Tick { schedule: name("it"), seen, cursor, push }
}

pub(in super::super) async fn a_tick_pushes_its_jobs_and_moves_the_cursor(s: &StoreSubject) {
    let before = schedule(s).await;
    s.advance(MINUTE);
    let applied = s.write(tick(before.revision, s.now(), jobs("q", 2))).await;
    let Applied::Yes(pushed) = applied else { panic!("stale, although current") };
    let pushed: Vec<_> = pushed.iter().filter_map(|answer| answer.id()).collect();
    assert_eq!(s.claim_ids(&["q"], 9).await, pushed);
    assert_eq!(pushed.len(), 2);
    let after = entry(s).await;
    assert!(after.revision > before.revision);
    let (RegistryValue::Schedule(mut expected), RegistryValue::Schedule(found)) =
        (before.value, after.value)
    else {
        panic!("a schedule became another kind of entry")
    };
    expected.cursor = s.now();
    assert_eq!(found, expected, "nothing but the cursor changes");
}

pub(in super::super) async fn only_one_of_two_nodes_fires_a_tick(s: &StoreSubject) {
    let seen = schedule(s).await.revision;
    s.advance(MINUTE);
    let fire = || s.write(tick(seen, s.now(), jobs("q", 1)));
    let (a, b) = tokio::join!(fire(), fire());
    let fired = [&a, &b].iter().filter(|answer| matches!(answer, Applied::Yes(_))).count();
    assert_eq!(fired, 1, "{a:?} and {b:?}");
    assert_eq!(fire().await, Applied::Stale, "and not later");
    assert_eq!(s.claim(&["q"], 9).await.len(), 1);
}

pub(in super::super) async fn the_next_tick_fires_from_the_new_revision(s: &StoreSubject) {
    schedule(s).await;
    for _ in 0..3 {
        s.advance(MINUTE);
        let seen = entry(s).await.revision;
        let applied = s.write(tick(seen, s.now(), jobs("q", 1))).await;
        assert!(matches!(applied, Applied::Yes(_)));
    }
    assert_eq!(s.claim(&["q"], 9).await.len(), 3);
}

pub(in super::super) async fn a_skipped_tick_pushes_nothing(s: &StoreSubject) {
    let seen = schedule(s).await.revision;
    s.advance(MINUTE);
    assert_eq!(s.write(tick(seen, s.now(), Vec::new())).await, Applied::Yes(Vec::new()));
    assert_eq!(s.write(tick(seen, s.now(), jobs("q", 1))).await, Applied::Stale);
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
}

pub(in super::super) async fn a_tick_of_a_changed_or_removed_schedule_is_stale(s: &StoreSubject) {
    let first = schedule(s).await.revision;
    let second = schedule(s).await;
    let fire = |seen| s.write(tick(seen, s.now(), jobs("q", 1)));
    assert_eq!(fire(first).await, Applied::Stale, "it was changed meanwhile");
    assert_eq!(entry(s).await, second);
    s.define(Define::remove(RegistryTable::Schedules, name("it"))).await;
    assert_eq!(fire(second.revision).await, Applied::Stale, "it was removed");
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
}
