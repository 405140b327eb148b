//! From a job to what is asked.

use std::collections::BTreeMap;

use bytes::Bytes;
use crore_core::{Code, Encoding, Invalid};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use http::{HeaderName, Method};
use serde::Deserialize;

use super::client::Question;
use super::headers;
use super::settings::{Body, Meaning, Plan, has_body, method};
use crate::argument::{object, wrong};
use crate::mask::Masks;
use crate::reach::{Reach, denied};
use crate::runner::{Failure, Task};

/// A payload that says what is called.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Said {
    headers: Option<BTreeMap<String, Vec<String>>>,
    queries: Option<Vec<(String, String)>>,
    method: Option<String>,
    body: Option<String>,
    path: Option<String>,
}

/// What is asked for a job. The secrets that it is asked with are remembered.
pub(super) async fn question(
    plan: &Plan,
    reach: &Reach,
    task: &Task,
    masks: &mut Masks,
) -> Result<Question, Failure> {
    let mut question = match plan.payload {
        Meaning::Body => by_handler(plan, task),
        Meaning::Request => by_payload(plan, reach, task)?,
    };
    let mut own = HeaderMap::new();
    for (name, secret) in &plan.headers {
        let value = masks.look_up(secret).await?;
        let mut value = headers::value(&format!("settings.headers.{name}"), &value)?;
        value.set_sensitive(true);
        own.append(name, value);
    }
    for (name, secret) in &plan.query {
        question.url.add(name, &masks.look_up(secret).await?);
    }
    // What a handler says stands, whatever a payload says.
    for name in own.keys() {
        question.headers.remove(name);
    }
    question.headers.extend(own);
    let usual = &mut question.headers;
    usual.entry(USER_AGENT).or_insert(HeaderValue::from_static("crore"));
    if let Some(name) = &plan.idempotency_header {
        add(usual, name.clone(), HeaderValue::try_from(task.idempotency_key()));
    }
    if let Some(trace) = &task.trace {
        add(usual, HeaderName::from_static("traceparent"), HeaderValue::from_str(trace));
    }
    Ok(question)
}

/// Sets a header that nobody has said anything about.
fn add<E>(headers: &mut HeaderMap, name: HeaderName, value: Result<HeaderValue, E>) {
    if let Ok(value) = value {
        headers.entry(name).or_insert(value);
    }
}

fn by_handler(plan: &Plan, task: &Task) -> Question {
    let (body, media_type) = match &plan.body {
        Body::Payload => {
            let media_type = media_type(task.payload.encoding);
            (task.payload.bytes.clone(), Some(media_type))
        }
        Body::None => (Bytes::new(), None),
        Body::Literal(bytes, media_type) => (bytes.clone(), Some(*media_type)),
    };
    let mut headers = HeaderMap::new();
    if let Some(media_type) = media_type {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    }
    let method = plan.method.clone().unwrap_or(Method::POST);
    Question { method, url: plan.url.clone(), headers, body }
}

fn by_payload(plan: &Plan, reach: &Reach, task: &Task) -> Result<Question, Failure> {
    let said: Said = object(task)?;
    let method = match (&plan.method, said.method.as_deref()) {
        (Some(fixed), Some(other)) if other != fixed.as_str() => {
            let message = format!("its handler calls by {fixed} alone");
            return Err(wrong(&Invalid::new(Code::Malformed, "payload.method", message)));
        }
        (Some(fixed), _) => fixed.clone(),
        (None, Some(name)) => method("payload.method", name).map_err(|e| wrong(&e))?,
        (None, None) => Method::GET,
    };
    let mut url = plan.url.clone();
    if let Some(path) = &said.path {
        url = url.join("payload.path", &plain(path)).map_err(|e| wrong(&e))?;
        if !url.is_beside(&plan.url) {
            let message = format!("leads to `{}`, away from the handler's url", url.origin());
            return Err(denied(Invalid::new(Code::OutboundDenied, "payload.path", message)));
        }
        reach.check("payload.path", &url).map_err(denied)?;
    }
    for (name, value) in said.queries.iter().flatten() {
        url.add(name, value);
    }
    let mut headers = HeaderMap::new();
    for (name, values) in said.headers.iter().flatten() {
        let field = format!("payload.headers.{name}");
        let name = headers::name(&field, name).map_err(|e| wrong(&e))?;
        for value in values {
            headers.append(&name, headers::value(&field, value).map_err(|e| wrong(&e))?);
        }
    }
    let body = said.body.unwrap_or_default();
    if !body.is_empty() || has_body(&method) {
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        headers.entry(CONTENT_TYPE).or_insert(text);
    }
    Ok(Question { method, url, headers, body: body.into() })
}

/// A path as it is sent: what is not ASCII, and blanks, in their escaped form.
fn plain(path: &str) -> String {
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
