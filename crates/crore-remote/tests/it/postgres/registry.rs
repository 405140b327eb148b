use crore_core::schedule::{Missed, Timing};
use crore_core::{NewJob, Revision, Span, Time};
use crore_store::jobs::{Applied, StoreWrite};
use crore_store::registry::{
    Define, DefineAction, DefineGuard, Defined, RegistryEntry, RegistryTable, RegistryValue,
    Schedule,
};
use crore_store::{Jobs, Registry};

use super::{PostgresSubject, ask, job, name, subject};

async fn define(it: &PostgresSubject, definitions: Vec<Define>) -> Vec<Defined> {
    it.store.define(definitions).await.expect("defines").into_inner()
}

fn handler(text: &str) -> RegistryValue {
    RegistryValue::Handler(text.into())
}

#[tokio::test]
async fn definitions_are_guarded_and_revisions_never_restart() {
    let Some(it) = subject().await else { return };
    let guarded = |guard, to| Define { guard, action: to, ..Define::set(name("h"), handler("")) };
    let set = |guard, text: &str| guarded(guard, DefineAction::Set(handler(text)));
    let remove = |guard| guarded(guard, DefineAction::Remove(RegistryTable::Handlers));
    let answers = define(
        &it,
        vec![
            set(DefineGuard::At(Revision(0)), "no"),
            set(DefineGuard::Absent, "1"),
            set(DefineGuard::Absent, "no"),
            set(DefineGuard::At(Revision(1)), "2"),
            remove(DefineGuard::At(Revision(1))),
            remove(DefineGuard::At(Revision(2))),
            set(DefineGuard::At(Revision(3)), "no"),
            set(DefineGuard::Absent, "4"),
        ],
    )
    .await;
    let yes = |n| Defined::Yes(Revision(n));
    let stale = Defined::Stale;
    assert_eq!(answers, [stale, yes(1), stale, yes(2), stale, yes(3), stale, yes(4)]);
    let entries = it.store.entries(RegistryTable::Handlers, None, 9).await.expect("reads");
    let entry = RegistryEntry {
        name: name("h"),
        value: handler("4"),
        revision: Revision(4),
        expires_at: None,
    };
    assert_eq!(entries, [entry]);
}

#[tokio::test]
async fn entries_are_listed_in_byte_order_by_page_and_expire() {
    let Some(it) = subject().await else { return };
    let names = ["Z", "a", "b'; --", "ä"];
    let mut short = Define::set(name("c"), handler("c"));
    short.expires_after = Some(Span::from_millis(1));
    let mut all: Vec<_> = names.iter().rev().map(|n| Define::set(name(n), handler("\0"))).collect();
    all.push(short);
    all.push(Define::set(name("a"), RegistryValue::Worker("other".into())));
    define(&it, all).await;
    it.clock.advance(Span::from_millis(1));
    let mut after = None;
    let mut seen = Vec::new();
    loop {
        let page = it.store.entries(RegistryTable::Handlers, after, 3).await.expect("reads");
        let Some(last) = page.last() else { break };
        after = Some(last.name.clone());
        seen.extend(page.into_iter().map(|entry| entry.name.as_str().to_owned()));
    }
    assert_eq!(seen, names);
}

#[tokio::test]
async fn a_schedule_fires_once_per_tick() {
    let Some(it) = subject().await else { return };
    let timing = Timing::parse("timing", "cron * * * * *");
    let schedule = Schedule {
        timing: timing.expect("a valid timing"),
        missed: Missed::Skip,
        job: NewJob { ..job("q") },
        cursor: Time::ZERO,
        paused: false,
    };
    it.define("s", RegistryValue::Schedule(Box::new(schedule.clone()))).await;
    let cursor = it.now();
    let tick = |seen| StoreWrite::Tick { schedule: name("s"), seen, cursor, push: vec![job("q")] };
    let seen = Revision(1);
    let answers = it.store.apply(vec![tick(seen), tick(seen)]).await.expect("applies").into_inner();
    assert!(matches!(answers[..], [Applied::Yes(_), Applied::Stale]), "{answers:?}");
    assert_eq!(it.apply(tick(seen)).await, Applied::Stale);
    let other = StoreWrite::Tick { schedule: name("t"), seen, cursor, push: vec![job("q")] };
    assert_eq!(it.apply(other).await, Applied::Stale);
    assert_eq!(it.claim(ask(&["q"], 9)).await.len(), 1);
    let entries = it.store.entries(RegistryTable::Schedules, None, 9).await.expect("reads");
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].revision, Revision(2));
    assert_eq!(
        entries[0].value,
        RegistryValue::Schedule(Box::new(Schedule { cursor, ..schedule }))
    );
}
