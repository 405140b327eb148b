//! How long to wait before a server is tried again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);

/// Waits that grow, give or take a half: so a thousand clients do not come back at once.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self(FIRST)
    }

    /// It went well: the next wait is a short one.
    pub(crate) fn reset(&mut self) {
        *self = Self::new();
    }

    /// The next wait.
    pub(crate) fn next(&mut self) -> Duration {
        let wait = self.0;
        self.0 = (wait * 2).min(LONGEST);
        let dice = getrandom::u32().unwrap_or(u32::MAX / 2);
        wait.mul_f64(0.5 + f64::from(dice) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_end_somewhere() {
        let mut backoff = Backoff::new();
        assert!(backoff.next() < 2 * FIRST);
        for _ in 0..20 {
            assert!(backoff.next() < 2 * LONGEST);
        }
        assert!(backoff.next() > LONGEST / 3);
        backoff.reset();
        assert!(backoff.next() < 2 * FIRST);
    }
}
