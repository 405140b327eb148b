//! Events. Nothing is dropped: an event that no one needs any more is just not counted.

use std::collections::BTreeSet;

use crore_core::event::ReceivedEvent;
use crore_core::{
    EventCaps, EventId, EventWait, Job, JobId, KeptEvent, Name, NewEvent, State, Time,
};
use crore_store::events::{Released, SendResult};

use super::records::Records;

/// An event, as the record of a job has it.
pub(super) const fn received(event: &KeptEvent) -> ReceivedEvent {
    ReceivedEvent { id: event.id, sent_at: event.sent_at, payload: None }
}

impl Records {
    pub(super) fn send(&mut self, event: NewEvent, caps: EventCaps) -> SendResult {
        let needed = self.events.values().filter(|old| {
            let is_replaced = old.name == event.name;
            self.is_needed(old.id) || !is_replaced && self.kept(&old.name).as_ref() == Some(old)
        });
        let sizes: Vec<usize> = needed.map(|old| old.payload.bytes.len()).collect();
        let bytes = sizes.iter().sum::<usize>() + event.payload.bytes.len();
        if sizes.len() + 1 > caps.count || bytes > caps.bytes {
            return SendResult::Full;
        }
        let waiting = self.jobs.values().filter(|job| self.waits_for(job, &event.name));
        let waiting = waiting.filter(|job| self.owed_to(job).is_none()).count();
        let (id, now) = (EventId(self.next_number()), self.now);
        let NewEvent { name, payload, keep } = event;
        let event = KeptEvent { id, name, payload, sent_at: now, until: now.after(keep) };
        self.events.insert(id, event);
        SendResult::Sent { id, now, waiting }
    }

    pub(super) fn release(&mut self, n: usize) -> Released {
        let owed = self.jobs.values().filter_map(|job| Some((self.owed_to(job)?, job.id)));
        let owed: BTreeSet<(EventId, JobId)> = owed.collect();
        for (event, id) in owed.iter().take(n) {
            let job = self.jobs.get_mut(id).expect("it is owed an event");
            job.live.release(received(&self.events[event]), self.now);
        }
        Released { count: owed.len().min(n), more: owed.len() > n }
    }

    /// The newest event of a name, while it is kept.
    pub(super) fn kept(&self, name: &Name) -> Option<KeptEvent> {
        let newest = self.events.values().rev().find(|event| event.name == *name);
        newest.filter(|event| self.now < event.until).cloned()
    }

    pub(super) fn kept_events(&self, after: Option<&Name>, n: usize) -> Vec<KeptEvent> {
        let names: BTreeSet<&Name> = self.events.values().map(|event| &event.name).collect();
        let names = names.into_iter().filter(|name| after.is_none_or(|after| *name > after));
        names.filter_map(|name| self.kept(name)).take(n).collect()
    }

    pub(super) fn remove_event(&mut self, name: &Name) -> bool {
        let Some(kept) = self.kept(name) else { return false };
        let now = self.now;
        self.events.entry(kept.id).and_modify(|event| event.until = now);
        true
    }

    /// A job with the payload of the event that it has received.
    pub(super) fn with_event(&self, mut job: Job) -> Job {
        let payload = job.held_event().map(|id| self.events[&id].payload.clone());
        if let Some(EventWait::Received(event)) = job.live.event.as_deref_mut() {
            event.payload = payload;
        }
        job
    }

    /// Ends of the waits of jobs that are not owed an event, in order.
    pub(super) fn event_timeouts(&self) -> BTreeSet<(Time, JobId)> {
        let jobs = self.jobs.values().filter(|job| self.owed_to(job).is_none());
        jobs.filter_map(|job| Some((job.event_timeout()?, job.id))).collect()
    }

    /// The event that a job will receive: the first of its name after its push.
    fn owed_to(&self, job: &Job) -> Option<EventId> {
        let name = &job.spec.wait_for.as_ref().filter(|_| job.live.waits_for_event())?.name;
        let mut later = self.events.values().filter(|event| event.id.0 > job.id.0);
        later.find(|event| event.name == *name).map(|event| event.id)
    }

    fn waits_for(&self, job: &Job, name: &Name) -> bool {
        let awaited = job.spec.wait_for.as_ref().filter(|_| job.live.waits_for_event());
        job.live.state == State::Waiting && awaited.is_some_and(|awaited| awaited.name == *name)
    }

    /// Whether a job is owed the event, or has received it and may still run.
    fn is_needed(&self, id: EventId) -> bool {
        self.jobs.values().any(|job| job.held_event() == Some(id) || self.owed_to(job) == Some(id))
    }
}
