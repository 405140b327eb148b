//! What is pushed next, and when: the numbers of jobs, at the pace that was asked for, and never more than the backlog
//! may hold.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// The time since a run was made ready, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Jobs to push together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) numbers: Range<u64>,
    /// When their push began; with a pace, when it should have.
    pub(super) begun: u64,
}

impl Batch {
    pub(super) const fn len(&self) -> u64 {
        self.numbers.end - self.numbers.start
    }
}

/// How much is pushed, and how fast.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    /// Jobs of one push.
    pub(super) batch: u64,
    /// So many in all.
    pub(super) most: u64,
    /// So many a second.
    pub(super) rate: Option<f64>,
    /// So many that were pushed and are not finished.
    pub(super) backlog: Option<usize>,
}

/// Says what is pushed next.
#[derive(Debug)]
pub(super) struct Source {
    flow: Flow,
    clock: Clock,
    next: AtomicU64,
    given_out: AtomicU64,
    room: Option<Semaphore>,
    pace: Option<Arc<Pace>>,
}

impl Source {
    pub(super) fn new(flow: Flow, clock: Clock) -> Self {
        let pace = flow.rate.map(|rate| Arc::new(Pace::new(flow.batch as f64 * 1e9 / rate)));
        let room = flow.backlog.map(Semaphore::new);
        let [next, given_out] = [AtomicU64::new(0), AtomicU64::new(0)];
        Self { flow, clock, next, given_out, room, pace }
    }

    /// From now on there is something to push.
    pub(super) fn begin(&self) {
        let Some(pace) = &self.pace else { return };
        let (pace, clock, origin) = (Arc::clone(pace), self.clock, self.clock.now());
        pace.origin.store(origin, Relaxed);
        thread::spawn(move || pace.run(clock, origin));
    }

    /// There is nothing more to push.
    pub(super) fn end(&self) {
        self.next.fetch_max(self.flow.most, Relaxed);
        self.room.iter().for_each(Semaphore::close);
        self.pace.iter().for_each(|pace| pace.due.close());
    }

    /// How many numbers were given out.
    pub(super) fn given_out(&self) -> u64 {
        self.given_out.load(Relaxed)
    }

    /// What is pushed next, when it is time for that; `None`: nothing any more. Whoever does not wait for it to
    /// the end has taken nothing.
    pub(super) async fn next(&self) -> Option<Batch> {
        let room = match &self.room {
            Some(room) => Some(room.acquire_many(u32::try_from(self.flow.batch).ok()?).await.ok()?),
            None => None,
        };
        let begun = match &self.pace {
            Some(pace) => {
                pace.due.acquire().await.ok()?.forget();
                pace.next()
            }
            None => self.clock.now(),
        };
        let (batch, most) = (self.flow.batch, self.flow.most);
        let start = self.next.fetch_add(batch, Relaxed);
        let numbers = start..(start + batch).min(most);
        if start >= most {
            return None;
        }
        self.given_out.fetch_max(numbers.end, Relaxed);
        // What the last push does not fill is room that nobody needs.
        room.into_iter().for_each(SemaphorePermit::forget);
        Some(Batch { numbers, begun })
    }

    /// So many jobs are finished: there is room for others.
    pub(super) fn make_room(&self, n: usize) {
        if let Some(room) = &self.room {
            room.add_permits(n);
        }
    }
}

/// When pushes are due. A thread of its own looks at the clock: the timers of a runtime are a millisecond coarse, which
/// is about what is measured here.
#[derive(Debug)]
struct Pace {
    /// Nanoseconds from one push to the next.
    every: f64,
    origin: AtomicU64,
    taken: AtomicU64,
    due: Semaphore,
}

/// A faster pace comes in small bursts.
const SHORTEST_SLEEP: Duration = Duration::from_micros(100);
/// So that an end is noticed.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

impl Pace {
    fn new(every: f64) -> Self {
        let [origin, taken] = [AtomicU64::new(0), AtomicU64::new(0)];
        Self { every, origin, taken, due: Semaphore::new(0) }
    }

    /// When the next one that is due should have begun.
    fn next(&self) -> u64 {
        let n = self.taken.fetch_add(1, Relaxed);
        self.origin.load(Relaxed) + (n as f64 * self.every) as u64
    }

    fn run(&self, clock: Clock, origin: u64) {
        let mut given: u64 = 0;
        while !self.due.is_closed() {
            let since = (clock.now() - origin) as f64;
            let due = (since / self.every) as u64 + 1;
            // A pause of the whole machine is made up for in pieces.
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

    const FLOW: Flow = Flow { batch: 10, most: 25, rate: None, backlog: None };

    #[tokio::test]
    async fn every_number_is_given_out_once_and_no_more_than_asked_for() {
        let source = Source::new(FLOW, Clock::start());
        let mut numbers = Vec::new();
        while let Some(batch) = source.next().await {
            numbers.push(batch.numbers);
        }
        assert_eq!(numbers, [0..10, 10..20, 20..25]);
        assert_eq!(source.next().await, None);
        assert_eq!(source.given_out(), 25);
    }

    #[tokio::test]
    async fn nothing_is_given_out_while_the_backlog_is_full() {
        let flow = Flow { backlog: Some(15), ..FLOW };
        let source = Source::new(flow, Clock::start());
        assert!(source.next().await.is_some());
        let soon = Duration::from_millis(20);
        assert!(timeout(soon, source.next()).await.is_err(), "there is room for five");
        source.make_room(5);
        assert_eq!(source.next().await.map(|batch| batch.numbers), Some(10..20));
        source.end();
        assert_eq!(source.next().await, None);
        assert_eq!(source.given_out(), 20);
    }

    #[tokio::test]
    async fn with_a_pace_a_push_begins_when_it_should_have() {
        let flow = Flow { rate: Some(10_000.0), ..FLOW };
        let clock = Clock::start();
        let source = Source::new(flow, clock);
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
