//! I7, I12, I14 and I18: what becomes of a job when it is reported.

use crore_core::State::{Cancelled, Dead, Done, Ready, Running, Scheduled};
use crore_core::job::{Keep, Reports};
use crore_core::{JobId, Span};

use super::tape::{DONE, FAILED, FATAL, LEASE, SECOND, Tape};
use super::tape::{grant, item, look, new, result, stored};
use crate::history::answer::{Changed, Reported};
use crate::history::node::Stored;
use crate::history::op::{Item, Outcome, Want};
use crate::history::{Answer, Hash};

fn held(item: Item) -> Tape {
    let mut tape = Tape::new();
    tape.push(item);
    tape.fetch(vec![grant(1, 1, 1)]);
    tape
}

#[test]
fn i7_two_reports_are_not_both_accepted() {
    let mut tape = held(item(1));
    tape.report(1, 1, DONE);
    tape.report(1, 1, DONE);
    tape.breaks(7);
    let mut tape = held(item(1));
    let one = tape.begin_report(1, 1, DONE);
    let two = tape.begin_report(1, 1, FATAL);
    tape.accepted(one);
    tape.accepted(two);
    let report = tape.check();
    assert!(report.violations.iter().any(|found| found.promise.0 == 7), "{report}");
}

#[test]
fn i7_two_deliveries_do_not_both_end_a_job() {
    let mut tape = held(Item { reports: Reports::Any, ..item(1) });
    tape.pass(LEASE);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.report(1, 1, DONE);
    tape.report(1, 2, DONE);
    tape.breaks(7);
}

#[test]
fn i7_an_old_delivery_is_fenced() {
    let run = |reports| {
        let mut tape = held(Item { reports, ..item(1) });
        tape.pass(LEASE);
        tape.fetch(vec![grant(1, 2, 1)]);
        tape.report(1, 1, DONE);
        tape
    };
    run(Reports::Fenced).breaks(7);
    run(Reports::Any).is_fine();
}

/// Somebody else has fetched and left meanwhile, and may have anything but this job.
fn renewed() -> Tape {
    let mut tape = held(item(1));
    tape.begin_fetch();
    tape.renew(1, 1, Some(LEASE));
    tape
}

#[test]
fn i7_a_report_within_a_renewed_lease_counts() {
    let mut tape = renewed();
    tape.stale(1, 1, DONE);
    tape.breaks(7);
}

#[test]
fn a_report_after_a_renewed_lease_may_be_stale() {
    let mut tape = renewed();
    tape.pass(LEASE);
    tape.stale(1, 1, DONE);
    tape.is_fine();
    let mut tape = renewed();
    tape.begin_report(1, 1, DONE);
    tape.stale(1, 1, DONE);
    tape.is_fine();
}

#[test]
fn i7_a_delivery_that_was_never_granted() {
    let mut tape = held(item(1));
    tape.report(1, 9, DONE);
    tape.breaks(7);
}

#[test]
fn i7_the_only_report_in_its_time_counts() {
    let mut tape = held(item(1));
    tape.stale(1, 1, DONE);
    tape.breaks(7);
    let mut tape = held(item(1));
    tape.pass(LEASE);
    tape.stale(1, 1, DONE);
    tape.is_fine();
    let mut tape = held(item(1));
    tape.crash();
    tape.stale(1, 1, DONE);
    tape.is_fine();
}

#[test]
fn i7_what_was_reported_stays() {
    let mut tape = held(item(1));
    tape.report(1, 1, DONE);
    tape.crash();
    tape.get(1, Some(look(1, Running, None)));
    tape.breaks(7);
    let mut tape = held(item(1));
    tape.report(1, 1, DONE);
    tape.end(&[(1, Ready)]);
    tape.breaks(7);
}

#[test]
fn i7_the_result_is_that_of_the_report_that_counts() {
    let mut tape = held(item(1));
    tape.pass(LEASE);
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.report(1, 2, result(2));
    tape.stale(1, 1, result(1));
    tape.get(1, Some(look(1, Done, Some(Hash(1)))));
    tape.breaks(7);
}

#[test]
fn i7_a_job_is_not_done_by_itself() {
    let mut tape = held(item(1));
    tape.end(&[(1, Done)]);
    tape.breaks(7);
}

#[test]
fn a_report_of_unknown_fate_may_count_or_not() {
    for state in [Done, Running] {
        let mut tape = held(item(1));
        let n = tape.begin_report(1, 1, DONE);
        tape.info(n);
        tape.stale(1, 1, DONE);
        tape.end(&[(1, state)]);
        tape.is_fine();
    }
}

