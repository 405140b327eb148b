//! Ledger: accounts for every job of a run.
//!
//! Each job has a 32-bit atomic entry with its push, delivery and finish flags and the time of its last delivery, so
//! tasks write without coordination.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde::Serialize;

const CHUNK: u64 = 1 << 16;
const CHUNKS: u64 = 1 << 16;
/// Maximum number of jobs in a run.
pub(super) const MAX_JOBS: u64 = CHUNK * CHUNKS;

/// The push was acknowledged.
const PUSHED: u32 = 1;
/// Number of deliveries: 0 to 3, where 3 means three or more.
const DELIVERIES: u32 = 0b11 << 1;
const DELIVERED_ONCE: u32 = 1 << 1;
/// Number of accepted reports, saturating like the deliveries.
const FINISHED: u32 = 0b11 << 3;
const FINISHED_ONCE: u32 = 1 << 3;
/// Delivered again while its lease was still held.
const DOUBLED: u32 = 1 << 5;
/// Delivered again after its lease had ended.
const REDELIVERED: u32 = 1 << 6;
/// Bit position of the time of the last delivery, and the length of its ticks in nanoseconds: 2^24 ticks are three
/// days.
const TIME_SHIFT: u32 = 8;
const TICK_NANOS: u64 = 16_000_000;

type Chunk = Box<[AtomicU32]>;

/// Entries of all jobs, by their number.
#[derive(Debug)]
pub(super) struct LoadLedger {
    chunks: Box<[OnceLock<Chunk>]>,
    /// Lease in ticks: a second delivery within this time is a duplicate.
    lease: u32,
    strangers: AtomicU64,
}

/// Totals over all jobs. The field names are part of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct RunTally {
    /// Jobs whose push was acknowledged.
    pub(super) pushed: u64,
    /// Pushed jobs whose report was accepted.
    pub(super) finished: u64,
    /// Pushed jobs that were never delivered.
    pub(super) lost: u64,
    /// Pushed jobs that were delivered, but whose report was not accepted.
    pub(super) unfinished: u64,
    /// Jobs delivered again while leased, or finished twice.
    pub(super) doubled: u64,
    /// Jobs delivered again after their lease had ended.
    pub(super) again: u64,
    /// Deliveries of jobs that this run did not push.
    pub(super) strangers: u64,
}

impl RunTally {
    /// Whether every job was finished exactly once, and no other job was seen.
    pub(super) const fn is_sound(&self) -> bool {
        self.finished == self.pushed && self.doubled == 0 && self.strangers == 0
    }
}

impl LoadLedger {
    /// A ledger for jobs with this lease; `None`: a delivery is held as long as its worker is connected.
    pub(super) fn new(lease: Option<Duration>) -> Self {
        // The server's lease may start up to a second before the delivery is recorded here.
        let ticks = |lease: Duration| {
            lease.saturating_sub(Duration::from_secs(1)).as_nanos() / u128::from(TICK_NANOS)
        };
        Self {
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            lease: lease.map_or(u32::MAX, |lease| u32::try_from(ticks(lease)).unwrap_or(u32::MAX)),
            strangers: AtomicU64::new(0),
        }
    }

    fn entry(&self, number: u64) -> Option<&AtomicU32> {
        let chunk = self.chunks.get(usize::try_from(number / CHUNK).ok()?)?;
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| AtomicU32::new(0)).collect());
        chunk.get((number % CHUNK) as usize)
    }

    /// Records that the push of these jobs was acknowledged.
    pub(super) fn pushed(&self, numbers: Range<u64>) {
        for entry in numbers.filter_map(|number| self.entry(number)) {
            entry.fetch_or(PUSHED, Relaxed);
        }
    }

    /// Records a delivery at this time, in nanoseconds. A number outside this run counts as a stranger.
    pub(super) fn delivered(&self, number: u64, at: u64) {
        let now = (at / TICK_NANOS) as u32 & (u32::MAX >> TIME_SHIFT);
        let next = |seen: u32| {
            let is_first = seen & DELIVERIES == 0;
            let more = match seen & DELIVERIES {
                DELIVERIES => 0,
                _ => DELIVERED_ONCE,
            };
            let since = now.saturating_sub(seen >> TIME_SHIFT);
            let why = match is_first {
                true => 0,
                false if since >= self.lease => REDELIVERED,
                false => DOUBLED,
            };
            Some((seen + more) & !(u32::MAX << TIME_SHIFT) | why | now << TIME_SHIFT)
        };
        match self.entry(number) {
            // The closure always returns a value.
            Some(entry) => drop(entry.fetch_update(Relaxed, Relaxed, next)),
            None => self.stranger(),
        }
    }

    /// Records an accepted report.
    pub(super) fn finished(&self, number: u64) {
        let next = |seen: u32| (seen & FINISHED != FINISHED).then(|| seen + FINISHED_ONCE);
        if let Some(entry) = self.entry(number) {
            // Fails only when the counter is saturated.
            let _ = entry.fetch_update(Relaxed, Relaxed, next);
        }
    }

    /// Records a delivery of a job that this run did not push.
    pub(super) fn stranger(&self) {
        self.strangers.fetch_add(1, Relaxed);
    }

    /// Sums up the first `given_out` jobs. The numbers are exact once no task writes any more.
    pub(super) fn tally(&self, given_out: u64) -> RunTally {
        let mut tally = RunTally { strangers: self.strangers.load(Relaxed), ..RunTally::default() };
        let of = |chunk: &OnceLock<Chunk>| chunk.get().map_or(0, |chunk| chunk.len());
        for (n, chunk) in self.chunks.iter().enumerate().filter(|(_, chunk)| of(chunk) > 0) {
            for (m, entry) in chunk.get().into_iter().flatten().enumerate() {
                let number = n as u64 * CHUNK + m as u64;
                tally.add(entry.load(Relaxed), number < given_out);
            }
        }
        tally
    }
}

