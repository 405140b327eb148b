//! I5, I6, I15 and I16: which delivery holds a job.

use crore_core::job::{Lapse, ReportFencing};
use crore_core::{Span, State};

use super::history_builder::{DONE, FAILED, HistoryBuilder, LEASE, SECOND, grant, item, limited};
use crate::history::op::{
    AdminAction, DefinitionContent, RecordedItem, RecordedOutcome, RecordedRate,
};
use crate::history::response::RecordedChange;
use crate::history::{RecordedFault, RecordedResponse};

const HALF: Span = Span::from_secs(5);

fn held() -> HistoryBuilder {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.fetch(vec![grant(1, 1, 1)]);
    history
}

#[test]
fn i5_a_job_is_not_delivered_while_it_is_leased() {
    let mut history = held();
    history.advance(HALF);
    history.fetch(vec![grant(1, 2, 1)]);
    history.assert_violates(5);
}

#[test]
fn i5_counts_renewals() {
    let mut history = held();
    history.advance(HALF);
    history.renew(1, 1, Some(LEASE));
    history.advance(Span::from_secs(6));
    history.fetch(vec![grant(1, 2, 1)]);
    history.assert_violates(5);
}

#[test]
fn i5_a_lease_is_not_renewed_after_a_redelivery() {
    let mut history = held();
    history.advance(LEASE);
    history.advance(HALF);
    history.fetch(vec![grant(1, 2, 1)]);
    history.renew(1, 1, Some(LEASE));
    history.assert_violates(5);
}

#[test]
fn a_renewal_of_the_older_lease_is_stale_and_of_the_newer_one_granted() {
    let mut history = held();
    history.advance(LEASE);
    history.advance(HALF);
    history.fetch(vec![grant(1, 2, 1)]);
    history.renew(1, 1, None);
    history.renew(1, 2, Some(LEASE));
    history.assert_clean();
}

#[test]
fn a_lease_may_be_renewed_when_a_crash_forgot_the_newer_one() {
    let mut history = held();
    history.push(item(2));
    history.advance(LEASE);
    history.advance(HALF);
    history.fetch(vec![grant(1, 2, 1)]);
    history.crash();
    history.renew(1, 1, Some(LEASE));
    history.assert_clean();
}

#[test]
fn i5_a_crash_does_not_excuse_what_was_durable() {
    let mut history = held();
    history.push(item(2));
    history.crash();
    history.fetch(vec![grant(1, 2, 1)]);
    history.assert_violates(5);
}

#[test]
fn i5_an_older_delivery_counts_too() {
    let mut history = held();
    history.advance(LEASE);
    history.fetch(vec![grant(1, 2, 1)]);
    history.advance(HALF);
    history.fetch(vec![grant(1, 3, 1)]);
    let report = history.assert_violates(5);
    assert_eq!(report.violations.len(), 1);
}

#[test]
fn i5_a_clock_jump_back_expires_no_lease() {
    let mut history = held();
    history.fault(RecordedFault::ClockJump { by: -60_000 });
    history.fetch(vec![grant(1, 2, 1)]);
    history.assert_violates(5);
}

#[test]
fn a_lapsed_lease_may_be_granted_again() {
    let mut history = held();
    history.advance(LEASE);
    history.fetch(vec![grant(1, 2, 1)]);
    history.stale(1, 1, DONE);
    history.report(1, 2, DONE);
    history.end(&[(1, State::Done)]);
    assert_eq!(history.assert_clean().counters.duplicated, 1);
}

#[test]
fn a_claim_lost_in_a_crash_may_be_repeated() {
    let mut history = held();
    let n = history.begin_push(vec![item(2)]);
    history.fault(RecordedFault::PowerCut);
    history.info(n);
    history.node(crate::history::NodeObservation::Opened);
    history.fetch(vec![grant(1, 2, 1)]);
    history.stale(1, 1, DONE);
    history.assert_clean();
}

#[test]
fn a_stale_response_proves_nothing_about_a_crash() {
    let mut history = held();
    history.stale(7, 7, DONE);
    history.crash();
    history.fetch(vec![grant(1, 2, 1)]);
    history.assert_clean();
}

#[test]
fn a_renewal_that_a_crash_forgot_does_not_count() {
    let mut history = held();
    history.push(item(2));
    history.advance(HALF);
    history.renew(1, 1, Some(LEASE));
    history.crash();
    history.advance(Span::from_secs(6));
    history.fetch(vec![grant(1, 2, 1)]);
    history.assert_clean();
}

