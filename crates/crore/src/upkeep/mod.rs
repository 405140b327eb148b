//! Upkeep: the engine's background duties, such as promoting due jobs, expiring leases, firing schedules and
//! pruning. Each duty plans when it is due next; nothing runs before that.

mod expire_leases;
mod index_keys;
mod limit_keys;
mod limit_wakeups;
mod overdue;
mod promote;
mod prune;
mod release;
mod schedules;
mod stats;
mod unconfirmed;

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crore_core::{Span, Time};
use crore_store::jobs::Renew;

pub(crate) use promote::DueTimes;
pub(crate) use stats::{NameRuns, PendingStats};

use crate::drop_guard::DropGuard;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::timers::NEVER;

/// Delay before the store is asked again after an error.
pub(crate) const RETRY_AFTER: Span = Span::from_secs(1);

/// A background duty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Makes due jobs ready.
    Promote,
    /// Ends deliveries whose lease has expired, jobs past their deadline, jobs whose dependency can no longer succeed, and
    /// waits for events that are over.
    ExpireLeases,
    /// Wakes fetches when a limit may allow more jobs.
    WakeLimited,
    /// Ends runs past their timeout.
    Overdue,
    /// Renews the leases of jobs that run in this process.
    Renew,
    /// Fires schedules.
    Schedules,
    /// Updates the limit keys of waiting jobs after limits have changed.
    UpdateLimitKeys,
    /// Updates the index keys of the jobs of a queue after its indexed fields have changed.
    UpdateIndexKeys,
    /// Removes ended jobs and other records whose retention is over.
    Prune,
    /// Reads jobs whose last change was not confirmed.
    Unconfirmed,
    /// Writes statistics.
    Stats,
    /// Releases jobs that were waiting when an event was sent.
    Release,
}

impl Duty {
    const ALL: [Self; 12] = [
        Self::Promote,
        Self::ExpireLeases,
        Self::WakeLimited,
        Self::Overdue,
        Self::Renew,
        Self::Schedules,
        Self::UpdateLimitKeys,
        Self::UpdateIndexKeys,
        Self::Prune,
        Self::Unconfirmed,
        Self::Stats,
        Self::Release,
    ];
}

/// When each duty is due, and the state that duties share with callers.
#[derive(Debug)]
pub(crate) struct Duties {
    due_at: Mutex<[Time; Duty::ALL.len()]>,
    pub(crate) stats: PendingStats,
    pub(crate) sweeps: Mutex<limit_keys::LimitSweeps>,
    pub(crate) index_sweeps: Mutex<index_keys::IndexSweeps>,
    pub(crate) limit_wakeups: limit_wakeups::LimitWakeups,
    pub(crate) unconfirmed: unconfirmed::UnconfirmedJobs,
    /// Leases of jobs that were running when the engine started, still to be renewed once.
    recovered_leases: Mutex<Vec<Renew>>,
    /// Whether there may be a job that waits for others and is due later than they end.
    pub(crate) may_have_dependants_due_later: AtomicBool,
}

impl Default for Duties {
    fn default() -> Self {
        let at = Mutex::new([NEVER; Duty::ALL.len()]);
        Self {
            due_at: at,
            stats: PendingStats::default(),
            sweeps: Mutex::default(),
            index_sweeps: Mutex::default(),
            limit_wakeups: limit_wakeups::LimitWakeups::default(),
            unconfirmed: unconfirmed::UnconfirmedJobs::default(),
            recovered_leases: Mutex::default(),
            may_have_dependants_due_later: AtomicBool::new(false),
        }
    }
}

impl Duties {
    fn due_times(&self) -> MutexGuard<'_, [Time; Duty::ALL.len()]> {
        self.due_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recovered_leases(&self) -> MutexGuard<'_, Vec<Renew>> {
        self.recovered_leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The duties that are due.
    fn due(&self, now: Time) -> Vec<Duty> {
        let at = self.due_times();
        Duty::ALL.into_iter().filter(|duty| at[*duty as usize] <= now).collect()
    }

    /// Clears the plan of a duty that starts now; plans made from here on apply to its next run.
    fn begin(&self, duty: Duty) {
        self.due_times()[duty as usize] = NEVER;
    }

    /// Makes every planned duty due, because the clock went back. Each then plans itself again.
    fn bring_forward(&self, now: Time) {
        for at in self.due_times().iter_mut().filter(|at| **at != NEVER) {
            *at = (*at).min(now);
        }
    }

