//! The decision itself.

use std::sync::Arc;

use super::event::{Again, Change, Edit, Effect, Event, Next, NextLive, NextState, Outcome};
use super::event::{Refusal, Report, ResultChange, Settled};
use crate::group::Tally;
use crate::id::Delivery;
use crate::job::{Ended, Job, Keep, Lapse, Reports, Retain, State, When, Why};
use crate::payload::Payload;
use crate::push::NewJob;
use crate::time::Span;
use crate::unique::Hold;

/// Decides what an event does to a job: pure, and total over every state and event.
///
/// `dice` is the only randomness there is (the jitter of a retry); the same arguments always give
/// the same decision. The report that counts is the first one; any later one is [`Refusal::Stale`].
pub fn decide(job: &Job, event: &Event, dice: u64) -> Result<Change, Refusal> {
    match event {
        Event::Finished { delivery, report } => finished(job, *delivery, report, dice),
        Event::Lapsed(delivery) => {
            current(job, *delivery)?;
            let mut change = lapsed(job, dice);
            change.seen.lease_until = Some(job.live.lease_until);
            Ok(change)
        }
        Event::Vanished(delivery) => {
            current(job, *delivery)?;
            Ok(vanished(job, dice))
        }
        Event::TimedOut(delivery) => {
            current(job, *delivery)?;
            let error = Failure { ended: Ended::TimedOut, error: "timed out".into(), detail: None };
            Ok(failed(job, error, Again::ByPolicy, &[], dice))
        }
        Event::HandedOver(delivery) => {
            current(job, *delivery)?;
            if job.spec.lease.is_some() { Err(Refusal::NotNow) } else { Ok(done(job, None, &[])) }
        }
        Event::Cancel => cancel(job),
        Event::Retry => retry(job),
        Event::Delete => delete(job),
        Event::Prune => prune(job),
        Event::Edit(edit) => self::edit(job, edit),
        Event::TakeResult => take_result(job),
        Event::Broken if job.live.state == State::Waiting && job.live.broken => {
            Ok(cancelled(job, None, Why::DependencyBroken))
        }
        Event::Broken => Err(Refusal::NotNow),
    }
}

/// The fence: only the delivery that holds the lease may go on.
fn current(job: &Job, delivery: Delivery) -> Result<(), Refusal> {
    let holds = job.live.state == State::Running && job.live.delivery == delivery;
    if holds { Ok(()) } else { Err(Refusal::Stale) }
}

fn finished(
    job: &Job,
    delivery: Option<Delivery>,
    report: &Report,
    dice: u64,
) -> Result<Change, Refusal> {
    match (job.spec.reports, delivery) {
        (Reports::Fenced, None) => return Err(Refusal::Stale),
        (Reports::Fenced, Some(delivery)) => current(job, delivery)?,
        (Reports::Any, delivery) => counts(job, delivery, &report.outcome)?,
    }
    Ok(match &report.outcome {
        Outcome::Done { result } => done(job, result.as_ref(), &report.on_done),
        Outcome::Failed { error, detail, again } => {
            let failure =
                Failure { ended: Ended::Failed, error: Arc::clone(error), detail: detail.as_ref() };
            failed(job, failure, *again, &report.on_dead, dice)
        }
        Outcome::Snooze(span) => handed_back(job, Ended::Snoozed, When::After(*span)),
        Outcome::Interrupted => handed_back(job, Ended::Interrupted, When::Keep),
        Outcome::Cancel => {
            let why = if job.live.stop { Why::Asked } else { Why::GivenUp };
            cancelled(job, Some((Ended::Cancelled, None)), why)
        }
    })
}

