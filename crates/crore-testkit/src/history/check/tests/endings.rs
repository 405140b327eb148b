//! I7, I12, I14 and I18: the effects of a report.

use crore_core::State::{Cancelled, Dead, Done, Ready, Running, Scheduled};
use crore_core::job::{Lapse, ReportFencing, ResultRetention};
use crore_core::{JobId, Span};

use super::history_builder::{DONE, FAILED, FATAL, HistoryBuilder, LEASE, SECOND};
use super::history_builder::{grant, item, new, recorded_job, result, stored};
use crate::history::node::DumpedJob;
use crate::history::op::{AdminAction, RecordedItem, RecordedOutcome};
use crate::history::response::{RecordedChange, RecordedReport};
use crate::history::{PayloadHash, RecordedResponse};

fn held(item: RecordedItem) -> HistoryBuilder {
    let mut history = HistoryBuilder::new();
    history.push(item);
    history.fetch(vec![grant(1, 1, 1)]);
    history
}

#[test]
fn i7_two_reports_are_not_both_accepted() {
    let mut history = held(item(1));
    history.report(1, 1, DONE);
    history.report(1, 1, DONE);
    history.assert_violates(7);
    let mut history = held(item(1));
    let one = history.begin_report(1, 1, DONE);
    let two = history.begin_report(1, 1, FATAL);
    history.accepted(one);
    history.accepted(two);
    let report = history.check();
    assert!(report.violations.iter().any(|found| found.invariant.0 == 7), "{report}");
}

#[test]
fn i7_two_deliveries_do_not_both_end_a_job() {
    let mut history = held(RecordedItem { reports: ReportFencing::Any, ..item(1) });
    history.advance(LEASE);
    history.fetch(vec![grant(1, 2, 1)]);
    history.report(1, 1, DONE);
    history.report(1, 2, DONE);
    history.assert_violates(7);
}

#[test]
fn i7_an_old_delivery_is_fenced() {
    let run = |reports| {
        let mut history = held(RecordedItem { reports, ..item(1) });
        history.advance(LEASE);
        history.fetch(vec![grant(1, 2, 1)]);
        history.report(1, 1, DONE);
        history
    };
    run(ReportFencing::Fenced).assert_violates(7);
    run(ReportFencing::Any).assert_clean();
}

/// Another caller fetched and left in the meantime, and may have taken any job but this one.
fn renewed() -> HistoryBuilder {
    let mut history = held(item(1));
    history.begin_fetch();
    history.renew(1, 1, Some(LEASE));
    history
}

#[test]
fn i7_a_report_within_a_renewed_lease_counts() {
    let mut history = renewed();
    history.stale(1, 1, DONE);
    history.assert_violates(7);
}

#[test]
fn a_report_after_a_renewed_lease_may_be_stale() {
    let mut history = renewed();
    history.advance(LEASE);
    history.stale(1, 1, DONE);
    history.assert_clean();
    let mut history = renewed();
    history.begin_report(1, 1, DONE);
    history.stale(1, 1, DONE);
    history.assert_clean();
}

#[test]
fn i7_a_report_for_a_delivery_never_granted_is_a_violation() {
    let mut history = held(item(1));
    history.report(1, 9, DONE);
    history.assert_violates(7);
}

#[test]
fn i7_the_only_report_within_the_lease_counts() {
    let mut history = held(item(1));
    history.stale(1, 1, DONE);
    history.assert_violates(7);
    let mut history = held(item(1));
    history.advance(LEASE);
    history.stale(1, 1, DONE);
    history.assert_clean();
    let mut history = held(item(1));
    history.crash();
    history.stale(1, 1, DONE);
    history.assert_clean();
}

#[test]
fn i7_an_accepted_report_is_not_lost() {
    let mut history = held(item(1));
    history.report(1, 1, DONE);
    history.crash();
    history.get(1, Some(recorded_job(1, Running, None)));
    history.assert_violates(7);
    let mut history = held(item(1));
    history.report(1, 1, DONE);
    history.end(&[(1, Ready)]);
    history.assert_violates(7);
}

