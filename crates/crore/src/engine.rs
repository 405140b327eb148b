//! The engine: its life, and what all its parts share.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use crore_core::{Caps, Clock, Time};
use crore_store::embedded::{self, Embedded};
use crore_store::registry::QueueSettings;
use crore_store::{Memory, Store, SystemClock};

use crate::block::block_on;
use crate::dispatch::Dispatch;
use crate::error::Error;
use crate::events::{Events, Listener};
use crate::handlers::HandlerCache;
use crate::hold::Holds;
use crate::idempotency::Idempotency;
use crate::limits::LimitCache;
use crate::results::EndWaiters;
use crate::running::Running;
use crate::timers::Timers;
use crate::upkeep::Duties;
use crate::watch::Watch;
use crate::writes::Writes;

/// How an engine is set up.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// What callers may not pass.
    pub caps: Caps,
    /// How the embedded store is set up, for an engine that opens one.
    pub store: embedded::Options,
    /// What holds for a queue without settings of its own, in a store that the engine opens; whoever
    /// brings a store opens it with the same.
    pub queues: QueueSettings,
    /// Where the engine's randomness begins (the jitter of retries); `None`: anywhere.
    pub seed: Option<u64>,
}

/// A living queue on a store. Cloning gives another handle to the same engine; when the last one is
/// dropped the engine [stops](Engine::stop).
///
/// Every call may be made from any thread and any async runtime: the engine needs none, and has one
/// thread of its own that sleeps unless something is due.
///
/// The methods here are the everyday ones. All others belong to a resource, and are called on its
/// [handle](crate::resources): `engine.queues().pause(name)`, `engine.jobs().counts(None)`.
///
/// ```
/// use crore::Engine;
///
/// # fn main() -> Result<(), crore::Error> {
/// let engine = Engine::memory();
/// let another = engine.clone();
/// engine.push("mail", "hello").wait()?;
/// let ran = another.pop_blocking("mail", |work| match work.payload() {
///     b"hello" => Ok(()),
///     _ => Err("who is this?"),
/// });
/// assert_eq!(ran?, Some(Ok(())));
/// engine.stop()
/// # }
/// ```
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
    life: Arc<Life>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("store", &self.inner.store).finish_non_exhaustive()
    }
}

/// What the parts of an engine share.
pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) writes: Arc<Writes>,
    pub(crate) caps: Caps,
    /// What holds for a queue without settings of its own.
    pub(crate) queues: QueueSettings,
    pub(crate) dispatch: Dispatch,
    pub(crate) timers: Timers,
    pub(crate) duties: Duties,
    pub(crate) events: Arc<Events>,
    pub(crate) running: Running,
    pub(crate) holds: Holds,
    pub(crate) end_waiters: EndWaiters,
    pub(crate) limits: LimitCache,
    pub(crate) handlers: HandlerCache,
    pub(crate) idempotency: Idempotency,
    pub(crate) watch: OnceLock<Arc<dyn Watch>>,
    dice: AtomicU64,
    pub(crate) is_quiet: AtomicBool,
    is_stopping: AtomicBool,
}

/// The engine's thread, and the store that it opened itself.
#[derive(Debug, Default)]
struct Life {
    stop: Mutex<Option<Stop>>,
}

