//! Definitions are guarded, numbered, and gone when their time is over.

use crore_core::limit::Limit;
use crore_core::{Revision, Span};
use crore_store::registry::{Define, Defined, Entry, Guard, QueueSettings, Table, Value};

use super::super::draft::{Draft, MILLI, MINUTE, job, name};
use super::super::subject::{Whole, got};

fn handler(text: &str) -> Value {
    Value::Handler(text.into())
}

fn set(entry: &str, text: &str, guard: Guard) -> Define {
    Define { guard, ..Define::set(name(entry), handler(text)) }
}

async fn entries(s: &Whole, table: Table) -> Vec<Entry> {
    got(s.store.entries(table, None, 1000)).await
}

async fn revision(s: &Whole, define: Define) -> Revision {
    match s.define(define).await {
        Defined::Yes(revision) => revision,
        Defined::Stale => panic!("what had to be so is so"),
    }
}

pub(in super::super) async fn a_definition_comes_back_as_it_was_set(s: &Whole) {
    let settings = QueueSettings { paused: true, max_dead: 7, ..QueueSettings::default() };
    let limit = Limit::parse(r#"where kind = "mail" rate 100/1m burst 20 concurrency 5 per queue"#);
    for value in [
        Value::Limit(limit.expect("a limit")),
        Value::Queue(settings),
        handler("{\"a\":'1'}"),
        Value::Worker("🦀".into()),
        Value::Token("".into()),
    ] {
        let revision = revision(s, Define::set(name("it"), value.clone())).await;
        let entry = Entry { name: name("it"), value, revision, expires_at: None };
        assert_eq!(entries(s, entry.value.table()).await, std::slice::from_ref(&entry));
    }
    assert_eq!(entries(s, Table::Schedules).await, [], "each table is apart");
}

pub(in super::super) async fn entries_are_listed_by_name_in_pages(s: &Whole) {
    let mut names = super::push::odd_names();
    let define = names.iter().map(|entry| set(entry, entry, Guard::Any)).collect();
    got(s.store.define(define)).await.into_inner();
    names.sort();
    let (mut found, mut after) = (Vec::new(), None);
    for _ in 0..100 {
        let page = got(s.store.entries(Table::Handlers, after, 4)).await;
        assert!(page.len() <= 4);
        let Some(last) = page.last() else { break };
        after = Some(last.name.clone());
        found.extend(page.into_iter().map(|entry| entry.name.to_string()));
    }
    assert_eq!(found, names);
    assert_eq!(got(s.store.entries(Table::Handlers, None, 0)).await, []);
}

pub(in super::super) async fn a_page_may_start_after_a_name_that_is_not_there(s: &Whole) {
    for entry in ["a", "c"] {
        s.define(set(entry, "", Guard::Any)).await;
    }
    let page = got(s.store.entries(Table::Handlers, Some(name("b")), 9)).await;
    assert_eq!(page.len(), 1);
    assert_eq!(page[0].name, name("c"));
}

pub(in super::super) async fn revisions_of_a_name_grow_and_never_start_again(s: &Whole) {
    let first = revision(s, set("it", "1", Guard::Any)).await;
    let second = revision(s, set("it", "2", Guard::Any)).await;
    assert!(second > first);
    assert_eq!(entries(s, Table::Handlers).await[0].revision, second);
    s.define(Define::remove(Table::Handlers, name("it"))).await;
    assert_eq!(entries(s, Table::Handlers).await, []);
    let third = revision(s, set("it", "3", Guard::Absent)).await;
    assert!(third > second, "{third:?} after {second:?}");
}

pub(in super::super) async fn a_definition_applies_only_if_its_guard_holds(s: &Whole) {
    let nothing = Guard::At(Revision(1));
    assert_eq!(s.define(set("it", "0", nothing)).await, Defined::Stale, "there is nothing yet");
    let first = revision(s, set("it", "1", Guard::Absent)).await;
    let before = entries(s, Table::Handlers).await;
    assert_eq!(s.define(set("it", "2", Guard::Absent)).await, Defined::Stale);
    let next = Guard::At(first.next());
    assert_eq!(s.define(set("it", "2", next)).await, Defined::Stale);
    assert_eq!(entries(s, Table::Handlers).await, before, "nothing was written");
    let second = revision(s, set("it", "2", Guard::At(first))).await;
    let stale = Define { guard: Guard::At(first), ..Define::remove(Table::Handlers, name("it")) };
    assert_eq!(s.define(stale.clone()).await, Defined::Stale);
    assert_eq!(entries(s, Table::Handlers).await[0].value, handler("2"));
    let good = Define { guard: Guard::At(second), ..stale };
    assert!(matches!(s.define(good).await, Defined::Yes(_)));
    assert_eq!(entries(s, Table::Handlers).await, []);
}

pub(in super::super) async fn definitions_are_answered_singly_and_in_order(s: &Whole) {
    let define = vec![
        set("a", "1", Guard::Any),
        set("b", "1", Guard::At(Revision(99))),
        set("a", "2", Guard::Absent),
        set("c", "1", Guard::Absent),
    ];
    let answers = got(s.store.define(define)).await.into_inner();
    let yes: Vec<_> = answers.iter().map(|answer| matches!(answer, Defined::Yes(_))).collect();
    assert_eq!(yes, [true, false, false, true], "{answers:?}");
    let found: Vec<_> =
        entries(s, Table::Handlers).await.into_iter().map(|e| (e.name, e.value)).collect();
    assert_eq!(found, [(name("a"), handler("1")), (name("c"), handler("1"))]);
    assert_eq!(got(s.store.define(Vec::new())).await.into_inner(), []);
}

pub(in super::super) async fn one_name_may_stand_in_several_tables(s: &Whole) {
    s.define(set("it", "1", Guard::Absent)).await;
    let worker =
        Define { guard: Guard::Absent, ..Define::set(name("it"), Value::Worker("w".into())) };
    assert!(matches!(s.define(worker).await, Defined::Yes(_)));
    s.define(Define::remove(Table::Handlers, name("it"))).await;
    assert_eq!(entries(s, Table::Workers).await.len(), 1);
}

pub(in super::super) async fn an_entry_is_gone_when_its_time_is_over(s: &Whole) {
    let short = |text| Define { expires_after: Some(MINUTE), ..set("it", text, Guard::Any) };
    s.define(short("1")).await;
    let first = entries(s, Table::Handlers).await;
    assert_eq!(first[0].expires_at, Some(s.now().after(MINUTE)));
    s.pass(Span::from_millis(59_999));
    assert_eq!(entries(s, Table::Handlers).await, first);
    s.define(short("2")).await;
    s.pass(Span::from_millis(59_999));
    assert_eq!(entries(s, Table::Handlers).await.len(), 1, "setting it anew gives it new time");
    s.pass(MILLI);
    assert_eq!(entries(s, Table::Handlers).await, []);
    let anew = revision(s, set("it", "3", Guard::Absent)).await;
    assert!(anew > first[0].revision);
    s.pass(MINUTE.times(9));
    assert_eq!(entries(s, Table::Handlers).await.len(), 1, "this one is for ever");
}

pub(in super::super) async fn a_limit_and_a_pause_end_with_their_time(s: &Whole) {
    let paused = Value::Queue(QueueSettings { paused: true, ..QueueSettings::default() });
    let stop = Value::Limit(Limit::parse("concurrency 0").expect("a limit"));
    for (entry, value) in [("q", paused), ("x", stop)] {
        let define = Define { expires_after: Some(MINUTE), ..Define::set(name(entry), value) };
        assert!(matches!(s.define(define).await, Defined::Yes(_)));
    }
    let pushed = s.push_all(vec![job("q"), job("r").limit("x")]).await;
    assert_eq!(s.claim_ids(&["q", "r"], 9).await, []);
    s.pass(MINUTE);
    assert_eq!(s.claim_ids(&["q", "r"], 9).await, pushed);
}

pub(in super::super) async fn entries_whose_time_is_over_are_pruned(s: &Whole) {
    let short = Define { expires_after: Some(MINUTE), ..set("it", "1", Guard::Any) };
    let first = revision(s, short).await;
    s.define(set("other", "1", Guard::Any)).await;
    s.pass(MINUTE);
    let pruned = got(s.store.prune(9)).await;
    assert_eq!((pruned.jobs, pruned.others), (0, 1));
    assert_eq!(entries(s, Table::Handlers).await.len(), 1);
    assert!(revision(s, set("it", "2", Guard::Absent)).await > first);
}

pub(in super::super) async fn what_is_removed_may_be_absent(s: &Whole) {
    let remove = Define::remove(Table::Handlers, name("nothing"));
    assert!(matches!(s.define(remove).await, Defined::Yes(_)), "if it is there");
    assert_eq!(entries(s, Table::Handlers).await, []);
}
