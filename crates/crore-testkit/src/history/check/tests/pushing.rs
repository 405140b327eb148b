//! I1 to I4, I9, I17, I19 and I22: what was pushed is there, once, and as it was pushed.

use crore_core::State::{Cancelled, Dead, Done, Ready};
use crore_core::job::{Keep, Lapse, Retain};
use crore_core::unique::Hold;
use crore_core::{JobId, Span, Time};

use super::tape::{DONE, FATAL, SECOND, Tape, due, grant, item, keyed, look, name, new, stored};
use crate::history::answer::{Changed, Count, Pushed};
use crate::history::check::Durability;
use crate::history::node::{Dump, Stored};
use crate::history::op::{Item, Meaning, Queue, Want, When};
use crate::history::{Answer, Fault, Hash, Node, Op};

const DAYS: Span = Span::from_secs(25 * 3600);

#[test]
fn what_was_pushed_and_is_there_is_fine() {
    let mut tape = Tape::new();
    tape.push_all(&[1, 2, 3]);
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.report(1, 1, DONE);
    tape.end(&[(1, Done), (2, Ready), (3, Ready)]);
    let counters = tape.is_fine().counters;
    assert_eq!((counters.pushes, counters.ok, counters.lost), (3, 3, 0));
    assert_eq!((counters.grants, counters.accepted, counters.duplicated), (1, 1, 0));
}

#[test]
fn i1_a_lost_job_is_told_by_its_place() {
    for (there, place) in [([1, 2], "postfix"), ([1, 3], "middle"), ([2, 3], "prefix")] {
        let mut tape = Tape::new();
        tape.push_all(&[1, 2, 3]);
        tape.crash();
        tape.end(&there.map(|id| (id, Ready)));
        let report = tape.breaks(1);
        assert!(report.violations[0].message.contains(place), "{report}");
        assert_eq!((report.violations.len(), report.counters.lost), (1, 1));
    }
}

#[test]
fn i1_a_done_job_is_not_gone_before_its_time() {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.report(1, 1, DONE);
    tape.end(&[]);
    tape.breaks(1);
}

#[test]
fn i1_a_job_that_cannot_have_ended_has_no_retention() {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.pass(DAYS);
    tape.end(&[]);
    tape.breaks(1);
}

#[test]
fn i1_two_pushes_with_one_number_are_a_loss() {
    let mut tape = Tape::new();
    tape.push(item(1));
    let n = tape.begin_push(vec![item(2)]);
    tape.pushed(n, vec![new(1)]);
    let mut report = tape.check();
    report.violations.retain(|found| found.promise.0 == 1);
    assert_eq!(report.violations.len(), 1);
}

#[test]
fn what_may_rightly_be_gone_is_fine() {
    let mut tape = Tape::new();
    tape.push_all(&[1, 2]);
    tape.push(Item { retain: Retain::Nothing, keep: Keep::Discard, ..item(3) });
    tape.fetch(vec![grant(1, 1, 1), grant(2, 2, 1), grant(3, 3, 1)]);
    tape.report(1, 1, DONE);
    tape.report(3, 3, DONE);
    tape.report(2, 2, FATAL);
    tape.want(2, Want::Delete, Changed::Yes);
    tape.pass(DAYS);
    tape.end(&[]);
    tape.is_fine();
}

#[test]
fn a_queue_that_keeps_few_may_drop_the_rest() {
    let mut tape = Tape::new();
    tape.define("q", Meaning::Queue(Queue { max_done: 1, ..Queue::default() }));
    tape.push_all(&[1, 2]);
    tape.fetch(vec![grant(1, 1, 1), grant(2, 2, 1)]);
    tape.report(1, 1, DONE);
    tape.report(2, 2, DONE);
    tape.end(&[(2, Done)]);
    tape.is_fine();
}

