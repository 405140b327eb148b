//! Time, in one place: harm is about real time, so nothing here is simulated.

use std::time::{Duration, Instant};

/// Longer than any answer takes, also from a server that was stopped for a while on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

#[expect(clippy::disallowed_methods, reason = "a real server runs in real time")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// The machine's clock, in milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "a real server runs in real time")]
pub(crate) fn wall() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Lets the others work for a while.
#[expect(clippy::disallowed_methods, reason = "load for a while is what a round is made of")]
pub(crate) async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}