    fn next_at(&self) -> Time {
        self.due_times().iter().copied().min().unwrap_or(NEVER)
    }
}

/// Upkeep of an engine [without a thread](crate::Engine::without_thread); see
/// [`Engine::upkeep`](crate::Engine::upkeep).
///
/// ```
/// use std::sync::Arc;
///
/// use crore::store::{Memory, SystemClock};
/// use crore::{Engine, Options, block_on};
///
/// # fn main() -> Result<(), crore::Error> {
/// let clock = Arc::new(SystemClock);
/// let store = Arc::new(Memory::new(clock.clone()));
/// let engine = block_on(Engine::without_thread(store, clock, Options::default()))?;
///
/// while engine.upkeep().due_at() <= engine.status().now() {
///     block_on(engine.upkeep().run_once())?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ManualUpkeep<'a> {
    pub(crate) inner: &'a EngineInner,
}

impl ManualUpkeep<'_> {
    /// When upkeep is due next.
    pub fn due_at(self) -> Time {
        self.inner.timers.next_at()
    }

    /// Runs the duties that are due, and wakes callers whose timeout has passed. Returns the first error of the
    /// store. A duty that failed is retried later; one that was interrupted because the future was dropped is still
    /// due.
    pub async fn run_once(self) -> Result<(), Error> {
        self.inner.upkeep_once().await
    }
}

impl EngineInner {
    /// Plans a duty for this instant at the latest.
    pub(crate) fn plan_duty(&self, duty: Duty, at: Time) {
        if at == NEVER {
            return;
        }
        let is_sooner = {
            let mut due_times = self.duties.due_times();
            let slot = &mut due_times[duty as usize];
            let is_sooner = at < *slot;
            *slot = (*slot).min(at);
            is_sooner
        };
        if is_sooner {
            self.timers.plan_upkeep(at);
        }
    }

    /// Loads the caches and plans the first duties, when the engine starts.
    pub(crate) async fn recover(&self) -> Result<(), Error> {
        self.load_limits().await?;
        self.load_handlers().await?;
        self.resume_index_sweeps();
        self.detect_waiting_dependants().await?;
        self.recover_running().await?;
        let now = self.now();
        let duties =
            [Duty::Promote, Duty::ExpireLeases, Duty::Schedules, Duty::Prune, Duty::Release];
        for duty in duties {
            self.plan_duty(duty, now);
        }
        Ok(())
    }

    pub(crate) async fn upkeep_once(&self) -> Result<(), Error> {
        if self.timers.fire() {
            self.duties.bring_forward(self.now());
        }
        // Plan the timer for duties that are not due yet, even if the future is dropped.
        let _plan_timer = DropGuard::new(|| self.timers.plan_upkeep(self.duties.next_at()));
        let mut first_error = Ok(());
        for duty in self.duties.due(self.now()) {
            self.duties.begin(duty);
            let guard = DropGuard::new(|| self.plan_duty(duty, self.now()));
            let done = match duty {
                Duty::Promote => self.promote_once().await,
                Duty::ExpireLeases => self.expire_leases_once().await,
                Duty::WakeLimited => Ok(self.wake_limited_once()),
                Duty::Overdue => self.overdue_once().await,
                Duty::Renew => self.renew_once().await,
                Duty::Schedules => self.schedules_once().await,
                Duty::UpdateLimitKeys => self.update_limit_keys_once().await,
                Duty::UpdateIndexKeys => self.update_index_keys_once().await,
                Duty::Prune => self.prune_once().await,
                Duty::Unconfirmed => self.unconfirmed_once().await,
                Duty::Stats => self.stats_once().await,
                Duty::Release => self.release_once().await,
            };
            guard.disarm();
            match done {
                Ok(next_at) => self.plan_duty(duty, next_at),
                Err(error) => {
                    self.plan_duty(duty, self.now().after(RETRY_AFTER));
                    first_error = first_error.and(Err(error));
                }
            }
        }
        first_error
    }

    /// The loop of the engine's thread.
    pub(crate) fn upkeep_until_stopped(&self) {
        self.timers.use_current_thread();
        while self.timers.park() {
            // Callers see the store's errors themselves; upkeep just retries.
            let _ = self.timers.drive(self.upkeep_once());
        }
    }
}
