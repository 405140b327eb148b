//! Calls of a server: requests of the native HTTP API, of gRPC, and of the protocols of other queues.
//!
//! ```text
//! input   = request { line feed "===" line feed request }
//! request = [ method space ] path line feed { header ":" value line feed } line feed body
//! ```
//!
//! A request without a method is a gRPC call; its body consists of messages, each followed by `\n--\n` except the last.
//! With the header `frames`, the body is sent as it is, with its frames.

use std::net::IpAddr;

use axum::body::Body;
use bytes::{BufMut, Bytes};
use crore_outbound::Url;
use crore_wire::Format;
use crore_wire::api::Problem;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, StatusCode};
use serde_json::Value;

use crate::memory::MemoryBound;
use crate::properties::check_message;
use crate::server::{CompleteResponse, with_server};

/// The base covers the largest fixed responses, the documentation and the OpenAPI description. A job takes a few bytes
/// in a batch, and far more as a record with its indexes.
const MEMORY: MemoryBound = MemoryBound { base: 8 << 20, per_byte: 2048 };

/// Separates requests. The inputs of several runs, separated by it, are one input.
pub(crate) const SEPARATOR: &[u8] = b"\n===\n";

/// Maximum length of an error response, and of the status message of a gRPC call.
const MAX_ERROR: usize = 4096;

/// The native HTTP API.
pub(crate) fn http(input: &[u8]) {
    run("http", input, |path| !path.starts_with("/job") && !path.starts_with("/worker"));
}

/// The native gRPC services.
pub(crate) fn grpc(input: &[u8]) {
    run("grpc", input, |path| path.starts_with("/crore.") || path.starts_with("/grpc."));
}

/// The doors of other queues.
pub(crate) fn queues(input: &[u8]) {
    const PREFIXES: [&str; 5] = ["/job", "/worker", "/done", "/lakh.", "/jobworkerp."];
    run("queues", input, |path| PREFIXES.iter().any(|prefix| path.starts_with(prefix)));
}

/// Sends the requests of an input to a server.
fn run(target: &str, input: &[u8], is_ours: fn(&str) -> bool) {
    let requests: Vec<_> = split(input, SEPARATOR).filter_map(parse).collect();
    if requests.is_empty() || !requests.iter().all(|request| is_ours(request.uri().path())) {
        return;
    }
    with_server(target, input, |server| {
        MEMORY.check(input.len(), || {
            for request in requests.into_iter().filter(|request| !needs_name_service(request)) {
                let is_grpc = is_grpc(request.headers());
                if let Some(response) = server.call(request.map(Body::from)) {
                    check(&response, is_grpc);
                }
            }
        });
    });
}

fn split<'a>(input: &'a [u8], separator: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = Some(input);
    std::iter::from_fn(move || {
        let all = rest.take()?;
        let end = all.windows(separator.len()).position(|window| window == separator);
        let Some(end) = end else { return Some(all) };
        rest = Some(&all[end + separator.len()..]);
        Some(&all[..end])
    })
}

fn parse(text: &[u8]) -> Option<Request<Bytes>> {
    let end = text.windows(2).position(|window| window == b"\n\n");
    let (head, body) = match end {
        Some(end) => (&text[..end], &text[end + 2..]),
        None => (text.trim_ascii_end(), &[][..]),
    };
    let mut lines = str::from_utf8(head).ok()?.lines();
    let first = lines.next()?;
    let (method, path) = first.split_once(' ').unwrap_or(("", first));
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let name = HeaderName::try_from(name.trim()).ok()?;
        headers.append(name, HeaderValue::try_from(value.trim()).ok()?);
    }
    let is_call = method.is_empty();
    let default = if is_call { "application/grpc" } else { Format::Json.media_type() };
    if !headers.contains_key(CONTENT_TYPE) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(default));
    }
    let body = match is_call && !headers.contains_key("frames") {
        true => frames(body),
        false => Bytes::copy_from_slice(body),
    };
    let method = if is_call { Method::POST } else { method.parse().ok()? };
    let mut request = Request::builder().method(method).uri(path).body(body).ok()?;
    *request.headers_mut() = headers;
    Some(request)
}

fn frames(body: &[u8]) -> Bytes {
    let mut all = Vec::new();
    for message in split(body, b"\n--\n") {
        all.put_u8(0);
        all.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
        all.extend_from_slice(message);
    }
    all.into()
}

/// Whether a request registers a push worker by its name, which the server would look up in the network.
fn needs_name_service(request: &Request<Bytes>) -> bool {
    if request.uri().path() != "/worker" {
        return false;
    }
    let is_name = |field: &str, text: &str| {
        let url = if field == "url" { text.to_owned() } else { format!("http://{text}:80/") };
        let host = Url::parse("url", &url).map(|url| url.host());
        host.is_ok_and(|host| host.parse::<IpAddr>().is_err())
    };
    let json: Option<Value> = serde_json::from_slice(request.body()).ok();
    let packed: Option<Value> = rmp_serde::from_slice(request.body()).ok();
    [json, packed].into_iter().flatten().any(|body| {
        let texts = ["url", "host"].map(|field| (field, body[field].as_str()));
        texts.into_iter().any(|(field, text)| text.is_some_and(|text| is_name(field, text)))
    })
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| value.starts_with("application/grpc"))
}

/// The server must respond to every request, and never with an internal error.
fn check(response: &CompleteResponse, is_grpc: bool) {
    let status = response.head.status;
    let text = String::from_utf8_lossy(&response.body);
    assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{text}");
    let headers = &response.head.headers;
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if is_grpc {
        let code = header("grpc-status").unwrap_or("0");
        let message = header("grpc-message").unwrap_or_default();
        assert!(!["2", "13"].contains(&code), "grpc-status {code}: {message}");
        assert!(message.len() <= MAX_ERROR, "a status message of {} bytes", message.len());
        return;
    }
    if status.is_client_error() || status.is_server_error() {
        assert!(text.len() <= MAX_ERROR, "an error of {} bytes", text.len());
    }
    let kind = header("content-type").unwrap_or_default();
    if kind == Format::Json.problem_type() {
        let problem: Problem = serde_json::from_str(&text).expect("a problem");
        check_message(&problem.detail);
        assert!(!problem.code.is_empty() && problem.status == status.as_u16());
    } else if kind == Format::Json.media_type() && response.is_complete && !text.is_empty() {
        serde_json::from_str::<serde::de::IgnoredAny>(&text).expect("a response in JSON");
    } else if kind == Format::Msgpack.media_type() && response.is_complete {
        let read = rmp_serde::from_slice::<serde::de::IgnoredAny>(&response.body);
        read.expect("a response in MessagePack");
    }
}
