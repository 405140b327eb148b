//! I8: order.

use crore_core::job::ReportFencing;
use crore_core::version::{KindVersions, VersionRequirement};
use crore_core::{Span, Time};

use super::history_builder::{DONE, HistoryBuilder, LEASE, due, grant, item, limited, name};
use crate::history::op::{
    AdminAction, DefinitionContent, DueTime, RecordedItem, RecordedOutcome, RecordedQueueSettings,
};
use crate::history::response::{RecordedChange, RecordedDelivery, RecordedReport};
use crate::history::{RecordedOp, RecordedResponse};

/// Jobs 1 to 3; 2 is the most urgent.
fn three() -> HistoryBuilder {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.push(RecordedItem { priority: -1, ..item(2) });
    history.push(item(3));
    history
}

fn urgent(delivery: u64) -> RecordedDelivery {
    RecordedDelivery { priority: -1, ..grant(2, delivery, 1) }
}

#[test]
fn delivery_in_order_is_accepted() {
    let mut history = three();
    history.fetch(vec![urgent(1), grant(1, 2, 1)]);
    history.fetch(vec![grant(3, 3, 1)]);
    let counters = history.assert_clean().counters;
    assert_eq!((counters.ordered, counters.unordered), (3, 0));
}

#[test]
fn i8_a_more_urgent_job_is_not_passed_over() {
    let mut history = three();
    history.fetch(vec![grant(1, 1, 1)]);
    history.fetch(vec![urgent(2)]);
    history.assert_violates(8);
}

#[test]
fn i8_an_older_job_is_not_passed_over() {
    let mut history = three();
    history.fetch(vec![urgent(1), grant(3, 2, 1)]);
    history.fetch(vec![grant(1, 3, 1)]);
    history.assert_violates(8);
}

#[test]
fn i8_the_jobs_of_one_response_are_in_order() {
    let mut history = three();
    history.fetch(vec![grant(1, 1, 1), urgent(2)]);
    history.assert_violates(8);
}

#[test]
fn i8_a_job_that_is_handed_back_keeps_its_position() {
    let mut history = three();
    history.fetch(vec![urgent(1)]);
    history.report(2, 1, RecordedOutcome::Interrupted);
    history.fetch(vec![grant(1, 2, 1)]);
    history.fetch(vec![urgent(3)]);
    history.assert_violates(8);
}

/// Job 2 is delivered twice, with a lapse in between. The second delivery hands it back while the success
/// report of the first is in flight, and later jobs are delivered.
fn an_older_delivery_succeeds_late(reports: ReportFencing) -> HistoryBuilder {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.push(RecordedItem { priority: -1, reports, ..item(2) });
    history.push(item(3));
    history.fetch(vec![urgent(1)]);
    history.advance(LEASE);
    history.fetch(vec![urgent(2)]);
    let late = history.begin_report(2, 1, DONE);
    history.report(2, 2, RecordedOutcome::Interrupted);
    history.fetch(vec![grant(1, 3, 1)]);
    match reports {
        ReportFencing::Any => history.accepted(late),
        ReportFencing::Fenced => {
            history.ok(late, RecordedResponse::Reported(RecordedReport::Stale));
        }
    }
    history.fetch(vec![grant(3, 4, 1)]);
    history
}

#[test]
fn where_any_delivery_reports_a_late_success_may_have_ended_a_job_that_was_handed_back() {
    an_older_delivery_succeeds_late(ReportFencing::Any).assert_clean();
}

#[test]
fn i8_where_reports_are_fenced_a_late_success_ends_nothing() {
    an_older_delivery_succeeds_late(ReportFencing::Fenced).assert_violates(8);
}

#[test]
fn i8_a_crash_does_not_change_the_order() {
    let mut history = three();
    history.crash();
    history.fetch(vec![grant(3, 1, 1)]);
    history.assert_violates(8);
}

#[test]
fn where_order_is_not_exact_nothing_is_checked() {
    let mut history = three();
    history.rules.ordered = false;
    history.fetch(vec![grant(3, 1, 1)]);
    history.assert_clean();
}

