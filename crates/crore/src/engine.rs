//! The engine: opening, stopping, and the state that its parts share.

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
use crate::connected_versions::ConnectedVersions;
use crate::error::Error;
use crate::events::{EventBus, EventListener};
use crate::handlers::HandlerCache;
use crate::idempotency::Idempotency;
use crate::limits::LimitCache;
use crate::observer::EngineObserver;
use crate::renewed_leases::AutoRenewedLeases;
use crate::requirements::QueueRequirements;
use crate::results::EndWaiters;
use crate::running::RunningJobs;
use crate::timers::Timers;
use crate::upkeep::Duties;
use crate::wait_list::FetchWaitList;
use crate::writes::Writes;

/// Options of an engine.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// Maximum sizes and counts that callers may use.
    pub caps: Caps,
    /// Options of the embedded store, for an engine that opens one.
    pub store: embedded::Options,
    /// Settings of queues that have none of their own. [`Engine::open_with`] passes them to the store that it
    /// opens; a store passed to [`Engine::on`] must have been opened with the same.
    pub queues: QueueSettings,
    /// Seed of the engine's random numbers (the jitter of retries); `None`: random.
    pub seed: Option<u64>,
}

/// A job queue on a store. Clones are handles to the same engine; dropping the last one [stops](Engine::stop) it.
///
/// Every method may be called from any thread and any async runtime. The engine needs no runtime; one thread of its
/// own does the upkeep, and sleeps until something is due.
///
/// The methods of this type are the everyday ones. All others are grouped by resource, on a
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
///     _ => Err("unexpected payload"),
/// });
/// assert_eq!(ran?, Some(Ok(())));
/// engine.stop()
/// # }
/// ```
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<EngineInner>,
    stop_on_drop: Arc<StopOnDrop>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("store", &self.inner.store).finish_non_exhaustive()
    }
}

/// State that the parts of an engine share.
pub(crate) struct EngineInner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) writes: Arc<Writes>,
    pub(crate) caps: Caps,
    /// Settings of queues that have none of their own.
    pub(crate) queues: QueueSettings,
    pub(crate) wait_list: FetchWaitList,
    pub(crate) connected_versions: Arc<ConnectedVersions>,
    pub(crate) timers: Timers,
    pub(crate) duties: Duties,
    pub(crate) events: Arc<EventBus>,
    pub(crate) running: RunningJobs,
    pub(crate) renewed_leases: AutoRenewedLeases,
    pub(crate) end_waiters: EndWaiters,
    pub(crate) limits: LimitCache,
    pub(crate) requirements: QueueRequirements,
    pub(crate) handlers: HandlerCache,
    pub(crate) idempotency: Idempotency,
    pub(crate) observer: OnceLock<Arc<dyn EngineObserver>>,
    random_state: AtomicU64,
    pub(crate) is_quiesced: AtomicBool,
    is_stopping: AtomicBool,
}

/// Stops the engine when its last handle is dropped. `None` once it has been stopped.
#[derive(Debug, Default)]
struct StopOnDrop {
    shutdown: Mutex<Option<EngineShutdown>>,
}

#[derive(Debug)]
struct EngineShutdown {
    inner: Arc<EngineInner>,
    thread: Option<JoinHandle<()>>,
    embedded: Option<Arc<Embedded>>,
}

