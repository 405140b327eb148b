//! I5, I6, I15 and I16: who may hold a job.

use crore_core::job::{Lapse, Reports};
use crore_core::{Span, State};

use super::tape::{DONE, FAILED, LEASE, SECOND, Tape, grant, item, limited};
use crate::history::Fault;
use crate::history::answer::Changed;
use crate::history::op::{Item, Meaning, Outcome, Rate, Want};

const HALF: Span = Span::from_secs(5);

fn held() -> Tape {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.fetch(vec![grant(1, 1, 1)]);
    tape
}

#[test]
fn i5_a_job_is_not_handed_out_while_it_is_held() {
    let mut tape = held();
    tape.pass(HALF);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.breaks(5);
}

#[test]
fn i5_counts_renewals() {
    let mut tape = held();
    tape.pass(HALF);
    tape.renew(1, 1, Some(LEASE));
    tape.pass(Span::from_secs(6));
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.breaks(5);
}

#[test]
fn i5_a_lease_is_not_renewed_when_the_job_is_anothers() {
    let mut tape = held();
    tape.pass(LEASE);
    tape.pass(HALF);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.renew(1, 1, Some(LEASE));
    tape.breaks(5);
}

#[test]
fn a_renewal_of_the_older_lease_is_stale_and_of_the_newer_one_granted() {
    let mut tape = held();
    tape.pass(LEASE);
    tape.pass(HALF);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.renew(1, 1, None);
    tape.renew(1, 2, Some(LEASE));
    tape.is_fine();
}

#[test]
fn a_lease_may_be_renewed_when_a_crash_forgot_the_newer_one() {
    let mut tape = held();
    tape.push(item(2));
    tape.pass(LEASE);
    tape.pass(HALF);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.crash();
    tape.renew(1, 1, Some(LEASE));
    tape.is_fine();
}

#[test]
fn i5_a_crash_does_not_excuse_what_was_durable() {
    let mut tape = held();
    tape.push(item(2));
    tape.crash();
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.breaks(5);
}

#[test]
fn i5_an_older_delivery_counts_too() {
    let mut tape = held();
    tape.pass(LEASE);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.pass(HALF);
    tape.fetch(vec![grant(1, 3, 1)]);
    let report = tape.breaks(5);
    assert_eq!(report.violations.len(), 1);
}

#[test]
fn i5_a_clock_that_jumps_back_frees_nobody() {
    let mut tape = held();
    tape.fault(Fault::ClockJump { by: -60_000 });
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.breaks(5);
}

#[test]
fn a_lease_that_lapsed_may_be_given_again() {
    let mut tape = held();
    tape.pass(LEASE);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.stale(1, 1, DONE);
    tape.report(1, 2, DONE);
    tape.end(&[(1, State::Done)]);
    assert_eq!(tape.is_fine().counters.duplicated, 1);
}

#[test]
fn a_claim_that_a_crash_forgot_may_be_given_again() {
    let mut tape = held();
    let n = tape.begin_push(vec![item(2)]);
    tape.fault(Fault::PowerCut);
    tape.info(n);
    tape.node(crate::history::Node::Opened);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.stale(1, 1, DONE);
    tape.is_fine();
}

#[test]
fn a_stale_answer_settles_nothing_for_a_crash() {
    let mut tape = held();
    tape.stale(7, 7, DONE);
    tape.crash();
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.is_fine();
}

#[test]
fn a_renewal_that_a_crash_forgot_does_not_count() {
    let mut tape = held();
    tape.push(item(2));
    tape.pass(HALF);
    tape.renew(1, 1, Some(LEASE));
    tape.crash();
    tape.pass(Span::from_secs(6));
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.is_fine();
}

/// Job 1 is handed out, and perhaps by a fetch that nobody heard of as well. Its first holder reports a
/// failure twice, and then it is handed out as attempt 3.
fn failed_twice_by_its_first_holder(reports: Reports) -> Tape {
    let mut tape = Tape::new();
    tape.push(Item { reports, ..item(1) });
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.report(1, 1, FAILED);
    let n = tape.begin_fetch();
    tape.info(n);
    tape.pass(Span::from_secs(60));
    match reports {
        Reports::Any => tape.report(1, 1, FAILED),
        Reports::Fenced => tape.stale(1, 1, FAILED),
    }
    tape.pass(Span::from_secs(60));
    tape.fetch(vec![grant(1, 3, 3)]);
    tape
}

