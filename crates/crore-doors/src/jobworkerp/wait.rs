//! Waits for a job to end: for `Enqueue` on a `DIRECT` worker, and for `Listen`.

use std::time::Duration;

use crore_api::Fault;
use crore_core::{Code, Invalid, Job, JobId, Span, State, Time};
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::enqueue::TIMEOUT;
use crate::Doors;
use crate::grpc::{failed, invalid_unmapped as invalid};

/// The deadline of the call, from `grpc-timeout`.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallDeadline(Option<Instant>);

impl CallDeadline {
    /// An invalid value is ignored.
    pub(super) fn of(metadata: &MetadataMap) -> Self {
        let value = metadata.get("grpc-timeout").and_then(|value| value.to_str().ok());
        Self(value.and_then(parse_timeout).and_then(|span| Instant::now().checked_add(span)))
    }

    /// Waits for a job to end, at most `timeout` milliseconds: 0 is unlimited, absent is 365 days. No end is missed
    /// between checking and waiting: the engine checks after it has started to wait.
    pub(super) async fn wait(
        self,
        doors: &Doors,
        id: JobId,
        timeout: Option<u64>,
    ) -> Result<Job, Status> {
        let engine = doors.engine();
        let at_most = match timeout {
            None => TIMEOUT,
            Some(0) => Span::MAX,
            Some(millis) => Span::from_millis(millis),
        };
        let late = |span: Span| {
            let why = format!("job {id} has not ended within {}ms", span.as_millis());
            invalid(Invalid::new(Code::NotYet, "timeout", why))
        };
        let started = engine.status().now();
        let ends_at = started.after(at_most);
        // A job that has already ended is returned even if the deadline has passed or the doors are closing.
        let mut left = Span::ZERO;
        let mut is_draining = false;
        loop {
            let ended = tokio::select! {
                ended = engine.results().wait_for_end(id, left) => ended.map_err(failed)?,
                () = doors.closing(), if !left.is_zero() && !is_draining => {
                    let job = engine.get(id).await.map_err(failed)?;
                    let is_waiting = |job: Job| {
                        !job.live.state.has_ended() && job.live.state != State::Running
                    };
                    // No job starts any more, but one that runs may end within the drain. The end of the drain ends
                    // the wait.
                    if job.is_some_and(is_waiting) {
                        return Err(failed(crore::Error::Stopping));
                    }
                    is_draining = true;
                    continue;
                }
                () = self.elapsed(), if !left.is_zero() => {
                    return Err(late(engine.status().now().since(started)));
                }
            };
            if ended.is_some() {
                let job = engine.get(id).await.map_err(failed)?;
                let job = job.ok_or_else(|| Fault::missing(format!("job {id}")))?;
                // Unless it was just retried.
                if job.live.state.has_ended() {
                    return Ok(job);
                }
            } else if !left.is_zero() || at_most.is_zero() {
                return Err(late(at_most));
            }
            left = remaining(ends_at, engine.status().now());
        }
    }

    async fn elapsed(self) {
        match self.0 {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}

/// Remaining time of a wait, at least 1 ms, so that the timeout is detected by waiting.
fn remaining(ends_at: Time, now: Time) -> Span {
    ends_at.since(now).max(Span::from_millis(1))
}

/// Parses a gRPC timeout: at most eight digits and a unit.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if number.is_empty() || number.len() > 8 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_parsed_and_invalid_ones_ignored() {
        for (text, millis) in [("1S", 1000), ("2M", 120_000), ("1H", 3_600_000), ("250m", 250)] {
            assert_eq!(parse_timeout(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse_timeout("7u"), Some(Duration::from_micros(7)));
        assert_eq!(parse_timeout("0n"), Some(Duration::ZERO));
        assert_eq!(parse_timeout("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for text in ["", "S", "1", "-1S", "+1S", "123456789S", "1x", "1ü", "٣S"] {
            assert_eq!(parse_timeout(text), None, "{text}");
        }
    }
}
