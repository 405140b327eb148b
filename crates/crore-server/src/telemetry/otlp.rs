//! Spans as OTLP has them: `ExportTraceServiceRequest`, in protobuf. The numbers are those of
//! `opentelemetry/proto/trace/v1/trace.proto`.

use crore_api::telemetry::{Kind, Span};
use crore_core::Time;

use super::protobuf::Message;

/// What a span's status is when something went wrong.
const ERROR: u64 = 2;

/// All spans in one message.
pub(super) fn request(service: &str, spans: &[Span]) -> Vec<u8> {
    let resource = Message::default().messages(1, [attribute("service.name", service)]);
    let scope = Message::default().text(1, "crore").text(2, env!("CARGO_PKG_VERSION"));
    let in_scope = Message::default().message(1, &scope).messages(2, spans.iter().map(span));
    let in_resource = Message::default().message(1, &resource).message(2, &in_scope);
    Message::default().message(1, &in_resource).done()
}

fn span(span: &Span) -> Message {
    let kind = match span.kind {
        Kind::Internal => 1,
        Kind::Producer => 4,
        Kind::Consumer => 5,
    };
    let mut message = Message::default()
        .bytes(1, &span.trace.to_be_bytes())
        .bytes(2, &span.id.to_be_bytes())
        .text(5, span.name)
        .number(6, kind)
        .fixed64(7, nanos(span.begun_at))
        .fixed64(8, nanos(span.ended_at))
        .messages(9, span.attributes.iter().map(|(key, value)| attribute(key, value)));
    if let Some(state) = &span.state {
        message = message.text(3, state);
    }
    if let Some(parent) = span.parent {
        message = message.bytes(4, &parent.to_be_bytes());
    }
    if let Some(link) = span.link {
        let trace = Message::default().bytes(1, &span.trace.to_be_bytes());
        message = message.message(13, &trace.bytes(2, &link.to_be_bytes()));
    }
    if let Some(error) = &span.error {
        message = message.message(15, &Message::default().text(2, error).number(3, ERROR));
    }
    message
}

fn attribute(key: &str, value: &str) -> Message {
    Message::default().text(1, key).message(2, &Message::default().text(1, value))
}

fn nanos(at: Time) -> u64 {
    at.as_millis().unsigned_abs().saturating_mul(1_000_000)
}