#[test]
fn where_any_delivery_reports_a_late_failure_may_have_ended_one_that_nobody_heard_of() {
    failed_twice_by_its_first_holder(Reports::Any).is_fine();
}

#[test]
fn i6_where_reports_are_fenced_a_late_failure_costs_nothing() {
    failed_twice_by_its_first_holder(Reports::Fenced).breaks(6);
}

#[test]
fn a_lease_given_up_may_be_given_again() {
    let mut tape = held();
    tape.report(1, 1, Outcome::Interrupted);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.is_fine();
    let mut tape = held();
    let n = tape.begin_report(1, 1, Outcome::Interrupted);
    tape.info(n);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.is_fine();
}

#[test]
fn a_clock_that_jumps_ahead_ends_leases() {
    let mut tape = held();
    tape.fault(Fault::ClockJump { by: 60_000 });
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.is_fine();
}

#[test]
fn a_run_that_took_too_long_may_be_given_again() {
    let mut tape = Tape::new();
    tape.push(Item { timeout: Some(SECOND), ..item(1) });
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.pass(Span::from_secs(2));
    tape.fetch(vec![grant(1, 2, 2)]);
    tape.is_fine();
}

#[test]
fn i6_a_number_is_not_used_twice() {
    let mut tape = held();
    tape.crash();
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.breaks(6);
}

#[test]
fn i6_numbers_grow() {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.fetch(vec![grant(1, 5, 1)]);
    tape.crash();
    tape.fetch(vec![grant(1, 4, 1)]);
    tape.breaks(6);
}

#[test]
fn i6_attempts_stay_within_the_maximum() {
    let mut tape = Tape::new();
    let lapse = Lapse::Failure;
    let retry = crore_core::retry::Retry { max_attempts: Some(1), ..item(1).retry };
    tape.push(Item { lapse, retry, ..item(1) });
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.pass(LEASE);
    tape.fetch(vec![grant(1, 2, 2)]);
    tape.breaks(6);
}

#[test]
fn i6_what_costs_nothing_costs_nothing() {
    for outcome in [Outcome::Interrupted, Outcome::Snooze(Span::ZERO)] {
        let mut tape = held();
        tape.report(1, 1, outcome);
        tape.fetch(vec![grant(1, 2, 2)]);
        tape.breaks(6);
    }
    let mut tape = held();
    tape.pass(LEASE);
    tape.fetch(vec![grant(1, 2, 2)]);
    tape.breaks(6);
}

#[test]
fn i6_a_failure_costs_one() {
    for attempt in [1, 3] {
        let mut tape = held();
        tape.report(1, 1, FAILED);
        tape.pass(SECOND);
        tape.fetch(vec![grant(1, 2, attempt)]);
        tape.breaks(6);
    }
}

#[test]
fn i6_the_first_attempt_is_the_first() {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.fetch(vec![grant(1, 1, 2)]);
    tape.breaks(6);
}

#[test]
fn an_unseen_delivery_may_have_cost_an_attempt() {
    let mut tape = Tape::new();
    tape.push(Item { lapse: Lapse::Failure, ..item(1) });
    let n = tape.begin_fetch();
    tape.info(n);
    tape.pass(Span::from_secs(60));
    tape.fetch(vec![grant(1, 2, 2)]);
    tape.is_fine();
}

fn concurrency(most: u32) -> Meaning {
    Meaning::Limit { concurrency: Some(most), rate: None }
}

#[test]
fn i15_no_more_run_than_may() {
    let mut tape = Tape::new();
    tape.define("l", concurrency(1));
    tape.push(limited(1));
    tape.push(limited(2));
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.fetch(vec![grant(2, 2, 1)]);
    tape.breaks(15);
}

#[test]
fn i15_also_within_one_fetch_and_after_a_crash() {
    let mut tape = Tape::new();
    tape.define("l", concurrency(1));
    tape.push(limited(1));
    tape.push(limited(2));
    tape.fetch(vec![grant(1, 1, 1), grant(2, 2, 1)]);
    tape.breaks(15);
    let mut tape = Tape::new();
    tape.define("l", concurrency(1));
    tape.push(limited(1));
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.push(limited(2));
    tape.crash();
    tape.fetch(vec![grant(2, 2, 1)]);
    tape.breaks(15);
}

