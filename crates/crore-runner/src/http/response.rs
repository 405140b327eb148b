//! Converts HTTP responses to outputs and failures.

use bytes::Bytes;
use crore_core::{Encoding, Payload};
use crore_outbound::Url;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};

use super::client::HttpResponse;
use super::retry_header::retry_after;
use crate::mask::Masks;
use crate::runner::{EncodedBytes, Output, RunFailure};

/// Maximum size of a response body in a failure.
const MAX_BODY_EXCERPT: usize = 4096;

/// Maximum nesting of a body that counts as JSON.
const MAX_DEPTH: usize = 64;

/// The output of a successful call.
pub(super) fn output(answer: HttpResponse) -> Output {
    let encoding = encoding(&answer.headers, &answer.body);
    Output { items: vec![EncodedBytes { encoding, bytes: answer.body }] }
}

/// Text or JSON if the content type says so and the body is valid; otherwise bytes.
fn encoding(headers: &HeaderMap, body: &Bytes) -> Encoding {
    let content_type = headers
        .get(CONTENT_TYPE)
        .and_then(|content_type| content_type.to_str().ok())
        .unwrap_or_default();
    let content_type =
        content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let encoding = match content_type.as_str() {
        "application/json" => Encoding::Json,
        content_type if content_type.ends_with("+json") => Encoding::Json,
        content_type if content_type.starts_with("text/") => Encoding::Text,
        _ => return Encoding::Bytes,
    };
    let is_plain = headers.get(CONTENT_ENCODING).is_none_or(|coding| coding == "identity");
    let is_true = || Payload::new(encoding, &body[..]).check("", body.len(), MAX_DEPTH).is_ok();
    if is_plain && is_true() { encoding } else { Encoding::Bytes }
}

/// The failure for an unexpected status. The status determines whether it is retried.
pub(crate) fn unexpected_status(url: &str, answer: &HttpResponse, masks: &Masks) -> RunFailure {
    let status = answer.status;
    let error = masks.apply(&format!("`{url}` answered {status}"));
    let again = match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            match retry_after(&answer.headers) {
                Some(span) => RunFailure::retry_after(span, error),
                None => RunFailure::temporary(error),
            }
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => RunFailure::temporary(error),
        status if status.is_server_error() => RunFailure::temporary(error),
        _ => RunFailure::other(error),
    };
    let failure = again.with("status", status.as_u16());
    match masks.start_of(&answer.body, MAX_BODY_EXCERPT) {
        start if start.is_empty() => failure,
        start => failure.with("body", start),
    }
}

/// The failure for a successful response that exceeds the size limit.
pub(super) fn too_large(url: &Url, answer: &HttpResponse, masks: &Masks) -> RunFailure {
    let bytes = answer.body.len();
    let error = masks.apply(&format!("`{url}` answered more than {bytes} bytes"));
    let failure = RunFailure::other(error).with("reason", "answer-too-large");
    failure.with("status", answer.status.as_u16())
}
