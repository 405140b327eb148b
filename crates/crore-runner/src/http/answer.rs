//! What an answer means.

use bytes::Bytes;
use crore_core::{Encoding, Payload};
use crore_outbound::Url;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};

use super::after::retry_after;
use super::client::Answer;
use crate::mask::Masks;
use crate::runner::{Failure, Item, Output};

/// How much of an answer stands in a failure.
const START: usize = 4096;

/// How deep JSON may be nested to count as such.
const DEPTH: usize = 64;

/// What came out of a call that went well.
pub(super) fn output(answer: Answer) -> Output {
    let encoding = encoding(&answer.headers, &answer.body);
    Output { items: vec![Item { encoding, bytes: answer.body }] }
}

/// Text and JSON where the answer says so and it is true; else bytes.
fn encoding(headers: &HeaderMap, body: &Bytes) -> Encoding {
    let said = headers.get(CONTENT_TYPE).and_then(|said| said.to_str().ok()).unwrap_or_default();
    let said = said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let encoding = match said.as_str() {
        "application/json" => Encoding::Json,
        said if said.ends_with("+json") => Encoding::Json,
        said if said.starts_with("text/") => Encoding::Text,
        _ => return Encoding::Bytes,
    };
    let is_plain = headers.get(CONTENT_ENCODING).is_none_or(|coding| coding == "identity");
    let is_true = || Payload::new(encoding, &body[..]).check("", body.len(), DEPTH).is_ok();
    if is_plain && is_true() { encoding } else { Encoding::Bytes }
}

/// Why an answer is none that was expected, and whether to ask again.
pub(crate) fn refused(url: &str, answer: &Answer, masks: &Masks) -> Failure {
    let status = answer.status;
    let error = masks.apply(&format!("`{url}` answered {status}"));
    let again = match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            match retry_after(&answer.headers) {
                Some(span) => Failure::after(span, error),
                None => Failure::again(error),
            }
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => Failure::again(error),
        status if status.is_server_error() => Failure::again(error),
        _ => Failure::other(error),
    };
    let failure = again.with("status", status.as_u16());
    match masks.start_of(&answer.body, START) {
        start if start.is_empty() => failure,
        start => failure.with("body", start),
    }
}

/// An answer that went well and is too long to be kept.
pub(super) fn too_large(url: &Url, answer: &Answer, masks: &Masks) -> Failure {
    let bytes = answer.body.len();
    let error = masks.apply(&format!("`{url}` answered more than {bytes} bytes"));
    let failure = Failure::other(error).with("reason", "answer-too-large");
    failure.with("status", answer.status.as_u16())
}
