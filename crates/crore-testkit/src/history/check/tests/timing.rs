//! I10, I11 and I13: nothing happens too early.

use crore_core::schedule::{Missed, Timing};
use crore_core::{JobId, Span, State, Time};

use super::history_builder::{DONE, FAILED, HistoryBuilder, SECOND, due, grant, item, name, new};
use crate::history::op::{AdminAction, DefinitionContent, DueTime, RecordedOutcome, RecordedRetry};
use crate::history::response::{RecordedChange, RecordedDelivery, RecordedPush};
use crate::history::{RecordedFault, RecordedOp, RecordedResponse};

const MINUTE: Span = Span::from_secs(60);

fn at(millis: i64) -> Time {
    Time::from_millis(millis)
}

#[test]
fn i10_no_job_is_delivered_before_its_delay() {
    let run = |pass| {
        let mut history = HistoryBuilder::new();
        history.push(due(1, DueTime::After(MINUTE)));
        history.advance(pass);
        history.fetch(vec![grant(1, 1, 1)]);
        history
    };
    run(Span::from_secs(59)).assert_violates(10);
    run(MINUTE).assert_clean();
}

#[test]
fn i10_a_due_time_holds_by_the_clocks_of_server_and_recorder() {
    let delivered_at = |now| {
        let mut history = HistoryBuilder::new();
        history.push(due(1, DueTime::At(at(5_000))));
        let n = history.begin_fetch();
        history.ok_at(
            n,
            now,
            RecordedResponse::Fetched(vec![RecordedDelivery { due: at(5_000), ..grant(1, 1, 1) }]),
        );
        history
    };
    delivered_at(4_999).assert_violates(10);
    delivered_at(5_000).assert_clean();
    let known = |pass| {
        let mut history = HistoryBuilder::new();
        history.rules.epoch = Some(Time::ZERO);
        history.push(due(1, DueTime::At(at(5_000))));
        history.advance(pass);
        history.fetch(vec![RecordedDelivery { due: at(5_000), ..grant(1, 1, 1) }]);
        history
    };
    known(Span::from_secs(4)).assert_violates(10);
    known(Span::from_secs(5)).assert_clean();
}

#[test]
fn i10_a_clock_that_jumps_back_only_delays() {
    let mut history = HistoryBuilder::new();
    history.push(due(1, DueTime::After(MINUTE)));
    history.fault(RecordedFault::ClockJump { by: -5_000 });
    history.fetch(vec![grant(1, 1, 1)]);
    history.assert_violates(10);
    let mut history = HistoryBuilder::new();
    history.push(due(1, DueTime::After(MINUTE)));
    history.fault(RecordedFault::ClockJump { by: 60_000 });
    history.fetch(vec![grant(1, 1, 1)]);
    history.assert_clean();
}

#[test]
fn a_job_that_is_retried_by_hand_is_due_at_once() {
    let mut history = HistoryBuilder::new();
    history.push(due(1, DueTime::After(MINUTE)));
    history.admin(1, AdminAction::Retry, RecordedChange::Yes);
    history.fetch(vec![grant(1, 1, 1)]);
    history.assert_clean();
}

#[test]
fn i13_a_failure_is_not_retried_too_soon() {
    let run = |outcome, pass, attempt| {
        let mut history = HistoryBuilder::new();
        history.push(item(1));
        history.fetch(vec![grant(1, 1, 1)]);
        history.report(1, 1, outcome);
        history.advance(pass);
        history.fetch(vec![grant(1, 2, attempt)]);
        history
    };
    let half = Span::from_millis(500);
    run(FAILED, half, 2).assert_violates(13);
    run(FAILED, SECOND, 2).assert_clean();
    let after = RecordedOutcome::Failed { again: RecordedRetry::After(MINUTE), detail: None };
    run(after, SECOND, 2).assert_violates(13);
    run(RecordedOutcome::Snooze(MINUTE), SECOND, 1).assert_violates(13);
    run(RecordedOutcome::Snooze(MINUTE), MINUTE, 1).assert_clean();
}

#[test]
fn a_failure_of_unknown_fate_delays_no_job() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.fetch(vec![grant(1, 1, 1)]);
    let n = history.begin_report(1, 1, FAILED);
    history.info(n);
    history.advance(Span::from_secs(10));
    history.fetch(vec![grant(1, 2, 1)]);
    history.assert_clean();
}