#[test]
fn a_success_may_end_a_job_that_waits_to_be_retried() {
    let mut tape = held(Item { reports: Reports::Any, ..item(1) });
    tape.report(1, 1, FAILED);
    tape.report(1, 1, DONE);
    tape.end(&[(1, Done)]);
    tape.is_fine();
}

#[test]
fn i12_a_result_is_shown_in_its_time() {
    let read = |pass, found: Option<Hash>| {
        let mut tape = held(Item { keep: Keep::For(Span::from_secs(60)), ..item(1) });
        tape.report(1, 1, result(5));
        tape.crash();
        tape.pass(pass);
        tape.get(1, Some(look(1, Done, found)));
        tape
    };
    read(SECOND, None).breaks(12);
    read(SECOND, Some(Hash(5))).is_fine();
    read(Span::from_secs(61), Some(Hash(5))).breaks(12);
    read(Span::from_secs(61), None).is_fine();
}

#[test]
fn i12_a_result_is_taken_once() {
    let mut tape = held(Item { keep: Keep::Once(Span::from_secs(60)), ..item(1) });
    tape.report(1, 1, result(5));
    tape.take(1, Some(Hash(5)));
    tape.take(1, Some(Hash(5)));
    tape.breaks(12);
    let mut tape = held(Item { keep: Keep::Once(Span::from_secs(60)), ..item(1) });
    tape.report(1, 1, result(5));
    tape.take(1, Some(Hash(5)));
    tape.take(1, None);
    tape.is_fine();
}

#[test]
fn i12_what_is_not_to_be_kept_is_not() {
    let mut tape = held(Item { keep: Keep::Discard, ..item(1) });
    tape.report(1, 1, result(5));
    tape.get(1, Some(look(1, Done, Some(Hash(5)))));
    tape.breaks(12);
}

#[test]
fn i14_a_last_failure_is_the_end() {
    let mut tape = held(item(1));
    tape.report(1, 1, FATAL);
    tape.fetch(vec![grant(1, 2, 2)]);
    tape.breaks(14);
}

#[test]
fn i14_the_last_attempt_is_the_last() {
    let mut tape = held(item(1));
    tape.report(1, 1, FAILED);
    tape.pass(SECOND);
    tape.fetch(vec![grant(1, 2, 2)]);
    tape.report(1, 2, FAILED);
    tape.pass(SECOND);
    tape.fetch(vec![grant(1, 3, 3)]);
    tape.report(1, 3, FAILED);
    tape.end(&[(1, Scheduled)]);
    tape.breaks(14);
}

/// Three attempts, of which the last is running.
fn at_last_attempt(reports: Reports) -> Tape {
    let mut tape = held(Item { reports, ..item(1) });
    for n in [1, 2] {
        tape.report(1, n, FAILED);
        tape.pass(SECOND);
        tape.fetch(vec![grant(1, n + 1, n as u32 + 1)]);
    }
    tape
}

#[test]
fn i14_a_late_failure_of_an_earlier_delivery_counts_against_the_attempt_that_runs() {
    let run = |again| {
        let mut tape = at_last_attempt(Reports::Any);
        tape.report(1, 1, FAILED);
        tape.pass(SECOND);
        if again {
            tape.fetch(vec![grant(1, 4, 3)]);
        }
        tape
    };
    run(true).breaks(14);
    run(false).is_fine();
}

/// A delivery of the last attempt reports when the job was revived, and runs again as its first.
#[test]
fn a_late_failure_of_a_last_attempt_counts_against_the_attempt_that_runs() {
    let mut tape = at_last_attempt(Reports::Any);
    tape.report(1, 2, FATAL);
    tape.want(1, Want::Retry, Changed::Yes);
    tape.fetch(vec![grant(1, 4, 1)]);
    tape.report(1, 3, FAILED);
    tape.pass(SECOND);
    tape.fetch(vec![grant(1, 5, 2)]);
    tape.is_fine();
}

#[test]
fn i14_the_dead_are_kept() {
    let mut tape = held(item(1));
    tape.report(1, 1, FATAL);
    tape.pass(Span::from_secs(3600));
    tape.end(&[]);
    tape.breaks(14);
}

#[test]
fn i14_a_revived_job_starts_again() {
    let run = |attempt| {
        let mut tape = held(item(1));
        tape.report(1, 1, FATAL);
        tape.want(1, Want::Retry, Changed::Yes);
        tape.fetch(vec![grant(1, 2, attempt)]);
        tape
    };
    run(2).breaks(14);
    run(1).is_fine();
}

