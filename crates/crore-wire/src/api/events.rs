//! Live events, and named events that jobs wait for.

use crore_core::event::{self, DEFAULT_KEEP};
use crore_core::job::Job;
use crore_core::{EventWait, Invalid, KeptEvent, Name, Payload};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Id;
use super::enums::{Encoding, State};
use super::job::JobView;
use super::payload::WirePayload;
use crate::units::{Moment, Period};
use crate::{Format, Raw};

/// Selects events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Only events of jobs in this queue.
    #[param(value_type = Option<super::Name>)]
    pub queue: Option<String>,
    /// Only events of jobs of this kind.
    #[param(value_type = Option<super::Name>)]
    pub kind: Option<String>,
}

/// Type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// The job was pushed.
    Pushed,
    /// The job was delivered to a worker.
    Started,
    /// The state changed to `state`.
    Became,
    /// The job was asked to stop.
    AskedToStop,
    /// The job was removed.
    Removed,
}

/// An event named `job`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// The job.
    pub id: Id,
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// Type of the event.
    pub what: What,
    /// The new state, for `became`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<State>,
    /// Time of the event.
    pub at: Moment,
}

/// An event named `event.sent`: a program sent a named event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SentEvent {
    /// Name of the sent event.
    pub name: String,
    /// When it was sent.
    pub at: Moment,
}

/// An event named `missed`: the client read too slowly, and events were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MissedEvents {
    /// Number of dropped events.
    pub n: u64,
}

/// A named event to send.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewEvent {
    /// The payload: any value, at most 1 MiB by default (`caps.payload`). Default: `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Raw, required = false)]
    pub payload: Option<Raw>,
    /// Payload as Base64-encoded bytes, instead of `payload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64")]
    pub payload_base64: Option<String>,
    /// Encoding of the bytes in `payload_base64`. Default: `bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// How long jobs that are pushed later receive the event; `0s`: only jobs that wait now. Default: one hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<Period>,
}

impl NewEvent {
    /// Converts to the core type.
    pub fn read(self, name: Name, format: Format) -> Result<event::NewEvent, Invalid> {
        let payload = WirePayload {
            value: self.payload,
            base64: self.payload_base64,
            encoding: self.encoding,
        };
        let payload = match payload.read("payload", format)? {
            Some(payload) => payload,
            None => Payload::new(format.encoding(), Raw::null(format).bytes()),
        };
        let keep = self.keep.map_or(DEFAULT_KEEP, |keep| keep.0);
        Ok(event::NewEvent { name, payload, keep })
    }
}

/// A named event that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventSent {
    /// Id of the event.
    pub id: Id,
    /// The name.
    pub name: String,
    /// When it was sent.
    pub sent_at: Moment,
    /// Number of jobs that waited for it. They are released in the background.
    pub waiting: u64,
}

/// A kept event: jobs that are pushed now receive it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NamedEvent {
    /// Id of the event.
    pub id: Id,
    /// The name.
    pub name: String,
    /// The payload, any value; omitted in lists.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Raw, required = false)]
    pub payload: Option<Raw>,
    /// The payload in Base64, if it cannot be represented as a value in this format.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub payload_base64: Option<String>,
    /// Encoding in which the payload was sent.
    pub encoding: Encoding,
    /// Size of the payload, in bytes.
    pub bytes: u64,
    /// When it was sent.
    pub sent_at: Moment,
    /// Jobs that are pushed from this time on do not receive it.
    pub until: Moment,
}

impl NamedEvent {
    /// Converts from the core type, for a body of this format.
    pub fn of(event: &KeptEvent, format: Format, show: JobView) -> Self {
        let payload = match show {
            JobView::Full => WirePayload::of(&event.payload, format),
            JobView::Summary => WirePayload::default(),
        };
        Self {
            id: crore_core::JobId(event.id.0).into(),
            name: event.name.to_string(),
            payload: payload.value,
            payload_base64: payload.base64,
            encoding: event.payload.encoding.into(),
            bytes: event.payload.bytes.len() as u64,
            sent_at: Moment(event.sent_at),
            until: Moment(event.until),
        }
    }
}

/// Selects kept events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NamedEventsQuery {
    /// Only events with a later name: `next` of the previous page.
    #[param(value_type = Option<super::Name>)]
    pub after: Option<String>,
    /// Page size, 1 to 1000. Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

/// A page of kept events, by name, without their payloads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NamedEventList {
    /// The events.
    pub events: Vec<NamedEvent>,
    /// Name after which the next page begins; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next: Option<String>,
}

/// The event that a job has received.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReceivedEvent {
    /// Name of the event.
    pub name: String,
    /// When it was sent.
    pub sent_at: Moment,
    /// The payload, any value.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Raw, required = false)]
    pub payload: Option<Raw>,
    /// The payload in Base64, if it cannot be represented as a value in this format.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub payload_base64: Option<String>,
    /// Encoding in which the payload was sent, if there is one here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub encoding: Option<Encoding>,
}

impl ReceivedEvent {
    /// The event of a job, for a body of this format.
    pub fn of(job: &Job, format: Format, show: JobView) -> Option<Self> {
        let received = job.live.event.as_deref().and_then(EventWait::received)?;
        let name = job.spec.wait_for.as_ref()?.name.to_string();
        let payload = received.payload.as_ref().filter(|_| show == JobView::Full);
        let WirePayload { value, base64, encoding } =
            payload.map_or_else(WirePayload::default, |payload| WirePayload::of(payload, format));
        let sent_at = Moment(received.sent_at);
        Some(Self { name, sent_at, payload: value, payload_base64: base64, encoding })
    }
}
