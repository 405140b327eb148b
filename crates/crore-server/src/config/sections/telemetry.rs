use crate::commands::client::parts;
use crore_core::settings::{Given, Setting, Shape, one_of, section};

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

/// A part of a whole, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share(pub(crate) f64);

impl Setting for Share {
    const SHAPE: Shape = Shape::Share;

    fn read(given: &Given) -> Result<Self, String> {
        match given.one()?.parse() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self(share)),
            _ => Err("write a number from 0 to 1, as in `0.1`".to_owned()),
        }
    }
}

/// A name for people, which is not empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Title(pub(crate) String);

impl Setting for Title {
    const SHAPE: Shape = Shape::Text;

    fn read(given: &Given) -> Result<Self, String> {
        match given.one()?.trim() {
            "" => Err("a name cannot be empty".to_owned()),
            name => Ok(Self(name.to_owned())),
        }
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
        /// Which share of the jobs that are pushed without a trace context are traced, from 0 to 1. One that comes
        /// with a context is traced if that says so.
        sample: Share = "1",
        /// Under which name.
        service: Title = "crore",
    }
}
