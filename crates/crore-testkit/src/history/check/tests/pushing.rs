//! I1 to I4, I9, I17, I19 and I22: pushed jobs exist, once, and unchanged.

use crore_core::State::{Cancelled, Dead, Done, Ready};
use crore_core::job::{JobRetention, Lapse, ResultRetention};
use crore_core::unique::UniqueHold;
use crore_core::{JobId, Span, Time};

use super::history_builder::{
    DONE, FATAL, HistoryBuilder, SECOND, due, grant, item, keyed, name, new, recorded_job, stored,
};
use crate::history::check::DurabilityClass;
use crate::history::node::{DumpedJob, StoreDump};
use crate::history::op::{
    AdminAction, DefinitionContent, DueTime, RecordedItem, RecordedQueueSettings,
};
use crate::history::response::{RecordedChange, RecordedCount, RecordedPush};
use crate::history::{NodeObservation, PayloadHash, RecordedFault, RecordedOp, RecordedResponse};

const DAYS: Span = Span::from_secs(25 * 3600);

#[test]
fn a_pushed_job_in_the_dump_is_accepted() {
    let mut history = HistoryBuilder::new();
    history.push_all(&[1, 2, 3]);
    history.fetch(vec![grant(1, 1, 1)]);
    history.report(1, 1, DONE);
    history.end(&[(1, Done), (2, Ready), (3, Ready)]);
    let counters = history.assert_clean().counters;
    assert_eq!((counters.pushes, counters.ok, counters.lost), (3, 3, 0));
    assert_eq!((counters.grants, counters.accepted, counters.duplicated), (1, 1, 0));
}

#[test]
fn i1_a_lost_job_is_reported_with_its_position() {
    for (there, position) in [([1, 2], "postfix"), ([1, 3], "middle"), ([2, 3], "prefix")] {
        let mut history = HistoryBuilder::new();
        history.push_all(&[1, 2, 3]);
        history.crash();
        history.end(&there.map(|id| (id, Ready)));
        let report = history.assert_violates(1);
        assert!(report.violations[0].message.contains(position), "{report}");
        assert_eq!((report.violations.len(), report.counters.lost), (1, 1));
    }
}

#[test]
fn i1_a_done_job_is_not_removed_before_its_retention() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.fetch(vec![grant(1, 1, 1)]);
    history.report(1, 1, DONE);
    history.end(&[]);
    history.assert_violates(1);
}

#[test]
fn i1_a_job_that_cannot_have_ended_has_no_retention() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.advance(DAYS);
    history.end(&[]);
    history.assert_violates(1);
}

#[test]
fn i1_two_pushes_with_one_number_are_a_loss() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    let n = history.begin_push(vec![item(2)]);
    history.pushed(n, vec![new(1)]);
    let mut report = history.check();
    report.violations.retain(|found| found.invariant.0 == 1);
    assert_eq!(report.violations.len(), 1);
}

#[test]
fn a_job_that_may_be_pruned_may_be_missing() {
    let mut history = HistoryBuilder::new();
    history.push_all(&[1, 2]);
    history.push(RecordedItem {
        retain: JobRetention::Nothing,
        keep: ResultRetention::Discard,
        ..item(3)
    });
    history.fetch(vec![grant(1, 1, 1), grant(2, 2, 1), grant(3, 3, 1)]);
    history.report(1, 1, DONE);
    history.report(3, 3, DONE);
    history.report(2, 2, FATAL);
    history.admin(2, AdminAction::Delete, RecordedChange::Yes);
    history.advance(DAYS);
    history.end(&[]);
    history.assert_clean();
}

#[test]
fn a_queue_that_keeps_few_may_drop_the_rest() {
    let mut history = HistoryBuilder::new();
    history.define(
        "q",
        DefinitionContent::Queue(RecordedQueueSettings {
            max_done: 1,
            ..RecordedQueueSettings::default()
        }),
    );
    history.push_all(&[1, 2]);
    history.fetch(vec![grant(1, 1, 1), grant(2, 2, 1)]);
    history.report(1, 1, DONE);
    history.report(2, 2, DONE);
    history.end(&[(2, Done)]);
    history.assert_clean();
}

