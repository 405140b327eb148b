//! Jobs that wait in the worker for a slot, while runs are short.
//!
//! With one job per slot, every end of a short job costs a report and a claim of its own. A worker that keeps some
//! jobs ready starts the next one at once, and reports and claims are made in groups.

use std::collections::VecDeque;
use std::time::Duration;

use crore_wire::worker::{DeliveryRef, JobDelivery};
use tokio::time::Instant;

/// Jobs are kept ready after this many runs.
const MIN_RUNS: u32 = 32;
/// Weight of the last runs in their average: a new run counts for one part in this many.
const WEIGHT: u32 = 16;
/// As many jobs are kept ready as the slots can run in this time.
const MAX_READY_WORK: Duration = Duration::from_millis(5);
/// Number of reports that are sent at once even if more jobs are ready.
const MAX_REPORTS: usize = 32;
/// A job that waits for longer is handed back: another worker may have a free slot.
const MAX_WAIT: Duration = Duration::from_millis(20);

/// The slots of a worker, and the jobs that wait for one.
#[derive(Debug)]
pub(super) struct SlotQueue {
    /// Maximum number of running jobs.
    slots: usize,
    /// Maximum number of jobs kept ready.
    max_ready: usize,
    running: usize,
    /// Number of runs, up to [`MIN_RUNS`].
    runs: u32,
    /// Average duration of the last runs.
    average: Duration,
    waiting: VecDeque<(JobDelivery, Instant)>,
    /// The number of slots that the server was told.
    announced: usize,
}

impl SlotQueue {
    pub(super) fn new(slots: u32, max_ready: u32) -> Self {
        let (slots, max_ready) = (slots as usize, max_ready as usize);
        let (waiting, average) = (VecDeque::new(), Duration::ZERO);
        Self { slots, max_ready, running: 0, runs: 0, average, waiting, announced: slots }
    }

    /// Takes a slot for a job and returns the job, or keeps it until there is one.
    pub(super) fn admit(&mut self, job: JobDelivery) -> Option<JobDelivery> {
        // Without a reserve the server decides how many jobs run.
        if self.max_ready > 0 && self.running >= self.slots {
            self.waiting.push_back((job, Instant::now()));
            return None;
        }
        self.running += 1;
        Some(job)
    }

    /// Records the end of a run, and returns the job that takes its slot.
    pub(super) fn ended(&mut self, took: Duration) -> Option<JobDelivery> {
        self.runs = (self.runs + 1).min(MIN_RUNS);
        self.average = (self.average * (WEIGHT - 1) + took) / WEIGHT;
        self.running = self.running.saturating_sub(1);
        if self.running >= self.slots {
            return None;
        }
        let (job, _) = self.waiting.pop_front()?;
        self.running += 1;
        Some(job)
    }

    /// The number of slots to announce, if it has changed.
    pub(super) fn announce(&mut self) -> Option<u32> {
        let now = self.wanted();
        let is_new = std::mem::replace(&mut self.announced, now) != now;
        is_new.then(|| self.announced())
    }

    /// The number of slots that was last sent to the server, or will be sent with the next hello.
    pub(super) fn announced(&self) -> u32 {
        u32::try_from(self.announced).unwrap_or(u32::MAX)
    }

    /// The number of jobs to hold, running or ready. It changes by powers of two, so that it is announced rarely.
    fn wanted(&self) -> usize {
        if self.runs < MIN_RUNS {
            return self.slots;
        }
        let runs_in_time = MAX_READY_WORK.as_nanos() / self.average.as_nanos().max(1);
        let ready = usize::try_from(runs_in_time).unwrap_or(usize::MAX).saturating_mul(self.slots);
        let ready = ready.min(self.max_ready).checked_ilog2().map_or(0, |log| 1 << log);
        self.slots + ready
    }

    /// Whether this many reports may be held back to form a larger message: waiting jobs keep the slots busy meanwhile.
    pub(super) fn may_wait(&self, reports: usize) -> bool {
        !self.waiting.is_empty() && reports < MAX_REPORTS
    }

