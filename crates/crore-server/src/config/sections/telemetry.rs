use crore_api::telemetry;
use crore_core::settings::{Given, Setting, Shape, one_of, section};

use crate::commands::client::parts;

one_of! {
    /// What a collector understands.
    pub(crate) enum Protocol {
        /// OpenTelemetry's, as protobuf over HTTP.
        Otlp = "otlp",
        /// Zipkin's, version 2.
        Zipkin = "zipkin",
    }
}

/// The URL of a collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint(pub(crate) String);

impl Setting for Endpoint {
    const SHAPE: Shape = Shape::Text;

    fn read(given: &Given) -> Result<Self, String> {
        let url = given.one()?;
        let is_url = url.contains("://") && parts(url).is_ok();
        let wrong = || "write a URL, as in `http://127.0.0.1:4318`".to_owned();
        is_url.then(|| Self(url.to_owned())).ok_or_else(wrong)
    }
}

section! {
    /// Traces of jobs, for a collector. Without an endpoint none are made; the context that a job is pushed with is
    /// carried to its worker either way.
    pub(crate) struct Telemetry = "telemetry" {
        /// Where a collector takes traces, as in `http://127.0.0.1:4318` (OTLP) or `http://127.0.0.1:9411` (Zipkin).
        /// Without a path it is the protocol's usual one: `/v1/traces`, or `/api/v2/spans`.
        endpoint: Option<Endpoint> = none,
        /// What the collector understands: `otlp` (protobuf over HTTP) or `zipkin` (version 2).
        protocol: Protocol = "otlp",
        /// The traces themselves.
        ..traces: telemetry::Options,
    }
}