#[test]
fn a_store_without_durability_may_lose_jobs() {
    let run = |durability, fault| {
        let mut history = HistoryBuilder::new();
        history.rules.durability = durability;
        history.push(item(1));
        history.fault(fault);
        history.node(NodeObservation::Opened);
        history.end(&[]);
        history
    };
    run(DurabilityClass::D0, RecordedFault::Crash).assert_clean();
    run(DurabilityClass::D1, RecordedFault::PowerCut).assert_clean();
    run(DurabilityClass::D1, RecordedFault::Crash).assert_violates(1);
    run(DurabilityClass::D2, RecordedFault::PowerCut).assert_violates(1);
}

#[test]
fn i1_a_power_cut_costs_no_more_than_the_last_second() {
    let mut history = HistoryBuilder::new();
    history.rules.durability = DurabilityClass::D1;
    history.push(item(1));
    history.advance(Span::from_secs(2));
    history.fault(RecordedFault::PowerCut);
    history.node(NodeObservation::Opened);
    history.end(&[]);
    history.assert_violates(1);
}

#[test]
fn a_number_lost_in_a_crash_may_be_reused() {
    let mut history = HistoryBuilder::new();
    history.rules.durability = DurabilityClass::D0;
    history.push(item(1));
    history.fetch(vec![grant(1, 1, 1)]);
    history.crash();
    let n = history.begin_push(vec![item(2)]);
    history.pushed(n, vec![new(1)]);
    history.fetch(vec![crate::history::response::RecordedDelivery {
        payload: PayloadHash(2),
        ..grant(1, 1, 1)
    }]);
    assert_eq!(history.assert_clean().counters.reused, 1);
}

#[test]
fn i2_an_unpushed_job_is_a_violation() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.end(&[(1, Ready), (9, Ready)]);
    assert_eq!(history.assert_violates(2).counters.unexpected, 1);
    let mut history = HistoryBuilder::new();
    history.fetch(vec![grant(9, 1, 1)]);
    history.assert_violates(2);
    let mut history = HistoryBuilder::new();
    history.get(9, Some(recorded_job(9, Ready, None)));
    history.assert_violates(2);
}

#[test]
fn i2_one_push_does_not_make_two_jobs() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.dump(vec![stored(1, Ready), DumpedJob { payload: PayloadHash(1), ..stored(2, Ready) }]);
    history.assert_violates(2);
}

#[test]
fn i2_a_duplicate_of_an_unpushed_job_is_a_violation() {
    let mut history = HistoryBuilder::new();
    let n = history.begin_push(vec![keyed(1, UniqueHold::Window, Some(SECOND))]);
    history.pushed(n, vec![RecordedPush::Duplicate(JobId(7))]);
    history.assert_violates(2);
}

#[test]
fn a_push_of_unknown_fate_may_be_stored_or_missing() {
    let mut history = HistoryBuilder::new();
    let n = history.begin_push(vec![item(1)]);
    history.info(n);
    let n = history.begin_push(vec![item(2)]);
    history.info(n);
    history.fetch(vec![grant(1, 1, 1)]);
    history.end(&[(1, crore_core::State::Running)]);
    assert_eq!(history.assert_clean().counters.recovered, 1);
}

#[test]
fn i3_a_failed_push_has_no_effect() {
    let mut history = HistoryBuilder::new();
    let n = history.begin_push(vec![item(1)]);
    history.fail(n);
    history.end(&[(1, Ready)]);
    history.assert_violates(3);
}

#[test]
fn i3_a_broken_item_has_no_effect() {
    let mut history = HistoryBuilder::new();
    let n = history.begin_push(vec![item(1), item(2)]);
    history.pushed(n, vec![new(1), RecordedPush::Broken]);
    history.fetch(vec![grant(1, 1, 1), grant(2, 2, 1)]);
    history.assert_violates(3);
}

#[test]
fn i4_a_changed_payload_is_a_violation() {
    let wrong = |id| crate::history::response::RecordedDelivery {
        payload: PayloadHash(99),
        ..grant(id, 1, 1)
    };
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.fetch(vec![wrong(1)]);
    history.assert_violates(4);
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.dump(vec![DumpedJob { payload: PayloadHash(99), ..stored(1, Ready) }]);
    history.assert_violates(4);
}

