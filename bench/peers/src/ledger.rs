//! What a producer may push next, and what became of every job.
//!
//! A producer takes numbers, a worker gives them back. Two plans: for some time, as fast as it goes, with a
//! bounded number of jobs between push and finish; or one job at a time, each timed from its push until a
//! worker has it.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// How many jobs may be between push and finish: enough for every peer to have full batches, and
/// little enough that the last ones are soon through.
const WINDOW: u64 = 10_000;

/// Long enough for everybody to sleep before the next job comes.
const REST: Duration = Duration::from_millis(2);

/// Nothing was finished for so long: what is missing is lost.
const PATIENCE: Duration = Duration::from_secs(15);

/// What is to be done.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Plan {
    /// As fast as it goes, for this long.
    Load(Duration),
    /// So many jobs, one at a time.
    PickUp(u64),
}

/// What a producer is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Push these.
    Jobs(Range<u64>),
    /// Not now.
    Later,
    /// That was all.
    Over,
}

/// Whether a producer has nothing else to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Yes,
    No,
}

/// Every job, accounted for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    /// Handed to the producer.
    pub(crate) given: u64,
    /// And taken by the server, as it said.
    pub(crate) pushed: u64,
    /// Different jobs that a worker got.
    pub(crate) run: u64,
    /// Different jobs that were reported as done.
    pub(crate) finished: u64,
    /// Hand-overs of a job that a worker had had before.
    pub(crate) doubled: u64,
    /// What a worker got and nobody had pushed.
    pub(crate) strange: u64,
    /// What the server still has at the end, as it says.
    pub(crate) left: u64,
}

impl Account {
    /// Jobs that were taken by the server and never run.
    pub(crate) fn lost(&self) -> u64 {
        self.pushed.saturating_sub(self.run)
    }

    /// Whether every job was pushed, run and finished, and nothing else. One that was run twice was at least
    /// not lost.
    pub(crate) fn is_balanced(&self) -> bool {
        let through = [self.pushed, self.run, self.finished].iter().all(|n| *n == self.given);
        through && self.given > 0 && self.strange == 0 && self.left == 0
    }
}

#[derive(Debug)]
pub(crate) struct Ledger {
    plan: Plan,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// What became of each job, by its number.
    jobs: Vec<Mark>,
    account: Account,
    closed: bool,
    started_at: Option<Instant>,
    /// When the newest job was taken.
    taken_at: Instant,
    /// When the newest job was finished.
    finished_at: Instant,
    times: Vec<Duration>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    run: bool,
    finished: bool,
}

impl Ledger {
    pub(crate) fn new(plan: Plan) -> Self {
        let now = Instant::now();
        let state = State {
            jobs: Vec::new(),
            account: Account::default(),
            closed: false,
            started_at: None,
            taken_at: now,
            finished_at: now,
            times: Vec::new(),
        };
        Self { plan, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next jobs to push, a full batch of `n` of them, or one if they go one at a time.
    pub(crate) fn take(&self, n: usize, wait: Wait) -> Taken {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let started_at = *state.started_at.get_or_insert(now);
            let (n, room, end) = match self.plan {
                Plan::Load(span) => {
                    let room = state.under_way() + n as u64 <= WINDOW;
                    (
                        n as u64,
                        room,
                        (now >= started_at + span, span.saturating_sub(now - started_at)),
                    )
                }
                Plan::PickUp(all) => {
                    (1, state.under_way() == 0, (state.account.given >= all, PATIENCE))
                }
            };
            let (is_over, at_most) = end;
            if state.closed || is_over || state.is_stuck(now) {
                state.closed = true;
                return Taken::Over;
            }
            if room {
                break self.give(state, n);
            }
            if wait == Wait::No {
                return Taken::Later;
            }
            let waited = self.changed.wait_timeout(state, at_most.min(PATIENCE));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn give<'a>(&'a self, mut state: MutexGuard<'a, State>, n: u64) -> Taken {
        let first = state.account.given;
        state.account.given += n;
        let all = state.account.given;
        state.jobs.resize(all as usize, Mark::default());
        if matches!(self.plan, Plan::PickUp(_)) {
            drop(state);
            std::thread::sleep(REST);
            state = self.lock();
        }
        state.taken_at = Instant::now();
        Taken::Jobs(first..all)
    }

    /// The server has taken so many.
    pub(crate) fn pushed(&self, n: u64) {
        self.lock().account.pushed += n;
    }

    /// A worker has these jobs.
    pub(crate) fn ran(&self, jobs: impl IntoIterator<Item = Option<u64>>) {
        let mut state = self.lock();
        let took = state.taken_at.elapsed();
        for number in jobs {
            state.mark(number, |mark| &mut mark.run, |account| &mut account.run);
            if matches!(self.plan, Plan::PickUp(_)) {
                state.times.push(took);
            }
        }
    }

    /// These are done, as a worker has said.
    pub(crate) fn finished(&self, jobs: impl IntoIterator<Item = Option<u64>>) {
        let mut state = self.lock();
        for number in jobs {
            state.mark(number, |mark| &mut mark.finished, |account| &mut account.finished);
        }
        state.finished_at = Instant::now();
        drop(state);
        self.changed.notify_all();
    }

    /// Whether nothing more will come: all is finished, or the rest is lost.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.lock();
        state.closed && (state.under_way() == 0 || state.is_stuck(Instant::now()))
    }

    /// What became of it, from the first push to the last finish, with what the server still has.
    pub(crate) fn close(&self, left: u64) -> (Account, Duration, Vec<Duration>) {
        let state = self.lock();
        let span = state.started_at.map_or(Duration::ZERO, |start| state.finished_at - start);
        (Account { left, ..state.account.clone() }, span, state.times.clone())
    }
}

impl State {
    /// How many are between push and finish.
    fn under_way(&self) -> u64 {
        self.account.given - self.account.finished
    }

