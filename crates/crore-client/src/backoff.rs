//! Back-off between attempts to reconnect.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);

/// Delays that double from 50 ms to 5 s, with a jitter of ±50 % so that many clients do not reconnect at once.
#[derive(Debug)]
pub(crate) struct ReconnectBackoff(Duration);

impl ReconnectBackoff {
    pub(crate) const fn new() -> Self {
        Self(FIRST)
    }

    /// Starts again with the shortest delay, after a success.
    pub(crate) fn reset(&mut self) {
        *self = Self::new();
    }

    /// The next delay.
    pub(crate) fn next(&mut self) -> Duration {
        let delay = self.0;
        self.0 = (delay * 2).min(LONGEST);
        let random = getrandom::u32().unwrap_or(u32::MAX / 2);
        delay.mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_up_to_a_maximum() {
        let mut backoff = ReconnectBackoff::new();
        assert!(backoff.next() < 2 * FIRST);
        for _ in 0..20 {
            assert!(backoff.next() < 2 * LONGEST);
        }
        assert!(backoff.next() > LONGEST / 3);
        backoff.reset();
        assert!(backoff.next() < 2 * FIRST);
    }
}
