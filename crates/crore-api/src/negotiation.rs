//! Content negotiation: whether requests and responses are JSON or MessagePack.

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use crore_core::Code;
use crore_wire::Format;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;

use crate::Fault;
use crate::fault::in_format;

/// Detail of a 406 response.
const SUPPORTED: &str = "supported types are `application/json` and `application/msgpack`";

/// Media types of plain text, which metrics use.
const TEXTS: [&str; 3] = ["text/plain", "text/*", "application/openmetrics-text"];

/// The response format that a caller accepts. `format` is `None` if it accepts only an event stream or plain text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accept {
    format: Option<Format>,
    /// Whether an event stream is accepted.
    pub events: bool,
    /// Whether plain text is accepted, which metrics use.
    text: bool,
}

impl Accept {
    /// Reads the `Accept` header. Without a preference, the response has the format of the request.
    pub fn of(headers: &HeaderMap) -> Result<Self, Fault> {
        let default_format = || content_type(headers).ok().flatten().unwrap_or(Format::Json);
        let Some(accept) = headers.get(ACCEPT) else {
            return Ok(Self { format: Some(default_format()), events: false, text: false });
        };
        let text = accept.to_str().unwrap_or_default();
        let mut accept = Self { format: None, events: false, text: false };
        let mut best = 0;
        for item in text.split(',') {
            let mut parts = item.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(1000, thousandths);
            if weight == 0 {
                continue;
            }
            if kind.eq_ignore_ascii_case("text/event-stream") {
                accept.events = true;
            }
            accept.text |= TEXTS.iter().any(|text| kind.eq_ignore_ascii_case(text));
            let format = match kind {
                "*/*" | "application/*" => Some(default_format()),
                _ => format(kind),
            };
            if format.is_some() && weight > best {
                (accept.format, best) = (format, weight);
            }
        }
        match accept {
            Self { format: None, events: false, text: false } => {
                Err(Fault::new(Code::NotAcceptable, SUPPORTED))
            }
            accept => Ok(accept),
        }
    }

    /// The format of errors.
    pub fn format_or_json(self) -> Format {
        self.format.unwrap_or(Format::Json)
    }
}

/// An error response in the format that the caller accepts, or else in JSON.
pub fn refuse(headers: &HeaderMap, fault: Fault) -> Response {
    let format = Accept::of(headers).map_or(Format::Json, Accept::format_or_json);
    in_format(format, fault.into_response())
}

/// Parses a quality value such as `0.8`, in thousandths; 1000 if it is malformed.
fn thousandths(text: &str) -> u16 {
    text.parse::<f32>().map_or(1000, |weight| (weight.clamp(0.0, 1.0) * 1000.0) as u16)
}

/// Builder of responses in the negotiated format.
#[derive(Debug, Clone, Copy)]
pub struct Responder(pub Format);

impl Responder {
    /// A response with status 200.
    pub fn ok<T: Serialize>(self, value: &T) -> Response {
        self.with(StatusCode::OK, value)
    }

    /// A response with status 200 that has about this many bytes.
    pub fn ok_sized<T: Serialize>(self, value: &T, bytes: usize) -> Response {
        self.with_body(StatusCode::OK, self.0.encode_sized(value, bytes))
    }

    /// A response with another status.
    pub fn with<T: Serialize>(self, status: StatusCode, value: &T) -> Response {
        self.with_body(status, self.0.encode(value))
    }

    fn with_body(self, status: StatusCode, body: Vec<u8>) -> Response {
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let kind = HeaderValue::from_static(self.0.media_type());
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }

    /// An empty response with status 204.
    pub fn no_content() -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response
    }
}

impl<S: Sync> FromRequestParts<S> for Responder {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        let format = Accept::of(&parts.headers)?.format;
        let refused = || Fault::new(Code::NotAcceptable, SUPPORTED);
        format.map(Self).ok_or_else(refused)
    }
}

impl<S: Sync> FromRequestParts<S> for Accept {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        Self::of(&parts.headers)
    }
}

/// The format of a request body; `None` without a `content-type` header.
pub fn content_type(headers: &HeaderMap) -> Result<Option<Format>, Fault> {
    // Compressed bodies are refused: they could expand beyond the size limit.
    let is_compressed = |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
    if headers.get_all(CONTENT_ENCODING).iter().any(is_compressed) {
        return Err(Fault::new(
            Code::MediaType,
            "compressed bodies are not supported; remove `content-encoding`",
        ));
    }
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(None) };
    let unknown = || {
        let detail = "the body must be `application/json` or `application/msgpack`, in UTF-8";
        Fault::new(Code::MediaType, detail)
    };
    let mut parts = value.to_str().map_err(|_| unknown())?.split(';').map(str::trim);
    let format = format(parts.next().unwrap_or_default()).ok_or_else(unknown)?;
    let is_utf8 = |part: &str| match part.split_once('=') {
        Some((name, value)) if name.eq_ignore_ascii_case("charset") => {
            value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    };
    if parts.all(is_utf8) { Ok(Some(format)) } else { Err(unknown()) }
}

fn format(kind: &str) -> Option<Format> {
    const NAMES: [(&str, Format); 6] = [
        ("application/json", Format::Json),
        ("application/msgpack", Format::Msgpack),
        ("application/x-msgpack", Format::Msgpack),
        ("application/vnd.msgpack", Format::Msgpack),
        ("application/problem+json", Format::Json),
        ("application/problem+msgpack", Format::Msgpack),
    ];
    NAMES.iter().find(|(name, _)| kind.eq_ignore_ascii_case(name)).map(|(_, format)| *format)
}
