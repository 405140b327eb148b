//! Whoever keeps jobs durably: the store, and the databases that stand beside it.

use crate::drive::{Ran, Until};

/// One that the same work is given to. Each answer is checked, and a wrong one ends the benchmark.
pub(crate) trait Contender {
    fn name(&self) -> &'static str;

    /// Jobs pushed, so many in each call, every call waited for until it is durable.
    fn push(&self, until: Until, in_flight: usize, batch: usize) -> Ran;

    /// Jobs pushed (waited for), the next one claimed (not waited for) and finished (waited for).
    /// A finished job is gone: nothing of it is retained. There have to be more jobs than are in
    /// flight, so that every claim finds one.
    fn cycle(&self, until: Until, in_flight: usize) -> Ran;

    /// Jobs that are there, as the contender itself counts them.
    fn count(&self) -> u64;

    /// Finishes all jobs.
    fn drain(&self);

    /// Pushes so many, fast.
    fn fill(&self, jobs: u64) -> Ran {
        const BATCH: u64 = 1000;
        assert!(jobs.is_multiple_of(BATCH));
        let before = self.count();
        let ran = self.push(Until::Begun(jobs / BATCH), 4, BATCH as usize);
        assert_eq!(self.count(), before + jobs, "{} has what was pushed", self.name());
        ran
    }
}
