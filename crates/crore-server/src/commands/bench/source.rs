//! Batches to push: hands out job numbers at the requested rate, within the backlog limit.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Monotonic clock of a run, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunClock(Instant);

impl RunClock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Jobs to push in one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PushBatch {
    pub(super) numbers: Range<u64>,
    /// When the push began; with a rate, when it should have.
    pub(super) begun: u64,
}

impl PushBatch {
    pub(super) const fn len(&self) -> u64 {
        self.numbers.end - self.numbers.start
    }
}

/// Limits on what is pushed.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourceLimits {
    /// Jobs per push.
    pub(super) batch: u64,
    /// Maximum number of jobs in total.
    pub(super) max_jobs: u64,
    /// Jobs per second.
    pub(super) rate: Option<f64>,
    /// Maximum number of pushed but unfinished jobs.
    pub(super) backlog: Option<usize>,
}

/// Hands out batches to producers.
#[derive(Debug)]
pub(super) struct BatchSource {
    limits: SourceLimits,
    clock: RunClock,
    next: AtomicU64,
    given_out: AtomicU64,
    room: Option<Semaphore>,
    pace: Option<Arc<Pace>>,
}

impl BatchSource {
    pub(super) fn new(source_limits: SourceLimits, clock: RunClock) -> Self {
        let pace = source_limits
            .rate
            .map(|rate| Arc::new(Pace::new(source_limits.batch as f64 * 1e9 / rate)));
        let room = source_limits.backlog.map(Semaphore::new);
        let [next, given_out] = [AtomicU64::new(0), AtomicU64::new(0)];
        Self { limits: source_limits, clock, next, given_out, room, pace }
    }

    /// Starts the pace.
    pub(super) fn begin(&self) {
        let Some(pace) = &self.pace else { return };
        let (pace, clock, origin) = (Arc::clone(pace), self.clock, self.clock.now());
        pace.origin.store(origin, Relaxed);
        thread::spawn(move || pace.run(clock, origin));
    }

    /// Stops handing out batches.
    pub(super) fn end(&self) {
        self.next.fetch_max(self.limits.max_jobs, Relaxed);
        self.room.iter().for_each(Semaphore::close);
        self.pace.iter().for_each(|pace| pace.due.close());
    }

    /// Number of jobs handed out.
    pub(super) fn handed_out(&self) -> u64 {
        self.given_out.load(Relaxed)
    }

    /// Waits for the next batch; `None` when there are no more. Cancel safe: a dropped future takes no batch.
    pub(super) async fn next(&self) -> Option<PushBatch> {
        let room = match &self.room {
            Some(room) => {
                Some(room.acquire_many(u32::try_from(self.limits.batch).ok()?).await.ok()?)
            }
            None => None,
        };
        let begun = match &self.pace {
            Some(pace) => {
                pace.due.acquire().await.ok()?.forget();
                pace.next()
            }
            None => self.clock.now(),
        };
        let (batch, max_jobs) = (self.limits.batch, self.limits.max_jobs);
        let start = self.next.fetch_add(batch, Relaxed);
        let numbers = start..(start + batch).min(max_jobs);
        if start >= max_jobs {
            return None;
        }
        self.given_out.fetch_max(numbers.end, Relaxed);
        // The last batch may be smaller; the rest of its permits is not needed.
        room.into_iter().for_each(SemaphorePermit::forget);
        Some(PushBatch { numbers, begun })
    }

    /// Releases backlog for finished jobs.
    pub(super) fn release(&self, n: usize) {
        if let Some(room) = &self.room {
            room.add_permits(n);
        }
    }
}

/// Releases pushes when they are due. It uses its own thread, because the runtime's timers have a resolution of a
/// millisecond, about what is measured here.
#[derive(Debug)]
struct Pace {
    /// Nanoseconds between pushes.
    every: f64,
    origin: AtomicU64,
    taken: AtomicU64,
    due: Semaphore,
}

/// Shortest sleep; a faster pace is released in small bursts.
const SHORTEST_SLEEP: Duration = Duration::from_micros(100);
/// Longest sleep, so that the thread notices the end.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

impl Pace {
    fn new(every: f64) -> Self {
        let [origin, taken] = [AtomicU64::new(0), AtomicU64::new(0)];
        Self { every, origin, taken, due: Semaphore::new(0) }
    }

    /// When the next released push should have begun.
    fn next(&self) -> u64 {
        let n = self.taken.fetch_add(1, Relaxed);
        self.origin.load(Relaxed) + (n as f64 * self.every) as u64
    }

    fn run(&self, clock: RunClock, origin: u64) {
        let mut given: u64 = 0;
        while !self.due.is_closed() {
            let since = (clock.now() - origin) as f64;
            let due = (since / self.every) as u64 + 1;
            // After a pause of the whole machine, catch up in steps.
            let more = (due - given).min(1 << 20);
            self.due.add_permits(more as usize);
            given += more;
            let wait = Duration::from_nanos((given as f64 * self.every - since).max(0.0) as u64);
            thread::park_timeout(wait.clamp(SHORTEST_SLEEP, LONGEST_SLEEP));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const LIMITS: SourceLimits =
        SourceLimits { batch: 10, max_jobs: 25, rate: None, backlog: None };

    #[tokio::test]
    async fn every_number_is_given_out_once_up_to_the_maximum() {
        let source = BatchSource::new(LIMITS, RunClock::start());
        let mut numbers = Vec::new();
        while let Some(batch) = source.next().await {
            numbers.push(batch.numbers);
        }
        assert_eq!(numbers, [0..10, 10..20, 20..25]);
        assert_eq!(source.next().await, None);
        assert_eq!(source.handed_out(), 25);
    }

    #[tokio::test]
    async fn no_batch_is_handed_out_while_the_backlog_is_full() {
        let limits = SourceLimits { backlog: Some(15), ..LIMITS };
        let source = BatchSource::new(limits, RunClock::start());
        assert!(source.next().await.is_some());
        let soon = Duration::from_millis(20);
        assert!(timeout(soon, source.next()).await.is_err(), "there is room for five");
        source.release(5);
        assert_eq!(source.next().await.map(|batch| batch.numbers), Some(10..20));
        source.end();
        assert_eq!(source.next().await, None);
        assert_eq!(source.handed_out(), 20);
    }

    #[tokio::test]
    async fn with_a_rate_a_push_starts_at_its_planned_time() {
        let limits = SourceLimits { rate: Some(10_000.0), ..LIMITS };
        let clock = RunClock::start();
        let source = BatchSource::new(limits, clock);
        source.begin();
        let mut begun = Vec::new();
        while let Some(batch) = source.next().await {
            assert!(clock.now() >= batch.begun, "nothing is early");
            begun.push(batch.begun);
        }
        source.end();
        let steps: Vec<u64> = begun.windows(2).map(|two| two[1] - two[0]).collect();
        assert_eq!(steps, [1_000_000, 1_000_000], "ten a millisecond");
    }
}
