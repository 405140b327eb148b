//! The transition function of the state machine.

use std::sync::Arc;

use super::event::{
    Change, Effect, EventWaitChange, JobEdit, JobEvent, NextLive, NextRecord, NextState, Outcome,
    RetryDirective,
};
use super::event::{Refusal, Report, ResultChange, Settled};
use crate::event::OnEventTimeout;
use crate::group::GroupTally;
use crate::id::Delivery;
use crate::index::IndexKey;
use crate::job::{
    DeliveryEnd, DueTime, EndReason, Job, JobRetention, Lapse, ReportDetails, ReportFencing,
    ResultRetention, Spec, State,
};
use crate::limit::PauseEnd;
use crate::name::Name;
use crate::payload::Payload;
use crate::push::NewJob;
use crate::time::{Span, Time};
use crate::unique::UniqueHold;

/// Decides how an event changes a job: pure, and total over every state and event.
///
/// `random` are 64 random bits for the jitter of a retry; the same arguments always give the same decision.
/// The first report of a delivery (under [`ReportFencing::Any`], between two deliveries) counts; any later one is
/// [`Refusal::Stale`].
pub fn decide(job: &Job, event: &JobEvent, random: u64) -> Result<Change, Refusal> {
    match event {
        JobEvent::Finished { delivery, report } => finished(job, *delivery, report, random),
        JobEvent::Lapsed(delivery) => {
            check_fence(job, *delivery)?;
            let mut change = lapsed(job, random);
            change.seen.lease_until = Some(job.live.lease_until);
            Ok(change)
        }
        JobEvent::WorkerLost(delivery) => {
            check_fence(job, *delivery)?;
            Ok(worker_lost(job, random))
        }
        JobEvent::TimedOut(delivery) => {
            check_fence(job, *delivery)?;
            let error = DeliveryFailure {
                ended: DeliveryEnd::TimedOut,
                error: "timed out".into(),
                detail: None,
            };
            Ok(failed(job, error, RetryDirective::ByPolicy, &[], random))
        }
        JobEvent::Delivered(delivery) => {
            check_fence(job, *delivery)?;
            if job.spec.lease.is_some() { Err(Refusal::NotNow) } else { Ok(done(job, None, &[])) }
        }
        JobEvent::Cancel => cancel(job),
        JobEvent::Retry => retry(job),
        JobEvent::Delete => delete(job),
        JobEvent::Prune => prune(job),
        JobEvent::Edit(edit) => self::edit(job, edit),
        JobEvent::Index(keys) => index(job, keys.as_ref()),
        JobEvent::TakeResult => take_result(job),
        JobEvent::Broken if job.live.state == State::Waiting && job.live.broken => {
            Ok(cancelled(job, None, EndReason::DependencyBroken))
        }
        JobEvent::Broken => Err(Refusal::NotNow),
        JobEvent::Expired(now) => expired(job, *now),
        JobEvent::EventTimedOut(now) => event_timed_out(job, *now),
    }
}

/// Fencing: only the delivery that holds the lease is accepted.
fn check_fence(job: &Job, delivery: Delivery) -> Result<(), Refusal> {
    let holds = job.live.state == State::Running && job.live.delivery == delivery;
    if holds { Ok(()) } else { Err(Refusal::Stale) }
}

fn finished(
    job: &Job,
    delivery: Option<Delivery>,
    report: &Report,
    random: u64,
) -> Result<Change, Refusal> {
    match (job.spec.reports, delivery) {
        (ReportFencing::Fenced, None) => return Err(Refusal::Stale),
        (ReportFencing::Fenced, Some(delivery)) => check_fence(job, delivery)?,
        (ReportFencing::Any, delivery) => check_unfenced(job, delivery, &report.outcome)?,
    }
    let mut change = match &report.outcome {
        Outcome::Done { result } => done(job, result.as_ref(), &report.on_done),
        Outcome::Failed { error, detail, again } => {
            let failure = DeliveryFailure {
                ended: DeliveryEnd::Failed,
                error: Arc::clone(error),
                detail: detail.as_ref(),
            };
            failed(job, failure, *again, &report.on_dead, random)
        }
        Outcome::Snooze(span) => requeue(job, DeliveryEnd::Snoozed, DueTime::After(*span)),
        Outcome::Interrupted => requeue(job, DeliveryEnd::Interrupted, DueTime::Keep),
        Outcome::Exhausted { limit, until } => exhausted(job, limit, *until),
        Outcome::Cancel => {
            let why = if job.live.stop { EndReason::Asked } else { EndReason::GivenUp };
            cancelled(job, Some((DeliveryEnd::Cancelled, None)), why)
        }
    };
    if let NextRecord::Live(next) = &mut change.next {
        next.details = report.details.clone();
    }
    if job.live.state == State::Running {
        correct_costs(job, report, &mut change.effects);
    }
    Ok(change)
}