#[test]
fn a_store_that_may_lose_may_lose() {
    let run = |durability, fault| {
        let mut tape = Tape::new();
        tape.rules.durability = durability;
        tape.push(item(1));
        tape.fault(fault);
        tape.node(Node::Opened);
        tape.end(&[]);
        tape
    };
    run(Durability::D0, Fault::Crash).is_fine();
    run(Durability::D1, Fault::PowerCut).is_fine();
    run(Durability::D1, Fault::Crash).breaks(1);
    run(Durability::D2, Fault::PowerCut).breaks(1);
}

#[test]
fn i1_a_power_cut_costs_no_more_than_the_last_second() {
    let mut tape = Tape::new();
    tape.rules.durability = Durability::D1;
    tape.push(item(1));
    tape.pass(Span::from_secs(2));
    tape.fault(Fault::PowerCut);
    tape.node(Node::Opened);
    tape.end(&[]);
    tape.breaks(1);
}

#[test]
fn a_number_that_a_store_forgot_may_come_again() {
    let mut tape = Tape::new();
    tape.rules.durability = Durability::D0;
    tape.push(item(1));
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.crash();
    let n = tape.begin_push(vec![item(2)]);
    tape.pushed(n, vec![new(1)]);
    tape.fetch(vec![crate::history::answer::Granted { payload: Hash(2), ..grant(1, 1, 1) }]);
    assert_eq!(tape.is_fine().counters.reused, 1);
}

#[test]
fn i2_a_job_that_nobody_pushed() {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.end(&[(1, Ready), (9, Ready)]);
    assert_eq!(tape.breaks(2).counters.unexpected, 1);
    let mut tape = Tape::new();
    tape.fetch(vec![grant(9, 1, 1)]);
    tape.breaks(2);
    let mut tape = Tape::new();
    tape.get(9, Some(look(9, Ready, None)));
    tape.breaks(2);
}

#[test]
fn i2_one_push_does_not_make_two_jobs() {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.dump(vec![stored(1, Ready), Stored { payload: Hash(1), ..stored(2, Ready) }]);
    tape.breaks(2);
}

#[test]
fn i2_a_duplicate_of_a_job_that_nobody_pushed() {
    let mut tape = Tape::new();
    let n = tape.begin_push(vec![keyed(1, Hold::Window, Some(SECOND))]);
    tape.pushed(n, vec![Pushed::Duplicate(JobId(7))]);
    tape.breaks(2);
}

#[test]
fn a_push_of_unknown_fate_may_be_there_or_not() {
    let mut tape = Tape::new();
    let n = tape.begin_push(vec![item(1)]);
    tape.info(n);
    let n = tape.begin_push(vec![item(2)]);
    tape.info(n);
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.end(&[(1, crore_core::State::Running)]);
    assert_eq!(tape.is_fine().counters.recovered, 1);
}

#[test]
fn i3_a_failed_push_has_no_effect() {
    let mut tape = Tape::new();
    let n = tape.begin_push(vec![item(1)]);
    tape.fail(n);
    tape.end(&[(1, Ready)]);
    tape.breaks(3);
}

#[test]
fn i3_a_broken_item_has_no_effect() {
    let mut tape = Tape::new();
    let n = tape.begin_push(vec![item(1), item(2)]);
    tape.pushed(n, vec![new(1), Pushed::Broken]);
    tape.fetch(vec![grant(1, 1, 1), grant(2, 2, 1)]);
    tape.breaks(3);
}

#[test]
fn i4_a_changed_payload() {
    let wrong = |id| crate::history::answer::Granted { payload: Hash(99), ..grant(id, 1, 1) };
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.fetch(vec![wrong(1)]);
    tape.breaks(4);
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.dump(vec![Stored { payload: Hash(99), ..stored(1, Ready) }]);
    tape.breaks(4);
}

#[test]
fn i4_a_changed_place_unless_it_was_edited() {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.dump(vec![Stored { priority: 3, ..stored(1, Ready) }]);
    tape.breaks(4);
    let mut tape = Tape::new();
    tape.push(item(1));
    let edit = Want::Edit { queue: None, priority: Some(3), due: None, limits: None };
    tape.want(1, edit, Changed::Yes);
    tape.dump(vec![Stored { priority: 3, ..stored(1, Ready) }]);
    tape.is_fine();
}