    /// When the next waiting job has waited for too long.
    pub(super) fn overdue_at(&self) -> Option<Instant> {
        self.waiting.front().map(|(_, since)| *since + MAX_WAIT)
    }

    /// Takes the jobs that have waited for too long; no more are kept ready for the next runs.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Vec<JobDelivery> {
        let n = self.waiting.partition_point(|(_, since)| *since + MAX_WAIT <= now);
        if n > 0 {
            self.runs = 0;
        }
        self.waiting.drain(..n).map(|(job, _)| job).collect()
    }

    /// Takes all waiting jobs.
    pub(super) fn take_all(&mut self) -> Vec<JobDelivery> {
        self.waiting.drain(..).map(|(job, _)| job).collect()
    }

    /// Forgets jobs whose leases were lost.
    pub(super) fn remove(&mut self, lost: &[DeliveryRef]) {
        if !lost.is_empty() {
            self.waiting.retain(|(job, _)| !lost.contains(&job.held()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::job;
    use super::*;

    const FAST: Duration = Duration::from_millis(1);
    const SLOW: Duration = Duration::from_millis(300);

    /// Two slots in use, and one job that waits.
    fn full() -> SlotQueue {
        let mut ready = SlotQueue::new(2, 3);
        assert!([job(1), job(2)].into_iter().all(|job| ready.admit(job).is_some()));
        assert!(ready.admit(job(3)).is_none());
        ready
    }

    #[test]
    fn a_worker_asks_for_as_many_jobs_as_it_can_run_soon() {
        let mut ready = SlotQueue::new(2, 100);
        let mut run = |took| {
            assert!(ready.admit(job(1)).is_some());
            assert!(ready.ended(took).is_none());
            ready.announce()
        };
        assert!((1..MIN_RUNS).all(|_| run(FAST).is_none()));
        assert_eq!(run(FAST), Some(2 + 8), "ten in five milliseconds");
        assert_eq!(run(FAST), None);
        assert_eq!(run(SLOW), Some(2), "one slow run is enough");
        let more: Vec<u32> = (0..1000).filter_map(|_| run(FAST / 1000)).collect();
        assert_eq!(more, [2 + 2, 2 + 4, 2 + 8, 2 + 16, 2 + 32, 2 + 64]);
    }

    #[test]
    fn a_worker_without_ready_jobs_starts_what_it_gets() {
        let mut ready = SlotQueue::new(1, 0);
        assert!((1..4).all(|id| ready.admit(job(id)).is_some()));
        assert!((0..100).all(|_| ready.ended(FAST).is_none() && ready.announce().is_none()));
    }

    #[test]
    fn a_waiting_job_takes_the_slot_of_one_that_ends() {
        let mut ready = full();
        assert_eq!(ready.ended(FAST).map(|job| job.id.0), Some(3));
        assert!(ready.admit(job(4)).is_none(), "both slots are in use");
    }

    #[test]
    fn reports_wait_for_more_only_while_jobs_are_ready() {
        let mut ready = full();
        assert!(ready.may_wait(MAX_REPORTS - 1));
        assert!(!ready.may_wait(MAX_REPORTS));
        drop(ready.take_all());
        assert!(!ready.may_wait(1));
    }

    #[test]
    fn a_lost_job_does_not_start() {
        let mut ready = full();
        ready.remove(&[job(3).held()]);
        assert!(ready.ended(FAST).is_none());
        assert_eq!(ready.overdue_at(), None);
    }

    #[test]
    fn overdue_jobs_are_taken_and_no_more_are_asked_for() {
        let mut ready = full();
        ready.runs = MIN_RUNS;
        assert_eq!(ready.announce(), Some(4));
        let at = ready.overdue_at().expect("one waits");
        assert!(ready.take_overdue(at - FAST).is_empty());
        let overdue = ready.take_overdue(at);
        assert_eq!(overdue.iter().map(|job| job.id.0).collect::<Vec<_>>(), [3]);
        assert_eq!(ready.announce(), Some(2));
    }
}
