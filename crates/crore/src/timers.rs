//! Timers: one thread sleeps until the first planned instant and wakes the futures and the upkeep that wait.
//!
//! The wall clock may be set. When it goes back, waiting futures keep their remaining time and upkeep runs
//! at once, to plan its duties again; when it goes ahead, the thread notices within [`LONGEST_PARK`].

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crore_core::{Clock, Span, Time};

/// All planned instants: sleeping futures and the next upkeep.
#[derive(Debug)]
pub(crate) struct Timers {
    clock: Arc<dyn Clock>,
    state: Mutex<TimerState>,
    /// The thread that parks until the next instant; unparked when an earlier one is planned.
    thread: OnceLock<Thread>,
}

#[derive(Debug)]
struct TimerState {
    /// By steady time.
    sleepers: BTreeMap<(Time, u64), Waker>,
    last_id: u64,
    /// The latest reading of the clock.
    last_reading: Time,
    /// The sum of all steps by which the clock went back. Steady time is the clock's plus this.
    set_back: Span,
    /// Whether the clock went back since upkeep last ran.
    is_set_back: bool,
    /// When upkeep is due.
    upkeep_at: Time,
    /// Until when the thread sleeps; zero while it is awake.
    parked_until: Time,
    is_stopping: bool,
}

/// An instant that never comes.
pub(crate) const NEVER: Time = Time::MAX;

impl Timers {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let state = TimerState {
            sleepers: BTreeMap::new(),
            last_id: 0,
            last_reading: Time::ZERO,
            set_back: Span::ZERO,
            is_set_back: false,
            upkeep_at: Time::ZERO,
            parked_until: Time::ZERO,
            is_stopping: false,
        };
        Self { clock, state: Mutex::new(state), thread: OnceLock::new() }
    }

    fn lock(&self) -> MutexGuard<'_, TimerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// A future that completes after a time, or when the engine stops.
    pub(crate) fn sleep(&self, span: Span) -> Sleep<'_> {
        let mut state = self.lock();
        let now = state.read(&*self.clock);
        state.last_id += 1;
        Sleep { timers: self, at: state.steady(now).after(span), id: state.last_id }
    }

    /// Plans upkeep for this instant at the latest.
    pub(crate) fn plan_upkeep(&self, at: Time) {
        let mut state = self.lock();
        state.upkeep_at = state.upkeep_at.min(at);
        self.unpark_if_sooner(&state, at);
    }

    fn unpark_if_sooner(&self, state: &TimerState, at: Time) {
        if at < state.parked_until {
            self.unpark();
        }
    }

    fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Wakes the futures that are due, and clears the planned upkeep, which the caller runs now. Returns whether
    /// the clock went back since the last call: then every planned duty is due.
    pub(crate) fn fire(&self) -> bool {
        let is_set_back = {
            let mut state = self.lock();
            let now = state.read(&*self.clock);
            if state.upkeep_at <= now {
                state.upkeep_at = NEVER;
            }
            std::mem::take(&mut state.is_set_back)
        };
        self.wake_sleepers();
        is_set_back
    }

    fn wake_sleepers(&self) {
        let woken = {
            let mut state = self.lock();
            let now = state.read(&*self.clock);
            let steady = state.steady(now);
            let later = state.sleepers.split_off(&(steady.after(MILLISECOND), 0));
            std::mem::replace(&mut state.sleepers, later)
        };
        woken.into_values().for_each(Waker::wake);
    }

    /// The next planned instant.
    pub(crate) fn next_at(&self) -> Time {
        let mut state = self.lock();
        state.read(&*self.clock);
        state.next_at()
    }

    /// Makes the current thread the one that parks.
    pub(crate) fn use_current_thread(&self) {
        // An engine starts one thread, once.
        let _ = self.thread.set(thread::current());
    }

    /// Parks the thread until something is due; `false`: the engine stops.
    pub(crate) fn park(&self) -> bool {
        loop {
            match self.park_until(TimerState::next_at) {
                Parked::Slept => {}
                Parked::Due => return true,
                Parked::Stopping => return false,
            }
        }
    }

    /// Runs a future to completion and wakes sleeping futures meanwhile; `None`: the engine stops.
    pub(crate) fn drive<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let drive_waker =
            Arc::new(DriveWaker { is_woken: AtomicBool::new(true), thread: thread::current() });
        let waker = Waker::from(Arc::clone(&drive_waker));
        let mut future = pin!(future);
        loop {
            if drive_waker.is_woken.swap(false, Ordering::AcqRel)
                && let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return Some(value);
            }
            self.wake_sleepers();
            if let Parked::Stopping = self.park_until(TimerState::first_sleeper) {
                return None;
            }
        }
    }

    /// Parks once, at most until the next instant. An unpark between the check and the park is not lost.
    fn park_until(&self, next: impl Fn(&TimerState) -> Time) -> Parked {
        let (now, next) = {
            let mut state = self.lock();
            if state.is_stopping {
                return Parked::Stopping;
            }
            let now = state.read(&*self.clock);
            let next = next(&state);
            state.parked_until = if next <= now { Time::ZERO } else { next };
            (now, next)
        };
        if next <= now {
            return Parked::Due;
        }
        if next == NEVER {
            thread::park();
        } else {
            thread::park_timeout(next.since(now).min(LONGEST_PARK).into());
        }
        Parked::Slept
    }

    /// Ends the thread and completes all sleeps.
    pub(crate) fn stop(&self) {
        let woken = {
            let mut state = self.lock();
            state.is_stopping = true;
            std::mem::take(&mut state.sleepers)
        };
        woken.into_values().for_each(Waker::wake);
        self.unpark();
    }
}