/// Job 1 is delivered, and perhaps also taken by an unseen fetch. Its first holder reports a failure twice,
/// then the job is delivered as attempt 3.
fn failed_twice_by_its_first_holder(reports: ReportFencing) -> HistoryBuilder {
    let mut history = HistoryBuilder::new();
    history.push(RecordedItem { reports, ..item(1) });
    history.fetch(vec![grant(1, 1, 1)]);
    history.report(1, 1, FAILED);
    let n = history.begin_fetch();
    history.info(n);
    history.advance(Span::from_secs(60));
    match reports {
        ReportFencing::Any => history.report(1, 1, FAILED),
        ReportFencing::Fenced => history.stale(1, 1, FAILED),
    }
    history.advance(Span::from_secs(60));
    history.fetch(vec![grant(1, 3, 3)]);
    history
}

#[test]
fn where_any_delivery_reports_a_late_failure_may_have_ended_an_unseen_one() {
    failed_twice_by_its_first_holder(ReportFencing::Any).assert_clean();
}

#[test]
fn i6_where_reports_are_fenced_a_late_failure_costs_nothing() {
    failed_twice_by_its_first_holder(ReportFencing::Fenced).assert_violates(6);
}

#[test]
fn a_returned_lease_may_be_granted_again() {
    let mut history = held();
    history.report(1, 1, RecordedOutcome::Interrupted);
    history.fetch(vec![grant(1, 2, 1)]);
    history.assert_clean();
    let mut history = held();
    let n = history.begin_report(1, 1, RecordedOutcome::Interrupted);
    history.info(n);
    history.fetch(vec![grant(1, 2, 1)]);
    history.assert_clean();
}

#[test]
fn a_clock_that_jumps_ahead_ends_leases() {
    let mut history = held();
    history.fault(RecordedFault::ClockJump { by: 60_000 });
    history.fetch(vec![grant(1, 2, 1)]);
    history.assert_clean();
}

#[test]
fn a_run_that_timed_out_may_be_redelivered() {
    let mut history = HistoryBuilder::new();
    history.push(RecordedItem { timeout: Some(SECOND), ..item(1) });
    history.fetch(vec![grant(1, 1, 1)]);
    history.advance(Span::from_secs(2));
    history.fetch(vec![grant(1, 2, 2)]);
    history.assert_clean();
}

#[test]
fn i6_a_delivery_number_is_not_reused() {
    let mut history = held();
    history.crash();
    history.fetch(vec![grant(1, 1, 1)]);
    history.assert_violates(6);
}

#[test]
fn i6_numbers_grow() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.fetch(vec![grant(1, 5, 1)]);
    history.crash();
    history.fetch(vec![grant(1, 4, 1)]);
    history.assert_violates(6);
}

#[test]
fn i6_attempts_stay_within_the_maximum() {
    let mut history = HistoryBuilder::new();
    let lapse = Lapse::Failure;
    let retry = crore_core::retry::Retry { max_attempts: Some(1), ..item(1).retry };
    history.push(RecordedItem { lapse, retry, ..item(1) });
    history.fetch(vec![grant(1, 1, 1)]);
    history.advance(LEASE);
    history.fetch(vec![grant(1, 2, 2)]);
    history.assert_violates(6);
}

#[test]
fn i6_hand_backs_snoozes_and_crashes_cost_no_attempt() {
    for outcome in [RecordedOutcome::Interrupted, RecordedOutcome::Snooze(Span::ZERO)] {
        let mut history = held();
        history.report(1, 1, outcome);
        history.fetch(vec![grant(1, 2, 2)]);
        history.assert_violates(6);
    }
    let mut history = held();
    history.advance(LEASE);
    history.fetch(vec![grant(1, 2, 2)]);
    history.assert_violates(6);
}

#[test]
fn i6_a_failure_costs_one() {
    for attempt in [1, 3] {
        let mut history = held();
        history.report(1, 1, FAILED);
        history.advance(SECOND);
        history.fetch(vec![grant(1, 2, attempt)]);
        history.assert_violates(6);
    }
}

#[test]
fn i6_the_first_attempt_is_the_first() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.fetch(vec![grant(1, 1, 2)]);
    history.assert_violates(6);
}

#[test]
fn an_unseen_delivery_may_have_cost_an_attempt() {
    let mut history = HistoryBuilder::new();
    history.push(RecordedItem { lapse: Lapse::Failure, ..item(1) });
    let n = history.begin_fetch();
    history.info(n);
    history.advance(Span::from_secs(60));
    history.fetch(vec![grant(1, 2, 2)]);
    history.assert_clean();
}