#[test]
fn permits_come_back() {
    let mut tape = Tape::new();
    tape.define("l", concurrency(1));
    for id in 1..=4 {
        tape.push(limited(id));
    }
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.report(1, 1, DONE);
    tape.fetch(vec![grant(2, 2, 1)]);
    tape.pass(LEASE);
    tape.fetch(vec![grant(3, 3, 1)]);
    tape.crash();
    tape.fetch(vec![grant(4, 4, 1)]);
    tape.is_fine();
}

#[test]
fn a_limit_that_may_have_been_raised_is_not_broken() {
    let mut tape = Tape::new();
    tape.define("l", concurrency(1));
    tape.push(limited(1));
    tape.push(limited(2));
    tape.fetch(vec![grant(1, 1, 1)]);
    let entry = crate::history::op::Entry {
        name: super::tape::name("l"),
        to: concurrency(2),
        expires_after: None,
    };
    let n = tape.begin("a", crate::history::Op::Define { entries: vec![entry] });
    tape.info(n);
    tape.fetch(vec![grant(2, 2, 1)]);
    tape.is_fine();
}

fn rated(pause: Span) -> Tape {
    let mut tape = Tape::new();
    let rate = Rate { count: 1, every: SECOND, burst: 2 };
    tape.define("l", Meaning::Limit { concurrency: None, rate: Some(rate) });
    for id in 1..=4 {
        tape.push(limited(id));
    }
    for id in 1..=4 {
        tape.fetch(vec![grant(id, id, 1)]);
        tape.pass(pause);
    }
    tape
}

#[test]
fn i15_no_faster_than_the_rate() {
    rated(Span::from_millis(100)).breaks(15);
    rated(Span::from_millis(600)).breaks(15);
    rated(SECOND).is_fine();
}

#[test]
fn i16_a_cancelled_job_is_not_handed_out() {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.want(1, Want::Cancel, Changed::Yes);
    tape.crash();
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.breaks(16);
}

#[test]
fn i16_a_job_that_was_asked_to_stop_does_not_come_back() {
    let mut tape = held();
    tape.want(1, Want::Cancel, Changed::Asked);
    tape.pass(LEASE);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.breaks(16);
}

#[test]
fn i16_a_report_after_the_end_does_not_count() {
    let mut tape = held();
    tape.report(1, 1, Outcome::Interrupted);
    tape.want(1, Want::Cancel, Changed::Yes);
    let n = tape.begin_report(1, 1, Outcome::Interrupted);
    tape.accepted(n);
    let report = tape.check();
    assert!(report.violations.iter().any(|found| found.promise.0 == 16), "{report}");
}

#[test]
fn a_cancelled_job_may_be_revived() {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.want(1, Want::Cancel, Changed::Yes);
    tape.want(1, Want::Retry, Changed::Yes);
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.is_fine();
    let mut tape = Tape::new();
    tape.push(item(1));
    let n = tape.begin_fetch();
    tape.want(1, Want::Cancel, Changed::Asked);
    tape.fetched(n, vec![grant(1, 1, 1)]);
    tape.report(1, 1, Outcome::Interrupted);
    tape.end(&[(1, State::Cancelled)]);
    tape.is_fine();
}

#[test]
fn where_any_delivery_may_report_an_old_one_costs_the_current_one_an_attempt() {
    let mut tape = Tape::new();
    tape.push(Item { reports: Reports::Any, ..item(1) });
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.pass(LEASE);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.report(1, 1, FAILED);
    tape.pass(SECOND);
    tape.fetch(vec![grant(1, 3, 2)]);
    tape.crash();
    tape.fetch(vec![grant(1, 4, 2)]);
    tape.is_fine();
}

#[test]
fn where_any_delivery_may_report_the_answer_may_come_after_the_next_delivery() {
    let mut tape = Tape::new();
    tape.push(Item { reports: Reports::Any, ..item(1) });
    tape.fetch(vec![grant(1, 1, 1)]);
    let n = tape.begin_report(1, 1, FAILED);
    tape.pass(LEASE);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.accepted(n);
    tape.is_fine();
}
