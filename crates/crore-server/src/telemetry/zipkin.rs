//! Spans as Zipkin has them: version 2, a list in JSON.

use std::collections::BTreeMap;

use crore_api::telemetry::{Kind, Span};
use crore_core::Time;
use serde::Serialize;

/// All spans in one list.
pub(super) fn list(service: &str, spans: &[Span]) -> anyhow::Result<Vec<u8>> {
    let spans: Vec<Shown<'_>> = spans.iter().map(|span| shown(service, span)).collect();
    Ok(serde_json::to_vec(&spans)?)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    trace_id: String,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_id: Option<String>,
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    /// In microseconds, as all times here.
    timestamp: u64,
    duration: u64,
    local_endpoint: Endpoint<'a>,
    tags: BTreeMap<&'static str, &'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint<'a> {
    service_name: &'a str,
}

fn shown<'a>(service: &'a str, span: &'a Span) -> Shown<'a> {
    let mut tags: BTreeMap<&'static str, &str> =
        span.attributes.iter().map(|(key, value)| (*key, value.as_str())).collect();
    tags.extend(span.error.as_deref().map(|error| ("error", error)));
    let (timestamp, end) = (micros(span.begun_at), micros(span.ended_at));
    Shown {
        trace_id: format!("{:032x}", span.trace),
        id: format!("{:016x}", span.id),
        parent_id: span.parent.map(|parent| format!("{parent:016x}")),
        name: span.name,
        kind: match span.kind {
            Kind::Producer => Some("PRODUCER"),
            Kind::Consumer => Some("CONSUMER"),
            Kind::Internal => None,
        },
        timestamp,
        // Zipkin takes zero for a span that is not over.
        duration: (end - timestamp).max(1),
        local_endpoint: Endpoint { service_name: service },
        tags,
    }
}

fn micros(at: Time) -> u64 {
    at.as_millis().unsigned_abs().saturating_mul(1000)
}
