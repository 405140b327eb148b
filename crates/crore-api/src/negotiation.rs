//! What a caller speaks and wishes to hear.

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

/// What nearly every call can answer in.
const OURS: &str = "`application/json` and `application/msgpack` can be had here";

/// What metrics are.
const TEXTS: [&str; 3] = ["text/plain", "text/*", "application/openmetrics-text"];

/// The encoding in which a caller wishes to hear; `None`: he wishes for a stream of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accept {
    format: Option<Format>,
    /// Whether a stream of events is welcome too.
    pub events: bool,
    /// Whether plain text is, as metrics are.
    text: bool,
}

impl Accept {
    /// What the headers say: `Accept`, or if that leaves it open, the encoding of the request.
    pub fn of(headers: &HeaderMap) -> Result<Self, Fault> {
        let usual = || content_type(headers).ok().flatten().unwrap_or(Format::Json);
        let Some(accept) = headers.get(ACCEPT) else {
            return Ok(Self { format: Some(usual()), events: false, text: false });
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
                "*/*" | "application/*" => Some(usual()),
                _ => format(kind),
            };
            if format.is_some() && weight > best {
                (accept.format, best) = (format, weight);
            }
        }
        match accept {
            Self { format: None, events: false, text: false } => {
                Err(Fault::new(Code::NotAcceptable, OURS))
            }
            accept => Ok(accept),
        }
    }

    /// The encoding of problems.
    pub fn format_or_json(self) -> Format {
        self.format.unwrap_or(Format::Json)
    }
}

/// A refusal in the encoding that its caller wishes for, if he can have that.
pub fn refuse(headers: &HeaderMap, fault: Fault) -> Response {
    let format = Accept::of(headers).map_or(Format::Json, Accept::format_or_json);
    in_format(format, fault.into_response())
}

/// A weight such as `0.8`, in thousandths; what cannot be read counts as one.
fn thousandths(text: &str) -> u16 {
    text.parse::<f32>().map_or(1000, |weight| (weight.clamp(0.0, 1.0) * 1000.0) as u16)
}

/// How a caller is answered.
#[derive(Debug, Clone, Copy)]
pub struct Reply(pub Format);

impl Reply {
    /// An answer.
    pub fn ok<T: Serialize>(self, value: &T) -> Response {
        self.with(StatusCode::OK, value)
    }

    /// An answer with another status.
    pub fn with<T: Serialize>(self, status: StatusCode, value: &T) -> Response {
        let mut response = Response::new(Body::from(self.0.encode(value)));
        *response.status_mut() = status;
        let kind = HeaderValue::from_static(self.0.media_type());
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }

    /// It is done, and there is nothing to say about it.
    pub fn nothing() -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response
    }
}

impl<S: Sync> FromRequestParts<S> for Reply {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        let format = Accept::of(&parts.headers)?.format;
        let refused = || Fault::new(Code::NotAcceptable, OURS);
        format.map(Self).ok_or_else(refused)
    }
}

impl<S: Sync> FromRequestParts<S> for Accept {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        Self::of(&parts.headers)
    }
}

/// The encoding that the headers give a body; `None`: they give none.
pub fn content_type(headers: &HeaderMap) -> Result<Option<Format>, Fault> {
    // What is packed small may be large: nobody unpacks it here.
    let packed = |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
    if headers.get_all(CONTENT_ENCODING).iter().any(packed) {
        return Err(Fault::new(Code::MediaType, "a body is not compressed: no `content-encoding`"));
    }
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(None) };
    let unknown = || {
        let detail = "a body is `application/json` or `application/msgpack`, in UTF-8";
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
