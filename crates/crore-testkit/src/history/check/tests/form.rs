//! A history that contradicts its own form is said to.

use super::tape::{Tape, grant, item, new};
use crate::history::Answer;
use crate::history::check::{Promise, Rules, check};
use crate::history::{Event, History, What};

#[test]
fn an_empty_history_is_fine() {
    assert!(check(&History::default(), &Rules::default()).is_clean());
}

#[test]
fn a_call_ends_once() {
    let mut tape = Tape::new();
    let n = tape.begin_push(vec![item(1)]);
    tape.pushed(n, vec![new(1)]);
    tape.info(n);
    tape.breaks(0);
}

#[test]
fn an_answer_is_one_to_its_call() {
    let mut tape = Tape::new();
    let n = tape.begin_push(vec![item(1)]);
    tape.ok(n, Answer::Fetched(vec![grant(1, 1, 1)]));
    tape.breaks(0);
    let mut tape = Tape::new();
    let n = tape.begin_push(vec![item(1)]);
    tape.pushed(n, Vec::new());
    tape.breaks(0);
    let mut tape = Tape::new();
    tape.info(7);
    tape.breaks(0);
}

#[test]
fn events_are_in_order() {
    let event = |i, t| Event {
        i,
        t,
        p: "n".into(),
        what: What::Fault { fault: crate::history::Fault::Crash },
    };
    let out = |events| check(&History { events }, &Rules::default()).violations;
    assert!(out(vec![event(0, 5), event(1, 5)]).is_empty());
    for events in [vec![event(1, 5), event(1, 6)], vec![event(0, 5), event(1, 4)]] {
        let found = out(events);
        assert_eq!((found.len(), found[0].promise), (1, Promise::FORM));
        assert!(found[0].to_string().starts_with("form: "), "{}", found[0]);
    }
}
