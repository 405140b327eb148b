//! Every job, accounted for: what was pushed, who had it, and whether it was finished.
//!
//! A job has four bytes here, which any task may write without asking another: what has happened to it, and when it
//! was last handed over.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde::Serialize;

const CHUNK: u64 = 1 << 16;
const CHUNKS: u64 = 1 << 16;
/// How many jobs can be accounted for.
pub(super) const MOST: u64 = CHUNK * CHUNKS;

/// Its push was answered.
const PUSHED: u32 = 1;
/// How often it was handed over: 0 to 3, where 3 is many.
const HANDED: u32 = 0b11 << 1;
const HANDED_ONCE: u32 = 1 << 1;
/// How often its report was the one that counts.
const FINISHED: u32 = 0b11 << 3;
const FINISHED_ONCE: u32 = 1 << 3;
/// It was handed over again although its worker still had it.
const DOUBLED: u32 = 1 << 5;
/// It was handed over again when its lease was over.
const AGAIN: u32 = 1 << 6;
/// Where the time of the last hand-over begins, and how many nanoseconds a tick of it has: 2^24 of them are three
/// days.
const TIME: u32 = 8;
const TICK: u64 = 16_000_000;

type Chunk = Box<[AtomicU32]>;

/// What has happened to every job, by its number.
#[derive(Debug)]
pub(super) struct Ledger {
    chunks: Box<[OnceLock<Chunk>]>,
    /// For how many ticks a worker surely has what it was given.
    lease: u32,
    strangers: AtomicU64,
}

/// What became of all jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct Tally {
    /// Jobs whose push was answered.
    pub(super) pushed: u64,
    /// Of these, jobs whose report was taken.
    pub(super) finished: u64,
    /// Of these, jobs that no worker was ever given.
    pub(super) lost: u64,
    /// Of these, jobs that a worker was given, and whose report was not taken.
    pub(super) unfinished: u64,
    /// Jobs that were handed over again without a reason, or finished twice.
    pub(super) doubled: u64,
    /// Jobs that were handed over again after their lease had ended.
    pub(super) again: u64,
    /// Deliveries of jobs that nobody here has pushed.
    pub(super) strangers: u64,
}

impl Tally {
    /// Whether every job was finished once, and nothing else was seen.
    pub(super) const fn is_sound(&self) -> bool {
        self.finished == self.pushed && self.doubled == 0 && self.strangers == 0
    }
}