/// Whether a report counts where any delivery's does: while the job runs the first report wins, and
/// a success also ends a job that waits to be retried.
fn counts(job: &Job, delivery: Option<Delivery>, outcome: &Outcome) -> Result<(), Refusal> {
    let was_granted = match delivery {
        None => job.live.delivery != Delivery::NONE,
        Some(d) => d != Delivery::NONE && d <= job.live.delivery,
    };
    let waits_for_retry = matches!(job.live.state, State::Scheduled | State::Ready);
    let in_time = match outcome {
        Outcome::Done { .. } => waits_for_retry || job.live.state == State::Running,
        _ => job.live.state == State::Running,
    };
    if was_granted && in_time { Ok(()) } else { Err(Refusal::Stale) }
}

/// A failure, however it came about.
struct Failure<'a> {
    ended: Ended,
    error: Arc<str>,
    detail: Option<&'a Payload>,
}

fn done(job: &Job, result: Option<&Payload>, then: &[NewJob]) -> Change {
    let mut next = NextLive { state: NextState::Done, ..ending(job, Ended::Done, None) };
    next.result = kept(job, result);
    next.counted = true;
    let mut effects = leaving(job);
    if job.spec.unique.as_ref().is_some_and(|u| u.hold != Hold::Window) {
        effects.push(Effect::ReleaseKey);
    }
    let ran = i8::from(!job.live.counted);
    let tally = Tally { ran, succeeded: 1, ..Tally::default() };
    follow(then, &mut effects);
    settle(job, tally, Settled::Succeeded, &mut effects);
    let gone = job.spec.retain == Retain::Nothing && next.result == ResultChange::Leave;
    change(job, if gone { Next::Gone } else { Next::Live(Box::new(next)) }, effects)
}

fn failed(job: &Job, failure: Failure<'_>, again: Again, then: &[NewJob], dice: u64) -> Change {
    if job.live.stop {
        return cancelled(job, Some((failure.ended, Some(failure.error))), Why::Asked);
    }
    let attempt = job.live.attempt;
    let last = job.spec.retry.is_last(attempt);
    let due = match again {
        Again::Never => {
            return dead(job, failure, Why::NotRetried, then);
        }
        _ if last => return dead(job, failure, Why::Exhausted, then),
        Again::After(span) => When::After(span),
        Again::ByPolicy => When::After(job.spec.retry.delay(attempt, dice)),
    };
    let next = NextLive { due, ..ending(job, failure.ended, Some(failure.error)) };
    change(job, Next::Live(Box::new(next)), leaving(job))
}

fn dead(job: &Job, failure: Failure<'_>, why: Why, then: &[NewJob]) -> Change {
    let detail = failure.detail;
    let ending = ending(job, failure.ended, Some(failure.error));
    let mut next = NextLive { state: NextState::Dead, ..ending };
    next.why = Some(why);
    next.result = kept(job, detail);
    next.counted = true;
    let mut effects = leaving(job);
    if job.spec.unique.as_ref().is_some_and(|u| u.hold == Hold::UntilEnd) {
        effects.push(Effect::ReleaseKey);
    }
    let tally = Tally { ran: i8::from(!job.live.counted), ..Tally::default() };
    follow(then, &mut effects);
    settle(job, tally, Settled::Failed, &mut effects);
    change(job, Next::Live(Box::new(next)), effects)
}

/// Back to the queue at no cost in attempts.
fn handed_back(job: &Job, ended: Ended, due: When) -> Change {
    if job.live.stop {
        return cancelled(job, Some((ended, None)), Why::Asked);
    }
    let mut next = NextLive { due, ..ending(job, ended, None) };
    next.attempt = job.live.attempt.saturating_sub(1);
    change(job, Next::Live(Box::new(next)), leaving(job))
}

fn lapsed(job: &Job, dice: u64) -> Change {
    let error = "the worker fell silent".into();
    let failure = Failure { ended: Ended::Lapsed, error, detail: None };
    match job.spec.lapse {
        _ if job.live.stop => {
            cancelled(job, Some((Ended::Lapsed, Some(failure.error))), Why::Asked)
        }
        Lapse::Crash { quarantine } => crashed(job, failure, quarantine),
        Lapse::Failure => failed(job, failure, Again::ByPolicy, &[], dice),
        Lapse::Again => failed(job, failure, Again::After(Span::ZERO), &[], dice),
    }
}

