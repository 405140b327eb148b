//! The ledger: which jobs a producer pushes next, and the state of every job.
//!
//! A producer takes numbers, a worker returns them. There are two plans: load for some time, with a bounded number of
//! jobs between push and finish; or one job at a time, timed from its push until a worker has it.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Maximum number of jobs between push and finish: enough for full batches, and few enough that the last ones are
/// finished soon.
const WINDOW: u64 = 10_000;

/// Long enough for all threads to sleep before the next job.
const PICK_UP_PAUSE: Duration = Duration::from_millis(2);

/// If no job was finished for this long, the missing ones are lost.
const LOSS_TIMEOUT: Duration = Duration::from_secs(15);

/// The plan of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LedgerPlan {
    /// As many jobs as possible for this long.
    Load(Duration),
    /// This many jobs, one at a time.
    PickUp(u64),
}

/// The answer to a producer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextJobs {
    /// Push these.
    Jobs(Range<u64>),
    /// The window is full.
    Later,
    /// The run is over.
    Over,
}

/// Whether a producer waits for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitForRoom {
    Yes,
    No,
}

/// Counts of all jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobAccount {
    /// Given to the producer.
    pub(crate) given: u64,
    /// Acknowledged by the server.
    pub(crate) pushed: u64,
    /// Distinct jobs that a worker received.
    pub(crate) run: u64,
    /// Distinct jobs that were reported as done.
    pub(crate) finished: u64,
    /// Deliveries of a job that a worker had received before.
    pub(crate) doubled: u64,
    /// Deliveries of jobs that were never pushed.
    pub(crate) strange: u64,
    /// Jobs that the server still has at the end, by its own count.
    pub(crate) left: u64,
}

impl JobAccount {
    /// Acknowledged jobs that were never run.
    pub(crate) fn lost(&self) -> u64 {
        self.pushed.saturating_sub(self.run)
    }

    /// Whether every job was pushed, run and finished, and nothing else. A job that ran twice is not lost.
    pub(crate) fn is_balanced(&self) -> bool {
        let through = [self.pushed, self.run, self.finished].iter().all(|n| *n == self.given);
        through && self.given > 0 && self.strange == 0 && self.left == 0
    }
}

#[derive(Debug)]
pub(crate) struct PeerLedger {
    plan: LedgerPlan,
    state: Mutex<LedgerState>,
    changed: Condvar,
}

#[derive(Debug)]
struct LedgerState {
    /// The state of each job, by its number.
    jobs: Vec<JobMark>,
    account: JobAccount,
    closed: bool,
    started_at: Option<Instant>,
    /// When the newest job was taken.
    taken_at: Instant,
    /// When the newest job was finished.
    finished_at: Instant,
    times: Vec<Duration>,
}

#[derive(Debug, Clone, Copy, Default)]
struct JobMark {
    run: bool,
    finished: bool,
}