#[test]
fn a_concurrent_fetch_may_have_taken_a_skipped_job() {
    let mut history = three();
    let one = history.begin_fetch();
    let two = history.begin_fetch();
    history.fetched(two, vec![grant(1, 2, 1)]);
    history.fetched(one, vec![urgent(1)]);
    history.assert_clean();
}

#[test]
fn an_unseen_fetch_may_have_taken_a_skipped_job() {
    let mut history = three();
    let n = history.begin_fetch();
    history.info(n);
    history.fetch(vec![grant(1, 2, 1)]);
    history.advance(LEASE);
    history.fetch(vec![urgent(3)]);
    history.assert_clean();
}

/// Job 2 may run for a second. An unseen fetch may have taken it; job 1 is delivered, and after `span` job 2
/// is delivered again.
fn an_unseen_run_ends_after(span: Span) -> HistoryBuilder {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.push(RecordedItem { priority: -1, timeout: Some(Span::from_secs(1)), ..item(2) });
    let n = history.begin_fetch();
    history.info(n);
    history.fetch(vec![grant(1, 2, 1)]);
    history.advance(span);
    history.fetch(vec![RecordedDelivery { attempt: 2, ..urgent(3) }]);
    history
}

#[test]
fn an_unseen_run_may_have_timed_out() {
    an_unseen_run_ends_after(Span::from_secs(2)).assert_clean();
}

#[test]
fn i8_an_unseen_run_does_not_time_out_early() {
    an_unseen_run_ends_after(Span::from_millis(100)).assert_violates(8);
}

#[test]
fn an_unseen_fetch_may_have_returned_a_job_if_its_caller_left() {
    let mut history = three();
    let n = history.begin_fetch();
    history.fetch(vec![grant(1, 2, 1)]);
    history.left(n);
    history.fetch(vec![urgent(3)]);
    history.assert_clean();
}

#[test]
fn a_server_may_deliver_a_job_to_a_caller_that_has_left() {
    let mut history = HistoryBuilder::new();
    let n = history.begin_fetch();
    history.left(n);
    history.push_all(&[1, 2, 3]);
    history.fetch(vec![grant(2, 2, 1)]);
    history.fetch(vec![grant(1, 3, 1)]);
    history.assert_clean();
}

#[test]
fn i8_a_job_delivered_before_a_lapse_was_not_taken_by_an_unseen_fetch() {
    let mut history = three();
    let n = history.begin_fetch();
    history.info(n);
    history.fetch(vec![grant(1, 2, 1)]);
    history.fetch(vec![urgent(3)]);
    history.assert_violates(8);
}

#[test]
fn jobs_with_unknown_ready_time_are_not_judged() {
    let mut history = HistoryBuilder::new();
    history.push(due(1, DueTime::After(Span::from_millis(1))));
    history.push(limited(2));
    history.push(item(3));
    history.push(item(4));
    history.admin(3, AdminAction::Retry, RecordedChange::Refused);
    let edit =
        AdminAction::Edit { queue: None, priority: None, due: Some(DueTime::Now), limits: None };
    history.admin(3, edit, RecordedChange::Yes);
    history.fetch(vec![grant(4, 1, 1)]);
    history.fetch(vec![grant(1, 2, 1), grant(2, 3, 1), grant(3, 4, 1)]);
    let counters = history.assert_clean().counters;
    assert_eq!((counters.ordered, counters.unordered), (2, 2));
}

#[test]
fn a_queue_that_may_be_paused_is_not_judged() {
    let pause = |paused| {
        DefinitionContent::Queue(RecordedQueueSettings {
            paused,
            ..RecordedQueueSettings::default()
        })
    };
    let both = || vec![name("q"), name("r")];
    let run = |again: bool| {
        let mut history = HistoryBuilder::new();
        history.push(item(1));
        history.push(RecordedItem { queue: name("r"), ..item(2) });
        history.define("q", pause(true));
        if again {
            history.define("q", pause(false));
        }
        let n = history.begin(
            "w",
            RecordedOp::Fetch {
                queues: both(),
                kinds: None,
                versions: KindVersions::default(),
                n: 1,
                strict: false,
            },
        );
        history.fetched(n, vec![RecordedDelivery { queue: name("r"), ..grant(2, 1, 1) }]);
        history.fetch(vec![grant(1, 2, 1)]);
        history
    };
    run(false).assert_clean();
    run(true).assert_violates(8);
}