/// A worker that is gone is like one that fell silent, but for a job whose silence costs an attempt: that its
/// worker went away says nothing about the job.
fn vanished(job: &Job, dice: u64) -> Change {
    match job.spec.lapse {
        Lapse::Again if !job.live.stop => {
            let error = "the worker went away".into();
            crashed(job, Failure { ended: Ended::Lapsed, error, detail: None }, None)
        }
        _ => lapsed(job, dice),
    }
}

/// A crash of the worker costs no attempt, but a job that crashes them all is set aside.
fn crashed(job: &Job, failure: Failure<'_>, quarantine: Option<u32>) -> Change {
    let crashes = job.live.crashes.saturating_add(1);
    let mut change = if quarantine.is_some_and(|most| crashes >= most) {
        dead(job, failure, Why::Quarantined, &[])
    } else {
        let next = ending(job, failure.ended, Some(failure.error));
        change(job, Next::Live(Box::new(next)), leaving(job))
    };
    if let Next::Live(next) = &mut change.next {
        next.crashes = crashes;
        next.attempt = job.live.attempt.saturating_sub(1);
    }
    change
}

fn cancel(job: &Job) -> Result<Change, Refusal> {
    match job.live.state {
        State::Waiting | State::Scheduled | State::Ready => Ok(cancelled(job, None, Why::Asked)),
        State::Running if job.live.stop => Err(Refusal::Nothing),
        State::Running => {
            let next = NextLive { state: NextState::Running, stop: true, ..same(job) };
            Ok(change(job, Next::Live(Box::new(next)), Vec::new()))
        }
        State::Done | State::Dead | State::Cancelled => Err(Refusal::Ended),
    }
}

fn cancelled(job: &Job, ended: Option<(Ended, Option<Arc<str>>)>, why: Why) -> Change {
    let mut next = match ended {
        Some((ended, error)) => ending(job, ended, error),
        None => same(job),
    };
    next.state = NextState::Cancelled;
    next.why = Some(why);
    next.stop = false;
    next.counted = true;
    let mut effects = leaving(job);
    if job.spec.unique.as_ref().is_some_and(|u| u.hold != Hold::Window) {
        effects.push(Effect::ReleaseKey);
    }
    let tally = Tally { ran: i8::from(!job.live.counted), ..Tally::default() };
    settle(job, tally, Settled::Gone, &mut effects);
    change(job, Next::Live(Box::new(next)), effects)
}

/// By hand: an ended job starts afresh, and one that is due later is due now.
fn retry(job: &Job) -> Result<Change, Refusal> {
    let mut next = NextLive { due: When::Now, state: NextState::Pending, ..same(job) };
    match job.live.state {
        State::Dead | State::Cancelled => {
            (next.attempt, next.crashes) = (0, 0);
            (next.stop, next.broken, next.why) = (false, false, None);
            next.result = ResultChange::Drop;
        }
        State::Scheduled => {}
        State::Running => return Err(Refusal::Running),
        State::Done => return Err(Refusal::Ended),
        State::Waiting | State::Ready => return Err(Refusal::NotNow),
    }
    Ok(change(job, Next::Live(Box::new(next)), Vec::new()))
}

fn delete(job: &Job) -> Result<Change, Refusal> {
    // A member that never succeeded leaves its group, so that the others can succeed.
    let leaves = Tally { size: -1, ran: -i8::from(job.live.counted), ..Tally::default() };
    match job.live.state {
        State::Running => Err(Refusal::Running),
        State::Done => Ok(change(job, Next::Gone, Vec::new())),
        State::Waiting | State::Scheduled | State::Ready | State::Dead | State::Cancelled => {
            Ok(gone(job, leaves))
        }
    }
}

