//! I10, I11 and I13: not before their time.

use crore_core::schedule::{Missed, Timing};
use crore_core::{JobId, Span, State, Time};

use super::tape::{DONE, FAILED, SECOND, Tape, due, grant, item, name, new};
use crate::history::answer::{Changed, Granted, Pushed};
use crate::history::op::{Again, Meaning, Outcome, Want, When};
use crate::history::{Answer, Fault, Op};

const MINUTE: Span = Span::from_secs(60);

fn at(millis: i64) -> Time {
    Time::from_millis(millis)
}

#[test]
fn i10_a_delay_is_kept() {
    let run = |pass| {
        let mut tape = Tape::new();
        tape.push(due(1, When::After(MINUTE)));
        tape.pass(pass);
        tape.fetch(vec![grant(1, 1, 1)]);
        tape
    };
    run(Span::from_secs(59)).breaks(10);
    run(MINUTE).is_fine();
}

#[test]
fn i10_an_instant_is_kept_by_the_answers_time_and_the_recorders() {
    let told = |now| {
        let mut tape = Tape::new();
        tape.push(due(1, When::At(at(5_000))));
        let n = tape.begin_fetch();
        tape.ok_at(n, now, Answer::Fetched(vec![Granted { due: at(5_000), ..grant(1, 1, 1) }]));
        tape
    };
    told(4_999).breaks(10);
    told(5_000).is_fine();
    let known = |pass| {
        let mut tape = Tape::new();
        tape.rules.epoch = Some(Time::ZERO);
        tape.push(due(1, When::At(at(5_000))));
        tape.pass(pass);
        tape.fetch(vec![Granted { due: at(5_000), ..grant(1, 1, 1) }]);
        tape
    };
    known(Span::from_secs(4)).breaks(10);
    known(Span::from_secs(5)).is_fine();
}

#[test]
fn i10_a_clock_that_jumps_back_only_delays() {
    let mut tape = Tape::new();
    tape.push(due(1, When::After(MINUTE)));
    tape.fault(Fault::ClockJump { by: -5_000 });
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.breaks(10);
    let mut tape = Tape::new();
    tape.push(due(1, When::After(MINUTE)));
    tape.fault(Fault::ClockJump { by: 60_000 });
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.is_fine();
}

#[test]
fn a_job_that_is_retried_by_hand_is_due_at_once() {
    let mut tape = Tape::new();
    tape.push(due(1, When::After(MINUTE)));
    tape.want(1, Want::Retry, Changed::Yes);
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.is_fine();
}

#[test]
fn i13_a_failure_is_not_retried_too_soon() {
    let run = |outcome, pass, attempt| {
        let mut tape = Tape::new();
        tape.push(item(1));
        tape.fetch(vec![grant(1, 1, 1)]);
        tape.report(1, 1, outcome);
        tape.pass(pass);
        tape.fetch(vec![grant(1, 2, attempt)]);
        tape
    };
    let half = Span::from_millis(500);
    run(FAILED, half, 2).breaks(13);
    run(FAILED, SECOND, 2).is_fine();
    let after = Outcome::Failed { again: Again::After(MINUTE), detail: None };
    run(after, SECOND, 2).breaks(13);
    run(Outcome::Snooze(MINUTE), SECOND, 1).breaks(13);
    run(Outcome::Snooze(MINUTE), MINUTE, 1).is_fine();
}

#[test]
fn a_failure_of_unknown_fate_delays_nobody() {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.fetch(vec![grant(1, 1, 1)]);
    let n = tape.begin_report(1, 1, FAILED);
    tape.info(n);
    tape.pass(Span::from_secs(10));
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.is_fine();
}

fn scheduled(missed: Missed) -> Tape {
    let mut tape = Tape::new();
    let timing = Timing::parse("timing", "every 60s from 1970-01-01T00:00:00Z").expect("a timing");
    let to = Meaning::Schedule { timing, missed, cursor: Time::ZERO, paused: false };
    tape.define("s", to);
    tape
}

