//! Waking at times. One thread sleeps for everybody who waits for one; without anybody it has no
//! timer.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crore_core::{Clock, Time};

/// Everybody who waits for a time.
#[derive(Debug)]
pub(crate) struct Timers {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Told when there is something earlier than what the thread sleeps for.
    sooner: Condvar,
}

#[derive(Debug)]
struct State {
    sleepers: BTreeMap<(Time, u64), Waker>,
    last: u64,
    /// When upkeep has something to do.
    upkeep_at: Time,
    /// Until when the thread sleeps; zero while it is awake.
    sleeps_until: Time,
    is_stopping: bool,
}

/// Never.
pub(crate) const NEVER: Time = Time::MAX;

impl Timers {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let state = State {
            sleepers: BTreeMap::new(),
            last: 0,
            upkeep_at: Time::ZERO,
            sleeps_until: Time::ZERO,
            is_stopping: false,
        };
        Self { clock, state: Mutex::new(state), sooner: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// A future that is ready from an instant on.
    pub(crate) const fn sleep_until(&self, at: Time) -> Sleep<'_> {
        Sleep { timers: self, at, id: None }
    }

    /// Upkeep has something to do at an instant, at the latest.
    pub(crate) fn want_upkeep(&self, at: Time) {
        let mut state = self.lock();
        state.upkeep_at = state.upkeep_at.min(at);
        self.tell_if_sooner(&state, at);
    }

    fn tell_if_sooner(&self, state: &State, at: Time) {
        if at < state.sleeps_until {
            self.sooner.notify_one();
        }
    }

    /// Wakes everybody whose time has come, and says whether upkeep's has.
    pub(crate) fn fire(&self) -> bool {
        let now = self.now();
        let (woken, is_due) = {
            let mut state = self.lock();
            let later = state.sleepers.split_off(&(now.after(MILLISECOND), 0));
            let woken = std::mem::replace(&mut state.sleepers, later);
            let is_due = state.upkeep_at <= now;
            if is_due {
                state.upkeep_at = NEVER;
            }
            (woken, is_due)
        };
        woken.into_values().for_each(Waker::wake);
        is_due
    }

    /// When there is something to do next.
    pub(crate) fn next_at(&self) -> Time {
        let state = self.lock();
        state.next_at()
    }

    /// Sleeps until there is something to do; `false`: the thread is to end.
    pub(crate) fn sleep(&self) -> bool {
        let mut state = self.lock();
        loop {
            let (now, next) = (self.now(), state.next_at());
            if state.is_stopping {
                return false;
            }
            if next <= now {
                state.sleeps_until = Time::ZERO;
                return true;
            }
            state.sleeps_until = next;
            state = if next == NEVER {
                self.sooner.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                let slept = self.sooner.wait_timeout(state, next.since(now).into());
                slept.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    /// Ends the thread, at once and for ever.
    pub(crate) fn stop(&self) {
        self.lock().is_stopping = true;
        self.sooner.notify_all();
    }
}

const MILLISECOND: crore_core::Span = crore_core::Span::from_millis(1);

impl State {
    fn next_at(&self) -> Time {
        let first = self.sleepers.keys().next().map_or(NEVER, |(at, _)| *at);
        first.min(self.upkeep_at)
    }
}

/// See [`Timers::sleep_until`].
#[derive(Debug)]
pub(crate) struct Sleep<'a> {
    timers: &'a Timers,
    at: Time,
    id: Option<u64>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.timers.now() >= self.at {
            return Poll::Ready(());
        }
        let timers = self.timers;
        let mut state = timers.lock();
        let id = self.id.unwrap_or_else(|| {
            state.last += 1;
            state.last
        });
        self.id = Some(id);
        if self.at < NEVER {
            state.sleepers.insert((self.at, id), context.waker().clone());
            timers.tell_if_sooner(&state, self.at);
        }
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.timers.lock().sleepers.remove(&(self.at, id));
        }
    }
}