/// Corrections of costs that a report states. A job whose key is exhausted has cost nothing, unless the report says otherwise.
fn correct_costs(job: &Job, report: &Report, effects: &mut Vec<Effect>) {
    let is_exhausted = matches!(report.outcome, Outcome::Exhausted { .. });
    if report.costs.is_empty() && !is_exhausted {
        return;
    }
    for (key, charged) in job.spec.charges() {
        let reported = report.costs.get(&key.limit).copied();
        let real = reported.or(is_exhausted.then_some(0)).unwrap_or(charged);
        if real != charged {
            effects.push(Effect::CorrectCost { key: key.clone(), charged, real });
        }
    }
}

/// Returns the job to its place and pauses its key.
fn exhausted(job: &Job, limit: &Name, until: PauseEnd) -> Change {
    let Some(key) = job.spec.limits.iter().find(|key| key.limit == *limit) else {
        let due = match until {
            PauseEnd::After(span) => DueTime::After(span),
            PauseEnd::At(time) => DueTime::At(time),
        };
        return requeue(job, DeliveryEnd::Snoozed, due);
    };
    let mut change = requeue(job, DeliveryEnd::Interrupted, DueTime::Keep);
    change.effects.push(Effect::PauseKey { key: key.clone(), until });
    change
}

/// Accepts a report under [`ReportFencing::Any`]: the first one since the job was last handed over. Once that
/// delivery has ended without a report, only a success or a failure counts.
fn check_unfenced(job: &Job, delivery: Option<Delivery>, outcome: &Outcome) -> Result<(), Refusal> {
    let was_granted = match delivery {
        None => job.live.delivery != Delivery::NONE,
        Some(d) => d != Delivery::NONE && d <= job.live.delivery,
    };
    let is_first = match job.live.state {
        State::Running => true,
        State::Scheduled | State::Ready => {
            let has_result = matches!(outcome, Outcome::Done { .. } | Outcome::Failed { .. });
            has_result && !job.live.is_reported()
        }
        State::Waiting | State::Done | State::Dead | State::Cancelled => false,
    };
    if was_granted && is_first { Ok(()) } else { Err(Refusal::Stale) }
}

/// A failed delivery: reported, lapsed or timed out.
struct DeliveryFailure<'a> {
    ended: DeliveryEnd,
    error: Arc<str>,
    detail: Option<&'a Payload>,
}

fn done(job: &Job, result: Option<&Payload>, follow_ups: &[NewJob]) -> Change {
    let mut next =
        NextLive { state: NextState::Done, ..after_delivery(job, DeliveryEnd::Done, None) };
    next.result = result_change(job, result);
    next.counted = true;
    let mut effects = delivery_end_effects(job);
    if job.spec.unique.as_ref().is_some_and(|u| u.hold != UniqueHold::Window) {
        effects.push(Effect::ReleaseKey);
    }
    let ran = i8::from(!job.live.counted);
    let tally = GroupTally { ran, succeeded: 1, ..GroupTally::default() };
    push_follow_ups(follow_ups, &mut effects);
    settle(job, tally, Settled::Succeeded, &mut effects);
    let gone = job.spec.retain == JobRetention::Nothing && next.result == ResultChange::Leave;
    change(job, if gone { NextRecord::Gone } else { NextRecord::Live(Box::new(next)) }, effects)
}

fn failed(
    job: &Job,
    failure: DeliveryFailure<'_>,
    again: RetryDirective,
    follow_ups: &[NewJob],
    random: u64,
) -> Change {
    if job.live.stop {
        return cancelled(job, Some((failure.ended, Some(failure.error))), EndReason::Asked);
    }
    let attempt = job.live.attempt;
    let last = job.spec.retry.is_last(attempt);
    let due = match again {
        RetryDirective::Never => {
            return dead(job, failure, EndReason::NotRetried, follow_ups);
        }
        // The delivery ended without a report before, and that decided about the attempt and the due time.
        _ if job.live.state != State::Running => {
            let next = after_delivery(job, failure.ended, Some(failure.error));
            return change(job, NextRecord::Live(Box::new(next)), Vec::new());
        }
        _ if last => return dead(job, failure, EndReason::Exhausted, follow_ups),
        RetryDirective::After(span) => DueTime::After(span),
        RetryDirective::ByPolicy => DueTime::After(job.spec.retry.delay(attempt, random)),
    };
    let next = NextLive { due, ..after_delivery(job, failure.ended, Some(failure.error)) };
    change(job, NextRecord::Live(Box::new(next)), delivery_end_effects(job))
}