fn begin_tick(tape: &mut Tape, cursor: i64, fire: &[(i64, u64)]) -> u64 {
    let items = fire.iter().map(|(_, id)| item(*id)).collect();
    let fire = fire.iter().map(|(tick, _)| at(*tick)).collect();
    tape.begin("n", Op::Tick { schedule: name("s"), cursor: at(cursor), fire, items })
}

fn tick(tape: &mut Tape, cursor: i64, fire: &[(i64, u64)]) {
    let n = begin_tick(tape, cursor, fire);
    tape.ok(n, Answer::Ticked(Some(fire.iter().map(|(_, id)| new(*id)).collect())));
}

#[test]
fn ticks_in_turn_are_fine() {
    let mut tape = scheduled(Missed::All);
    tick(&mut tape, 60_000, &[(60_000, 1)]);
    tick(&mut tape, 180_000, &[(120_000, 2), (180_000, 3)]);
    let n = begin_tick(&mut tape, 180_000, &[(180_000, 4)]);
    tape.ok(n, Answer::Ticked(None));
    tape.end(&[(1, State::Ready), (2, State::Ready), (3, State::Ready)]);
    tape.is_fine();
}

#[test]
fn i11_a_tick_does_not_fire_twice() {
    let mut tape = scheduled(Missed::Once);
    tick(&mut tape, 60_000, &[(60_000, 1)]);
    tick(&mut tape, 120_000, &[(60_000, 2)]);
    tape.breaks(11);
    let mut tape = scheduled(Missed::Once);
    let n = begin_tick(&mut tape, 60_000, &[(60_000, 1)]);
    tape.info(n);
    tape.crash();
    tick(&mut tape, 60_000, &[(60_000, 2)]);
    tape.end(&[(1, State::Ready), (2, State::Ready)]);
    tape.breaks(11);
}

#[test]
fn i11_two_nodes_do_not_account_for_the_same() {
    let mut tape = scheduled(Missed::Once);
    let one = begin_tick(&mut tape, 60_000, &[(60_000, 1)]);
    let two = begin_tick(&mut tape, 60_000, &[(60_000, 2)]);
    tape.ok(one, Answer::Ticked(Some(vec![new(1)])));
    tape.ok(two, Answer::Ticked(Some(vec![Pushed::Duplicate(JobId(1))])));
    tape.breaks(11);
}

#[test]
fn i11_only_its_own_ticks_fire() {
    let mut tape = scheduled(Missed::Once);
    tick(&mut tape, 60_000, &[(59_999, 1)]);
    tape.breaks(11);
}

#[test]
fn i11_none_is_left_out_where_all_are_to_fire() {
    let run = |missed| {
        let mut tape = scheduled(missed);
        tick(&mut tape, 60_000, &[(60_000, 1)]);
        tick(&mut tape, 180_000, &[(180_000, 2)]);
        tape
    };
    run(Missed::All).breaks(11);
    run(Missed::Once).is_fine();
}

#[test]
fn i11_a_tick_that_does_not_count_pushes_nothing() {
    let mut tape = scheduled(Missed::Once);
    let n = begin_tick(&mut tape, 60_000, &[(60_000, 1)]);
    tape.ok(n, Answer::Ticked(None));
    tape.end(&[(1, State::Ready)]);
    tape.breaks(11);
}

#[test]
fn a_schedule_that_is_defined_anew_may_fire_again() {
    let mut tape = scheduled(Missed::Once);
    tick(&mut tape, 60_000, &[(60_000, 1)]);
    let timing = Timing::parse("timing", "every 60s from 1970-01-01T00:00:00Z").expect("a timing");
    let (missed, cursor) = (Missed::Once, Time::ZERO);
    tape.define("s", Meaning::Schedule { timing, missed, cursor, paused: false });
    tick(&mut tape, 60_000, &[(60_000, 2)]);
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.report(1, 1, DONE);
    tape.is_fine();
}
