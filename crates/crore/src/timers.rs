//! Waking at times. One thread sleeps for everybody who waits for one; without anybody it has no
//! timer.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crore_core::{Clock, Time};

/// Everybody who waits for a time.
#[derive(Debug)]
pub(crate) struct Timers {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Who sleeps for everybody; roused when there is something earlier than what it sleeps for.
    thread: OnceLock<Thread>,
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
        Self { clock, state: Mutex::new(state), thread: OnceLock::new() }
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
            self.rouse();
        }
    }

    fn rouse(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Wakes everybody whose time has come; upkeep is here, so it need not be told any more.
    pub(crate) fn fire(&self) {
        let now = self.now();
        {
            let mut state = self.lock();
            if state.upkeep_at <= now {
                state.upkeep_at = NEVER;
            }
        }
        self.wake_sleepers(now);
    }

    fn wake_sleepers(&self, now: Time) {
        let woken = {
            let mut state = self.lock();
            let later = state.sleepers.split_off(&(now.after(MILLISECOND), 0));
            std::mem::replace(&mut state.sleepers, later)
        };
        woken.into_values().for_each(Waker::wake);
    }

    /// When there is something to do next.
    pub(crate) fn next_at(&self) -> Time {
        let state = self.lock();
        state.next_at()
    }

    /// This thread sleeps for everybody, from now on.
    pub(crate) fn begin(&self) {
        // There is one thread for one engine, and it begins once.
        let _ = self.thread.set(thread::current());
    }

    /// Sleeps until there is something to do; `false`: the thread is to end.
    pub(crate) fn sleep(&self) -> bool {
        loop {
            match self.park_until(State::next_at) {
                Parked::Slept => {}
                Parked::Due => return true,
                Parked::Stopping => return false,
            }
        }
    }

    /// Runs a future to its end and wakes whoever's time comes meanwhile, however long that takes;
    /// `None`: the thread is to end.
    pub(crate) fn drive<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let nudge = Arc::new(Nudge { is_given: AtomicBool::new(true), thread: thread::current() });
        let waker = Waker::from(Arc::clone(&nudge));
        let mut future = pin!(future);
        loop {
            if nudge.is_given.swap(false, Ordering::AcqRel)
                && let Poll::Ready(given) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return Some(given);
            }
            self.wake_sleepers(self.now());
            if let Parked::Stopping = self.park_until(State::first_sleeper) {
                return None;
            }
        }
    }

    /// Sleeps once, at most until what is next. Who rouses the thread before it sleeps keeps it awake.
    fn park_until(&self, next: impl Fn(&State) -> Time) -> Parked {
        let now = self.now();
        let next = {
            let mut state = self.lock();
            if state.is_stopping {
                return Parked::Stopping;
            }
            let next = next(&state);
            state.sleeps_until = if next <= now { Time::ZERO } else { next };
            next
        };
        if next <= now {
            return Parked::Due;
        }
        if next == NEVER {
            thread::park();
        } else {
            thread::park_timeout(next.since(now).into());
        }
        Parked::Slept
    }

    /// Ends the thread, at once and for ever; nobody sleeps any more.
    pub(crate) fn stop(&self) {
        let woken = {
            let mut state = self.lock();
            state.is_stopping = true;
            std::mem::take(&mut state.sleepers)
        };
        woken.into_values().for_each(Waker::wake);
        self.rouse();
    }
}

/// How a sleep went.
enum Parked {
    Slept,
    Due,
    Stopping,
}

/// What a future that the thread drives rouses it by.
struct Nudge {
    is_given: AtomicBool,
    thread: Thread,
}

impl Wake for Nudge {
    fn wake(self: Arc<Self>) {
        self.is_given.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

const MILLISECOND: crore_core::Span = crore_core::Span::from_millis(1);

impl State {
    fn next_at(&self) -> Time {
        self.first_sleeper().min(self.upkeep_at)
    }

    fn first_sleeper(&self) -> Time {
        self.sleepers.keys().next().map_or(NEVER, |(at, _)| *at)
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
        if state.is_stopping {
            return Poll::Ready(());
        }
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