impl fmt::Debug for EngineInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineInner").finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens the store in a directory with default options, and creates the directory if necessary. Only one
    /// process at a time can have a store open.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(dir, Options::default())
    }

    /// Opens the store in a directory with these options.
    pub fn open_with(dir: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let clock = Arc::new(SystemClock);
        let store_options =
            embedded::Options { queues: options.queues.clone(), ..options.store.clone() };
        let store = Embedded::open(dir.as_ref(), clock.clone(), store_options)?;
        let store = Arc::new(store);
        let mut engine = block_on(Self::without_thread(store.clone(), clock, options))?;
        engine.attach_store(store);
        engine.start()?;
        Ok(engine)
    }

    /// Creates an engine on a store in memory. Its jobs are lost when the engine is dropped.
    pub fn memory() -> Self {
        let clock = Arc::new(SystemClock);
        let store = Arc::new(Memory::new(clock.clone()));
        let engine = block_on(Self::without_thread(store, clock, Options::default()));
        let started = engine.and_then(|mut engine| engine.start().map(|()| engine));
        started.expect("a memory store cannot fail, and a thread can be started")
    }

    /// Creates an engine on any store, and starts its upkeep thread.
    pub fn on(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Self, Error> {
        let mut engine = block_on(Self::without_thread(store, clock, options))?;
        engine.start()?;
        Ok(engine)
    }

    /// Creates an engine on any store, without a thread: the caller runs [upkeep](Self::upkeep) whenever it is due.
    /// For tests with a simulated clock, and for stores that answer only inside the caller's async runtime.
    pub async fn without_thread(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Self, Error> {
        let Options { caps, seed, queues, .. } = options;
        let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(clock.now().as_millis()));
        let writes = Arc::new(Writes::new(Arc::clone(&store)));
        let inner = Arc::new(EngineInner {
            store,
            writes,
            caps,
            queues,
            wait_list: FetchWaitList::default(),
            connected_versions: Arc::default(),
            timers: Timers::new(clock),
            duties: Duties::default(),
            events: Arc::default(),
            running: RunningJobs::default(),
            renewed_leases: AutoRenewedLeases::default(),
            end_waiters: EndWaiters::default(),
            limits: LimitCache::default(),
            requirements: QueueRequirements::default(),
            handlers: HandlerCache::default(),
            idempotency: Idempotency::default(),
            observer: OnceLock::new(),
            random_state: AtomicU64::new(seed),
            is_quiesced: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
        });
        let hook = Arc::downgrade(&inner);
        inner.store.add_wake_hook(Arc::new(move |queues| {
            if let Some(inner) = hook.upgrade() {
                inner.wait_list.wake(queues);
            }
        }));
        inner.recover().await?;
        let stop = EngineShutdown { inner: Arc::clone(&inner), thread: None, embedded: None };
        Ok(Self { inner, stop_on_drop: Arc::new(StopOnDrop { shutdown: Mutex::new(Some(stop)) }) })
    }

    /// The embedded store that this engine opened, until the engine is stopped.
    pub(crate) fn embedded(&self) -> Option<Arc<Embedded>> {
        self.stop_on_drop.lock().as_ref().and_then(|stop| stop.embedded.clone())
    }

    fn attach_store(&mut self, store: Arc<Embedded>) {
        if let Some(stop) = self.stop_on_drop.lock().as_mut() {
            stop.embedded = Some(store);
        }
    }

    fn start(&mut self) -> Result<(), Error> {
        let inner = Arc::clone(&self.inner);
        let thread = thread::Builder::new()
            .name("crore-upkeep".to_owned())
            .spawn(move || inner.upkeep_until_stopped())
            .map_err(|error| crore_store::Error::Unavailable(Box::new(error)))?;
        if let Some(stop) = self.stop_on_drop.lock().as_mut() {
            stop.thread = Some(thread);
        }
        Ok(())
    }

    /// Stops the engine. Waiting fetches return no jobs, and everything that was acknowledged is durable. A second
    /// call does nothing. Another engine can open the directory once the last handle is dropped.
    ///
    /// Running jobs are not waited for: to have them reported, stop the [workers](crate::Worker::stopper) first. A
    /// report that the store is already processing is completed. A later report fails with [`Error::Stopping`]; its
    /// job is not lost, but handed out again when its lease ends.
    pub fn stop(&self) -> Result<(), Error> {
        match self.stop_on_drop.lock().take() {
            Some(stop) => stop.run(),
            None => Ok(()),
        }
    }

    /// Subscribes to the events of all jobs, from now on. An event is published after it is durable.
    ///
    /// ```
    /// use crore::Engine;
    /// use crore::events::{EventType, ListenerItem};
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// let mut listener = engine.listen();
    /// let id = engine.push("mail", "hello").wait()?;
    /// match listener.try_next() {
    ///     Some(ListenerItem::Event(event)) => {
    ///         assert_eq!((event.id, event.what), (id, EventType::Pushed));
    ///     }
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn listen(&self) -> EventListener {
        self.inner.events.listen()
    }
}

impl StopOnDrop {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<EngineShutdown>> {
        self.shutdown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(stop) = self.lock().take() {
            // Drop cannot return the error.
            let _ = stop.run();
        }
    }
}

impl EngineShutdown {
    fn run(self) -> Result<(), Error> {
        self.inner.is_stopping.store(true, Ordering::Release);
        self.inner.wait_list.wake_all();
        self.inner.end_waiters.close();
        self.inner.events.close();
        self.inner.timers.stop();
        // The last handle may be dropped on the upkeep thread itself, by a task that this thread woke.
        if let Some(thread) = self.thread
            && thread.thread().id() != thread::current().id()
        {
            // A panic of the thread has been reported by the panic hook.
            let _ = thread.join();
        }
        match self.embedded {
            Some(store) => {
                // Statistics are best effort: a failed write does not prevent the stop.
                let _ = block_on(self.inner.write_stats());
                Ok(store.close()?)
            }
            None => Ok(()),
        }
    }
}

impl EngineInner {
    pub(crate) fn now(&self) -> Time {
        self.timers.now()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Maps the error of a store that is unavailable because the engine closed it to [`Error::Stopping`].
    pub(crate) fn map_stopping(&self, error: Error) -> Error {
        match error {
            Error::Store(crore_store::Error::Unavailable(_)) if self.is_stopping() => {
                Error::Stopping
            }
            other => other,
        }
    }

    /// 64 random bits from SplitMix64, for the jitter of retries. Not for secrets.
    pub(crate) fn random_bits(&self) -> u64 {
        let step = 0x9e37_79b9_7f4a_7c15;
        let mut bits = self.random_state.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}
