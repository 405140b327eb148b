//! What nobody asks for: due jobs become ready, lapsed leases are taken back, schedules fire, old
//! records go. Each duty says when it has something to do next, and until then nothing runs.

mod doubts;
mod lanes;
mod overdue;
mod promote;
mod prune;
mod rescue;
mod ring;
mod schedules;
mod stats;

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crore_core::{Span, Time};
use crore_store::jobs::Renew;

pub(crate) use promote::Dues;
pub(crate) use stats::Stats;

use crate::doubt::Doubt;
use crate::engine::Inner;
use crate::error::Error;
use crate::timers::NEVER;

/// After an error of the store it is asked again this much later.
pub(crate) const AGAIN_AFTER: Span = Span::from_secs(1);

/// One thing that upkeep does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Due jobs become ready.
    Promote,
    /// Lapsed leases are taken back, and jobs whose dependency broke are cancelled.
    Rescue,
    /// Whoever waits for what a limit held back looks again.
    Ring,
    /// Runs that take too long are ended.
    Overdue,
    /// Leases of work in this process are renewed.
    Renew,
    /// Schedules push their jobs.
    Schedules,
    /// Waiting jobs are brought under limits that were changed.
    Lanes,
    /// What was kept long enough is removed.
    Prune,
    /// What may have been changed unheard is looked at.
    Doubts,
    /// Counts are written down.
    Stats,
}

impl Duty {
    const ALL: [Self; 10] = [
        Self::Promote,
        Self::Rescue,
        Self::Ring,
        Self::Overdue,
        Self::Renew,
        Self::Schedules,
        Self::Lanes,
        Self::Prune,
        Self::Doubts,
        Self::Stats,
    ];
}

/// When each duty has something to do.
#[derive(Debug)]
pub(crate) struct Duties {
    at: Mutex<[Time; Duty::ALL.len()]>,
    pub(crate) stats: Stats,
    pub(crate) sweeps: Mutex<lanes::Sweeps>,
    pub(crate) rings: ring::Rings,
    pub(crate) doubts: doubts::Doubts,
    /// What ran when the engine was made, and has yet to be given one more lease.
    kept: Mutex<Vec<Renew>>,
    /// Whether a job may wait for others that is due later than they end.
    pub(crate) are_dues_held: AtomicBool,
}

impl Default for Duties {
    fn default() -> Self {
        let at = Mutex::new([NEVER; Duty::ALL.len()]);
        Self {
            at,
            stats: Stats::default(),
            sweeps: Mutex::default(),
            rings: ring::Rings::default(),
            doubts: doubts::Doubts::default(),
            kept: Mutex::default(),
            are_dues_held: AtomicBool::new(false),
        }
    }
}

impl Duties {
    fn at(&self) -> MutexGuard<'_, [Time; Duty::ALL.len()]> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leases_to_keep(&self) -> MutexGuard<'_, Vec<Renew>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The duties whose time has come.
    fn due(&self, now: Time) -> Vec<Duty> {
        let at = self.at();
        Duty::ALL.into_iter().filter(|duty| at[*duty as usize] <= now).collect()
    }

    /// A duty is being done: whatever is wanted from here on is wanted anew.
    fn begin(&self, duty: Duty) {
        self.at()[duty as usize] = NEVER;
    }

    /// The clock went back: every duty that is planned is due, and plans itself again.
    fn bring_forward(&self, now: Time) {
        for at in self.at().iter_mut().filter(|at| **at != NEVER) {
            *at = (*at).min(now);
        }
    }

    fn next_at(&self) -> Time {
        self.at().iter().copied().min().unwrap_or(NEVER)
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
pub struct Upkeep<'a> {
    pub(crate) inner: &'a Inner,
}

impl Upkeep<'_> {
    /// When upkeep is due next.
    pub fn due_at(self) -> Time {
        self.inner.timers.next_at()
    }

    /// Does what is due, and wakes the callers whose timeout has passed. An error is the first of those
    /// that the store gave; what could not be done is tried again later, and what was not done because
    /// the future was dropped is still due.
    pub async fn run_once(self) -> Result<(), Error> {
        self.inner.upkeep_once().await
    }
}

impl Inner {
    /// A duty has something to do at an instant, at the latest.
    pub(crate) fn want(&self, duty: Duty, at: Time) {
        if at == NEVER {
            return;
        }
        let is_sooner = {
            let mut wanted = self.duties.at();
            let slot = &mut wanted[duty as usize];
            let is_sooner = at < *slot;
            *slot = (*slot).min(at);
            is_sooner
        };
        if is_sooner {
            self.timers.want_upkeep(at);
        }
    }

    /// What has to be done once, when the engine is made.
    pub(crate) async fn wake_up(&self) -> Result<(), Error> {
        self.load_limits().await?;
        self.load_handlers().await?;
        self.look_for_held().await?;
        self.look_for_running().await?;
        let now = self.now();
        for duty in [Duty::Promote, Duty::Rescue, Duty::Schedules, Duty::Prune] {
            self.want(duty, now);
        }
        Ok(())
    }

    pub(crate) async fn upkeep_once(&self) -> Result<(), Error> {
        if self.timers.fire() {
            self.duties.bring_forward(self.now());
        }
        // Whatever is wanted and was not due now has to be waited for again, also if the caller leaves.
        let _again = Doubt::new(|| self.timers.want_upkeep(self.duties.next_at()));
        let mut first_error = Ok(());
        for duty in self.duties.due(self.now()) {
            self.duties.begin(duty);
            let undone = Doubt::new(|| self.want(duty, self.now()));
            let done = match duty {
                Duty::Promote => self.promote_once().await,
                Duty::Rescue => self.rescue_once().await,
                Duty::Ring => Ok(self.ring_once()),
                Duty::Overdue => self.overdue_once().await,
                Duty::Renew => self.renew_once().await,
                Duty::Schedules => self.schedules_once().await,
                Duty::Lanes => self.lanes_once().await,
                Duty::Prune => self.prune_once().await,
                Duty::Doubts => self.doubts_once().await,
                Duty::Stats => self.stats_once().await,
            };
            undone.over();
            match done {
                Ok(next_at) => self.want(duty, next_at),
                Err(error) => {
                    self.want(duty, self.now().after(AGAIN_AFTER));
                    first_error = first_error.and(Err(error));
                }
            }
        }
        first_error
    }

    /// The engine's thread.
    pub(crate) fn upkeep_until_stopped(&self) {
        self.timers.begin();
        while self.timers.park() {
            // Whoever calls the engine is told what is wrong with the store; here it is tried again.
            let _ = self.timers.drive(self.upkeep_once());
        }
    }
}