fn concurrency(most: u32) -> DefinitionContent {
    DefinitionContent::Limit { concurrency: Some(most), rate: None }
}

#[test]
fn i15_no_more_jobs_run_than_the_limit() {
    let mut history = HistoryBuilder::new();
    history.define("l", concurrency(1));
    history.push(limited(1));
    history.push(limited(2));
    history.fetch(vec![grant(1, 1, 1)]);
    history.fetch(vec![grant(2, 2, 1)]);
    history.assert_violates(15);
}

#[test]
fn i15_also_within_one_fetch_and_after_a_crash() {
    let mut history = HistoryBuilder::new();
    history.define("l", concurrency(1));
    history.push(limited(1));
    history.push(limited(2));
    history.fetch(vec![grant(1, 1, 1), grant(2, 2, 1)]);
    history.assert_violates(15);
    let mut history = HistoryBuilder::new();
    history.define("l", concurrency(1));
    history.push(limited(1));
    history.fetch(vec![grant(1, 1, 1)]);
    history.push(limited(2));
    history.crash();
    history.fetch(vec![grant(2, 2, 1)]);
    history.assert_violates(15);
}

/// The first job is claimed at 1 s, but the response arrives after the claim of job 2 at `second_ms`.
fn late_response(job: RecordedItem, second_ms: i64) -> HistoryBuilder {
    let mut history = HistoryBuilder::new();
    history.define("l", concurrency(1));
    history.push(job);
    history.push(limited(2));
    let first = history.begin_fetch();
    history.advance(LEASE);
    let second = history.begin_fetch();
    history.ok_at(second, second_ms, RecordedResponse::Fetched(vec![grant(2, 2, 1)]));
    history.ok_at(first, 1000, RecordedResponse::Fetched(vec![grant(1, 1, 1)]));
    history
}

#[test]
fn a_delivery_whose_lease_ended_before_its_response_holds_no_permit() {
    let after_its_lease = 1000 + i64::try_from(LEASE.as_millis()).expect("small");
    late_response(limited(1), after_its_lease).assert_clean();
}

#[test]
fn a_delivery_that_timed_out_before_its_response_holds_no_permit() {
    let job = || RecordedItem { timeout: Some(SECOND), ..limited(1) };
    late_response(job(), 2000).assert_clean();
    late_response(job(), 1999).assert_violates(15);
}

#[test]
fn a_delivery_whose_job_was_finished_before_its_response_holds_no_permit() {
    let mut history = HistoryBuilder::new();
    history.define("l", concurrency(1));
    history.push(RecordedItem { reports: ReportFencing::Any, ..limited(1) });
    history.push(limited(2));
    history.fetch(vec![grant(1, 1, 1)]);
    history.advance(LEASE);
    let late = history.begin_fetch();
    history.report(1, 1, DONE);
    let next = history.begin_fetch();
    history.ok_at(next, 1001, RecordedResponse::Fetched(vec![grant(2, 3, 1)]));
    history.ok_at(late, 1000, RecordedResponse::Fetched(vec![grant(1, 2, 1)]));
    history.assert_clean();
}

#[test]
fn i15_a_delivery_whose_response_is_late_holds_its_permit_until_its_lease_ends() {
    late_response(limited(1), 1001).assert_violates(15);
}

#[test]
fn permits_come_back() {
    let mut history = HistoryBuilder::new();
    history.define("l", concurrency(1));
    for id in 1..=4 {
        history.push(limited(id));
    }
    history.fetch(vec![grant(1, 1, 1)]);
    history.report(1, 1, DONE);
    history.fetch(vec![grant(2, 2, 1)]);
    history.advance(LEASE);
    history.fetch(vec![grant(3, 3, 1)]);
    history.crash();
    history.fetch(vec![grant(4, 4, 1)]);
    history.assert_clean();
}

#[test]
fn a_limit_that_may_have_been_raised_is_not_broken() {
    let mut history = HistoryBuilder::new();
    history.define("l", concurrency(1));
    history.push(limited(1));
    history.push(limited(2));
    history.fetch(vec![grant(1, 1, 1)]);
    let entry = crate::history::op::RecordedDefinition {
        name: super::history_builder::name("l"),
        to: concurrency(2),
        expires_after: None,
    };
    let n = history.begin("a", crate::history::RecordedOp::Define { entries: vec![entry] });
    history.info(n);
    history.fetch(vec![grant(2, 2, 1)]);
    history.assert_clean();
}