#[test]
fn strict_fetches_empty_queues_in_order() {
    let run = |strict| {
        let mut history = HistoryBuilder::new();
        history.push(RecordedItem { priority: 5, ..item(1) });
        history.push(RecordedItem { queue: name("r"), ..item(2) });
        let queues = vec![name("q"), name("r")];
        let n = history.begin(
            "w",
            RecordedOp::Fetch {
                queues,
                kinds: None,
                versions: KindVersions::default(),
                n: 2,
                strict,
            },
        );
        let first = RecordedDelivery { priority: 5, ..grant(1, 1, 1) };
        history.fetched(n, vec![first, RecordedDelivery { queue: name("r"), ..grant(2, 2, 1) }]);
        history
    };
    run(true).assert_clean();
    run(false).assert_violates(8);
}

#[test]
fn jobs_of_other_kinds_do_not_count_as_skipped() {
    let mut history = HistoryBuilder::new();
    history.push(RecordedItem { kind: name("other"), ..item(1) });
    history.push(item(2));
    let (queues, kinds) = (vec![name("q")], Some(vec![name("k")]));
    let n = history.begin(
        "w",
        RecordedOp::Fetch { queues, kinds, versions: KindVersions::default(), n: 1, strict: false },
    );
    history.fetched(n, vec![grant(2, 1, 1)]);
    history.assert_clean();
}

#[test]
fn a_later_due_time_is_delivered_later() {
    let late =
        |id, delivery| RecordedDelivery { due: Time::from_millis(9), ..grant(id, delivery, 1) };
    let mut history = three();
    history.fetch(vec![urgent(1), grant(3, 2, 1), late(1, 3)]);
    history.report(3, 2, DONE);
    history.assert_clean();
}

#[test]
fn an_unseen_fetch_may_have_taken_a_job_before_its_push_response() {
    let mut history = HistoryBuilder::new();
    let fetch = history.begin_fetch();
    let push = history.begin_push(vec![item(1)]);
    history.info(fetch);
    history.pushed(push, vec![super::history_builder::new(1)]);
    history.push(item(2));
    history.fetch(vec![grant(2, 2, 1)]);
    history.assert_clean();
}

#[test]
fn an_unseen_fetch_lost_in_a_crash_may_have_taken_a_skipped_job() {
    let mut history = three();
    let n = history.begin_fetch();
    history.fetch(vec![grant(1, 2, 1)]);
    history.crash();
    history.info(n);
    history.fetch(vec![urgent(3)]);
    history.assert_clean();
}

#[test]
fn a_required_version_decides_who_gets_a_job_and_who_skips_it() {
    let required = VersionRequirement::parse("worker_version", ">=2").expect("a requirement");
    let run = |version: Option<&str>, first: u64| {
        let mut history = HistoryBuilder::new();
        history.push(RecordedItem { worker_version: Some(required), ..item(1) });
        history.push(item(2));
        // The other job is fetched later, by a worker that may have both.
        for (version, id, delivery) in [(version, first, 1), (Some("2"), 3 - first, 2)] {
            let versions = KindVersions::parse(version.map(|version| ("k", version)));
            let (queues, versions) = (vec![name("q")], versions.expect("versions"));
            let fetch = RecordedOp::Fetch { queues, kinds: None, versions, n: 1, strict: false };
            let n = history.begin("w", fetch);
            history.fetched(n, vec![grant(id, delivery, 1)]);
        }
        history
    };
    run(Some("2.1"), 1).assert_clean();
    run(None, 2).assert_clean();
    run(Some("1.9"), 2).assert_clean();
    run(Some("2"), 2).assert_violates(8);
    run(Some("1"), 1).assert_violates(8);
    run(None, 1).assert_violates(8);
}
