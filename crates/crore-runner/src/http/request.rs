//! Builds the HTTP request for a job.

use std::collections::BTreeMap;

use bytes::Bytes;
use crore_core::code::excerpt;
use crore_core::{Code, Encoding, Invalid};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use http::{HeaderName, Method};
use serde::Deserialize;

use super::client::HttpRequest;
use super::headers;
use super::settings::{HttpBody, HttpPayload, HttpSettings, has_body, method};
use crate::argument::{decode_object, invalid_payload};
use crate::mask::Masks;
use crate::network::{NetworkAccess, denied};
use crate::runner::{RunFailure, Task};

/// A payload that describes a request.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RequestPayload {
    headers: Option<BTreeMap<String, Vec<String>>>,
    queries: Option<Vec<(String, String)>>,
    method: Option<String>,
    body: Option<String>,
    path: Option<String>,
}

/// The request for a job. Its secrets are added to `masks`.
pub(super) async fn build_request(
    settings: &HttpSettings,
    network: &NetworkAccess,
    task: &Task,
    masks: &mut Masks,
) -> Result<HttpRequest, RunFailure> {
    let mut request = match settings.payload {
        HttpPayload::Body => from_handler(settings, task),
        HttpPayload::Request => from_payload(settings, network, task)?,
    };
    let mut handler_headers = HeaderMap::new();
    for (name, secret) in &settings.headers {
        let value = masks.look_up(secret).await?;
        let mut value = headers::value(&format!("settings.headers.{name}"), &value)?;
        value.set_sensitive(true);
        handler_headers.append(name, value);
    }
    for (name, secret) in &settings.query {
        let (field, value) = (format!("settings.query.{name}"), masks.look_up(secret).await?);
        request.url.append_query(&field, name, &value).map_err(denied)?;
    }
    // Headers of the handler override those of the payload.
    for name in handler_headers.keys() {
        request.headers.remove(name);
    }
    request.headers.extend(handler_headers);
    let all_headers = &mut request.headers;
    all_headers.entry(USER_AGENT).or_insert(HeaderValue::from_static("crore"));
    if let Some(name) = &settings.idempotency_header {
        add(all_headers, name.clone(), HeaderValue::try_from(task.idempotency_key()));
    }
    if let Some(trace) = &task.trace {
        add(all_headers, HeaderName::from_static("traceparent"), HeaderValue::from_str(trace));
    }
    Ok(request)
}

/// Sets a header unless it is set already.
fn add<E>(headers: &mut HeaderMap, name: HeaderName, value: Result<HeaderValue, E>) {
    if let Ok(value) = value {
        headers.entry(name).or_insert(value);
    }
}

fn from_handler(settings: &HttpSettings, task: &Task) -> HttpRequest {
    let (body, media_type) = match &settings.body {
        HttpBody::Payload => {
            let media_type = media_type(task.payload.encoding);
            (task.payload.bytes.clone(), Some(media_type))
        }
        HttpBody::None => (Bytes::new(), None),
        HttpBody::Literal(bytes, media_type) => (bytes.clone(), Some(*media_type)),
    };
    let mut headers = HeaderMap::new();
    if let Some(media_type) = media_type {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    }
    let method = settings.method.clone().unwrap_or(Method::POST);
    HttpRequest { method, url: settings.url.clone(), headers, body }
}

fn from_payload(
    settings: &HttpSettings,
    network: &NetworkAccess,
    task: &Task,
) -> Result<HttpRequest, RunFailure> {
    let request: RequestPayload = decode_object(task)?;
    let method = match (&settings.method, request.method.as_deref()) {
        (Some(fixed), Some(other)) if other != fixed.as_str() => {
            let message = format!("the handler allows only {fixed}");
            return Err(invalid_payload(&Invalid::new(Code::Malformed, "payload.method", message)));
        }
        (Some(fixed), _) => fixed.clone(),
        (None, Some(name)) => method("payload.method", name).map_err(|e| invalid_payload(&e))?,
        (None, None) => Method::GET,
    };
    let mut url = settings.url.clone();
    if let Some(path) = &request.path {
        url = url.join("payload.path", &percent_encode(path)).map_err(|e| invalid_payload(&e))?;
        if !url.is_same_origin(&settings.url) {
            let message = format!(
                "resolves to the origin `{}`, which is not the origin of the handler's URL",
                url.origin()
            );
            return Err(denied(Invalid::new(Code::OutboundDenied, "payload.path", message)));
        }
        network.check("payload.path", &url).map_err(denied)?;
    }
    for (name, value) in request.queries.iter().flatten() {
        let field = format!("payload.queries.{}", excerpt(name));
        url.append_query(&field, name, value).map_err(|e| invalid_payload(&e))?;
    }
    let mut headers = HeaderMap::new();
    for (name, values) in request.headers.iter().flatten() {
        let field = format!("payload.headers.{}", excerpt(name));
        let name = headers::name(&field, name).map_err(|e| invalid_payload(&e))?;
        for value in values {
            headers.append(&name, headers::value(&field, value).map_err(|e| invalid_payload(&e))?);
        }
    }
    let body = request.body.unwrap_or_default();
    if !body.is_empty() || has_body(&method) {
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        headers.entry(CONTENT_TYPE).or_insert(text);
    }
    Ok(HttpRequest { method, url, headers, body: body.into() })
}

/// Percent-encodes blanks and non-ASCII bytes of a path.
fn percent_encode(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b' ' | 0x80.. => plain.push_str(&format!("%{byte:02X}")),
            _ => plain.push(char::from(byte)),
        }
    }
    plain
}

const fn media_type(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Json => "application/json",
        Encoding::Msgpack => "application/msgpack",
        Encoding::Protobuf => "application/protobuf",
        Encoding::Text => "text/plain; charset=utf-8",
        Encoding::Bytes => "application/octet-stream",
    }
}
