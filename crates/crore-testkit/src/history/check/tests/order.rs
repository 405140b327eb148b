//! I8: order.

use crore_core::job::Reports;
use crore_core::{Span, Time};

use super::tape::{DONE, LEASE, Tape, due, grant, item, limited, name};
use crate::history::answer::{Changed, Granted, Reported};
use crate::history::op::{Item, Meaning, Outcome, Queue, Want, When};
use crate::history::{Answer, Op};

/// Jobs 1 to 3, of which 2 is the most urgent.
fn three() -> Tape {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.push(Item { priority: -1, ..item(2) });
    tape.push(item(3));
    tape
}

fn urgent(delivery: u64) -> Granted {
    Granted { priority: -1, ..grant(2, delivery, 1) }
}

#[test]
fn in_order_is_fine() {
    let mut tape = three();
    tape.fetch(vec![urgent(1), grant(1, 2, 1)]);
    tape.fetch(vec![grant(3, 3, 1)]);
    let counters = tape.is_fine().counters;
    assert_eq!((counters.ordered, counters.unordered), (3, 0));
}

#[test]
fn i8_a_more_urgent_job_is_not_passed_over() {
    let mut tape = three();
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.fetch(vec![urgent(2)]);
    tape.breaks(8);
}

#[test]
fn i8_nor_an_older_one() {
    let mut tape = three();
    tape.fetch(vec![urgent(1), grant(3, 2, 1)]);
    tape.fetch(vec![grant(1, 3, 1)]);
    tape.breaks(8);
}

#[test]
fn i8_one_answer_is_in_order() {
    let mut tape = three();
    tape.fetch(vec![grant(1, 1, 1), urgent(2)]);
    tape.breaks(8);
}

#[test]
fn i8_what_is_handed_back_keeps_its_place() {
    let mut tape = three();
    tape.fetch(vec![urgent(1)]);
    tape.report(2, 1, Outcome::Interrupted);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.fetch(vec![urgent(3)]);
    tape.breaks(8);
}

/// Job 2 is handed out twice, since a lapse came between. The second delivery hands it back while the
/// success of the first is under way, and jobs after it are handed out.
fn an_older_delivery_succeeds_late(reports: Reports) -> Tape {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.push(Item { priority: -1, reports, ..item(2) });
    tape.push(item(3));
    tape.fetch(vec![urgent(1)]);
    tape.pass(LEASE);
    tape.fetch(vec![urgent(2)]);
    let late = tape.begin_report(2, 1, DONE);
    tape.report(2, 2, Outcome::Interrupted);
    tape.fetch(vec![grant(1, 3, 1)]);
    match reports {
        Reports::Any => tape.accepted(late),
        Reports::Fenced => tape.ok(late, Answer::Reported(Reported::Stale)),
    }
    tape.fetch(vec![grant(3, 4, 1)]);
    tape
}

#[test]
fn where_any_delivery_reports_a_late_success_may_have_ended_a_job_that_was_handed_back() {
    an_older_delivery_succeeds_late(Reports::Any).is_fine();
}

#[test]
fn i8_where_reports_are_fenced_a_late_success_ends_nothing() {
    an_older_delivery_succeeds_late(Reports::Fenced).breaks(8);
}

#[test]
fn i8_a_crash_does_not_change_the_order() {
    let mut tape = three();
    tape.crash();
    tape.fetch(vec![grant(3, 1, 1)]);
    tape.breaks(8);
}

#[test]
fn where_order_is_not_exact_nothing_is_said() {
    let mut tape = three();
    tape.rules.ordered = false;
    tape.fetch(vec![grant(3, 1, 1)]);
    tape.is_fine();
}

#[test]
fn a_concurrent_fetch_may_have_taken_it() {
    let mut tape = three();
    let one = tape.begin_fetch();
    let two = tape.begin_fetch();
    tape.fetched(two, vec![grant(1, 2, 1)]);
    tape.fetched(one, vec![urgent(1)]);
    tape.is_fine();
}

#[test]
fn an_unseen_fetch_may_have_taken_it() {
    let mut tape = three();
    let n = tape.begin_fetch();
    tape.info(n);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.pass(LEASE);
    tape.fetch(vec![urgent(3)]);
    tape.is_fine();
}

/// Job 2 may run for a second. A fetch that nobody heard of may have taken it; after `span` it is handed
/// out again, and job 1 meanwhile.
fn an_unseen_run_ends_after(span: Span) -> Tape {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.push(Item { priority: -1, timeout: Some(Span::from_secs(1)), ..item(2) });
    let n = tape.begin_fetch();
    tape.info(n);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.pass(span);
    tape.fetch(vec![Granted { attempt: 2, ..urgent(3) }]);
    tape
}

#[test]
fn a_run_that_nobody_heard_of_may_have_timed_out() {
    an_unseen_run_ends_after(Span::from_secs(2)).is_fine();
}

