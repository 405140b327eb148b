//! Waiting for a job to end: for `Enqueue` where it is answered directly, and for `Listen`.

use std::time::Duration;

use crore_api::Fault;
use crore_core::{Code, Invalid, Job, JobId, Span, Time};
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::enqueue::TIMEOUT;
use crate::Doors;
use crate::grpc::{as_named as invalid, failed};

/// How long the caller himself waits, as he says in `grpc-timeout`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience(Option<Instant>);

impl Patience {
    /// What cannot be understood says nothing.
    pub(super) fn of(metadata: &MetadataMap) -> Self {
        let said = metadata.get("grpc-timeout").and_then(|said| said.to_str().ok());
        Self(said.and_then(span).and_then(|span| Instant::now().checked_add(span)))
    }

    /// A job that has ended, at the latest so many milliseconds from now: 0 is without end, and nothing is 365 days.
    /// Nothing is missed between looking and waiting: the engine looks when it is already waiting.
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
        let begun = engine.status().now();
        let ends_at = begun.after(at_most);
        // What is there is given even if the caller has no time, or the doors are closing.
        let mut left = Span::ZERO;
        loop {
            let ended = tokio::select! {
                ended = engine.results().ended(id, left) => ended.map_err(failed)?,
                () = doors.closing(), if !left.is_zero() => return Err(failed(crore::Error::Stopping)),
                () = self.ends(), if !left.is_zero() => {
                    return Err(late(engine.status().now().since(begun)));
                }
            };
            if ended.is_some() {
                let job = engine.get(id).await.map_err(failed)?;
                let job = job.ok_or_else(|| Fault::missing(format!("job {id}")))?;
                // Unless somebody has just had it run again.
                if job.live.state.has_ended() {
                    return Ok(job);
                }
            } else if !left.is_zero() || at_most.is_zero() {
                return Err(late(at_most));
            }
            left = remaining(ends_at, engine.status().now());
        }
    }

    async fn ends(self) {
        match self.0 {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}

/// What is left of a wait that has not ended: at least a little, so that its end is found by waiting for it.
fn remaining(ends_at: Time, now: Time) -> Span {
    ends_at.since(now).max(Span::from_millis(1))
}

/// A span as gRPC writes it: at most eight digits and a unit.
fn span(text: &str) -> Option<Duration> {
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
    fn spans_of_callers_are_read_and_nonsense_is_not() {
        for (text, millis) in [("1S", 1000), ("2M", 120_000), ("1H", 3_600_000), ("250m", 250)] {
            assert_eq!(span(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(span("7u"), Some(Duration::from_micros(7)));
        assert_eq!(span("0n"), Some(Duration::ZERO));
        assert_eq!(span("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for text in ["", "S", "1", "-1S", "+1S", "123456789S", "1x", "1ü", "٣S"] {
            assert_eq!(span(text), None, "{text}");
        }
    }
}
