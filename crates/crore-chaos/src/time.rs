//! Real time: the clock, sleeping, and the timeout of calls. Nothing in this crate is simulated.

use std::time::{Duration, Instant};

/// Timeout of a call: longer than any response takes, even from a server that was stopped on a busy machine.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(20);

#[expect(clippy::disallowed_methods, reason = "a real server runs in real time")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// The machine's clock, in milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "a real server runs in real time")]
pub(crate) fn wall_clock_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[expect(clippy::disallowed_methods, reason = "load for a while is what a round is made of")]
pub(crate) async fn sleep(span: Duration) {
    tokio::time::sleep(span).await;
}