#[test]
fn i8_a_run_that_nobody_heard_of_times_out_no_earlier() {
    an_unseen_run_ends_after(Span::from_millis(100)).breaks(8);
}

#[test]
fn an_unseen_fetch_may_have_given_it_back_if_its_caller_was_seen_to_leave() {
    let mut tape = three();
    let n = tape.begin_fetch();
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.left(n);
    tape.fetch(vec![urgent(3)]);
    tape.is_fine();
}

#[test]
fn a_server_may_hand_out_a_job_to_one_who_has_left() {
    let mut tape = Tape::new();
    let n = tape.begin_fetch();
    tape.left(n);
    tape.push_all(&[1, 2, 3]);
    tape.fetch(vec![grant(2, 2, 1)]);
    tape.fetch(vec![grant(1, 3, 1)]);
    tape.is_fine();
}

#[test]
fn i8_an_unseen_fetch_did_not_take_what_comes_before_its_lease_lapses() {
    let mut tape = three();
    let n = tape.begin_fetch();
    tape.info(n);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.fetch(vec![urgent(3)]);
    tape.breaks(8);
}

#[test]
fn nobody_knows_when_these_are_ready() {
    let mut tape = Tape::new();
    tape.push(due(1, When::After(Span::from_millis(1))));
    tape.push(limited(2));
    tape.push(item(3));
    tape.push(item(4));
    tape.want(3, Want::Retry, Changed::Refused);
    let edit = Want::Edit { queue: None, priority: None, due: Some(When::Now), limits: None };
    tape.want(3, edit, Changed::Yes);
    tape.fetch(vec![grant(4, 1, 1)]);
    tape.fetch(vec![grant(1, 2, 1), grant(2, 3, 1), grant(3, 4, 1)]);
    let counters = tape.is_fine().counters;
    assert_eq!((counters.ordered, counters.unordered), (2, 2));
}

#[test]
fn a_queue_that_may_be_paused_is_passed_over() {
    let pause = |paused| Meaning::Queue(Queue { paused, ..Queue::default() });
    let both = || vec![name("q"), name("r")];
    let run = |again: bool| {
        let mut tape = Tape::new();
        tape.push(item(1));
        tape.push(Item { queue: name("r"), ..item(2) });
        tape.define("q", pause(true));
        if again {
            tape.define("q", pause(false));
        }
        let n = tape.begin("w", Op::Fetch { queues: both(), kinds: None, n: 1, strict: false });
        tape.fetched(n, vec![Granted { queue: name("r"), ..grant(2, 1, 1) }]);
        tape.fetch(vec![grant(1, 2, 1)]);
        tape
    };
    run(false).is_fine();
    run(true).breaks(8);
}

#[test]
fn queues_in_turn_are_emptied_in_turn() {
    let run = |strict| {
        let mut tape = Tape::new();
        tape.push(Item { priority: 5, ..item(1) });
        tape.push(Item { queue: name("r"), ..item(2) });
        let queues = vec![name("q"), name("r")];
        let n = tape.begin("w", Op::Fetch { queues, kinds: None, n: 2, strict });
        let first = Granted { priority: 5, ..grant(1, 1, 1) };
        tape.fetched(n, vec![first, Granted { queue: name("r"), ..grant(2, 2, 1) }]);
        tape
    };
    run(true).is_fine();
    run(false).breaks(8);
}

#[test]
fn other_kinds_are_not_passed_over() {
    let mut tape = Tape::new();
    tape.push(Item { kind: name("other"), ..item(1) });
    tape.push(item(2));
    let (queues, kinds) = (vec![name("q")], Some(vec![name("k")]));
    let n = tape.begin("w", Op::Fetch { queues, kinds, n: 1, strict: false });
    tape.fetched(n, vec![grant(2, 1, 1)]);
    tape.is_fine();
}

#[test]
fn a_later_due_time_comes_later() {
    let late = |id, delivery| Granted { due: Time::from_millis(9), ..grant(id, delivery, 1) };
    let mut tape = three();
    tape.fetch(vec![urgent(1), grant(3, 2, 1), late(1, 3)]);
    tape.report(3, 2, DONE);
    tape.is_fine();
}

#[test]
fn an_unseen_fetch_may_have_taken_it_before_its_push_was_answered() {
    let mut tape = Tape::new();
    let fetch = tape.begin_fetch();
    let push = tape.begin_push(vec![item(1)]);
    tape.info(fetch);
    tape.pushed(push, vec![super::tape::new(1)]);
    tape.push(item(2));
    tape.fetch(vec![grant(2, 2, 1)]);
    tape.is_fine();
}

#[test]
fn an_unseen_fetch_that_a_crash_forgot_may_have_taken_it() {
    let mut tape = three();
    let n = tape.begin_fetch();
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.crash();
    tape.info(n);
    tape.fetch(vec![urgent(3)]);
    tape.is_fine();
}