#[test]
fn a_dead_job_may_be_cancelled_if_somebody_asked() {
    let mut tape = held(item(1));
    tape.want(1, Want::Cancel, Changed::Asked);
    tape.report(1, 1, FATAL);
    tape.end(&[(1, Cancelled)]);
    tape.is_fine();
}

fn child(id: u64, place: u32) -> Stored {
    Stored { parent: Some((JobId(1), place)), ..stored(id, Ready) }
}

fn followed(answer: Reported) -> Tape {
    let mut tape = held(item(1));
    let n = tape.begin_report_with(1, 1, DONE, vec![item(2), item(3)]);
    tape.ok(n, Answer::Reported(answer));
    tape
}

#[test]
fn follow_ups_that_are_there_are_fine() {
    let mut tape = followed(Reported::Accepted(vec![new(2), new(3)]));
    tape.dump(vec![stored(1, Done), child(2, 0), child(3, 1)]);
    tape.is_fine();
    let mut tape = followed(Reported::Accepted(Vec::new()));
    tape.dump(vec![stored(1, Done), child(2, 0), child(3, 1)]);
    tape.is_fine();
}

#[test]
fn i18_a_follow_up_is_not_missing() {
    let mut tape = followed(Reported::Accepted(vec![new(2), new(3)]));
    tape.dump(vec![stored(1, Done), child(2, 0)]);
    tape.breaks(18);
    let mut tape = followed(Reported::Accepted(Vec::new()));
    tape.dump(vec![stored(1, Done)]);
    tape.breaks(18);
}

#[test]
fn i18_a_follow_up_does_not_come_twice() {
    let mut tape = followed(Reported::Accepted(vec![new(2), new(3)]));
    let again = Stored { payload: Hash(2), ..child(4, 0) };
    tape.dump(vec![stored(1, Done), child(2, 0), child(3, 1), again]);
    tape.breaks(18);
}

#[test]
fn follow_ups_come_again_after_a_revival() {
    let mut tape = followed(Reported::Accepted(vec![new(2), new(3)]));
    tape.want(1, Want::Retry, Changed::Yes);
    tape.fetch(vec![grant(1, 2, 1)]);
    let n = tape.begin_report_with(1, 2, DONE, vec![item(4)]);
    tape.ok(n, Answer::Reported(Reported::Accepted(vec![new(4)])));
    let parent = Stored { delivery: crore_core::Delivery(2), ..stored(1, Done) };
    tape.dump(vec![parent, child(2, 0), child(3, 1), child(4, 0)]);
    tape.is_fine();
}

#[test]
fn i18_a_report_that_does_not_count_pushes_nothing() {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.pass(LEASE);
    let n = tape.begin_report_with(1, 1, DONE, vec![item(2)]);
    tape.ok(n, Answer::Reported(Reported::Stale));
    tape.dump(vec![stored(1, Ready), child(2, 0)]);
    tape.breaks(18);
}

#[test]
fn i18_a_follow_up_knows_its_parent() {
    let mut tape = followed(Reported::Accepted(vec![new(2), new(3)]));
    tape.dump(vec![stored(1, Done), child(2, 0), stored(3, Ready)]);
    tape.breaks(18);
}

#[test]
fn follow_ups_of_a_report_of_unknown_fate_come_with_it() {
    let mut tape = held(item(1));
    let n = tape.begin_report_with(1, 1, DONE, vec![item(2), item(3)]);
    tape.info(n);
    tape.dump(vec![stored(1, Done), child(2, 0), child(3, 1)]);
    tape.is_fine();
    let mut tape = held(item(1));
    tape.report(1, 1, Outcome::Cancel);
    tape.end(&[(1, Cancelled)]);
    tape.is_fine();
    let mut tape = held(item(1));
    tape.report(1, 1, FATAL);
    tape.end(&[(1, Dead)]);
    tape.is_fine();
}

#[test]
fn a_job_that_was_stopped_keeps_no_details_of_its_failure() {
    let mut tape = held(item(1));
    tape.want(1, Want::Cancel, Changed::Asked);
    let again = crate::history::op::Again::ByPolicy;
    tape.report(1, 1, Outcome::Failed { again, detail: Some(Hash(5)) });
    tape.get(1, Some(look(1, Cancelled, None)));
    tape.is_fine();
}

#[test]
fn a_clock_that_stands_still_after_a_jump_back_keeps_results_longer() {
    let mut tape = held(Item { keep: Keep::For(SECOND), ..item(1) });
    tape.fault(crate::history::Fault::ClockJump { by: -60_000 });
    tape.report(1, 1, result(5));
    tape.pass(Span::from_secs(10));
    tape.get(1, Some(look(1, Done, Some(Hash(5)))));
    tape.is_fine();
}