#[test]
fn i4_a_changed_position_without_an_edit_is_a_violation() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.dump(vec![DumpedJob { priority: 3, ..stored(1, Ready) }]);
    history.assert_violates(4);
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    let edit = AdminAction::Edit { queue: None, priority: Some(3), due: None, limits: None };
    history.admin(1, edit, RecordedChange::Yes);
    history.dump(vec![DumpedJob { priority: 3, ..stored(1, Ready) }]);
    history.assert_clean();
}

#[test]
fn i4_an_earlier_due_time_is_a_violation() {
    let mut history = HistoryBuilder::new();
    history.push(due(1, DueTime::At(Time::from_millis(5_000))));
    history.advance(LONG);
    history.fetch(vec![crate::history::response::RecordedDelivery {
        due: Time::from_millis(4_000),
        ..grant(1, 1, 1)
    }]);
    history.assert_violates(4);
}

const LONG: Span = Span::from_secs(60);

#[test]
fn i4_an_unreported_result_is_a_violation() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.fetch(vec![grant(1, 1, 1)]);
    history.report(1, 1, super::history_builder::result(5));
    history.take(1, Some(PayloadHash(6)));
    history.assert_violates(4);
}

#[test]
fn i9_a_unique_key_is_not_granted_twice_in_its_window() {
    let mut history = HistoryBuilder::new();
    history.push(keyed(1, UniqueHold::Window, Some(LONG)));
    history.crash();
    history.push(keyed(2, UniqueHold::Window, Some(LONG)));
    history.assert_violates(9);
}

#[test]
fn i9_counts_a_push_of_unknown_fate_that_was_seen() {
    let key = |id| DumpedJob { unique: Some("key".into()), ..stored(id, Ready) };
    let mut history = HistoryBuilder::new();
    let n = history.begin_push(vec![keyed(1, UniqueHold::UntilEnd, None)]);
    history.info(n);
    history.get(1, Some(recorded_job(1, Ready, None)));
    history.push(keyed(2, UniqueHold::UntilEnd, None));
    history.dump(vec![key(1), key(2)]);
    history.assert_violates(9);
}

#[test]
fn i9_concurrent_pushes_are_one_push() {
    let mut history = HistoryBuilder::new();
    let one = history.begin_push(vec![keyed(1, UniqueHold::Window, Some(LONG))]);
    let two = history.begin_push(vec![keyed(2, UniqueHold::Window, Some(LONG))]);
    history.pushed(one, vec![new(1)]);
    history.pushed(two, vec![new(2)]);
    history.assert_violates(9);
}

#[test]
fn i9_a_duplicate_names_the_holder() {
    let mut history = HistoryBuilder::new();
    history.push(keyed(1, UniqueHold::Window, Some(SECOND)));
    history.advance(SECOND);
    history.push(keyed(2, UniqueHold::Window, Some(LONG)));
    let n = history.begin_push(vec![keyed(3, UniqueHold::Window, Some(LONG))]);
    history.pushed(n, vec![RecordedPush::Duplicate(JobId(1))]);
    history.assert_violates(9);
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    let n = history.begin_push(vec![keyed(3, UniqueHold::Window, Some(LONG))]);
    history.pushed(n, vec![RecordedPush::Duplicate(JobId(1))]);
    history.assert_violates(9);
}

#[test]
fn i9_a_dead_job_keeps_a_lock_that_ends_with_success() {
    let run = |hold| {
        let mut history = HistoryBuilder::new();
        history.push(keyed(1, hold, None));
        history.fetch(vec![grant(1, 1, 1)]);
        history.report(1, 1, FATAL);
        history.push(keyed(2, hold, None));
        history
    };
    run(UniqueHold::UntilSuccess).assert_violates(9);
    run(UniqueHold::UntilEnd).assert_clean();
    run(UniqueHold::UntilStart).assert_clean();
}

#[test]
fn a_key_may_be_taken_again_after_its_lock() {
    let mut history = HistoryBuilder::new();
    history.push(keyed(1, UniqueHold::Window, Some(SECOND)));
    history.advance(SECOND);
    history.push(keyed(2, UniqueHold::Window, Some(SECOND)));
    history.assert_clean();
    let mut history = HistoryBuilder::new();
    history.push(keyed(1, UniqueHold::UntilStart, None));
    let n = history.begin_fetch();
    history.info(n);
    history.push(keyed(2, UniqueHold::UntilStart, None));
    history.assert_clean();
}