impl PeerLedger {
    pub(crate) fn new(plan: LedgerPlan) -> Self {
        let now = Instant::now();
        let state = LedgerState {
            jobs: Vec::new(),
            account: JobAccount::default(),
            closed: false,
            started_at: None,
            taken_at: now,
            finished_at: now,
            times: Vec::new(),
        };
        Self { plan, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next jobs to push: a full batch of `n`, or one if they go one at a time.
    pub(crate) fn take(&self, n: usize, wait: WaitForRoom) -> NextJobs {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let started_at = *state.started_at.get_or_insert(now);
            let (n, room, end) = match self.plan {
                LedgerPlan::Load(span) => {
                    let room = state.in_flight() + n as u64 <= WINDOW;
                    (
                        n as u64,
                        room,
                        (now >= started_at + span, span.saturating_sub(now - started_at)),
                    )
                }
                LedgerPlan::PickUp(all) => {
                    (1, state.in_flight() == 0, (state.account.given >= all, LOSS_TIMEOUT))
                }
            };
            let (is_over, at_most) = end;
            if state.closed || is_over || state.is_stuck(now) {
                state.closed = true;
                return NextJobs::Over;
            }
            if room {
                break self.give(state, n);
            }
            if wait == WaitForRoom::No {
                return NextJobs::Later;
            }
            let waited = self.changed.wait_timeout(state, at_most.min(LOSS_TIMEOUT));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn give<'a>(&'a self, mut state: MutexGuard<'a, LedgerState>, n: u64) -> NextJobs {
        let first = state.account.given;
        state.account.given += n;
        let all = state.account.given;
        state.jobs.resize(all as usize, JobMark::default());
        if matches!(self.plan, LedgerPlan::PickUp(_)) {
            drop(state);
            std::thread::sleep(PICK_UP_PAUSE);
            state = self.lock();
        }
        state.taken_at = Instant::now();
        NextJobs::Jobs(first..all)
    }

    /// Counts jobs that the server has acknowledged.
    pub(crate) fn pushed(&self, n: u64) {
        self.lock().account.pushed += n;
    }

    /// Marks jobs that a worker has received.
    pub(crate) fn ran(&self, jobs: impl IntoIterator<Item = Option<u64>>) {
        let mut state = self.lock();
        let took = state.taken_at.elapsed();
        for number in jobs {
            state.mark(number, |mark| &mut mark.run, |account| &mut account.run);
            if matches!(self.plan, LedgerPlan::PickUp(_)) {
                state.times.push(took);
            }
        }
    }

    /// Marks jobs that a worker has reported as done.
    pub(crate) fn finished(&self, jobs: impl IntoIterator<Item = Option<u64>>) {
        let mut state = self.lock();
        for number in jobs {
            state.mark(number, |mark| &mut mark.finished, |account| &mut account.finished);
        }
        state.finished_at = Instant::now();
        drop(state);
        self.changed.notify_all();
    }

    /// Whether all jobs are finished, or the rest is lost.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.lock();
        state.closed && (state.in_flight() == 0 || state.is_stuck(Instant::now()))
    }

    /// The account, the time from the first push to the last finish, and the latencies; `left` is the server's count.
    pub(crate) fn close(&self, left: u64) -> (JobAccount, Duration, Vec<Duration>) {
        let state = self.lock();
        let span = state.started_at.map_or(Duration::ZERO, |start| state.finished_at - start);
        (JobAccount { left, ..state.account.clone() }, span, state.times.clone())
    }
}

impl LedgerState {
    /// Jobs between push and finish.
    fn in_flight(&self) -> u64 {
        self.account.given - self.account.finished
    }

    fn is_stuck(&self, now: Instant) -> bool {
        let last = self.finished_at.max(self.taken_at);
        self.in_flight() > 0 && now.saturating_duration_since(last) > LOSS_TIMEOUT
    }

