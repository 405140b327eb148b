//! What nobody asks for: due jobs become ready, lapsed leases are taken back, schedules fire, old
//! records go. Each duty says when it has something to do next, and until then nothing runs.

mod lanes;
mod overdue;
mod promote;
mod prune;
mod rescue;
mod schedules;
mod stats;

use std::sync::{Mutex, PoisonError};

use crore_core::{Span, Time};

pub(crate) use stats::Stats;

use crate::block::block_on;
use crate::engine::{Engine, Inner};
use crate::error::Error;
use crate::timers::NEVER;

/// After an error of the store a duty is tried again this much later.
const AGAIN_AFTER: Span = Span::from_secs(1);

/// One thing that upkeep does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Due jobs become ready.
    Promote,
    /// Lapsed leases are taken back, and jobs whose dependency broke are cancelled.
    Rescue,
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
    /// Counts are written down.
    Stats,
}

impl Duty {
    const ALL: [Self; 8] = [
        Self::Promote,
        Self::Rescue,
        Self::Overdue,
        Self::Renew,
        Self::Schedules,
        Self::Lanes,
        Self::Prune,
        Self::Stats,
    ];
}

/// When each duty has something to do.
#[derive(Debug)]
pub(crate) struct Duties {
    at: Mutex<[Time; Duty::ALL.len()]>,
    pub(crate) stats: Stats,
    pub(crate) sweep: Mutex<lanes::Sweep>,
    waits: promote::Waits,
}

impl Default for Duties {
    fn default() -> Self {
        let at = Mutex::new([NEVER; Duty::ALL.len()]);
        let (stats, sweep, waits) = (Stats::default(), Mutex::default(), promote::Waits::default());
        Self { at, stats, sweep, waits }
    }
}

impl Duties {
    /// Takes a duty, if its time has come.
    fn take(&self, duty: Duty, now: Time) -> bool {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut at[duty as usize];
        let is_due = *slot <= now;
        if is_due {
            *slot = NEVER;
        }
        is_due
    }
}

/// Duties that somebody else has to see to if he who has this leaves in the middle: one whose call is
/// dropped, or whose store gave no answer, leaves it open what was written, and upkeep has to look.
#[derive(Debug)]
#[must_use = "it is about what happens before it is over"]
pub(crate) struct Care<'a> {
    inner: &'a Inner,
    duties: &'static [Duty],
}

impl Care<'_> {
    /// It is known what was written, and what there is to do.
    pub(crate) fn over(mut self) {
        self.duties = &[];
    }
}

impl Drop for Care<'_> {
    fn drop(&mut self) {
        for duty in self.duties {
            self.inner.want(*duty, self.inner.now());
        }
    }
}

impl Engine {
    /// When upkeep has something to do, for whoever runs an engine without a thread.
    pub fn upkeep_at(&self) -> Time {
        self.inner.timers.next_at()
    }

    /// Does what is due, and wakes whoever waited for a time that has come. An error is the first of
    /// those that the store gave; what could not be done is tried again later.
    pub async fn upkeep_once(&self) -> Result<(), Error> {
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
            let mut wanted = self.duties.at.lock().unwrap_or_else(PoisonError::into_inner);
            let slot = &mut wanted[duty as usize];
            let is_sooner = at < *slot;
            *slot = (*slot).min(at);
            is_sooner
        };
        if is_sooner {
            self.timers.want_upkeep(at);
        }
    }

    /// These duties are seen to, however what begins now ends.
    pub(crate) const fn care(&self, duties: &'static [Duty]) -> Care<'_> {
        Care { inner: self, duties }
    }

    /// What has to be done once, when the engine is made.
    pub(crate) async fn wake_up(&self) -> Result<(), Error> {
        self.load_limits().await?;
        self.look_for_waits().await?;
        self.keep_leases().await?;
        let now = self.now();
        for duty in [Duty::Promote, Duty::Rescue, Duty::Schedules, Duty::Prune] {
            self.want(duty, now);
        }
        Ok(())
    }

    pub(crate) async fn upkeep_once(&self) -> Result<(), Error> {
        self.timers.fire();
        let mut first_error = Ok(());
        let now = self.now();
        for duty in &Duty::ALL {
            if !self.duties.take(*duty, now) {
                continue;
            }
            let care = self.care(std::slice::from_ref(duty));
            let done = match duty {
                Duty::Promote => self.promote_once().await,
                Duty::Rescue => self.rescue_once().await,
                Duty::Overdue => self.overdue_once().await,
                Duty::Renew => self.renew_once().await,
                Duty::Schedules => self.schedules_once().await,
                Duty::Lanes => self.lanes_once().await,
                Duty::Prune => self.prune_once().await,
                Duty::Stats => self.stats_once().await,
            };
            care.over();
            match done {
                Ok(next_at) => self.want(*duty, next_at),
                Err(error) => {
                    self.want(*duty, self.now().after(AGAIN_AFTER));
                    first_error = first_error.and(Err(error));
                }
            }
        }
        // Whatever is wanted and was not due now has to be waited for again.
        let next_at = {
            let at = self.duties.at.lock().unwrap_or_else(PoisonError::into_inner);
            at.iter().copied().min().unwrap_or(NEVER)
        };
        if next_at < NEVER {
            self.timers.want_upkeep(next_at);
        }
        first_error
    }

    /// The engine's thread.
    pub(crate) fn upkeep_until_stopped(&self) {
        while self.timers.sleep() {
            // Whoever calls the engine is told what is wrong with the store; here it is tried again.
            let _ = block_on(self.upkeep_once());
        }
    }
}