#[test]
fn i7_the_result_is_that_of_the_report_that_counts() {
    let mut history = held(item(1));
    history.advance(LEASE);
    history.fetch(vec![grant(1, 2, 1)]);
    history.report(1, 2, result(2));
    history.stale(1, 1, result(1));
    history.get(1, Some(recorded_job(1, Done, Some(PayloadHash(1)))));
    history.assert_violates(7);
}

#[test]
fn i7_a_job_is_not_done_without_a_report() {
    let mut history = held(item(1));
    history.end(&[(1, Done)]);
    history.assert_violates(7);
}

#[test]
fn a_report_of_unknown_fate_may_count_or_not() {
    for state in [Done, Running] {
        let mut history = held(item(1));
        let n = history.begin_report(1, 1, DONE);
        history.info(n);
        history.stale(1, 1, DONE);
        history.end(&[(1, state)]);
        history.assert_clean();
    }
}

fn any(n: u64) -> RecordedItem {
    RecordedItem { reports: ReportFencing::Any, lapse: Lapse::Again, ..item(n) }
}

#[test]
fn i7_where_any_delivery_may_report_the_first_report_after_a_hand_over_counts() {
    for second in [DONE, FATAL, FAILED] {
        let mut history = held(any(1));
        history.advance(LEASE);
        history.fetch(vec![grant(1, 2, 2)]);
        history.report(1, 1, FAILED);
        history.report(1, 2, second);
        history.assert_violates(7);
    }
    let mut history = held(any(1));
    history.report(1, 1, FAILED);
    history.stale(1, 1, DONE);
    history.end(&[(1, Scheduled)]);
    history.assert_clean();
}

#[test]
fn where_any_delivery_may_report_another_report_counts_after_a_hand_over() {
    let mut history = held(any(1));
    history.report(1, 1, FAILED);
    history.advance(SECOND);
    history.fetch(vec![grant(1, 2, 2)]);
    history.report(1, 1, DONE);
    history.end(&[(1, Done)]);
    history.assert_clean();
    let mut unseen = held(any(1));
    unseen.report(1, 1, FAILED);
    let n = unseen.begin_fetch();
    unseen.info(n);
    unseen.report(1, 1, DONE);
    unseen.end(&[(1, Done)]);
    unseen.assert_clean();
    let mut returned = held(any(1));
    returned.report(1, 1, RecordedOutcome::Interrupted);
    returned.report(1, 1, DONE);
    returned.end(&[(1, Done)]);
    returned.assert_clean();
}

#[test]
fn a_success_may_end_a_job_whose_lease_has_expired() {
    let mut history = held(any(1));
    history.advance(LEASE);
    history.report(1, 1, DONE);
    history.end(&[(1, Done)]);
    history.assert_clean();
}

#[test]
fn a_failure_after_the_lease_neither_delays_nor_ends_a_job() {
    let mut history = held(any(1));
    history.advance(LEASE);
    history.report(1, 1, FAILED);
    history.fetch(vec![grant(1, 2, 2)]);
    history.assert_clean();
    let mut crashed = at_last_attempt(ReportFencing::Any);
    crashed.advance(LEASE);
    crashed.report(1, 3, FAILED);
    crashed.fetch(vec![grant(1, 4, 3)]);
    crashed.assert_clean();
}

#[test]
fn i12_a_result_is_shown_during_its_retention() {
    let read = |pass, found: Option<PayloadHash>| {
        let mut history =
            held(RecordedItem { keep: ResultRetention::For(Span::from_secs(60)), ..item(1) });
        history.report(1, 1, result(5));
        history.crash();
        history.advance(pass);
        history.get(1, Some(recorded_job(1, Done, found)));
        history
    };
    read(SECOND, None).assert_violates(12);
    read(SECOND, Some(PayloadHash(5))).assert_clean();
    read(Span::from_secs(61), Some(PayloadHash(5))).assert_violates(12);
    read(Span::from_secs(61), None).assert_clean();
}

#[test]
fn i12_a_result_is_taken_once() {
    let mut history =
        held(RecordedItem { keep: ResultRetention::Once(Span::from_secs(60)), ..item(1) });
    history.report(1, 1, result(5));
    history.take(1, Some(PayloadHash(5)));
    history.take(1, Some(PayloadHash(5)));
    history.assert_violates(12);
    let mut history =
        held(RecordedItem { keep: ResultRetention::Once(Span::from_secs(60)), ..item(1) });
    history.report(1, 1, result(5));
    history.take(1, Some(PayloadHash(5)));
    history.take(1, None);
    history.assert_clean();
}