impl RunTally {
    fn add(&mut self, seen: u32, is_ours: bool) {
        if !is_ours {
            self.strangers += u64::from(seen & DELIVERIES != 0);
            return;
        }
        if seen & PUSHED != 0 {
            self.pushed += 1;
            match (seen & FINISHED != 0, seen & DELIVERIES != 0) {
                (true, _) => self.finished += 1,
                (false, true) => self.unfinished += 1,
                (false, false) => self.lost += 1,
            }
        }
        let finished_twice = (seen & FINISHED) > FINISHED_ONCE;
        self.doubled += u64::from(seen & DOUBLED != 0 || finished_twice);
        self.again += u64::from(seen & REDELIVERED != 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const LEASE: Duration = Duration::from_secs(30);

    /// Tally of ten pushed jobs, eight of them finished, after `history` has added more.
    fn found(history: impl FnOnce(&LoadLedger)) -> RunTally {
        let ledger = LoadLedger::new(Some(LEASE));
        ledger.pushed(0..10);
        for number in 2..10 {
            ledger.delivered(number, SECOND);
            ledger.finished(number);
        }
        history(&ledger);
        ledger.tally(10)
    }

    #[test]
    fn a_job_that_is_pushed_delivered_and_finished_is_accounted_for() {
        let tally = found(|ledger| {
            for number in 0..2 {
                ledger.delivered(number, SECOND);
                ledger.finished(number);
            }
        });
        assert_eq!(tally, RunTally { pushed: 10, finished: 10, ..RunTally::default() });
        assert!(tally.is_sound());
    }

    #[test]
    fn a_job_that_was_never_delivered_is_lost() {
        let tally = found(|ledger| ledger.delivered(0, SECOND));
        let expected =
            RunTally { pushed: 10, finished: 8, lost: 1, unfinished: 1, ..RunTally::default() };
        assert_eq!(tally, expected);
        assert!(!tally.is_sound());
    }

    #[test]
    fn a_redelivery_within_the_lease_is_a_duplicate_and_later_is_not() {
        let tally = found(|ledger| {
            for (number, later) in [(0, 5), (1, 31)] {
                ledger.delivered(number, SECOND);
                ledger.delivered(number, SECOND + later * SECOND);
                ledger.finished(number);
            }
        });
        let expected =
            RunTally { pushed: 10, finished: 10, doubled: 1, again: 1, ..RunTally::default() };
        assert_eq!(tally, expected);
        assert!(!tally.is_sound());
    }

    #[test]
    fn without_a_lease_every_redelivery_is_a_duplicate() {
        let ledger = LoadLedger::new(None);
        ledger.pushed(0..1);
        ledger.delivered(0, 0);
        ledger.delivered(0, 48 * 3600 * SECOND);
        ledger.finished(0);
        assert_eq!(ledger.tally(1).doubled, 1);
    }

    #[test]
    fn a_job_that_is_finished_several_times_counts_as_one_duplicate() {
        let tally = found(|ledger| {
            for _ in 0..100 {
                ledger.delivered(0, SECOND);
                ledger.finished(0);
            }
            ledger.delivered(1, SECOND);
            ledger.finished(1);
            ledger.finished(1);
        });
        assert_eq!((tally.pushed, tally.finished, tally.doubled), (10, 10, 2));
    }

    #[test]
    fn foreign_jobs_are_counted_and_unacknowledged_pushes_are_not() {
        let tally = found(|ledger| {
            ledger.delivered(10, SECOND);
            ledger.delivered(u64::MAX, SECOND);
            ledger.stranger();
            for number in 0..2 {
                ledger.delivered(number, SECOND);
                ledger.finished(number);
            }
        });
        assert_eq!(
            tally,
            RunTally { pushed: 10, finished: 10, strangers: 3, ..RunTally::default() }
        );
        let ledger = LoadLedger::new(None);
        ledger.delivered(0, SECOND);
        ledger.finished(0);
        assert_eq!(ledger.tally(1), RunTally::default());
    }

    #[test]
    fn chunks_are_independent() {
        let ledger = LoadLedger::new(None);
        ledger.pushed(CHUNK - 1..CHUNK + 1);
        ledger.delivered(CHUNK, SECOND);
        ledger.finished(CHUNK);
        let tally = ledger.tally(CHUNK + 1);
        assert_eq!((tally.pushed, tally.finished, tally.lost), (2, 1, 1));
    }
}