fn prune(job: &Job) -> Result<Change, Refusal> {
    match job.live.state {
        State::Done => Ok(change(job, Next::Gone, Vec::new())),
        State::Dead | State::Cancelled => Ok(gone(job, Tally { lost: true, ..Tally::default() })),
        State::Running => Err(Refusal::Running),
        State::Waiting | State::Scheduled | State::Ready => Err(Refusal::NotNow),
    }
}

/// A job that did not succeed is removed.
fn gone(job: &Job, tally: Tally) -> Change {
    let mut effects = Vec::new();
    if job.spec.unique.as_ref().is_some_and(|u| u.hold != Hold::Window) {
        effects.push(Effect::ReleaseKey);
    }
    settle(job, tally, Settled::Gone, &mut effects);
    change(job, Next::Gone, effects)
}

fn edit(job: &Job, edit: &Edit) -> Result<Change, Refusal> {
    match job.live.state {
        State::Waiting | State::Scheduled | State::Ready => {
            let next = NextLive {
                state: NextState::Pending,
                due: edit.due.unwrap_or(When::Keep),
                spec: edit.spec.clone(),
                ..same(job)
            };
            Ok(change(job, Next::Live(Box::new(next)), Vec::new()))
        }
        State::Running => Err(Refusal::Running),
        State::Done | State::Dead | State::Cancelled => Err(Refusal::Ended),
    }
}

fn take_result(job: &Job) -> Result<Change, Refusal> {
    let state = match job.live.state {
        State::Done => NextState::Done,
        State::Dead => NextState::Dead,
        State::Cancelled => NextState::Cancelled,
        State::Waiting | State::Scheduled | State::Ready | State::Running => {
            return Err(Refusal::NotNow);
        }
    };
    if job.live.result.is_none() {
        return Err(Refusal::Nothing);
    }
    if job.spec.retain == Retain::Nothing && state == NextState::Done {
        return Ok(change(job, Next::Gone, Vec::new()));
    }
    let next = NextLive { state, result: ResultChange::Drop, ..same(job) };
    Ok(change(job, Next::Live(Box::new(next)), Vec::new()))
}

fn change(job: &Job, next: Next, effects: Vec<Effect>) -> Change {
    Change { id: job.id, seen: job.seen(), next, effects }
}

/// The record as it is.
fn same(job: &Job) -> NextLive {
    NextLive {
        state: NextState::Pending,
        due: When::Keep,
        attempt: job.live.attempt,
        crashes: job.live.crashes,
        stop: job.live.stop,
        counted: job.live.counted,
        broken: job.live.broken,
        why: job.live.why,
        ended: None,
        result: ResultChange::Leave,
        spec: None,
    }
}

/// The record after the current delivery has ended. Where any delivery may report, the job may not
/// be running any more; then there is no delivery left to end.
fn ending(job: &Job, ended: Ended, error: Option<Arc<str>>) -> NextLive {
    let running = job.live.state == State::Running;
    NextLive { ended: running.then_some((ended, error)), stop: false, ..same(job) }
}

/// What goes with the end of a delivery.
fn leaving(job: &Job) -> Vec<Effect> {
    let holds_permits = job.live.state == State::Running && !job.spec.limits.is_empty();
    if holds_permits { vec![Effect::ReturnPermits] } else { Vec::new() }
}

fn settle(job: &Job, tally: Tally, settled: Settled, effects: &mut Vec<Effect>) {
    if job.spec.group.is_some() && tally != Tally::default() {
        effects.push(Effect::Tally(tally));
    }
    effects.push(Effect::Settle(settled));
}

/// Follow-ups come before the group counts the job, so that one which joins the group holds it, and
/// after the job's unique key is released, so that one may take it.
fn follow(then: &[NewJob], effects: &mut Vec<Effect>) {
    if !then.is_empty() {
        effects.push(Effect::Push(then.to_vec()));
    }
}

fn kept(job: &Job, result: Option<&Payload>) -> ResultChange {
    match (result, job.spec.keep) {
        (None, _) | (_, Keep::Discard) => ResultChange::Leave,
        (Some(payload), keep) => ResultChange::Set(payload.clone(), keep),
    }
}