#[test]
fn i4_a_due_time_before_the_one_that_was_named() {
    let mut tape = Tape::new();
    tape.push(due(1, When::At(Time::from_millis(5_000))));
    tape.pass(LONG);
    tape.fetch(vec![crate::history::answer::Granted {
        due: Time::from_millis(4_000),
        ..grant(1, 1, 1)
    }]);
    tape.breaks(4);
}

const LONG: Span = Span::from_secs(60);

#[test]
fn i4_a_result_that_nobody_reported() {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.report(1, 1, super::tape::result(5));
    tape.take(1, Some(Hash(6)));
    tape.breaks(4);
}

#[test]
fn i9_a_key_is_not_given_twice_in_its_window() {
    let mut tape = Tape::new();
    tape.push(keyed(1, Hold::Window, Some(LONG)));
    tape.crash();
    tape.push(keyed(2, Hold::Window, Some(LONG)));
    tape.breaks(9);
}

#[test]
fn i9_counts_a_push_of_unknown_fate_that_was_seen() {
    let key = |id| Stored { unique: Some("key".into()), ..stored(id, Ready) };
    let mut tape = Tape::new();
    let n = tape.begin_push(vec![keyed(1, Hold::UntilEnd, None)]);
    tape.info(n);
    tape.get(1, Some(look(1, Ready, None)));
    tape.push(keyed(2, Hold::UntilEnd, None));
    tape.dump(vec![key(1), key(2)]);
    tape.breaks(9);
}

#[test]
fn i9_concurrent_pushes_are_one_push() {
    let mut tape = Tape::new();
    let one = tape.begin_push(vec![keyed(1, Hold::Window, Some(LONG))]);
    let two = tape.begin_push(vec![keyed(2, Hold::Window, Some(LONG))]);
    tape.pushed(one, vec![new(1)]);
    tape.pushed(two, vec![new(2)]);
    tape.breaks(9);
}

#[test]
fn i9_a_duplicate_names_the_holder() {
    let mut tape = Tape::new();
    tape.push(keyed(1, Hold::Window, Some(SECOND)));
    tape.pass(SECOND);
    tape.push(keyed(2, Hold::Window, Some(LONG)));
    let n = tape.begin_push(vec![keyed(3, Hold::Window, Some(LONG))]);
    tape.pushed(n, vec![Pushed::Duplicate(JobId(1))]);
    tape.breaks(9);
    let mut tape = Tape::new();
    tape.push(item(1));
    let n = tape.begin_push(vec![keyed(3, Hold::Window, Some(LONG))]);
    tape.pushed(n, vec![Pushed::Duplicate(JobId(1))]);
    tape.breaks(9);
}

#[test]
fn i9_a_dead_job_keeps_a_lock_that_ends_with_success() {
    let run = |hold| {
        let mut tape = Tape::new();
        tape.push(keyed(1, hold, None));
        tape.fetch(vec![grant(1, 1, 1)]);
        tape.report(1, 1, FATAL);
        tape.push(keyed(2, hold, None));
        tape
    };
    run(Hold::UntilSuccess).breaks(9);
    run(Hold::UntilEnd).is_fine();
    run(Hold::UntilStart).is_fine();
}

#[test]
fn a_key_may_be_taken_again_after_its_lock() {
    let mut tape = Tape::new();
    tape.push(keyed(1, Hold::Window, Some(SECOND)));
    tape.pass(SECOND);
    tape.push(keyed(2, Hold::Window, Some(SECOND)));
    tape.is_fine();
    let mut tape = Tape::new();
    tape.push(keyed(1, Hold::UntilStart, None));
    let n = tape.begin_fetch();
    tape.info(n);
    tape.push(keyed(2, Hold::UntilStart, None));
    tape.is_fine();
}