fn rated(pause: Span) -> HistoryBuilder {
    let mut history = HistoryBuilder::new();
    let rate = RecordedRate { count: 1, every: SECOND, burst: 2, counts_costs: false };
    history.define("l", DefinitionContent::Limit { concurrency: None, rate: Some(rate) });
    for id in 1..=4 {
        history.push(limited(id));
    }
    for id in 1..=4 {
        history.fetch(vec![grant(id, id, 1)]);
        history.advance(pause);
    }
    history
}

#[test]
fn i15_no_faster_than_the_rate() {
    rated(Span::from_millis(100)).assert_violates(15);
    rated(Span::from_millis(600)).assert_violates(15);
    rated(SECOND).assert_clean();
}

/// Starts of these costs under a budget of 10 per second, every 100 ms.
fn costing(costs: &[u32]) -> HistoryBuilder {
    let mut history = HistoryBuilder::new();
    let rate = RecordedRate { count: 10, every: SECOND, burst: 10, counts_costs: true };
    history.define("l", DefinitionContent::Limit { concurrency: None, rate: Some(rate) });
    for (id, cost) in (1..).zip(costs) {
        history.push(RecordedItem { costs: Some([*cost].into()), ..limited(id) });
    }
    for (id, _) in (1..).zip(costs) {
        history.fetch(vec![grant(id, id, 1)]);
        history.advance(Span::from_millis(100));
    }
    history
}

#[test]
fn i15_no_window_costs_more_than_its_budget() {
    costing(&[10, 1, 1, 0]).assert_clean();
    costing(&[5, 5, 0, 3]).assert_clean();
    costing(&[10, 3]).assert_violates(15);
    costing(&[1, 4, 9]).assert_violates(15);
}

#[test]
fn i16_a_cancelled_job_is_not_handed_out() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.admin(1, AdminAction::Cancel, RecordedChange::Yes);
    history.crash();
    history.fetch(vec![grant(1, 1, 1)]);
    history.assert_violates(16);
}

#[test]
fn i16_a_job_that_was_asked_to_stop_does_not_come_back() {
    let mut history = held();
    history.admin(1, AdminAction::Cancel, RecordedChange::Asked);
    history.advance(LEASE);
    history.fetch(vec![grant(1, 2, 1)]);
    history.assert_violates(16);
}

#[test]
fn i16_a_report_after_the_end_does_not_count() {
    let mut history = held();
    history.report(1, 1, RecordedOutcome::Interrupted);
    history.admin(1, AdminAction::Cancel, RecordedChange::Yes);
    let n = history.begin_report(1, 1, RecordedOutcome::Interrupted);
    history.accepted(n);
    let report = history.check();
    assert!(report.violations.iter().any(|found| found.invariant.0 == 16), "{report}");
}

#[test]
fn a_cancelled_job_may_be_revived() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.admin(1, AdminAction::Cancel, RecordedChange::Yes);
    history.admin(1, AdminAction::Retry, RecordedChange::Yes);
    history.fetch(vec![grant(1, 1, 1)]);
    history.assert_clean();
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    let n = history.begin_fetch();
    history.admin(1, AdminAction::Cancel, RecordedChange::Asked);
    history.fetched(n, vec![grant(1, 1, 1)]);
    history.report(1, 1, RecordedOutcome::Interrupted);
    history.end(&[(1, State::Cancelled)]);
    history.assert_clean();
}

#[test]
fn where_any_delivery_may_report_an_old_one_costs_the_current_one_an_attempt() {
    let mut history = HistoryBuilder::new();
    history.push(RecordedItem { reports: ReportFencing::Any, ..item(1) });
    history.fetch(vec![grant(1, 1, 1)]);
    history.advance(LEASE);
    history.fetch(vec![grant(1, 2, 1)]);
    history.report(1, 1, FAILED);
    history.advance(SECOND);
    history.fetch(vec![grant(1, 3, 2)]);
    history.crash();
    history.fetch(vec![grant(1, 4, 2)]);
    history.assert_clean();
}

#[test]
fn where_any_delivery_may_report_the_answer_may_come_after_the_next_delivery() {
    let mut history = HistoryBuilder::new();
    history.push(RecordedItem { reports: ReportFencing::Any, ..item(1) });
    history.fetch(vec![grant(1, 1, 1)]);
    let n = history.begin_report(1, 1, FAILED);
    history.advance(LEASE);
    history.fetch(vec![grant(1, 2, 1)]);
    history.accepted(n);
    history.assert_clean();
}
