//! Converts named events to and from messages.

use crore_core::event::DEFAULT_KEEP;
use crore_core::{Encoding, Invalid, KeptEvent, Name, NewEvent, Payload, Span};
use crore_wire::api::events::EventSent;
use crore_wire::api::job::JobView;
use crore_wire::grpc::v1;

pub(super) fn read(event: v1::NewEvent) -> Result<NewEvent, Invalid> {
    let name = Name::new("name", &event.name)?;
    let encoding = v1::Encoding::read(event.encoding)?;
    let payload = match event.payload {
        Some(bytes) => Payload::new(encoding, &bytes[..]),
        None if encoding == Encoding::Json => Payload::json("null"),
        None => Payload::new(encoding, &[][..]),
    };
    Ok(NewEvent { name, payload, keep: event.keep_ms.map_or(DEFAULT_KEEP, Span::from_millis) })
}

pub(super) fn sent(sent: &EventSent) -> v1::EventSent {
    let id = crore_core::JobId::from(sent.id).0;
    v1::EventSent { id, sent_at_ms: sent.sent_at.0.as_millis(), waiting: sent.waiting }
}

pub(super) fn event(event: &KeptEvent, show: JobView) -> v1::NamedEvent {
    v1::NamedEvent {
        id: event.id.0,
        name: event.name.to_string(),
        payload: (show == JobView::Full).then(|| event.payload.bytes.to_vec().into()),
        encoding: v1::Encoding::from(event.payload.encoding).into(),
        sent_at_ms: event.sent_at.as_millis(),
        until_ms: event.until.as_millis(),
    }
}
