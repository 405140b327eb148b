//! Definitions are guarded, have revisions, and expire.

use crore_core::limit::Limit;
use crore_core::{Revision, Span};
use crore_store::registry::{
    Define, DefineGuard, Defined, QueueSettings, RegistryEntry, RegistryTable, RegistryValue,
};

use super::super::job_builder::{MILLI, MINUTE, NewJobBuilder, job, name};
use super::super::subject::{StoreSubject, expect_ok};

fn handler(text: &str) -> RegistryValue {
    RegistryValue::Handler(text.into())
}

fn set(entry: &str, text: &str, guard: DefineGuard) -> Define {
    Define { guard, ..Define::set(name(entry), handler(text)) }
}

async fn entries(s: &StoreSubject, table: RegistryTable) -> Vec<RegistryEntry> {
    expect_ok(s.store.entries(table, None, 1000)).await
}

async fn revision(s: &StoreSubject, define: Define) -> Revision {
    match s.define(define).await {
        Defined::Yes(revision) => revision,
        Defined::Stale => panic!("stale, although the guard holds"),
    }
}

pub(in super::super) async fn a_definition_reads_back_as_set(s: &StoreSubject) {
    let settings = QueueSettings { paused: true, max_dead: 7, ..QueueSettings::default() };
    let limit = Limit::parse(r#"where kind = "mail" rate 100/1m burst 20 concurrency 5 per queue"#);
    for value in [
        RegistryValue::Limit(limit.expect("a limit")),
        RegistryValue::Queue(settings),
        handler("{\"a\":'1'}"),
        RegistryValue::Worker("🦀".into()),
        RegistryValue::Token("".into()),
        RegistryValue::Operation("{}".into()),
    ] {
        let revision = revision(s, Define::set(name("it"), value.clone())).await;
        let entry = RegistryEntry { name: name("it"), value, revision, expires_at: None };
        assert_eq!(entries(s, entry.value.table()).await, std::slice::from_ref(&entry));
    }
    assert_eq!(entries(s, RegistryTable::Schedules).await, [], "tables are separate");
}

pub(in super::super) async fn entries_are_listed_by_name_in_pages(s: &StoreSubject) {
    let mut names = super::push::odd_names();
    let define = names.iter().map(|entry| set(entry, entry, DefineGuard::Any)).collect();
    expect_ok(s.store.define(define)).await.into_inner();
    names.sort();
    let (mut found, mut after) = (Vec::new(), None);
    for _ in 0..100 {
        let page = expect_ok(s.store.entries(RegistryTable::Handlers, after, 4)).await;
        assert!(page.len() <= 4);
        let Some(last) = page.last() else { break };
        after = Some(last.name.clone());
        found.extend(page.into_iter().map(|entry| entry.name.to_string()));
    }
    assert_eq!(found, names);
    assert_eq!(expect_ok(s.store.entries(RegistryTable::Handlers, None, 0)).await, []);
}

pub(in super::super) async fn a_page_may_start_after_a_missing_name(s: &StoreSubject) {
    for entry in ["a", "c"] {
        s.define(set(entry, "", DefineGuard::Any)).await;
    }
    let page = expect_ok(s.store.entries(RegistryTable::Handlers, Some(name("b")), 9)).await;
    assert_eq!(page.len(), 1);
    assert_eq!(page[0].name, name("c"));
}

pub(in super::super) async fn revisions_of_a_name_grow_and_never_restart(s: &StoreSubject) {
    let first = revision(s, set("it", "1", DefineGuard::Any)).await;
    let second = revision(s, set("it", "2", DefineGuard::Any)).await;
    assert!(second > first);
    assert_eq!(entries(s, RegistryTable::Handlers).await[0].revision, second);
    s.define(Define::remove(RegistryTable::Handlers, name("it"))).await;
    assert_eq!(entries(s, RegistryTable::Handlers).await, []);
    let third = revision(s, set("it", "3", DefineGuard::Absent)).await;
    assert!(third > second, "{third:?} after {second:?}");
}

pub(in super::super) async fn a_definition_applies_only_if_its_guard_holds(s: &StoreSubject) {
    let nothing = DefineGuard::At(Revision(1));
    assert_eq!(s.define(set("it", "0", nothing)).await, Defined::Stale, "nothing is defined yet");
    let first = revision(s, set("it", "1", DefineGuard::Absent)).await;
    let before = entries(s, RegistryTable::Handlers).await;
    assert_eq!(s.define(set("it", "2", DefineGuard::Absent)).await, Defined::Stale);
    let next = DefineGuard::At(first.next());
    assert_eq!(s.define(set("it", "2", next)).await, Defined::Stale);
    assert_eq!(entries(s, RegistryTable::Handlers).await, before, "nothing was written");
    let second = revision(s, set("it", "2", DefineGuard::At(first))).await;
    let stale = Define {
        guard: DefineGuard::At(first),
        ..Define::remove(RegistryTable::Handlers, name("it"))
    };
    assert_eq!(s.define(stale.clone()).await, Defined::Stale);
    assert_eq!(entries(s, RegistryTable::Handlers).await[0].value, handler("2"));
    let good = Define { guard: DefineGuard::At(second), ..stale };
    assert!(matches!(s.define(good).await, Defined::Yes(_)));
    assert_eq!(entries(s, RegistryTable::Handlers).await, []);
}

pub(in super::super) async fn each_definition_has_a_result_in_order(s: &StoreSubject) {
    let define = vec![
        set("a", "1", DefineGuard::Any),
        set("b", "1", DefineGuard::At(Revision(99))),
        set("a", "2", DefineGuard::Absent),
        set("c", "1", DefineGuard::Absent),
    ];
    let answers = expect_ok(s.store.define(define)).await.into_inner();
    let yes: Vec<_> = answers.iter().map(|answer| matches!(answer, Defined::Yes(_))).collect();
    assert_eq!(yes, [true, false, false, true], "{answers:?}");
    let found: Vec<_> =
        entries(s, RegistryTable::Handlers).await.into_iter().map(|e| (e.name, e.value)).collect();
    assert_eq!(found, [(name("a"), handler("1")), (name("c"), handler("1"))]);
    assert_eq!(expect_ok(s.store.define(Vec::new())).await.into_inner(), []);
}

pub(in super::super) async fn one_name_may_be_used_in_several_tables(s: &StoreSubject) {
    s.define(set("it", "1", DefineGuard::Absent)).await;
    let worker = Define {
        guard: DefineGuard::Absent,
        ..Define::set(name("it"), RegistryValue::Worker("w".into()))
    };
    assert!(matches!(s.define(worker).await, Defined::Yes(_)));
    s.define(Define::remove(RegistryTable::Handlers, name("it"))).await;
    assert_eq!(entries(s, RegistryTable::Workers).await.len(), 1);
}

pub(in super::super) async fn an_entry_is_missing_after_its_expiry(s: &StoreSubject) {
    let short = |text| Define { expires_after: Some(MINUTE), ..set("it", text, DefineGuard::Any) };
    s.define(short("1")).await;
    let first = entries(s, RegistryTable::Handlers).await;
    assert_eq!(first[0].expires_at, Some(s.now().after(MINUTE)));
    s.advance(Span::from_millis(59_999));
    assert_eq!(entries(s, RegistryTable::Handlers).await, first);
    s.define(short("2")).await;
    s.advance(Span::from_millis(59_999));
    assert_eq!(
        entries(s, RegistryTable::Handlers).await.len(),
        1,
        "setting it again extends its time"
    );
    s.advance(MILLI);
    assert_eq!(entries(s, RegistryTable::Handlers).await, []);
    let second = revision(s, set("it", "3", DefineGuard::Absent)).await;
    assert!(second > first[0].revision);
    s.advance(MINUTE.times(9));
    assert_eq!(
        entries(s, RegistryTable::Handlers).await.len(),
        1,
        "an entry without a time limit stays"
    );
}

pub(in super::super) async fn a_limit_and_a_pause_expire(s: &StoreSubject) {
    let paused = RegistryValue::Queue(QueueSettings { paused: true, ..QueueSettings::default() });
    let stop = RegistryValue::Limit(Limit::parse("concurrency 0").expect("a limit"));
    for (entry, value) in [("q", paused), ("x", stop)] {
        let define = Define { expires_after: Some(MINUTE), ..Define::set(name(entry), value) };
        assert!(matches!(s.define(define).await, Defined::Yes(_)));
    }
    let pushed = s.push_all(vec![job("q"), job("r").limit("x")]).await;
    assert_eq!(s.claim_ids(&["q", "r"], 9).await, []);
    s.advance(MINUTE);
    assert_eq!(s.claim_ids(&["q", "r"], 9).await, pushed);
}

pub(in super::super) async fn expired_entries_are_pruned(s: &StoreSubject) {
    let short = Define { expires_after: Some(MINUTE), ..set("it", "1", DefineGuard::Any) };
    let first = revision(s, short).await;
    s.define(set("other", "1", DefineGuard::Any)).await;
    s.advance(MINUTE);
    let pruned = expect_ok(s.store.prune(9)).await;
    assert_eq!((pruned.jobs, pruned.others), (0, 1));
    assert_eq!(entries(s, RegistryTable::Handlers).await.len(), 1);
    assert!(revision(s, set("it", "2", DefineGuard::Absent)).await > first);
}

pub(in super::super) async fn a_missing_entry_may_be_removed(s: &StoreSubject) {
    let remove = Define::remove(RegistryTable::Handlers, name("nothing"));
    assert!(matches!(s.define(remove).await, Defined::Yes(_)), "if it exists");
    assert_eq!(entries(s, RegistryTable::Handlers).await, []);
}

/// A move of an entry removes it only if its new name is free, and adds it only if it is unchanged.
pub(in super::super) async fn joint_definitions_apply_all_or_none(s: &StoreSubject) {
    let seen = revision(s, set("from", "1", DefineGuard::Any)).await;
    let taken = revision(s, set("taken", "2", DefineGuard::Any)).await;
    let joint = |define: Define| Define { joint: true, ..define };
    let moved = |to: &str, seen: Revision| {
        let remove = Define::remove(RegistryTable::Handlers, name("from"));
        let remove = Define { guard: DefineGuard::At(seen), ..remove };
        vec![joint(remove), joint(set(to, "1", DefineGuard::Absent))]
    };
    let names = async || -> Vec<(String, Revision)> {
        let found = entries(s, RegistryTable::Handlers).await;
        found.into_iter().map(|entry| (entry.name.to_string(), entry.revision)).collect()
    };
    let before = names().await;
    assert_eq!(before, [("from".to_owned(), seen), ("taken".to_owned(), taken)]);
    for stale in [moved("taken", seen), moved("to", Revision(seen.0 + 1000))] {
        let answers = expect_ok(s.store.define(stale)).await.into_inner();
        assert_eq!(answers, [Defined::Stale, Defined::Stale]);
        assert_eq!(names().await, before);
    }
    // A definition that is not joint applies by itself.
    let mut mixed = moved("taken", seen);
    mixed.push(set("own", "3", DefineGuard::Absent));
    let answers = expect_ok(s.store.define(mixed)).await.into_inner();
    assert!(
        matches!(answers[..], [Defined::Stale, Defined::Stale, Defined::Yes(_)]),
        "{answers:?}"
    );
    let answers = expect_ok(s.store.define(moved("to", seen))).await.into_inner();
    assert!(answers.iter().all(|one| matches!(one, Defined::Yes(_))), "{answers:?}");
    let after: Vec<_> = names().await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(after, ["own", "taken", "to"]);
}