#[test]
fn i12_a_result_without_retention_is_not_kept() {
    let mut history = held(RecordedItem { keep: ResultRetention::Discard, ..item(1) });
    history.report(1, 1, result(5));
    history.get(1, Some(recorded_job(1, Done, Some(PayloadHash(5)))));
    history.assert_violates(12);
}

#[test]
fn i14_a_last_failure_is_the_end() {
    let mut history = held(item(1));
    history.report(1, 1, FATAL);
    history.fetch(vec![grant(1, 2, 2)]);
    history.assert_violates(14);
}

#[test]
fn i14_the_last_attempt_is_the_last() {
    let mut history = held(item(1));
    history.report(1, 1, FAILED);
    history.advance(SECOND);
    history.fetch(vec![grant(1, 2, 2)]);
    history.report(1, 2, FAILED);
    history.advance(SECOND);
    history.fetch(vec![grant(1, 3, 3)]);
    history.report(1, 3, FAILED);
    history.end(&[(1, Scheduled)]);
    history.assert_violates(14);
}

/// Three attempts; the last is running.
fn at_last_attempt(reports: ReportFencing) -> HistoryBuilder {
    let mut history = held(RecordedItem { reports, ..item(1) });
    for n in [1, 2] {
        history.report(1, n, FAILED);
        history.advance(SECOND);
        history.fetch(vec![grant(1, n + 1, n as u32 + 1)]);
    }
    history
}

#[test]
fn i14_a_late_failure_of_an_earlier_delivery_counts_against_the_attempt_that_runs() {
    let run = |again| {
        let mut history = at_last_attempt(ReportFencing::Any);
        history.report(1, 1, FAILED);
        history.advance(SECOND);
        if again {
            history.fetch(vec![grant(1, 4, 3)]);
        }
        history
    };
    run(true).assert_violates(14);
    run(false).assert_clean();
}

/// A delivery of the last attempt reports after the job was revived and runs again as attempt 1.
#[test]
fn a_late_failure_of_a_last_attempt_counts_against_the_attempt_that_runs() {
    let mut history = at_last_attempt(ReportFencing::Any);
    history.report(1, 2, FATAL);
    history.admin(1, AdminAction::Retry, RecordedChange::Yes);
    history.fetch(vec![grant(1, 4, 1)]);
    history.report(1, 3, FAILED);
    history.advance(SECOND);
    history.fetch(vec![grant(1, 5, 2)]);
    history.assert_clean();
}

#[test]
fn i14_dead_jobs_are_kept() {
    let mut history = held(item(1));
    history.report(1, 1, FATAL);
    history.advance(Span::from_secs(3600));
    history.end(&[]);
    history.assert_violates(14);
}

#[test]
fn i14_a_revived_job_starts_again() {
    let run = |attempt| {
        let mut history = held(item(1));
        history.report(1, 1, FATAL);
        history.admin(1, AdminAction::Retry, RecordedChange::Yes);
        history.fetch(vec![grant(1, 2, attempt)]);
        history
    };
    run(2).assert_violates(14);
    run(1).assert_clean();
}

#[test]
fn a_dead_job_may_be_cancelled_if_somebody_asked() {
    let mut history = held(item(1));
    history.admin(1, AdminAction::Cancel, RecordedChange::Asked);
    history.report(1, 1, FATAL);
    history.end(&[(1, Cancelled)]);
    history.assert_clean();
}

fn child(id: u64, place: u32) -> DumpedJob {
    DumpedJob { parent: Some((JobId(1), place)), ..stored(id, Ready) }
}

fn followed(answer: RecordedReport) -> HistoryBuilder {
    let mut history = held(item(1));
    let n = history.begin_report_with(1, 1, DONE, vec![item(2), item(3)]);
    history.ok(n, RecordedResponse::Reported(answer));
    history
}