fn dead(job: &Job, failure: DeliveryFailure<'_>, why: EndReason, follow_ups: &[NewJob]) -> Change {
    let mut next = after_delivery(job, failure.ended, Some(failure.error));
    next.result = result_change(job, failure.detail);
    dead_with(job, next, why, follow_ups)
}

fn dead_with(job: &Job, mut next: NextLive, why: EndReason, follow_ups: &[NewJob]) -> Change {
    next.state = NextState::Dead;
    next.why = Some(why);
    next.counted = true;
    let mut effects = delivery_end_effects(job);
    if job.spec.unique.as_ref().is_some_and(|u| u.hold == UniqueHold::UntilEnd) {
        effects.push(Effect::ReleaseKey);
    }
    let tally = GroupTally { ran: i8::from(!job.live.counted), ..GroupTally::default() };
    push_follow_ups(follow_ups, &mut effects);
    settle(job, tally, Settled::Failed, &mut effects);
    change(job, NextRecord::Live(Box::new(next)), effects)
}

/// Requeues the job without using an attempt.
fn requeue(job: &Job, ended: DeliveryEnd, due: DueTime) -> Change {
    if job.live.stop {
        return cancelled(job, Some((ended, None)), EndReason::Asked);
    }
    let mut next = NextLive { due, ..after_delivery(job, ended, None) };
    next.attempt = job.live.attempt.saturating_sub(1);
    change(job, NextRecord::Live(Box::new(next)), delivery_end_effects(job))
}

fn lapsed(job: &Job, random: u64) -> Change {
    let error = "lease expired".into();
    let failure = DeliveryFailure { ended: DeliveryEnd::Lapsed, error, detail: None };
    match job.spec.lapse {
        _ if job.live.stop => {
            cancelled(job, Some((DeliveryEnd::Lapsed, Some(failure.error))), EndReason::Asked)
        }
        Lapse::Crash { quarantine } => crashed(job, failure, quarantine),
        Lapse::Failure => failed(job, failure, RetryDirective::ByPolicy, &[], random),
        Lapse::Again => failed(job, failure, RetryDirective::After(Span::ZERO), &[], random),
    }
}

/// A disconnected worker is treated like a lapsed lease, except under [`Lapse::Again`], where a
/// disconnect costs no attempt.
fn worker_lost(job: &Job, random: u64) -> Change {
    match job.spec.lapse {
        Lapse::Again if !job.live.stop => {
            let error = "worker disconnected".into();
            crashed(job, DeliveryFailure { ended: DeliveryEnd::Lapsed, error, detail: None }, None)
        }
        _ => lapsed(job, random),
    }
}

/// A crash of the worker costs no attempt, but after `quarantine` crashes the job is dead.
fn crashed(job: &Job, failure: DeliveryFailure<'_>, quarantine: Option<u32>) -> Change {
    let crashes = job.live.crashes.saturating_add(1);
    let mut change = if quarantine.is_some_and(|most| crashes >= most) {
        dead(job, failure, EndReason::Quarantined, &[])
    } else {
        let next = after_delivery(job, failure.ended, Some(failure.error));
        change(job, NextRecord::Live(Box::new(next)), delivery_end_effects(job))
    };
    if let NextRecord::Live(next) = &mut change.next {
        next.crashes = crashes;
        next.attempt = job.live.attempt.saturating_sub(1);
    }
    change
}

fn cancel(job: &Job) -> Result<Change, Refusal> {
    match job.live.state {
        State::Waiting | State::Scheduled | State::Ready => {
            Ok(cancelled(job, None, EndReason::Asked))
        }
        State::Running if job.live.stop => Err(Refusal::Nothing),
        State::Running => {
            let next = NextLive { state: NextState::Running, stop: true, ..unchanged(job) };
            Ok(change(job, NextRecord::Live(Box::new(next)), Vec::new()))
        }
        State::Done | State::Dead | State::Cancelled => Err(Refusal::Ended),
    }
}