fn scheduled(missed: Missed) -> HistoryBuilder {
    let mut history = HistoryBuilder::new();
    let timing = Timing::parse("timing", "every 60s from 1970-01-01T00:00:00Z").expect("a timing");
    let to = DefinitionContent::Schedule { timing, missed, cursor: Time::ZERO, paused: false };
    history.define("s", to);
    history
}

fn begin_tick(history: &mut HistoryBuilder, cursor: i64, fire: &[(i64, u64)]) -> u64 {
    let items = fire.iter().map(|(_, id)| item(*id)).collect();
    let fire = fire.iter().map(|(tick, _)| at(*tick)).collect();
    history.begin("n", RecordedOp::Tick { schedule: name("s"), cursor: at(cursor), fire, items })
}

fn tick(history: &mut HistoryBuilder, cursor: i64, fire: &[(i64, u64)]) {
    let n = begin_tick(history, cursor, fire);
    history.ok(n, RecordedResponse::Ticked(Some(fire.iter().map(|(_, id)| new(*id)).collect())));
}

#[test]
fn ticks_in_order_are_accepted() {
    let mut history = scheduled(Missed::All);
    tick(&mut history, 60_000, &[(60_000, 1)]);
    tick(&mut history, 180_000, &[(120_000, 2), (180_000, 3)]);
    let n = begin_tick(&mut history, 180_000, &[(180_000, 4)]);
    history.ok(n, RecordedResponse::Ticked(None));
    history.end(&[(1, State::Ready), (2, State::Ready), (3, State::Ready)]);
    history.assert_clean();
}

#[test]
fn i11_a_tick_does_not_fire_twice() {
    let mut history = scheduled(Missed::Once);
    tick(&mut history, 60_000, &[(60_000, 1)]);
    tick(&mut history, 120_000, &[(60_000, 2)]);
    history.assert_violates(11);
    let mut history = scheduled(Missed::Once);
    let n = begin_tick(&mut history, 60_000, &[(60_000, 1)]);
    history.info(n);
    history.crash();
    tick(&mut history, 60_000, &[(60_000, 2)]);
    history.end(&[(1, State::Ready), (2, State::Ready)]);
    history.assert_violates(11);
}

#[test]
fn i11_two_nodes_do_not_account_for_the_same() {
    let mut history = scheduled(Missed::Once);
    let one = begin_tick(&mut history, 60_000, &[(60_000, 1)]);
    let two = begin_tick(&mut history, 60_000, &[(60_000, 2)]);
    history.ok(one, RecordedResponse::Ticked(Some(vec![new(1)])));
    history.ok(two, RecordedResponse::Ticked(Some(vec![RecordedPush::Duplicate(JobId(1))])));
    history.assert_violates(11);
}

#[test]
fn i11_only_its_own_ticks_fire() {
    let mut history = scheduled(Missed::Once);
    tick(&mut history, 60_000, &[(59_999, 1)]);
    history.assert_violates(11);
}

#[test]
fn i11_no_tick_is_skipped_with_policy_all() {
    let run = |missed| {
        let mut history = scheduled(missed);
        tick(&mut history, 60_000, &[(60_000, 1)]);
        tick(&mut history, 180_000, &[(180_000, 2)]);
        history
    };
    run(Missed::All).assert_violates(11);
    run(Missed::Once).assert_clean();
}

#[test]
fn i11_a_tick_that_does_not_count_pushes_nothing() {
    let mut history = scheduled(Missed::Once);
    let n = begin_tick(&mut history, 60_000, &[(60_000, 1)]);
    history.ok(n, RecordedResponse::Ticked(None));
    history.end(&[(1, State::Ready)]);
    history.assert_violates(11);
}

#[test]
fn a_redefined_schedule_may_fire_again() {
    let mut history = scheduled(Missed::Once);
    tick(&mut history, 60_000, &[(60_000, 1)]);
    let timing = Timing::parse("timing", "every 60s from 1970-01-01T00:00:00Z").expect("a timing");
    let (missed, cursor) = (Missed::Once, Time::ZERO);
    history.define("s", DefinitionContent::Schedule { timing, missed, cursor, paused: false });
    tick(&mut history, 60_000, &[(60_000, 2)]);
    history.fetch(vec![grant(1, 1, 1)]);
    history.report(1, 1, DONE);
    history.assert_clean();
}
