//! A malformed history is reported.

use super::history_builder::{HistoryBuilder, grant, item, new};
use crate::history::RecordedResponse;
use crate::history::check::{CheckRules, Invariant, check};
use crate::history::{History, HistoryEvent, HistoryEventBody};

#[test]
fn an_empty_history_is_accepted() {
    assert!(check(&History::default(), &CheckRules::default()).is_clean());
}

#[test]
fn a_call_ends_once() {
    let mut history = HistoryBuilder::new();
    let n = history.begin_push(vec![item(1)]);
    history.pushed(n, vec![new(1)]);
    history.info(n);
    history.assert_violates(0);
}

#[test]
fn a_response_must_match_its_call() {
    let mut history = HistoryBuilder::new();
    let n = history.begin_push(vec![item(1)]);
    history.ok(n, RecordedResponse::Fetched(vec![grant(1, 1, 1)]));
    history.assert_violates(0);
    let mut history = HistoryBuilder::new();
    let n = history.begin_push(vec![item(1)]);
    history.pushed(n, Vec::new());
    history.assert_violates(0);
    let mut history = HistoryBuilder::new();
    history.info(7);
    history.assert_violates(0);
}

#[test]
fn events_are_in_order() {
    let event = |i, t| HistoryEvent {
        i,
        t,
        p: "n".into(),
        what: HistoryEventBody::Fault { fault: crate::history::RecordedFault::Crash },
    };
    let out = |events| check(&History { events }, &CheckRules::default()).violations;
    assert!(out(vec![event(0, 5), event(1, 5)]).is_empty());
    for events in [vec![event(1, 5), event(1, 6)], vec![event(0, 5), event(1, 4)]] {
        let found = out(events);
        assert_eq!((found.len(), found[0].invariant), (1, Invariant::FORM));
        assert!(found[0].to_string().starts_with("form: "), "{}", found[0]);
    }
}