#[test]
fn i17_half_a_batch() {
    let mut tape = Tape::new();
    let n = tape.begin_push(vec![item(1), item(2)]);
    tape.info(n);
    tape.crash();
    tape.end(&[(1, Ready)]);
    tape.breaks(17);
    let mut tape = Tape::new();
    tape.rules.durability = Durability::D1;
    let n = tape.begin_push(vec![item(1), item(2)]);
    tape.pushed(n, vec![new(1), new(2)]);
    tape.fault(Fault::PowerCut);
    tape.node(Node::Opened);
    tape.end(&[(2, Ready)]);
    tape.breaks(17);
}

#[test]
fn a_job_that_was_only_listed_may_have_been_taken_and_pruned() {
    let unheard = |is_fetched: bool, is_listed: bool| {
        let mut tape = Tape::new();
        tape.define("q", Meaning::Queue(Queue { max_dead: 0, ..Queue::default() }));
        let dies = |n| Item { lapse: Lapse::Crash { quarantine: Some(1) }, ..item(n) };
        let push = tape.begin_push(vec![dies(1), dies(2)]);
        tape.info(push);
        if is_fetched {
            let fetch = tape.begin_fetch();
            tape.info(fetch);
        }
        if is_listed {
            let list = tape.begin("engine", Op::List);
            tape.ok(list, Answer::Listed(vec![(JobId(2), item(2).payload)]));
        }
        tape.crash();
        tape.end(&[(1, Ready)]);
        tape
    };
    unheard(true, true).is_fine();
    unheard(true, false).breaks(17);
    unheard(false, true).breaks(17);
    unheard(false, false).breaks(17);
}

#[test]
fn a_batch_may_be_there_or_not_as_a_whole() {
    let mut tape = Tape::new();
    let one = tape.begin_push(vec![item(1), item(2)]);
    let two = tape.begin_push(vec![item(3), item(4)]);
    tape.info(one);
    tape.info(two);
    tape.end(&[(1, Ready), (2, Cancelled)]);
    tape.is_fine();
}

#[test]
fn i19_counts_are_those_of_the_jobs() {
    let mut tape = Tape::new();
    tape.push(item(1));
    let count = Count { queue: name("q"), kind: name("k"), state: Dead, n: 1 };
    tape.node(Node::Dump(Dump { jobs: vec![stored(1, Ready)], counts: vec![count] }));
    tape.breaks(19);
}

#[test]
fn i19_no_job_is_twice_in_the_dump() {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.end(&[(1, Ready), (1, Ready)]);
    tape.breaks(19);
}

#[test]
fn i19_a_quiet_count_does_not_miss_any() {
    let mut tape = Tape::new();
    tape.push_all(&[1, 2]);
    let n = tape.begin("c", Op::Counts);
    let count = Count { queue: name("q"), kind: name("k"), state: Ready, n: 1 };
    tape.ok(n, Answer::Counts(vec![count]));
    tape.end(&[(1, Ready), (2, Ready)]);
    tape.breaks(19);
}

#[test]
fn i22_a_push_that_is_never_answered() {
    let run = |crash: bool| {
        let mut tape = Tape::new();
        tape.begin_push(vec![item(1)]);
        if crash {
            tape.crash();
        }
        tape.end(&[]);
        tape
    };
    run(false).breaks(22);
    run(true).is_fine();
}

#[test]
fn i22_what_is_stored_without_room_is_not_dropped() {
    let run = |there: &[(u64, crore_core::State)]| {
        let mut tape = Tape::new();
        tape.fault(Fault::DiskFull);
        tape.push(item(1));
        tape.fault(Fault::DiskFreed);
        tape.end(there);
        tape
    };
    run(&[]).breaks(22);
    run(&[(1, Ready)]).is_fine();
}

#[test]
fn i22_reports_need_no_room() {
    let run = |reserve| {
        let mut tape = Tape::new();
        tape.rules.reserve = reserve;
        tape.push(item(1));
        tape.fetch(vec![grant(1, 1, 1)]);
        tape.fault(Fault::DiskFull);
        let n = tape.begin_report(1, 1, DONE);
        tape.fail(n);
        tape
    };
    run(true).breaks(22);
    run(false).is_fine();
}
