//! Live events.

use crore::events::{EngineEvent, EventListener, EventType, ListenerItem, SentEvent};
use crore_core::{Code, Name};
use crore_wire::api::events::{self as wire, EventsQuery, What};
use crore_wire::units::Moment;
use tokio::sync::OwnedSemaphorePermit;

use super::jobs::filter_names;
use crate::{Api, Fault, Grant};

/// A permit to listen; dropping it releases it.
#[derive(Debug)]
pub struct ListenerPermit {
    _permit: OwnedSemaphorePermit,
}

/// A subscription to live events that match a filter.
#[derive(Debug)]
pub struct Subscription {
    listener: EventListener,
    api: Api,
    queue: Option<Name>,
    kind: Option<Name>,
    grant: Grant,
    _permit: ListenerPermit,
}

impl Api {
    /// Acquires a permit to listen, unless there are too many listeners.
    pub fn acquire_listener(&self) -> Result<ListenerPermit, Fault> {
        let too_many = |_| Fault::new(Code::TooMany, "too many listeners; retry later");
        let permit = self.listeners().clone().try_acquire_owned().map_err(too_many)?;
        Ok(ListenerPermit { _permit: permit })
    }

    /// Subscribes to events from now on. Events of jobs outside the caller's restriction are left out.
    pub fn subscribe(&self, grant: &Grant, which: &EventsQuery) -> Result<Subscription, Fault> {
        let (queue, kind) = filter_names(grant, which.queue.as_deref(), which.kind.as_deref())?;
        let permit = self.acquire_listener()?;
        let listener = self.engine().listen();
        let (api, grant) = (self.clone(), grant.clone());
        Ok(Subscription { listener, api, queue, kind, grant, _permit: permit })
    }
}

impl Subscription {
    /// The next matching event, or the number of missed ones; `None` when there will be no more.
    pub async fn next(&mut self) -> Option<ListenerItem> {
        loop {
            let item = tokio::select! {
                item = self.listener.next() => item?,
                () = self.api.closing() => return None,
            };
            match item {
                ListenerItem::Event(event) if !self.matches(&event) => {}
                ListenerItem::Sent(_) if !self.shows_sent() => {}
                item => return Some(item),
            }
        }
    }

    /// Sent events belong to no queue: only a caller that may see all jobs, and asked for all, gets them.
    fn shows_sent(&self) -> bool {
        self.queue.is_none() && self.kind.is_none() && self.grant.only().is_none()
    }

    fn matches(&self, event: &EngineEvent) -> bool {
        self.queue.as_ref().is_none_or(|queue| event.queue == *queue)
            && self.kind.as_ref().is_none_or(|kind| event.kind == *kind)
            && self.grant.covers(&event.queue, &event.kind)
    }
}

/// An event in the structure of the native API.
pub fn event(event: &EngineEvent) -> wire::Event {
    let (what, state) = match event.what {
        EventType::Pushed => (What::Pushed, None),
        EventType::Started => (What::Started, None),
        EventType::Became(state) => (What::Became, Some(state.into())),
        EventType::AskedToStop => (What::AskedToStop, None),
        EventType::Removed => (What::Removed, None),
    };
    wire::Event {
        id: event.id.into(),
        queue: event.queue.to_string(),
        kind: event.kind.to_string(),
        what,
        state,
        at: Moment(event.at),
    }
}

/// A sent event in the structure of the native API.
pub fn sent_event(event: &SentEvent) -> wire::SentEvent {
    wire::SentEvent { name: event.name.to_string(), at: Moment(event.at) }
}
