//! Named events from outside, and jobs that wait for one.
//!
//! A program sends an event once. Every job that waits for its name is released, and receives its payload. A
//! kept event also releases jobs that are pushed later, until its retention is over.

use serde::{Deserialize, Serialize};

use crate::caps::Caps;
use crate::code::{Code, Invalid};
use crate::id::EventId;
use crate::job::{Job, State};
use crate::name::Name;
use crate::payload::Payload;
use crate::push::within;
use crate::time::{Span, Time};

/// Default retention of a sent event.
pub const DEFAULT_KEEP: Span = Span::from_secs(60 * 60);

/// The event that a job waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AwaitedEvent {
    /// Name of the event.
    pub name: Name,
    /// How long the job waits, from its push; `None`: for any time.
    pub timeout: Option<Span>,
    /// Action after the time-out.
    pub on_timeout: OnEventTimeout,
}

/// Action on a job whose event was not sent in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnEventTimeout {
    /// It runs without the event.
    Run,
    /// It is cancelled.
    #[default]
    Cancel,
    /// It is dead.
    Dead,
}

impl OnEventTimeout {
    /// Every value.
    pub const ALL: [Self; 3] = [Self::Run, Self::Cancel, Self::Dead];

    /// The value as written in requests and responses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Cancel => "cancel",
            Self::Dead => "dead",
        }
    }
}

impl AwaitedEvent {
    /// Validates the time-out.
    pub fn check(&self, caps: &Caps) -> Result<(), Invalid> {
        let shortest = Span::from_millis(1);
        self.timeout.map_or(Ok(()), |timeout| {
            within(Code::TimeoutRange, "wait-for.timeout", timeout, shortest, caps.max_ahead)
        })
    }
}

/// The progress of a job that waits for an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventWait {
    /// The event has not reached the job.
    Open {
        /// When the wait times out; `None`: never.
        until: Option<Time>,
    },
    /// The event has released the job.
    Received(ReceivedEvent),
    /// The event was not sent in time. The job never waits for it again.
    TimedOut,
}

/// The event that released a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedEvent {
    /// Which event.
    pub id: EventId,
    /// When it was sent.
    pub sent_at: Time,
    /// Its payload. Not part of the record of the job: a store adds it to jobs that it returns from a claim or by
    /// id, unless the job is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
}

impl EventWait {
    /// Whether the job still waits.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// The event that released the job.
    pub const fn received(&self) -> Option<&ReceivedEvent> {
        match self {
            Self::Received(event) => Some(event),
            Self::Open { .. } | Self::TimedOut => None,
        }
    }
}

impl Job {
    /// The instant from which the wait for the event is over, of a job for which that needs a decision.
    pub fn event_timeout(&self) -> Option<Time> {
        match self.live.event.as_deref() {
            Some(EventWait::Open { until }) if self.live.state == State::Waiting => {
                until.filter(|_| !self.live.broken)
            }
            _ => None,
        }
    }

    /// The event whose payload a store keeps for this job. A job that is done does not run again.
    pub fn held_event(&self) -> Option<EventId> {
        let received = self.live.event.as_deref().and_then(EventWait::received);
        received.filter(|_| self.live.state != State::Done).map(|event| event.id)
    }
}

/// An event that is not stored yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewEvent {
    /// The name.
    pub name: Name,
    /// The payload.
    pub payload: Payload,
    /// How long jobs that are pushed later find the event; zero: only jobs that wait now receive it.
    pub keep: Span,
}

impl NewEvent {
    /// Validates payload and retention.
    pub fn check(&self, caps: &Caps) -> Result<(), Invalid> {
        within(Code::TimeRange, "event-keep", self.keep, Span::ZERO, caps.max_retention)?;
        self.payload.check("payload", caps.payload_bytes, caps.depth)
    }
}

/// An event that jobs pushed now would receive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptEvent {
    /// Identifies the event among all of its store.
    pub id: EventId,
    /// The name.
    pub name: Name,
    /// The payload.
    pub payload: Payload,
    /// When it was sent.
    pub sent_at: Time,
    /// Jobs that are pushed from this time on do not find it.
    pub until: Time,
}

/// Maximum number and size of the events that a store holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventCaps {
    /// Number of events.
    pub count: usize,
    /// Total size of their payloads.
    pub bytes: usize,
}

impl EventCaps {
    /// The part of `caps` about stored events.
    pub const fn of(caps: &Caps) -> Self {
        Self { count: caps.events, bytes: caps.event_bytes }
    }
}
