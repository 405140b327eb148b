//! Slack's responses. The chat API returns `200` even for errors; a webhook returns `ok`.

use crore_core::Span;
use serde::Deserialize;

use crate::http::{HttpResponse, retry_after, unexpected_status};
use crate::mask::Masks;
use crate::runner::RunFailure;

/// Retry delay after a rate limit without `Retry-After`.
const DEFAULT_RETRY_DELAY: Span = Span::from_secs(30);

/// Maximum length of Slack's error code in a failure.
const MAX_ERROR: usize = 200;

#[derive(Debug, Deserialize)]
struct SlackResponse {
    ok: bool,
    error: Option<String>,
}

/// Whether Slack accepted the message.
pub(super) fn check_response(
    origin: &str,
    answer: &HttpResponse,
    masks: &Masks,
) -> Result<(), RunFailure> {
    if !answer.status.is_success() {
        return Err(unexpected_status(origin, answer, masks));
    }
    // A webhook's response is not JSON.
    let Ok(response) = serde_json::from_slice::<SlackResponse>(&answer.body) else {
        return Ok(());
    };
    if response.ok {
        return Ok(());
    }
    let word = response.error.unwrap_or_else(|| "no reason".to_owned());
    let word = masks.start_of(word.as_bytes(), MAX_ERROR);
    let error = format!("`{origin}` refused: {word}");
    let failure = match word.as_str() {
        "ratelimited" | "rate_limited" => RunFailure::retry_after(
            retry_after(&answer.headers).unwrap_or(DEFAULT_RETRY_DELAY),
            error,
        ),
        "fatal_error" | "internal_error" | "request_timeout" | "service_unavailable" => {
            RunFailure::temporary(error)
        }
        _ => RunFailure::other(error),
    };
    Err(failure.with("status", answer.status.as_u16()).with("error", word))
}