#[test]
fn i17_half_a_batch_is_a_violation() {
    let mut history = HistoryBuilder::new();
    let n = history.begin_push(vec![item(1), item(2)]);
    history.info(n);
    history.crash();
    history.end(&[(1, Ready)]);
    history.assert_violates(17);
    let mut history = HistoryBuilder::new();
    history.rules.durability = DurabilityClass::D1;
    let n = history.begin_push(vec![item(1), item(2)]);
    history.pushed(n, vec![new(1), new(2)]);
    history.fault(RecordedFault::PowerCut);
    history.node(NodeObservation::Opened);
    history.end(&[(2, Ready)]);
    history.assert_violates(17);
}

#[test]
fn a_job_that_was_only_listed_may_have_been_taken_and_pruned() {
    let unheard = |is_fetched: bool, is_listed: bool| {
        let mut history = HistoryBuilder::new();
        history.define(
            "q",
            DefinitionContent::Queue(RecordedQueueSettings {
                max_dead: 0,
                ..RecordedQueueSettings::default()
            }),
        );
        let dies = |n| RecordedItem { lapse: Lapse::Crash { quarantine: Some(1) }, ..item(n) };
        let push = history.begin_push(vec![dies(1), dies(2)]);
        history.info(push);
        if is_fetched {
            let fetch = history.begin_fetch();
            history.info(fetch);
        }
        if is_listed {
            let list = history.begin("engine", RecordedOp::List);
            history.ok(list, RecordedResponse::Listed(vec![(JobId(2), item(2).payload)]));
        }
        history.crash();
        history.end(&[(1, Ready)]);
        history
    };
    unheard(true, true).assert_clean();
    unheard(true, false).assert_violates(17);
    unheard(false, true).assert_violates(17);
    unheard(false, false).assert_violates(17);
}

#[test]
fn a_batch_may_be_stored_or_missing_as_a_whole() {
    let mut history = HistoryBuilder::new();
    let one = history.begin_push(vec![item(1), item(2)]);
    let two = history.begin_push(vec![item(3), item(4)]);
    history.info(one);
    history.info(two);
    history.end(&[(1, Ready), (2, Cancelled)]);
    history.assert_clean();
}

#[test]
fn i19_counts_equal_the_jobs() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    let count = RecordedCount { queue: name("q"), kind: name("k"), state: Dead, n: 1 };
    history.node(NodeObservation::Dump(StoreDump {
        jobs: vec![stored(1, Ready)],
        counts: vec![count],
    }));
    history.assert_violates(19);
}

#[test]
fn i19_no_job_is_twice_in_the_dump() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.end(&[(1, Ready), (1, Ready)]);
    history.assert_violates(19);
}

#[test]
fn i19_a_quiet_count_does_not_miss_any() {
    let mut history = HistoryBuilder::new();
    history.push_all(&[1, 2]);
    let n = history.begin("c", RecordedOp::Counts);
    let count = RecordedCount { queue: name("q"), kind: name("k"), state: Ready, n: 1 };
    history.ok(n, RecordedResponse::Counts(vec![count]));
    history.end(&[(1, Ready), (2, Ready)]);
    history.assert_violates(19);
}

#[test]
fn i22_a_push_without_a_response_is_a_violation() {
    let run = |crash: bool| {
        let mut history = HistoryBuilder::new();
        history.begin_push(vec![item(1)]);
        if crash {
            history.crash();
        }
        history.end(&[]);
        history
    };
    run(false).assert_violates(22);
    run(true).assert_clean();
}

#[test]
fn i22_a_push_stored_on_a_full_disk_is_not_dropped() {
    let run = |there: &[(u64, crore_core::State)]| {
        let mut history = HistoryBuilder::new();
        history.fault(RecordedFault::DiskFull);
        history.push(item(1));
        history.fault(RecordedFault::DiskFreed);
        history.end(there);
        history
    };
    run(&[]).assert_violates(22);
    run(&[(1, Ready)]).assert_clean();
}

#[test]
fn i22_reports_are_accepted_on_a_full_disk() {
    let run = |reserve| {
        let mut history = HistoryBuilder::new();
        history.rules.reserve = reserve;
        history.push(item(1));
        history.fetch(vec![grant(1, 1, 1)]);
        history.fault(RecordedFault::DiskFull);
        let n = history.begin_report(1, 1, DONE);
        history.fail(n);
        history
    };
    run(true).assert_violates(22);
    run(false).assert_clean();
}