/// Result of parking once.
enum Parked {
    Slept,
    Due,
    Stopping,
}

/// Waker of the future that the thread drives.
struct DriveWaker {
    is_woken: AtomicBool,
    thread: Thread,
}

impl Wake for DriveWaker {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

const MILLISECOND: Span = Span::from_millis(1);

/// The thread reads the clock at least this often while something is planned: no system call tells a
/// thread that the wall clock was set, or that the machine was suspended.
const LONGEST_PARK: Span = Span::from_secs(5);

impl TimerState {
    /// Reads the clock and notes whether it went back. Only readings under the lock are comparable: an earlier
    /// reading of another thread may arrive later although the clock did not go back.
    fn read(&mut self, clock: &dyn Clock) -> Time {
        let now = clock.now();
        if now < self.last_reading {
            self.set_back = self.set_back.plus(self.last_reading.since(now));
            self.is_set_back = true;
            self.upkeep_at = self.upkeep_at.min(now);
        }
        self.last_reading = now;
        now
    }

    /// An instant in steady time, which never goes back.
    fn steady(&self, at: Time) -> Time {
        at.after(self.set_back)
    }

    fn next_at(&self) -> Time {
        self.first_sleeper().min(self.upkeep_at)
    }

    fn first_sleeper(&self) -> Time {
        self.sleepers.keys().next().map_or(NEVER, |(at, _)| at.before(self.set_back))
    }
}

/// See [`Timers::sleep`].
#[derive(Debug)]
pub(crate) struct Sleep<'a> {
    timers: &'a Timers,
    /// In steady time.
    at: Time,
    id: u64,
}

impl Sleep<'_> {
    /// The time that is left.
    pub(crate) fn left(&self) -> Span {
        let mut state = self.timers.lock();
        let now = state.read(&*self.timers.clock);
        self.at.since(state.steady(now))
    }
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { timers, at, id } = *self;
        let mut state = timers.lock();
        let now = state.read(&*timers.clock);
        if state.is_stopping || state.steady(now) >= at {
            return Poll::Ready(());
        }
        if at < NEVER {
            state.sleepers.insert((at, id), context.waker().clone());
            timers.unpark_if_sooner(&state, at.before(state.set_back));
        }
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        self.timers.lock().sleepers.remove(&(self.at, self.id));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use crore_testkit::FakeClock;

    use super::*;

    const HOUR: Span = Span::from_secs(3600);

    /// Parking uses the monotonic clock, so the thread must read the wall clock now and then.
    #[test]
    fn a_parked_thread_notices_a_clock_set_ahead() {
        let clock = FakeClock::default();
        let timers = Arc::new(Timers::new(Arc::new(clock.clone())));
        timers.fire();
        timers.plan_upkeep(clock.now().after(HOUR));
        let (sender, receiver) = mpsc::channel();
        let parks = Arc::clone(&timers);
        thread::spawn(move || sender.send(parks.park()));
        while timers.lock().parked_until == Time::ZERO {
            thread::yield_now();
        }
        clock.advance(HOUR.times(2));
        assert_eq!(receiver.recv_timeout(Duration::from_secs(20)), Ok(true));
    }
}
