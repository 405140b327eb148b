use crore_api::telemetry;
use crore_core::settings::{Setting, SettingValue, Shape, one_of, section};

use crate::commands::client::parse_url;

one_of! {
    /// Export protocol of traces.
    pub(crate) enum ExportProtocol {
        /// OpenTelemetry: protobuf over HTTP.
        Otlp = "otlp",
        /// Zipkin version 2.
        Zipkin = "zipkin",
    }
}

/// URL of a trace collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CollectorUrl(pub(crate) String);

impl Setting for CollectorUrl {
    const SHAPE: Shape = Shape::Text;

    fn read(given: &SettingValue) -> Result<Self, String> {
        let url = given.one()?;
        let is_url = url.contains("://") && parse_url(url).is_ok();
        let wrong = || "expected a URL, such as `http://127.0.0.1:4318`".to_owned();
        is_url.then(|| Self(url.to_owned())).ok_or_else(wrong)
    }
}

section! {
    /// Export of job traces. Without an endpoint no spans are recorded; the trace context of a job is passed on to
    /// its worker in any case.
    pub(crate) struct TelemetryConfig = "telemetry" {
        /// URL of the trace collector, such as `http://127.0.0.1:4318` (OTLP) or `http://127.0.0.1:9411` (Zipkin).
        /// Without a path, `/v1/traces` is used for OTLP and `/api/v2/spans` for Zipkin.
        endpoint: Option<CollectorUrl> = none,
        /// Export protocol: `otlp` (protobuf over HTTP) or `zipkin` (version 2).
        protocol: ExportProtocol = "otlp",
        /// Options of the traces.
        ..traces: telemetry::Options,
    }
}
