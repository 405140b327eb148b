//! Sending events, and the release of the jobs that waited for them.

use crore_core::event::ReceivedEvent;
use crore_core::{EventCaps, EventId, KeptEvent, Name, NewEvent, Span, Time};

use super::LocalIndex;
use super::events::StoredEvent;
use super::records::JobRecords;
use crate::Error;
use crate::events::{Released, SendResult};

/// Events whose retention is ended at once to make room for another one.
const MAX_PRUNED: usize = 1000;

impl<R: JobRecords> LocalIndex<R> {
    pub(crate) fn send(&mut self, event: NewEvent, caps: EventCaps, now: Time) -> SendResult {
        let bytes = event.payload.bytes.len();
        let fits = |local: &mut Self| {
            let (count, bytes) = local.events.size_with(&event.name, bytes);
            count <= caps.count && bytes <= caps.bytes
        };
        if !fits(self) && (self.events.prune(MAX_PRUNED, now) == 0 || !fits(self)) {
            return SendResult::Full;
        }
        let id = EventId(self.next_id());
        let until = (event.keep > Span::ZERO).then_some(now.after(event.keep));
        let NewEvent { name, payload, .. } = event;
        let waiting = self.events.send(id, StoredEvent { name, payload, sent_at: now, until });
        SendResult::Sent { id, now, waiting }
    }

    pub(crate) fn release(&mut self, n: usize, now: Time) -> Result<Released, Error> {
        let mut count = 0;
        while count < n {
            let Some((job, id, sent_at)) = self.events.next_owed() else {
                return Ok(Released { count, more: false });
            };
            let event = ReceivedEvent { id, sent_at, payload: None };
            match self.change(job, |record| record.job.live.release(event, now)) {
                Ok(_) => {}
                // An unreadable job must not keep the others from their event: it is left to a repair.
                Err(Error::Corrupt { .. }) => self.events.set(job, None),
                Err(other) => return Err(other),
            }
            if self.events.next_owed().is_some_and(|(next, ..)| next == job) {
                // The record and the index disagree.
                self.events.set(job, None);
            }
            count += 1;
        }
        Ok(Released { count, more: self.events.next_owed().is_some() })
    }

    pub(crate) fn event(&self, name: &Name, now: Time) -> Option<KeptEvent> {
        self.events.kept_event(name, now)
    }

    pub(crate) fn event_list(&self, after: Option<&Name>, n: usize, now: Time) -> Vec<KeptEvent> {
        self.events.list(after, n, now)
    }

    pub(crate) fn remove_event(&mut self, name: &Name, now: Time) -> bool {
        let Some((id, _)) = self.events.kept(name, now) else { return false };
        self.events.end_retention(id);
        true
    }
}
