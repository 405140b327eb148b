//! Events that jobs wait for, and I27: no job is released without an event, none is left behind, and each has the payload
//! of its event.

use crore_core::event::OnEventTimeout;
use crore_core::{
    AwaitedEvent, EventCaps, EventId, EventWait, Job, Name, NewEvent, Payload, Span, State,
};
use crore_store::Error;
use crore_store::events::SendResult;

use super::context::{CallerLink, SimContext, name};
use super::pusher::payload;

const SECOND: Span = Span::from_secs(1);
const CAPS: EventCaps = EventCaps { count: 1000, bytes: 1 << 20 };

/// An event that was sent, or may have been.
#[derive(Debug, Clone)]
pub(super) struct KnownEvent {
    name: Name,
    payload: Payload,
    /// The id, if it was acknowledged: it is durable then.
    id: Option<EventId>,
}

/// The event that a new job waits for, in some runs.
pub(super) fn draw_wait_for(context: &mut SimContext) -> Option<Box<AwaitedEvent>> {
    if !context.config.jobs.events || context.has_engine || context.rng.one_in(2) {
        return None;
    }
    let name = name(context.rng.choose(["e0", "e1"]));
    let timeout = context.rng.choose([None, Some(SECOND), Some(SECOND.times(60))]);
    let on_timeout = context.rng.choose(OnEventTimeout::ALL);
    Some(Box::new(AwaitedEvent { name, timeout, on_timeout }))
}

/// Sends an event, releases jobs, or removes a kept event.
pub(super) async fn turn(link: &CallerLink, n: usize) -> Result<(), Error> {
    let what = link.context().rng.below(8);
    match what {
        0..2 => send(link).await,
        2..5 => release(link, n).await,
        5 => {
            let name = name(link.context().rng.choose(["e0", "e1"]));
            link.store.remove_event(name).await.map(|_| ())
        }
        _ => Ok(()),
    }
}

async fn send(link: &CallerLink) -> Result<(), Error> {
    let (event, nth) = {
        let mut context = link.context();
        let name = name(context.rng.choose(["e0", "e1"]));
        let keep = context.rng.choose([Span::ZERO, SECOND, SECOND.times(600)]);
        let event = NewEvent { name, payload: payload(&mut context), keep };
        let known =
            KnownEvent { name: event.name.clone(), payload: event.payload.clone(), id: None };
        context.knowledge.events.push(known);
        (event, context.knowledge.events.len() - 1)
    };
    link.context().trace_line(&link.caller, format_args!("send {event:?}"));
    let sent = link.store.send(event, CAPS).await?.into_inner();
    let mut context = link.context();
    context.trace_line(&link.caller, format_args!("{sent:?}"));
    if let (SendResult::Sent { id, .. }, Some(known)) =
        (sent, context.knowledge.events.get_mut(nth))
    {
        known.id = Some(id);
    }
    Ok(())
}

pub(super) async fn release(link: &CallerLink, n: usize) -> Result<(), Error> {
    let released = link.store.release(n).await?;
    let mut context = link.context();
    context.trace_line(&link.caller, format_args!("{released:?}"));
    if released.count > n {
        context.violation(format!("{} were released, but {n} were requested", released.count));
    }
    Ok(())
}

/// A delivered job has its event with its payload, unless its wait timed out.
pub(super) fn check_event(context: &mut SimContext, job: &Job) {
    let Some(awaited) = &job.spec.wait_for else { return };
    let is_right = match job.live.event.as_deref() {
        Some(EventWait::Received(received)) => context.knowledge.events.iter().any(|known| {
            let is_same = known.id.is_none_or(|id| id == received.id);
            known.name == awaited.name
                && Some(&known.payload) == received.payload.as_ref()
                && is_same
        }),
        Some(EventWait::TimedOut) => awaited.timeout.is_some(),
        Some(EventWait::Open { .. }) | None => false,
    };
    if !is_right {
        let (id, event) = (job.id, &job.live.event);
        context.violation(format!("I27: {id:?} was handed out with {event:?} for {awaited:?}"));
    }
}

/// A job that still waits after all releases has not been sent an event.
pub(super) fn check_not_owed(context: &mut SimContext, job: &Job) {
    let Some(awaited) = job.spec.wait_for.as_ref().filter(|_| job.live.waits_for_event()) else {
        return;
    };
    let mut sent = context.knowledge.events.iter().filter(|known| known.name == awaited.name);
    let missed = sent.find_map(|known| known.id.filter(|id| id.0 > job.id.0));
    if let (Some(event), State::Waiting) = (missed, job.live.state) {
        let id = job.id;
        context.violation(format!("I27: {id:?} waits, although {event:?} was sent after its push"));
    }
}