impl Ledger {
    /// For jobs that belong to whoever was given them for this long; `None`: as long as he is there.
    pub(super) fn new(lease: Option<Duration>) -> Self {
        // The server's clock began to run a little before ours.
        let ticks = |lease: Duration| {
            lease.saturating_sub(Duration::from_secs(1)).as_nanos() / u128::from(TICK)
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

    /// The pushes of these jobs were answered.
    pub(super) fn pushed(&self, numbers: Range<u64>) {
        for entry in numbers.filter_map(|number| self.entry(number)) {
            entry.fetch_or(PUSHED, Relaxed);
        }
    }

    /// A job was handed over at this instant, in nanoseconds. A job with no number of ours is a stranger.
    pub(super) fn handed(&self, number: u64, at: u64) {
        let now = (at / TICK) as u32 & (u32::MAX >> TIME);
        let next = |seen: u32| {
            let is_first = seen & HANDED == 0;
            let more = match seen & HANDED {
                HANDED => 0,
                _ => HANDED_ONCE,
            };
            let since = now.saturating_sub(seen >> TIME);
            let why = match is_first {
                true => 0,
                false if since >= self.lease => AGAIN,
                false => DOUBLED,
            };
            Some((seen + more) & !(u32::MAX << TIME) | why | now << TIME)
        };
        match self.entry(number) {
            // It always gives a next one.
            Some(entry) => drop(entry.fetch_update(Relaxed, Relaxed, next)),
            None => self.stranger(),
        }
    }

    /// A report of a job was taken.
    pub(super) fn finished(&self, number: u64) {
        let next = |seen: u32| (seen & FINISHED != FINISHED).then(|| seen + FINISHED_ONCE);
        if let Some(entry) = self.entry(number) {
            // Many times is as often as can be counted.
            let _ = entry.fetch_update(Relaxed, Relaxed, next);
        }
    }

    /// Something was handed over that is no job of ours.
    pub(super) fn stranger(&self) {
        self.strangers.fetch_add(1, Relaxed);
    }

    /// Adds it all up, for the numbers that were given out. To be asked when all who write have ended.
    pub(super) fn tally(&self, given_out: u64) -> Tally {
        let mut tally = Tally { strangers: self.strangers.load(Relaxed), ..Tally::default() };
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

impl Tally {
    fn add(&mut self, seen: u32, is_ours: bool) {
        if !is_ours {
            self.strangers += u64::from(seen & HANDED != 0);
            return;
        }
        if seen & PUSHED != 0 {
            self.pushed += 1;
            match (seen & FINISHED != 0, seen & HANDED != 0) {
                (true, _) => self.finished += 1,
                (false, true) => self.unfinished += 1,
                (false, false) => self.lost += 1,
            }
        }
        let finished_twice = (seen & FINISHED) > FINISHED_ONCE;
        self.doubled += u64::from(seen & DOUBLED != 0 || finished_twice);
        self.again += u64::from(seen & AGAIN != 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const LEASE: Duration = Duration::from_secs(30);

    /// What is found of a history, of ten jobs that were pushed and finished unless it says otherwise.
    fn found(history: impl FnOnce(&Ledger)) -> Tally {
        let ledger = Ledger::new(Some(LEASE));
        ledger.pushed(0..10);
        for number in 2..10 {
            ledger.handed(number, SECOND);
            ledger.finished(number);
        }
        history(&ledger);
        ledger.tally(10)
    }

    #[test]
    fn a_job_that_is_pushed_handed_over_and_finished_is_accounted_for() {
        let tally = found(|ledger| {
            for number in 0..2 {
                ledger.handed(number, SECOND);
                ledger.finished(number);
            }
        });
        assert_eq!(tally, Tally { pushed: 10, finished: 10, ..Tally::default() });
        assert!(tally.is_sound());
    }

    #[test]
    fn a_job_that_no_worker_was_given_is_lost() {
        let tally = found(|ledger| ledger.handed(0, SECOND));
        let expected =
            Tally { pushed: 10, finished: 8, lost: 1, unfinished: 1, ..Tally::default() };
        assert_eq!(tally, expected);
        assert!(!tally.is_sound());
    }

    #[test]
    fn a_job_that_is_handed_over_again_in_time_is_doubled_and_later_is_not() {
        let tally = found(|ledger| {
            for (number, later) in [(0, 5), (1, 31)] {
                ledger.handed(number, SECOND);
                ledger.handed(number, SECOND + later * SECOND);
                ledger.finished(number);
            }
        });
        let expected = Tally { pushed: 10, finished: 10, doubled: 1, again: 1, ..Tally::default() };
        assert_eq!(tally, expected);
        assert!(!tally.is_sound());
    }

    #[test]
    fn while_a_stream_lives_no_time_is_a_reason_to_hand_over_again() {
        let ledger = Ledger::new(None);
        ledger.pushed(0..1);
        ledger.handed(0, 0);
        ledger.handed(0, 48 * 3600 * SECOND);
        ledger.finished(0);
        assert_eq!(ledger.tally(1).doubled, 1);
    }

    #[test]
    fn a_job_that_is_finished_twice_is_doubled_however_often_that_is() {
        let tally = found(|ledger| {
            for _ in 0..100 {
                ledger.handed(0, SECOND);
                ledger.finished(0);
            }
            ledger.handed(1, SECOND);
            ledger.finished(1);
            ledger.finished(1);
        });
        assert_eq!((tally.pushed, tally.finished, tally.doubled), (10, 10, 2));
    }

    #[test]
    fn what_nobody_pushed_is_a_stranger_and_an_unanswered_push_is_nothing() {
        let tally = found(|ledger| {
            ledger.handed(10, SECOND);
            ledger.handed(u64::MAX, SECOND);
            ledger.stranger();
            for number in 0..2 {
                ledger.handed(number, SECOND);
                ledger.finished(number);
            }
        });
        assert_eq!(tally, Tally { pushed: 10, finished: 10, strangers: 3, ..Tally::default() });
        let ledger = Ledger::new(None);
        ledger.handed(0, SECOND);
        ledger.finished(0);
        assert_eq!(ledger.tally(1), Tally::default());
    }

    #[test]
    fn jobs_far_apart_do_not_meet() {
        let ledger = Ledger::new(None);
        ledger.pushed(CHUNK - 1..CHUNK + 1);
        ledger.handed(CHUNK, SECOND);
        ledger.finished(CHUNK);
        let tally = ledger.tally(CHUNK + 1);
        assert_eq!((tally.pushed, tally.finished, tally.lost), (2, 1, 1));
    }
}