#[test]
fn existing_follow_ups_are_accepted() {
    let mut history = followed(RecordedReport::Accepted(vec![new(2), new(3)]));
    history.dump(vec![stored(1, Done), child(2, 0), child(3, 1)]);
    history.assert_clean();
    let mut history = followed(RecordedReport::Accepted(Vec::new()));
    history.dump(vec![stored(1, Done), child(2, 0), child(3, 1)]);
    history.assert_clean();
}

#[test]
fn i18_a_follow_up_is_not_missing() {
    let mut history = followed(RecordedReport::Accepted(vec![new(2), new(3)]));
    history.dump(vec![stored(1, Done), child(2, 0)]);
    history.assert_violates(18);
    let mut history = followed(RecordedReport::Accepted(Vec::new()));
    history.dump(vec![stored(1, Done)]);
    history.assert_violates(18);
}

#[test]
fn i18_a_follow_up_does_not_come_twice() {
    let mut history = followed(RecordedReport::Accepted(vec![new(2), new(3)]));
    let again = DumpedJob { payload: PayloadHash(2), ..child(4, 0) };
    history.dump(vec![stored(1, Done), child(2, 0), child(3, 1), again]);
    history.assert_violates(18);
}

#[test]
fn follow_ups_may_be_pushed_again_after_a_revival() {
    let mut history = followed(RecordedReport::Accepted(vec![new(2), new(3)]));
    history.admin(1, AdminAction::Retry, RecordedChange::Yes);
    history.fetch(vec![grant(1, 2, 1)]);
    let n = history.begin_report_with(1, 2, DONE, vec![item(4)]);
    history.ok(n, RecordedResponse::Reported(RecordedReport::Accepted(vec![new(4)])));
    let parent = DumpedJob { delivery: crore_core::Delivery(2), ..stored(1, Done) };
    history.dump(vec![parent, child(2, 0), child(3, 1), child(4, 0)]);
    history.assert_clean();
}

#[test]
fn i18_a_report_that_does_not_count_pushes_nothing() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.fetch(vec![grant(1, 1, 1)]);
    history.advance(LEASE);
    let n = history.begin_report_with(1, 1, DONE, vec![item(2)]);
    history.ok(n, RecordedResponse::Reported(RecordedReport::Stale));
    history.dump(vec![stored(1, Ready), child(2, 0)]);
    history.assert_violates(18);
}

#[test]
fn i18_a_follow_up_knows_its_parent() {
    let mut history = followed(RecordedReport::Accepted(vec![new(2), new(3)]));
    history.dump(vec![stored(1, Done), child(2, 0), stored(3, Ready)]);
    history.assert_violates(18);
}

#[test]
fn follow_ups_of_a_report_of_unknown_fate_come_with_it() {
    let mut history = held(item(1));
    let n = history.begin_report_with(1, 1, DONE, vec![item(2), item(3)]);
    history.info(n);
    history.dump(vec![stored(1, Done), child(2, 0), child(3, 1)]);
    history.assert_clean();
    let mut history = held(item(1));
    history.report(1, 1, RecordedOutcome::Cancel);
    history.end(&[(1, Cancelled)]);
    history.assert_clean();
    let mut history = held(item(1));
    history.report(1, 1, FATAL);
    history.end(&[(1, Dead)]);
    history.assert_clean();
}

#[test]
fn a_job_that_was_stopped_keeps_no_details_of_its_failure() {
    let mut history = held(item(1));
    history.admin(1, AdminAction::Cancel, RecordedChange::Asked);
    let again = crate::history::op::RecordedRetry::ByPolicy;
    history.report(1, 1, RecordedOutcome::Failed { again, detail: Some(PayloadHash(5)) });
    history.get(1, Some(recorded_job(1, Cancelled, None)));
    history.assert_clean();
}

#[test]
fn a_clock_that_stands_still_after_a_jump_back_keeps_results_longer() {
    let mut history = held(RecordedItem { keep: ResultRetention::For(SECOND), ..item(1) });
    history.fault(crate::history::RecordedFault::ClockJump { by: -60_000 });
    history.report(1, 1, result(5));
    history.advance(Span::from_secs(10));
    history.get(1, Some(recorded_job(1, Done, Some(PayloadHash(5)))));
    history.assert_clean();
}
