//! Encodes spans as a Zipkin v2 JSON list.

use std::collections::BTreeMap;

use crore_api::telemetry::{TraceSpan, TraceSpanKind};
use crore_core::Time;
use serde::Serialize;

/// Encodes all spans in one list.
pub(super) fn list(service: &str, spans: &[TraceSpan]) -> anyhow::Result<Vec<u8>> {
    let spans: Vec<ZipkinSpan<'_>> = spans.iter().map(|span| zipkin_span(service, span)).collect();
    Ok(serde_json::to_vec(&spans)?)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ZipkinSpan<'a> {
    trace_id: String,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_id: Option<String>,
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    /// Microseconds, like `duration`.
    timestamp: u64,
    duration: u64,
    local_endpoint: ZipkinEndpoint<'a>,
    tags: BTreeMap<&'static str, &'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ZipkinEndpoint<'a> {
    service_name: &'a str,
}

fn zipkin_span<'a>(service: &'a str, span: &'a TraceSpan) -> ZipkinSpan<'a> {
    let mut tags: BTreeMap<&'static str, &str> =
        span.attributes.iter().map(|(key, value)| (*key, value.as_str())).collect();
    tags.extend(span.error.as_deref().map(|error| ("error", error)));
    let (timestamp, end) = (micros(span.begun_at), micros(span.ended_at));
    ZipkinSpan {
        trace_id: format!("{:032x}", span.trace),
        id: format!("{:016x}", span.id),
        parent_id: span.parent.map(|parent| format!("{parent:016x}")),
        name: span.name,
        kind: match span.kind {
            TraceSpanKind::Producer => Some("PRODUCER"),
            TraceSpanKind::Consumer => Some("CONSUMER"),
            TraceSpanKind::Internal => None,
        },
        timestamp,
        // Zipkin takes a duration of zero for an unfinished span.
        duration: (end - timestamp).max(1),
        local_endpoint: ZipkinEndpoint { service_name: service },
        tags,
    }
}

fn micros(at: Time) -> u64 {
    at.as_millis().unsigned_abs().saturating_mul(1000)
}
