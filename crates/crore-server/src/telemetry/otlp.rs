//! Encodes spans as an OTLP `ExportTraceServiceRequest` in protobuf. The messages are declared here because
//! `opentelemetry-proto` depends on the OpenTelemetry SDK.

mod messages;

use crore_api::telemetry::{TraceSpan, TraceSpanKind};
use crore_core::Time;
use prost::Message;

use messages::{
    AnyValue, ExportTraceServiceRequest, InstrumentationScope, KeyValue, OtlpLink, OtlpStatus,
    Resource, ResourceSpans, ScopeSpans, SpanKind, StatusCode,
};

/// Encodes all spans in one message.
pub(super) fn request(service: &str, spans: &[TraceSpan]) -> Vec<u8> {
    let name = "crore".to_owned();
    let scope = InstrumentationScope { name, version: env!("CARGO_PKG_VERSION").to_owned() };
    let scope_spans =
        vec![ScopeSpans { scope: Some(scope), spans: spans.iter().map(span).collect() }];
    let resource = Some(Resource { attributes: vec![attribute("service.name", service)] });
    let resource_spans = vec![ResourceSpans { resource, scope_spans }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

fn span(span: &TraceSpan) -> messages::OtlpSpan {
    let kind = match span.kind {
        TraceSpanKind::Internal => SpanKind::Internal,
        TraceSpanKind::Producer => SpanKind::Producer,
        TraceSpanKind::Consumer => SpanKind::Consumer,
    };
    let id = |id: u64| id.to_be_bytes().to_vec();
    let trace_id = span.trace.to_be_bytes().to_vec();
    let link = |link| OtlpLink { trace_id: trace_id.clone(), span_id: id(link) };
    let status =
        |error: &String| OtlpStatus { message: error.clone(), code: StatusCode::Error.into() };
    messages::OtlpSpan {
        span_id: id(span.id),
        trace_state: span.state.as_ref().map(ToString::to_string).unwrap_or_default(),
        parent_span_id: span.parent.map(id).unwrap_or_default(),
        name: span.name.to_owned(),
        kind: kind.into(),
        start_time_unix_nano: nanos(span.begun_at),
        end_time_unix_nano: nanos(span.ended_at),
        attributes: span.attributes.iter().map(|(key, value)| attribute(key, value)).collect(),
        links: span.link.map(link).into_iter().collect(),
        status: span.error.as_ref().map(status),
        trace_id,
    }
}

fn attribute(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { string_value: Some(value.to_owned()) });
    KeyValue { key: key.to_owned(), value }
}

fn nanos(at: Time) -> u64 {
    at.as_millis().unsigned_abs().saturating_mul(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_the_bytes_of_the_format() {
        let span = span(&TraceSpan {
            trace: 1,
            id: 2,
            parent: Some(3),
            link: Some(4),
            state: Some("a=b".into()),
            name: "run",
            kind: TraceSpanKind::Consumer,
            begun_at: Time::from_millis(1),
            ended_at: Time::from_millis(2),
            attributes: vec![("queue", String::new())],
            error: Some("no".to_owned()),
        });
        let id = |n: u8| [0, 0, 0, 0, 0, 0, 0, n];
        let trace = [id(0), id(1)].concat();
        let expected: &[&[u8]] = &[
            &[b"\x0a\x10", &*trace, b"\x12\x08", &id(2)].concat(),
            &[&b"\x1a\x03a=b\x22\x08"[..], &id(3), b"\x2a\x03run\x30\x05"].concat(),
            &[&b"\x39"[..], &1_000_000_u64.to_le_bytes()].concat(),
            &[&b"\x41"[..], &2_000_000_u64.to_le_bytes()].concat(),
            b"\x4a\x0b\x0a\x05queue\x12\x02\x0a\x00",
            &[b"\x6a\x1c\x0a\x10", &*trace, b"\x12\x08", &id(4)].concat(),
            b"\x7a\x06\x12\x02no\x18\x02",
        ];
        assert_eq!(span.encode_to_vec(), expected.concat());
    }
}