fn cancelled(job: &Job, ended: Option<(DeliveryEnd, Option<Arc<str>>)>, why: EndReason) -> Change {
    cancelled_with(job, ended, why, &[])
}

fn cancelled_with(
    job: &Job,
    ended: Option<(DeliveryEnd, Option<Arc<str>>)>,
    why: EndReason,
    follow_ups: &[NewJob],
) -> Change {
    let mut next = match ended {
        Some((ended, error)) => after_delivery(job, ended, error),
        None => unchanged(job),
    };
    next.state = NextState::Cancelled;
    next.why = Some(why);
    next.stop = false;
    next.counted = true;
    let mut effects = delivery_end_effects(job);
    if job.spec.unique.as_ref().is_some_and(|u| u.hold != UniqueHold::Window) {
        effects.push(Effect::ReleaseKey);
    }
    let tally = GroupTally { ran: i8::from(!job.live.counted), ..GroupTally::default() };
    push_follow_ups(follow_ups, &mut effects);
    settle(job, tally, Settled::Gone, &mut effects);
    change(job, NextRecord::Live(Box::new(next)), effects)
}

/// Ends a job that was not started by its deadline, with its follow-up.
fn expired(job: &Job, now: Time) -> Result<Change, Refusal> {
    match job.live.state {
        State::Waiting | State::Scheduled | State::Ready => {}
        State::Running => return Err(Refusal::Running),
        State::Done | State::Dead | State::Cancelled => return Err(Refusal::Ended),
    }
    if !job.live.is_expired(now) {
        return Err(Refusal::NotNow);
    }
    let follow_up = job.spec.on_expired.as_deref().map_or(&[][..], std::slice::from_ref);
    Ok(cancelled_with(job, None, EndReason::Expired, follow_up))
}

/// Ends the wait for an event that was not sent in time.
fn event_timed_out(job: &Job, now: Time) -> Result<Change, Refusal> {
    if job.event_timeout().is_none_or(|until| now < until) {
        return Err(Refusal::NotNow);
    }
    let action = job.spec.wait_for.as_ref().map(|awaited| awaited.on_timeout).unwrap_or_default();
    let mut change = match action {
        OnEventTimeout::Run => change(job, NextRecord::Live(Box::new(unchanged(job))), Vec::new()),
        OnEventTimeout::Cancel => cancelled(job, None, EndReason::EventTimedOut),
        OnEventTimeout::Dead => dead_with(job, unchanged(job), EndReason::EventTimedOut, &[]),
    };
    if let NextRecord::Live(next) = &mut change.next {
        next.event = EventWaitChange::TimeOut;
    }
    Ok(change)
}

/// Retry by hand: resets a dead or cancelled job, and makes a scheduled job due now.
fn retry(job: &Job) -> Result<Change, Refusal> {
    let mut next = NextLive { due: DueTime::Now, state: NextState::Pending, ..unchanged(job) };
    match job.live.state {
        State::Dead | State::Cancelled => {
            (next.attempt, next.crashes) = (0, 0);
            (next.stop, next.broken, next.why) = (false, false, None);
            next.drops_deadline = true;
            next.event = EventWaitChange::Restart;
            next.result = ResultChange::Drop;
        }
        State::Scheduled => {}
        State::Running => return Err(Refusal::Running),
        State::Done => return Err(Refusal::Ended),
        State::Waiting | State::Ready => return Err(Refusal::NotNow),
    }
    Ok(change(job, NextRecord::Live(Box::new(next)), Vec::new()))
}

fn delete(job: &Job) -> Result<Change, Refusal> {
    // A member that never succeeded leaves its group, so that the group can still succeed.
    let leaves = GroupTally { size: -1, ran: -i8::from(job.live.counted), ..GroupTally::default() };
    match job.live.state {
        State::Running => Err(Refusal::Running),
        State::Done => Ok(change(job, NextRecord::Gone, Vec::new())),
        State::Waiting | State::Scheduled | State::Ready | State::Dead | State::Cancelled => {
            Ok(remove_unsuccessful(job, leaves))
        }
    }
}

fn prune(job: &Job) -> Result<Change, Refusal> {
    match job.live.state {
        State::Done => Ok(change(job, NextRecord::Gone, Vec::new())),
        State::Dead | State::Cancelled => {
            Ok(remove_unsuccessful(job, GroupTally { lost: true, ..GroupTally::default() }))
        }
        State::Running => Err(Refusal::Running),
        State::Waiting | State::Scheduled | State::Ready => Err(Refusal::NotNow),
    }
}

