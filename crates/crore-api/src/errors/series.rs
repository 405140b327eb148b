//! Counts of the last steps of time.

use crore_core::{Span, Time};

/// Counts of the last `N` steps.
#[derive(Debug, Clone)]
pub(crate) struct CountSeries<const N: usize> {
    step: Span,
    /// The newest step that was counted.
    newest: u64,
    counts: [u32; N],
}

impl<const N: usize> CountSeries<N> {
    pub(super) const fn new(step: Span) -> Self {
        Self { step, newest: 0, counts: [0; N] }
    }

    fn step_of(&self, at: Time) -> u64 {
        u64::try_from(at.as_millis()).unwrap_or(0) / self.step.as_millis().max(1)
    }

    /// Counts an event. One that is older than all steps is left out.
    pub(super) fn add(&mut self, at: Time) {
        let step = self.step_of(at);
        if step > self.newest {
            let passed = (step - self.newest).min(N as u64);
            for old in 0..passed {
                self.set(step - old, 0);
            }
            self.newest = step;
        }
        if self.newest - step < N as u64 {
            self.set(step, self.count(step).saturating_add(1));
        }
    }

    fn set(&mut self, step: u64, n: u32) {
        if let Some(count) = self.counts.get_mut((step % N as u64) as usize) {
            *count = n;
        }
    }

    fn count(&self, step: u64) -> u32 {
        self.counts.get((step % N as u64) as usize).copied().unwrap_or(0)
    }

    /// Adds the counts of the steps up to `now`, oldest first, to `sums`.
    pub(crate) fn add_to(&self, sums: &mut [u64], now: Time) {
        let last = self.step_of(now);
        for (back, sum) in sums.iter_mut().rev().enumerate() {
            let Some(step) = last.checked_sub(back as u64) else { return };
            if step <= self.newest && self.newest - step < N as u64 {
                *sum += u64::from(self.count(step));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_steps_are_dropped_and_gaps_are_zero() {
        let at = |second: u64| Time::ZERO.after(Span::from_secs(1000 + second));
        let mut series = CountSeries::<4>::new(Span::from_secs(1));
        let shown = |series: &CountSeries<4>, second: u64| {
            let mut sums = [0; 4];
            series.add_to(&mut sums, at(second));
            sums
        };
        for second in [0, 0, 2, 1] {
            series.add(at(second));
        }
        assert_eq!(shown(&series, 2), [0, 2, 1, 1]);
        assert_eq!(shown(&series, 4), [1, 1, 0, 0]);
        series.add(at(5));
        assert_eq!(shown(&series, 5), [1, 0, 0, 1]);
        series.add(at(1));
        assert_eq!(shown(&series, 5), [1, 0, 0, 1], "too old");
        series.add(at(500));
        assert_eq!(shown(&series, 500), [0, 0, 0, 1]);
        assert_eq!(shown(&series, 900), [0, 0, 0, 0]);
    }
}
