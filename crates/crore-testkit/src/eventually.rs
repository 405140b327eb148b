//! Polls for a condition that emits no signal. No other module of the workspace polls and sleeps; where the
//! code under test can signal completion, use a [`Signal`](crate::Signal).

use std::fmt;
use std::panic::Location;
use std::thread;
use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The result of polling a condition: it holds, with a value, or not yet, with what was observed.
pub trait PollResult {
    /// The value once the condition holds.
    type Value;

    /// The value, or a description of what was observed instead.
    fn into_result(self) -> Result<Self::Value, String>;
}

impl<T> PollResult for Option<T> {
    type Value = T;

    fn into_result(self) -> Result<T, String> {
        self.ok_or_else(|| "nothing".into())
    }
}

impl<T, E: fmt::Debug> PollResult for Result<T, E> {
    type Value = T;

    fn into_result(self) -> Result<T, String> {
        self.map_err(|seen| format!("{seen:?}"))
    }
}

impl PollResult for bool {
    type Value = ();

    fn into_result(self) -> Result<(), String> {
        self.then_some(()).ok_or_else(|| "false".into())
    }
}

/// Polls `check`, with growing pauses, until it holds, and returns its value.
///
/// `check` returns an `Option`, a `bool`, or a `Result` whose error describes what was observed.
///
/// ```
/// # use std::time::Duration;
/// let mut counts = 0..;
/// let three = crore_testkit::eventually(Duration::from_secs(5), || {
///     counts.next().filter(|count| *count == 3)
/// });
/// assert_eq!(three, 3);
/// ```
///
/// # Panics
///
/// If it does not hold within `limit`; the message contains the last observation.
#[track_caller]
pub fn eventually<C: PollResult>(limit: Duration, check: impl FnMut() -> C) -> C::Value {
    poll(limit, check).unwrap_or_else(|seen| give_up(limit, &seen, Location::caller()))
}

/// Like [`eventually`], without blocking, for any runtime: `sleep` is the runtime's own, such as
/// `tokio::time::sleep`.
///
/// Requested pauses count against `limit`, so it also ends under paused time.
///
/// # Panics
///
/// If it does not hold within `limit`; the message contains the last observation.
#[track_caller]
pub fn eventually_async<C, S, F>(
    limit: Duration,
    mut sleep: impl FnMut(Duration) -> S,
    mut check: impl FnMut() -> F,
) -> impl Future<Output = C::Value>
where
    C: PollResult,
    S: Future<Output = ()>,
    F: Future<Output = C>,
{
    let location = Location::caller();
    async move {
        let mut pauses = Pauses::within(limit);
        loop {
            match (check().await.into_result(), pauses.next()) {
                (Ok(value), _) => return value,
                (Err(_), Some(pause)) => sleep(pause).await,
                (Err(seen), None) => give_up(limit, &seen, location),
            }
        }
    }
}

/// Polls until the condition holds; after `limit`, returns the last observation.
pub(crate) fn poll<C: PollResult>(
    limit: Duration,
    mut check: impl FnMut() -> C,
) -> Result<C::Value, String> {
    let mut pauses = Pauses::within(limit);
    loop {
        match (check().into_result(), pauses.next()) {
            (Ok(value), _) => return Ok(value),
            (Err(_), Some(pause)) => pause_for(pause),
            (Err(seen), None) => return Err(seen),
        }
    }
}

fn give_up(limit: Duration, seen: &str, location: &Location<'_>) -> ! {
    panic!("not within {limit:?} at {location}; last seen: {seen}")
}

#[expect(clippy::disallowed_methods, reason = "the one place that sleeps, so that no test does")]
fn pause_for(pause: Duration) {
    thread::sleep(pause);
}

/// The current instant, for timeouts of tests on real servers and threads.
#[expect(clippy::disallowed_methods, reason = "a time limit on the real world needs its clock")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Growing pauses that end when `limit` has passed or has been used up.
struct Pauses {
    next: Duration,
    left: Duration,
    started: Instant,
    limit: Duration,
}

impl Pauses {
    fn within(limit: Duration) -> Self {
        Self { next: FIRST_PAUSE, left: limit, started: instant(), limit }
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if self.left.is_zero() || instant().duration_since(self.started) >= self.limit {
            return None;
        }
        let pause = self.next.min(self.left);
        self.left -= pause;
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::ready;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn waiting_ends_as_soon_as_the_condition_holds() {
        let mut asked = 0;
        eventually(Duration::from_secs(60), || {
            asked += 1;
            asked == 4
        });
        assert_eq!(asked, 4);
    }

    #[test]
    #[should_panic(expected = "last seen: \"2 of 3\"")]
    fn a_timeout_reports_the_last_observation() {
        eventually(Duration::from_millis(2), || Err::<(), _>("2 of 3"));
    }

    #[test]
    fn a_condition_is_asked_once_even_without_time() {
        assert_eq!(eventually(Duration::ZERO, || Some(1)), 1);
    }

    #[test]
    fn the_async_form_sleeps_only_through_the_given_sleep() {
        let (mut asked, mut slept) = (0, Duration::ZERO);
        let waiting = eventually_async(
            Duration::from_secs(60),
            |pause| {
                slept += pause;
                ready(())
            },
            || {
                asked += 1;
                ready((asked == 5).then_some("up"))
            },
        );
        let polled = pin!(waiting).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Ready("up"));
        assert_eq!(slept, Duration::from_millis(1 + 2 + 4 + 8));
    }

    #[test]
    #[should_panic(expected = "last seen: nothing")]
    fn the_async_form_ends_although_no_time_passes() {
        let limit = Duration::from_secs(3600);
        let waiting = eventually_async(limit, |_| ready(()), || ready(None::<()>));
        _ = pin!(waiting).poll(&mut Context::from_waker(Waker::noop()));
    }
}