    fn is_stuck(&self, now: Instant) -> bool {
        let last = self.finished_at.max(self.taken_at);
        self.under_way() > 0 && now.saturating_duration_since(last) > PATIENCE
    }

    fn mark(
        &mut self,
        number: Option<u64>,
        mark: impl Fn(&mut Mark) -> &mut bool,
        count: impl Fn(&mut Account) -> &mut u64,
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

    const LONG: Plan = Plan::Load(Duration::from_secs(600));

    fn all(jobs: Range<u64>) -> impl Iterator<Item = Option<u64>> {
        jobs.map(Some)
    }

    /// Takes a batch, which the server takes too.
    fn pushed(ledger: &Ledger, n: usize) -> Range<u64> {
        let Taken::Jobs(jobs) = ledger.take(n, Wait::Yes) else { panic!("there is room") };
        ledger.pushed(jobs.end - jobs.start);
        jobs
    }

    fn account(ledger: &Ledger) -> Account {
        ledger.close(0).0
    }

    #[test]
    fn jobs_that_are_pushed_run_and_finished_balance() {
        let ledger = Ledger::new(LONG);
        let jobs = pushed(&ledger, 500);
        ledger.ran(all(jobs.clone()));
        ledger.finished(all(jobs));
        let account = account(&ledger);
        assert_eq!((account.given, account.run, account.finished), (500, 500, 500));
        assert!(account.is_balanced() && account.lost() == 0);
    }

    #[test]
    fn a_job_that_never_runs_is_lost() {
        let ledger = Ledger::new(LONG);
        let jobs = pushed(&ledger, 500);
        ledger.ran(all(jobs.start..jobs.end - 1));
        ledger.finished(all(jobs.start..jobs.end - 1));
        assert_eq!(account(&ledger).lost(), 1);
        assert!(!account(&ledger).is_balanced());
    }

    #[test]
    fn a_job_that_runs_but_is_not_finished_does_not_balance() {
        let ledger = Ledger::new(LONG);
        ledger.ran(all(pushed(&ledger, 2)));
        ledger.finished(all(0..1));
        assert!(!account(&ledger).is_balanced());
    }

    #[test]
    fn what_was_given_and_not_taken_by_the_server_does_not_balance() {
        let ledger = Ledger::new(LONG);
        let Taken::Jobs(jobs) = ledger.take(3, Wait::Yes) else { panic!("there is room") };
        ledger.pushed(2);
        ledger.ran(all(jobs.clone()));
        ledger.finished(all(jobs));
        assert!(!account(&ledger).is_balanced());
    }

    #[test]
    fn a_second_run_is_counted_apart_and_hides_no_loss() {
        let ledger = Ledger::new(LONG);
        let jobs = pushed(&ledger, 2);
        ledger.ran([Some(0), Some(0)]);
        ledger.finished(all(jobs));
        let account = account(&ledger);
        assert_eq!((account.run, account.doubled, account.lost()), (1, 1, 1));
        assert!(!account.is_balanced());
    }

    #[test]
    fn what_nobody_pushed_is_strange() {
        let ledger = Ledger::new(LONG);
        let jobs = pushed(&ledger, 1);
        ledger.ran([Some(0), Some(1), None]);
        ledger.finished(all(jobs));
        assert_eq!(account(&ledger).strange, 2);
        assert!(!account(&ledger).is_balanced());
    }

    #[test]
    fn what_the_server_still_has_does_not_balance() {
        let ledger = Ledger::new(LONG);
        let jobs = pushed(&ledger, 1);
        ledger.ran(all(jobs.clone()));
        ledger.finished(all(jobs));
        assert!(ledger.close(0).0.is_balanced() && !ledger.close(1).0.is_balanced());
    }

    #[test]
    fn a_run_in_which_nothing_happened_does_not_balance() {
        assert!(!account(&Ledger::new(LONG)).is_balanced());
    }

    #[test]
    fn no_more_is_given_than_may_be_under_way() {
        let ledger = Ledger::new(LONG);
        let mut given = 0;
        while let Taken::Jobs(jobs) = ledger.take(500, Wait::No) {
            given = jobs.end;
        }
        assert_eq!(given, WINDOW);
        ledger.finished(all(0..499));
        assert_eq!(ledger.take(500, Wait::No), Taken::Later);
        ledger.finished([Some(499)]);
        assert_eq!(ledger.take(500, Wait::No), Taken::Jobs(WINDOW..WINDOW + 500));
    }

    #[test]
    fn it_is_over_when_the_time_is_and_all_is_finished() {
        let ledger = Ledger::new(Plan::Load(Duration::ZERO));
        assert!(!ledger.is_over(), "nobody has been told");
        assert_eq!(ledger.take(1, Wait::Yes), Taken::Over);
        assert!(ledger.is_over());
    }

    #[test]
    fn one_at_a_time_is_given_and_timed_until_it_runs() {
        let ledger = Ledger::new(Plan::PickUp(2));
        for n in 0..2 {
            assert_eq!(pushed(&ledger, 500), n..n + 1);
            assert_eq!(ledger.take(500, Wait::No), if n == 0 { Taken::Later } else { Taken::Over });
            ledger.ran([Some(n)]);
            ledger.finished([Some(n)]);
        }
        assert!(ledger.is_over());
        let (account, _, times) = ledger.close(0);
        assert!(account.is_balanced());
        assert_eq!(times.len(), 2);
    }
}
