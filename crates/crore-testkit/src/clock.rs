//! A clock that moves only when the test moves it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crore_core::{Clock, Span, Time};

/// A [`Clock`] controlled by the test. Clones share one time, so a test keeps one and passes another in, and
/// all threads see every change at once.
///
/// ```
/// use std::sync::Arc;
/// use crore_core::{Clock, Span};
/// use crore_testkit::FakeClock;
///
/// let clock = FakeClock::default();
/// let passed_in: Arc<dyn Clock> = Arc::new(clock.clone());
/// let before = passed_in.now();
/// clock.advance(Span::from_secs(30));
/// assert_eq!(passed_in.now().since(before), Span::from_secs(30));
/// ```
#[derive(Clone, Debug)]
pub struct FakeClock {
    millis: Arc<AtomicI64>,
}

impl FakeClock {
    /// 2026-01-01T00:00:00Z, the default start.
    pub const START: Time = Time::from_millis(1_767_225_600_000);

    /// A clock that stands at `now`.
    pub fn at(now: Time) -> Self {
        Self { millis: Arc::new(AtomicI64::new(now.as_millis())) }
    }

    /// Moves the clock forward by `span`, at most to [`Time::MAX`]; returns the new time.
    pub fn advance(&self, span: Span) -> Time {
        let later = |millis| Time::from_millis(millis).after(span).as_millis();
        let before = self.millis.update(Ordering::SeqCst, Ordering::SeqCst, later);
        Time::from_millis(later(before))
    }

    /// Sets the clock to `now`, which may be in its past: real clocks jump too.
    pub fn set(&self, now: Time) {
        self.millis.store(now.as_millis(), Ordering::SeqCst);
    }
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::at(Self::START)
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Time {
        Time::from_millis(self.millis.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn the_fake_clock_stands_still_until_advanced() {
        let clock = FakeClock::default();
        assert_eq!(clock.now(), FakeClock::START);
        assert_eq!(clock.now(), FakeClock::START);
        assert_eq!(clock.advance(Span::from_millis(7)), clock.now());
        assert_eq!(clock.now().since(FakeClock::START), Span::from_millis(7));
        clock.set(Time::ZERO);
        assert_eq!(clock.now(), Time::ZERO);
    }

    #[test]
    fn advances_of_many_threads_all_count() {
        let clock = FakeClock::at(Time::ZERO);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| _ = clock.advance(Span::from_millis(1))));
            }
        });
        assert_eq!(clock.now(), Time::from_millis(4000));
    }

    #[test]
    fn the_clock_stops_at_the_end_of_time() {
        let clock = FakeClock::default();
        assert_eq!(clock.advance(Span::MAX), Time::MAX);
        assert_eq!(clock.advance(Span::from_millis(1)), Time::MAX);
    }
}