#[derive(Debug)]
struct Stop {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
    embedded: Option<Arc<Embedded>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens the queue in a directory, which is made if it is not there. One process at a time.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(dir, Options::default())
    }

    /// Opens the queue in a directory, set up otherwise.
    pub fn open_with(dir: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let clock = Arc::new(SystemClock);
        let how = embedded::Options { queues: options.queues, ..options.store };
        let store = Embedded::open(dir.as_ref(), clock.clone(), how)?;
        let store = Arc::new(store);
        let mut engine = block_on(Self::without_thread(store.clone(), clock, options))?;
        engine.own(store);
        engine.start()?;
        Ok(engine)
    }

    /// A queue in memory, gone when the engine is.
    pub fn memory() -> Self {
        let clock = Arc::new(SystemClock);
        let store = Arc::new(Memory::new(clock.clone()));
        let engine = block_on(Self::without_thread(store, clock, Options::default()));
        let started = engine.and_then(|mut engine| engine.start().map(|()| engine));
        started.expect("memory can always be had")
    }

    /// An engine on any store, with its thread.
    pub fn on(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Self, Error> {
        let mut engine = block_on(Self::without_thread(store, clock, options))?;
        engine.start()?;
        Ok(engine)
    }

    /// An engine on any store, without a thread: its caller runs [the upkeep](Self::upkeep) when it is due.
    /// For tests that hold the clock, and for stores that answer only inside the caller's async runtime.
    pub async fn without_thread(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Self, Error> {
        let Options { caps, seed, queues, .. } = options;
        let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(clock.now().as_millis()));
        let writes = Arc::new(Writes::new(Arc::clone(&store)));
        let inner = Arc::new(Inner {
            store,
            writes,
            caps,
            queues,
            dispatch: Dispatch::default(),
            timers: Timers::new(clock),
            duties: Duties::default(),
            events: Arc::default(),
            running: Running::default(),
            holds: Holds::default(),
            end_waiters: EndWaiters::default(),
            limits: LimitCache::default(),
            handlers: HandlerCache::default(),
            idempotency: Idempotency::default(),
            watch: OnceLock::new(),
            dice: AtomicU64::new(seed),
            is_quiet: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
        });
        let hook = Arc::downgrade(&inner);
        inner.store.wakes(Arc::new(move |queues| {
            if let Some(inner) = hook.upgrade() {
                inner.dispatch.wake(queues);
            }
        }));
        inner.wake_up().await?;
        let stop = Stop { inner: Arc::clone(&inner), thread: None, embedded: None };
        Ok(Self { inner, life: Arc::new(Life { stop: Mutex::new(Some(stop)) }) })
    }

    /// The store that it opened itself, until it is stopped.
    pub(crate) fn embedded(&self) -> Option<Arc<Embedded>> {
        self.life.lock().as_ref().and_then(|stop| stop.embedded.clone())
    }

    fn own(&mut self, store: Arc<Embedded>) {
        if let Some(stop) = self.life.lock().as_mut() {
            stop.embedded = Some(store);
        }
    }

    fn start(&mut self) -> Result<(), Error> {
        let inner = Arc::clone(&self.inner);
        let thread = thread::Builder::new()
            .name("crore-upkeep".to_owned())
            .spawn(move || inner.upkeep_until_stopped())
            .map_err(|error| crore_store::Error::Unavailable(Box::new(error)))?;
        if let Some(stop) = self.life.lock().as_mut() {
            stop.thread = Some(thread);
        }
        Ok(())
    }

    /// Stops the engine: whoever waits for jobs is told that there are none, and what was accepted is
    /// durable. The directory is free when the last handle is dropped. To stop it twice does nothing.
    ///
    /// It does not wait for work that is going on: stop the [workers](crate::Worker::stopper) first if
    /// their last jobs are to be reported. A report that is with the store already is answered as ever;
    /// one that comes later is answered by [`Error::Stopping`], and its job is handed out again when its
    /// lease has ended. None is lost.
    pub fn stop(&self) -> Result<(), Error> {
        match self.life.lock().take() {
            Some(stop) => stop.now(),
            None => Ok(()),
        }
    }

    /// Hears what happens to jobs, from now on. Each event is told when it is durable.
    ///
    /// ```
    /// use crore::Engine;
    /// use crore::events::{Happened, Heard};
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// let mut listener = engine.listen();
    /// let id = engine.push("mail", "hello").wait()?;
    /// match listener.try_next() {
    ///     Some(Heard::Event(event)) => {
    ///         assert_eq!((event.id, event.what), (id, Happened::Pushed));
    ///     }
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn listen(&self) -> Listener {
        self.inner.events.listen()
    }
}

impl Life {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Stop>> {
        self.stop.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if let Some(stop) = self.lock().take() {
            // There is nobody left to tell.
            let _ = stop.now();
        }
    }
}

impl Stop {
    fn now(self) -> Result<(), Error> {
        self.inner.is_stopping.store(true, Ordering::Release);
        self.inner.dispatch.wake_all();
        self.inner.end_waiters.close();
        self.inner.events.close();
        self.inner.timers.stop();
        // Whoever was woken by the engine's thread may let the last handle go, and is that thread.
        if let Some(thread) = self.thread
            && thread.thread().id() != thread::current().id()
        {
            // A thread that panicked has nothing more to do.
            let _ = thread.join();
        }
        match self.embedded {
            Some(store) => {
                // Counts are for people: one that cannot be written any more is no reason not to stop.
                let _ = block_on(self.inner.write_stats());
                Ok(store.close()?)
            }
            None => Ok(()),
        }
    }
}

impl Inner {
    pub(crate) fn now(&self) -> Time {
        self.timers.now()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// What is said of an error: a store that cannot be reached any more because the engine closed it
    /// is no fault of the store.
    pub(crate) fn blame(&self, error: Error) -> Error {
        match error {
            Error::Store(crore_store::Error::Unavailable(_)) if self.is_stopping() => {
                Error::Stopping
            }
            other => other,
        }
    }

    /// 64 bits, by SplitMix64: good enough to keep retries apart.
    pub(crate) fn dice(&self) -> u64 {
        let step = 0x9e37_79b9_7f4a_7c15;
        let mut bits = self.dice.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}