/// Removes a job that did not succeed.
fn remove_unsuccessful(job: &Job, tally: GroupTally) -> Change {
    let mut effects = Vec::new();
    if job.spec.unique.as_ref().is_some_and(|u| u.hold != UniqueHold::Window) {
        effects.push(Effect::ReleaseKey);
    }
    settle(job, tally, Settled::Gone, &mut effects);
    change(job, NextRecord::Gone, effects)
}

fn edit(job: &Job, edit: &JobEdit) -> Result<Change, Refusal> {
    match job.live.state {
        State::Waiting | State::Scheduled | State::Ready => {
            let next = NextLive {
                state: NextState::Pending,
                due: edit.due.unwrap_or(DueTime::Keep),
                spec: edit.spec.clone(),
                ..unchanged(job)
            };
            Ok(change(job, NextRecord::Live(Box::new(next)), Vec::new()))
        }
        State::Running => Err(Refusal::Running),
        State::Done | State::Dead | State::Cancelled => Err(Refusal::Ended),
    }
}

fn index(job: &Job, keys: Option<&Arc<[IndexKey]>>) -> Result<Change, Refusal> {
    if job.spec.index.as_ref() == keys {
        return Err(Refusal::Nothing);
    }
    let state = match job.live.state {
        State::Waiting | State::Scheduled | State::Ready => NextState::Pending,
        State::Running => NextState::Running,
        State::Done => NextState::Done,
        State::Dead => NextState::Dead,
        State::Cancelled => NextState::Cancelled,
    };
    let spec = Spec { index: keys.cloned(), ..(*job.spec).clone() };
    let next = NextLive { state, spec: Some(Arc::new(spec)), ..unchanged(job) };
    Ok(change(job, NextRecord::Live(Box::new(next)), Vec::new()))
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
    if job.spec.retain == JobRetention::Nothing && state == NextState::Done {
        return Ok(change(job, NextRecord::Gone, Vec::new()));
    }
    let next = NextLive { state, result: ResultChange::Drop, ..unchanged(job) };
    Ok(change(job, NextRecord::Live(Box::new(next)), Vec::new()))
}

fn change(job: &Job, next: NextRecord, effects: Vec<Effect>) -> Change {
    Change { id: job.id, seen: job.seen(), next, effects }
}

/// The record, unchanged.
fn unchanged(job: &Job) -> NextLive {
    NextLive {
        state: NextState::Pending,
        due: DueTime::Keep,
        attempt: job.live.attempt,
        crashes: job.live.crashes,
        stop: job.live.stop,
        counted: job.live.counted,
        broken: job.live.broken,
        drops_deadline: false,
        event: EventWaitChange::Leave,
        why: job.live.why,
        ended: None,
        details: ReportDetails::default(),
        result: ResultChange::Leave,
        spec: None,
        action: None,
    }
}

/// The record after the current delivery has ended. Under [`ReportFencing::Any`] it may have ended before; then
/// only a failure is added to the history, so that later reports are known to be stale.
fn after_delivery(job: &Job, ended: DeliveryEnd, error: Option<Arc<str>>) -> NextLive {
    let is_added = job.live.state == State::Running || ended == DeliveryEnd::Failed;
    NextLive { ended: is_added.then_some((ended, error)), stop: false, ..unchanged(job) }
}

/// The effects of the end of a delivery.
fn delivery_end_effects(job: &Job) -> Vec<Effect> {
    let holds_permits = job.live.state == State::Running && !job.spec.limits.is_empty();
    if holds_permits { vec![Effect::ReturnPermits] } else { Vec::new() }
}

fn settle(job: &Job, tally: GroupTally, settled: Settled, effects: &mut Vec<Effect>) {
    if job.spec.group.is_some() && tally != GroupTally::default() {
        effects.push(Effect::Tally(tally));
    }
    effects.push(Effect::Settle(settled));
}

/// Follow-ups are pushed before the group counts the job, so that a follow-up in the same group keeps the
/// group open, and after the job's unique key is released, so that a follow-up can take it.
fn push_follow_ups(follow_ups: &[NewJob], effects: &mut Vec<Effect>) {
    if !follow_ups.is_empty() {
        effects.push(Effect::Push(follow_ups.to_vec()));
    }
}

fn result_change(job: &Job, result: Option<&Payload>) -> ResultChange {
    match (result, job.spec.keep) {
        (None, _) | (_, ResultRetention::Discard) => ResultChange::Leave,
        (Some(payload), keep) => ResultChange::Set(payload.clone(), keep),
    }
}
