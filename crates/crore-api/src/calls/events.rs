//! Live events.

use crore::events::{Event, Happened, Heard, Listener};
use crore_core::{Code, Name};
use crore_wire::api::events::{self as wire, What, WhichEvents};
use crore_wire::words::Moment;
use tokio::sync::OwnedSemaphorePermit;

use crate::params::optional_name;
use crate::{Api, Fault};

/// A permit to listen, returned when it is dropped.
#[derive(Debug)]
pub struct Seat {
    _permit: OwnedSemaphorePermit,
}

/// A listener to live events that match.
#[derive(Debug)]
pub struct Subscription {
    listener: Listener,
    api: Api,
    queue: Option<Name>,
    kind: Option<Name>,
    _seat: Seat,
}

impl Api {
    /// Takes a seat among the listeners, or refuses.
    pub fn take_seat(&self) -> Result<Seat, Fault> {
        let too_many = |_| Fault::new(Code::TooMany, "too many listen already");
        let permit = self.listeners().clone().try_acquire_owned().map_err(too_many)?;
        Ok(Seat { _permit: permit })
    }

    /// Subscribes to events from now on.
    pub fn subscribe(&self, which: &WhichEvents) -> Result<Subscription, Fault> {
        let queue = optional_name("queue", which.queue.as_deref())?;
        let kind = optional_name("kind", which.kind.as_deref())?;
        let seat = self.take_seat()?;
        let listener = self.engine().listen();
        Ok(Subscription { listener, api: self.clone(), queue, kind, _seat: seat })
    }
}

impl Subscription {
    /// The next event that matches, or how many were missed; `None`: there will be no more.
    pub async fn next(&mut self) -> Option<Heard> {
        loop {
            let heard = tokio::select! {
                heard = self.listener.next() => heard?,
                () = self.api.closing() => return None,
            };
            match heard {
                Heard::Event(event) if !self.matches(&event) => {}
                heard => return Some(heard),
            }
        }
    }

    fn matches(&self, event: &Event) -> bool {
        self.queue.as_ref().is_none_or(|queue| event.queue == *queue)
            && self.kind.as_ref().is_none_or(|kind| event.kind == *kind)
    }
}

/// An event in the structure of the native API.
pub fn event(event: &Event) -> wire::Event {
    let (what, state) = match event.what {
        Happened::Pushed => (What::Pushed, None),
        Happened::Started => (What::Started, None),
        Happened::Became(state) => (What::Became, Some(state.into())),
        Happened::AskedToStop => (What::AskedToStop, None),
        Happened::Removed => (What::Removed, None),
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
