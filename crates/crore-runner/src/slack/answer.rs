//! What Slack answers. The chat API says `200` also when it refuses; a webhook says `ok`.

use crore_core::Span;
use serde::Deserialize;

use crate::http::{Answer, refused, retry_after};
use crate::mask::Masks;
use crate::runner::Failure;

/// How long to wait if Slack says only that it is too much.
const BREATHER: Span = Span::from_secs(30);

/// Characters of Slack's word for what is wrong.
const WORD: usize = 200;

#[derive(Debug, Deserialize)]
struct Said {
    ok: bool,
    error: Option<String>,
}

/// Whether the message has arrived.
pub(super) fn judge(origin: &str, answer: &Answer, masks: &Masks) -> Result<(), Failure> {
    if !answer.status.is_success() {
        return Err(refused(origin, answer, masks));
    }
    // A webhook, or a stand-in for one, says no JSON.
    let Ok(said) = serde_json::from_slice::<Said>(&answer.body) else {
        return Ok(());
    };
    if said.ok {
        return Ok(());
    }
    let word = said.error.unwrap_or_else(|| "no reason".to_owned());
    let word = masks.start_of(word.as_bytes(), WORD);
    let error = format!("`{origin}` refused: {word}");
    let failure = match word.as_str() {
        "ratelimited" | "rate_limited" => {
            Failure::after(retry_after(&answer.headers).unwrap_or(BREATHER), error)
        }
        "fatal_error" | "internal_error" | "request_timeout" | "service_unavailable" => {
            Failure::again(error)
        }
        _ => Failure::other(error),
    };
    Err(failure.with("status", answer.status.as_u16()).with("error", word))
}