    fn mark(
        &mut self,
        number: Option<u64>,
        mark: impl Fn(&mut JobMark) -> &mut bool,
        count: impl Fn(&mut JobAccount) -> &mut u64,
    ) {
        let job = number.and_then(|number| self.jobs.get_mut(number as usize));
        match job.map(mark) {
            None => self.account.strange += 1,
            Some(true) => self.account.doubled += 1,
            Some(fresh) => {
                *fresh = true;
                *count(&mut self.account) += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: LedgerPlan = LedgerPlan::Load(Duration::from_secs(600));

    fn all(jobs: Range<u64>) -> impl Iterator<Item = Option<u64>> {
        jobs.map(Some)
    }

    /// Takes a batch and acknowledges it.
    fn pushed(ledger: &PeerLedger, n: usize) -> Range<u64> {
        let NextJobs::Jobs(jobs) = ledger.take(n, WaitForRoom::Yes) else {
            panic!("there is room")
        };
        ledger.pushed(jobs.end - jobs.start);
        jobs
    }

    fn account(ledger: &PeerLedger) -> JobAccount {
        ledger.close(0).0
    }

    #[test]
    fn jobs_that_are_pushed_run_and_finished_balance() {
        let ledger = PeerLedger::new(LONG);
        let jobs = pushed(&ledger, 500);
        ledger.ran(all(jobs.clone()));
        ledger.finished(all(jobs));
        let account = account(&ledger);
        assert_eq!((account.given, account.run, account.finished), (500, 500, 500));
        assert!(account.is_balanced() && account.lost() == 0);
    }

    #[test]
    fn a_job_that_never_runs_is_lost() {
        let ledger = PeerLedger::new(LONG);
        let jobs = pushed(&ledger, 500);
        ledger.ran(all(jobs.start..jobs.end - 1));
        ledger.finished(all(jobs.start..jobs.end - 1));
        assert_eq!(account(&ledger).lost(), 1);
        assert!(!account(&ledger).is_balanced());
    }

    #[test]
    fn a_job_that_runs_but_is_not_finished_does_not_balance() {
        let ledger = PeerLedger::new(LONG);
        ledger.ran(all(pushed(&ledger, 2)));
        ledger.finished(all(0..1));
        assert!(!account(&ledger).is_balanced());
    }

    #[test]
    fn jobs_that_the_server_did_not_accept_do_not_balance() {
        let ledger = PeerLedger::new(LONG);
        let NextJobs::Jobs(jobs) = ledger.take(3, WaitForRoom::Yes) else {
            panic!("there is room")
        };
        ledger.pushed(2);
        ledger.ran(all(jobs.clone()));
        ledger.finished(all(jobs));
        assert!(!account(&ledger).is_balanced());
    }

    #[test]
    fn a_second_run_is_counted_apart_and_hides_no_loss() {
        let ledger = PeerLedger::new(LONG);
        let jobs = pushed(&ledger, 2);
        ledger.ran([Some(0), Some(0)]);
        ledger.finished(all(jobs));
        let account = account(&ledger);
        assert_eq!((account.run, account.doubled, account.lost()), (1, 1, 1));
        assert!(!account.is_balanced());
    }

    #[test]
    fn jobs_that_were_never_pushed_are_strange() {
        let ledger = PeerLedger::new(LONG);
        let jobs = pushed(&ledger, 1);
        ledger.ran([Some(0), Some(1), None]);
        ledger.finished(all(jobs));
        assert_eq!(account(&ledger).strange, 2);
        assert!(!account(&ledger).is_balanced());
    }

    #[test]
    fn jobs_left_in_the_server_do_not_balance() {
        let ledger = PeerLedger::new(LONG);
        let jobs = pushed(&ledger, 1);
        ledger.ran(all(jobs.clone()));
        ledger.finished(all(jobs));
        assert!(ledger.close(0).0.is_balanced() && !ledger.close(1).0.is_balanced());
    }

    #[test]
    fn a_run_in_which_nothing_happened_does_not_balance() {
        assert!(!account(&PeerLedger::new(LONG)).is_balanced());
    }

    #[test]
    fn the_window_limits_the_jobs_in_flight() {
        let ledger = PeerLedger::new(LONG);
        let mut given = 0;
        while let NextJobs::Jobs(jobs) = ledger.take(500, WaitForRoom::No) {
            given = jobs.end;
        }
        assert_eq!(given, WINDOW);
        ledger.finished(all(0..499));
        assert_eq!(ledger.take(500, WaitForRoom::No), NextJobs::Later);
        ledger.finished([Some(499)]);
        assert_eq!(ledger.take(500, WaitForRoom::No), NextJobs::Jobs(WINDOW..WINDOW + 500));
    }

    #[test]
    fn a_run_is_over_when_its_time_is_up_and_all_jobs_are_finished() {
        let ledger = PeerLedger::new(LedgerPlan::Load(Duration::ZERO));
        assert!(!ledger.is_over(), "the producer has not asked yet");
        assert_eq!(ledger.take(1, WaitForRoom::Yes), NextJobs::Over);
        assert!(ledger.is_over());
    }

    #[test]
    fn pick_up_gives_one_job_at_a_time_and_times_it() {
        let ledger = PeerLedger::new(LedgerPlan::PickUp(2));
        for n in 0..2 {
            assert_eq!(pushed(&ledger, 500), n..n + 1);
            assert_eq!(
                ledger.take(500, WaitForRoom::No),
                if n == 0 { NextJobs::Later } else { NextJobs::Over }
            );
            ledger.ran([Some(n)]);
            ledger.finished([Some(n)]);
        }
        assert!(ledger.is_over());
        let (account, _, times) = ledger.close(0);
        assert!(account.is_balanced());
        assert_eq!(times.len(), 2);
    }
}
