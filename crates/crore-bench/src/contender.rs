//! A durable queue under test: the store, the engine, or a database to compare them with.

use crate::driver::{RunFigures, Until};

/// A system that is given the same work as others. Each answer is checked; a wrong one panics.
pub trait Contender {
    fn name(&self) -> &'static str;

    /// Pushes `batch` jobs per call; each call is awaited until it is durable.
    fn push(&self, until: Until, in_flight: usize, batch: usize) -> RunFigures;

    /// Pushes a job (awaited), claims the next one (not awaited) and finishes it (awaited). Finished jobs are not
    /// retained. The backlog has to exceed `in_flight`, so that every claim finds a job.
    fn cycle(&self, until: Until, in_flight: usize) -> RunFigures;

    /// The number of jobs, as the contender itself counts them.
    fn count(&self) -> u64;

    /// Finishes all jobs.
    fn drain(&self);

    /// Pushes a backlog in large batches.
    fn fill(&self, jobs: u64) -> RunFigures {
        const BATCH: u64 = 1000;
        assert!(jobs.is_multiple_of(BATCH));
        let before = self.count();
        let ran = self.push(Until::Begun(jobs / BATCH), 4, BATCH as usize);
        assert_eq!(self.count(), before + jobs, "{} has what was pushed", self.name());
        ran
    }
}
