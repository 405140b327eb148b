//! Signals from the code under test to the test, so that no test needs to sleep.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::eventually::instant;

/// Timeout of [`Signal::wait`]: far longer than anything under test takes, even on a busy machine. Only a
/// failing test waits that long.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The receiving end, for the test: values arrive in the order in which they were emitted, each once.
///
/// ```
/// use crore_testkit::{Emitter, Signal};
///
/// #[derive(Default)]
/// struct Upkeep {
///     pruned: Emitter<usize>, // does nothing unless a test listens
/// }
///
/// let signal = Signal::new();
/// let upkeep = Upkeep { pruned: signal.emitter() };
/// let upkeep = std::thread::spawn(move || upkeep.pruned.emit(3));
/// assert_eq!(signal.wait(), 3);
/// # upkeep.join().unwrap();
/// ```
pub struct Signal<T> {
    shared: Arc<SignalShared<T>>,
}

/// The sending end, for the code under test. The default one does nothing, and so does one whose [`Signal`]
/// is gone.
pub struct Emitter<T> {
    shared: Weak<SignalShared<T>>,
}

struct SignalShared<T> {
    state: Mutex<SignalState<T>>,
    arrived: Condvar,
}

struct SignalState<T> {
    values: VecDeque<T>,
    wakers: Vec<Waker>,
}

impl<T> SignalShared<T> {
    /// The queue is intact even after a panic under the lock: every change to it is one call.
    fn lock(&self) -> MutexGuard<'_, SignalState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Signal<T> {
    /// A signal without emitters.
    pub fn new() -> Self {
        let state = Mutex::new(SignalState { values: VecDeque::new(), wakers: Vec::new() });
        Self { shared: Arc::new(SignalShared { state, arrived: Condvar::new() }) }
    }

    /// A sending end for the code under test.
    pub fn emitter(&self) -> Emitter<T> {
        Emitter { shared: Arc::downgrade(&self.shared) }
    }

    /// The next value, if it has arrived.
    pub fn try_next(&self) -> Option<T> {
        self.shared.lock().values.pop_front()
    }

    /// Blocks until the next value arrives.
    ///
    /// # Panics
    ///
    /// If none arrives within 10 seconds.
    #[track_caller]
    pub fn wait(&self) -> T {
        self.wait_for(WAIT_TIMEOUT).unwrap_or_else(|| panic!("no signal within {WAIT_TIMEOUT:?}"))
    }

    /// Blocks until the next value arrives or `limit` has passed.
    pub fn wait_for(&self, limit: Duration) -> Option<T> {
        let started = instant();
        let mut state = self.shared.lock();
        loop {
            if let Some(value) = state.values.pop_front() {
                return Some(value);
            }
            let left = limit.checked_sub(instant().duration_since(started))?;
            let waited = self.shared.arrived.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The next value, as a future for any runtime. It has no timeout of its own; wrap it in the runtime's.
    pub fn wait_async(&self) -> SignalWait<'_, T> {
        SignalWait { signal: self }
    }
}

impl<T> Emitter<T> {
    /// Sends `value` to the test, if one listens. Never blocks on the test.
    pub fn emit(&self, value: T) {
        let Some(shared) = self.shared.upgrade() else { return };
        let wakers = {
            let mut state = shared.lock();
            state.values.push_back(value);
            std::mem::take(&mut state.wakers)
        };
        shared.arrived.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// This end as a plain function, for code that takes a callback and does not know this crate.
    pub fn into_fn(self) -> Arc<dyn Fn(T) + Send + Sync>
    where
        T: Send + 'static,
    {
        Arc::new(move |value| self.emit(value))
    }
}

/// The future of [`Signal::wait_async`]. Dropping it loses no value.
#[must_use = "a future does nothing unless it is awaited"]
#[derive(Debug)]
pub struct SignalWait<'a, T> {
    signal: &'a Signal<T>,
}

impl<T> Future for SignalWait<'_, T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut state = self.signal.shared.lock();
        if let Some(value) = state.values.pop_front() {
            return Poll::Ready(value);
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl<T> Default for Signal<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Default for Emitter<T> {
    fn default() -> Self {
        Self { shared: Weak::new() }
    }
}

impl<T> Clone for Emitter<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T> fmt::Debug for Signal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.shared.lock().values.len();
        f.debug_struct("Signal").field("waiting", &waiting).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Emitter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_signal = self.shared.strong_count() > 0;
        f.debug_struct("Emitter").field("has_signal", &has_signal).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::thread;

    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn an_emitter_without_a_signal_does_nothing() {
        Emitter::default().emit(1);
        let signal = Signal::new();
        let emitter = signal.emitter();
        drop(signal);
        emitter.emit(1);
    }

    #[test]
    fn values_arrive_once_and_in_order_across_threads() {
        let signal = Signal::new();
        let hook = signal.emitter().into_fn();
        let sender = thread::spawn(move || (0..100).for_each(|n| hook(n)));
        assert!((0..100).all(|n| signal.wait() == n));
        sender.join().expect("the sender does not panic");
        assert_eq!(signal.try_next(), None);
    }

    #[test]
    fn waiting_ends_at_its_limit() {
        assert_eq!(Signal::<()>::new().wait_for(Duration::from_millis(1)), None);
    }

    #[test]
    fn a_value_wakes_the_task_that_awaits_it() {
        let signal = Signal::new();
        let count = Arc::new(WakeCounter::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        let mut wait = pin!(signal.wait_async());
        assert!(wait.as_mut().poll(&mut cx).is_pending());
        assert!(wait.as_mut().poll(&mut cx).is_pending());
        signal.emitter().emit("due");
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert_eq!(wait.poll(&mut cx), Poll::Ready("due"));
    }
}
