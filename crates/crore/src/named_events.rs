//! Named events that jobs wait for.

use crore_core::{Code, EventCaps, EventId, Invalid, KeptEvent, Name, NewEvent, Time};
use crore_store::events::SendResult;

use crate::drop_guard::DropGuard;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::events::SentEvent;
use crate::upkeep::Duty;

/// Named events; see [`Engine::events`](crate::Engine::events).
#[derive(Debug, Clone, Copy)]
pub struct NamedEvents<'a> {
    pub(crate) inner: &'a EngineInner,
}

/// A sent event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventReceipt {
    /// Its id.
    pub id: EventId,
    /// When it was sent, by the store's clock.
    pub at: Time,
    /// Number of jobs that waited for it. They are released in the background, in slices.
    pub waiting: usize,
}

impl NamedEvents<'_> {
    /// Sends an event: the jobs that wait for its name receive it, and so do jobs that are pushed while it is kept. It
    /// is durable when the call returns. It replaces the kept event of the same name.
    pub async fn send(self, event: NewEvent) -> Result<EventReceipt, Error> {
        let inner = self.inner;
        event.check(&inner.caps)?;
        let name = event.name.clone();
        // Also on error: the event may have been stored.
        let _release = DropGuard::new(|| inner.plan_release());
        let caps = EventCaps::of(&inner.caps);
        match inner.store.send(event, caps).await?.into_inner() {
            SendResult::Full => Err(too_many_events(caps).into()),
            SendResult::Sent { id, now, waiting } => {
                inner.events.publish_sent(&SentEvent { name, at: now });
                Ok(EventReceipt { id, at: now, waiting })
            }
        }
    }

    /// The kept event of a name, which jobs that are pushed now receive.
    pub async fn get(self, name: Name) -> Result<Option<KeptEvent>, Error> {
        Ok(self.inner.store.event(name).await?)
    }

    /// Up to `n` kept events by name, after `after`.
    pub async fn list(self, after: Option<Name>, n: usize) -> Result<Vec<KeptEvent>, Error> {
        Ok(self.inner.store.events(after, n).await?)
    }

    /// Removes the kept event of a name; `false`: there is none. Jobs that have received it keep it.
    pub async fn remove(self, name: Name) -> Result<bool, Error> {
        Ok(self.inner.store.remove_event(name).await?.into_inner())
    }
}

impl EngineInner {
    fn plan_release(&self) {
        self.plan_duty(Duty::Release, self.now());
    }
}

fn too_many_events(caps: EventCaps) -> Invalid {
    let EventCaps { count, bytes } = caps;
    let message = format!(
        "the server holds at most {count} events with {bytes} payload bytes in total; remove events, send them with \
         a shorter retention, or raise `caps.events` or `caps.event-bytes`"
    );
    Invalid::new(Code::TooMany, "event", message)
}
