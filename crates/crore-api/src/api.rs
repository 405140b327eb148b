//! The API handle shared by all doors: engine, options, access control, audit log and metrics.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};

use crore::Engine;
use crore::observer::ObservedChange;
use crore_core::settings::section;
use crore_core::{Handler, Invalid, Job, Name, Payload, Size, Span, Time};
use crore_wire::api::workers::WorkerStream;
use crore_wire::units::Period;
use tokio::sync::{Semaphore, watch};

use crate::access::{self, Access};
use crate::audit::Audit;
use crate::budget::{ByteBudget, ByteLimits};
use crate::calls::{DiskHistory, NameCache};
use crate::errors::ErrorTable;
use crate::marks::MarkTable;
use crate::mask::FieldMask;
use crate::metrics::Metrics;
use crate::observer::Observer;
use crate::operations::OperationTable;
use crate::recent_counts::RecentCounts;
use crate::revocation::Revocations;
use crate::worker_versions::WorkerVersionLog;

section! {
    /// Limits of API calls, over every protocol.
    pub struct Options: Eq = "http" {
        //! They apply to all doors.

        /// Maximum size of a request body. A batch of 8 MiB in Base64 fits into 12 MiB.
        max_body: Size = "12MiB",
        /// Read timeout of a request body.
        body_time: Span = "30s",
        /// The budget for bytes in flight.
        ..in_flight: ByteLimits,
        /// Maximum time that one call may wait for a job or a result (long polling); longer waits are shortened to it.
        max_wait: Span = "1m",
        /// Maximum number of concurrent event streams.
        max_listeners: usize = "1000",
        /// Authentication.
        access: access::Options => access::Options::default(),
        /// Directory for backups; without one, backups are refused.
        backups: Option<PathBuf> => None,
        /// Directory of the store, for the free space of its file system; `None`: the store is in memory.
        data: Option<PathBuf> => None,
    }
}

/// The workers that are connected to this server by a stream.
pub trait ConnectedWorkers: fmt::Debug + Send + Sync {
    /// The workers that are connected now.
    fn list(&self) -> Vec<ConnectedWorker>;

    /// A job has changed. Called in the path of every change: it must not block.
    fn changed(&self, change: &ObservedChange<'_>);

    /// Applies a request of an operator to the worker with this incarnation.
    fn request(&self, incarnation: &str, request: WorkerRequest);

    /// The version of the program of a connected worker, by its name.
    fn version_of(&self, worker: &Name) -> Option<String>;
}

/// A request of an operator to a connected worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerRequest {
    /// The server sends it no more jobs.
    Quiet,
    /// The server sends it jobs again.
    Resume,
    /// It finishes its jobs and exits.
    Stop,
}

/// A worker that is connected by a stream.
#[derive(Debug)]
pub struct ConnectedWorker {
    /// Its name.
    pub name: String,
    /// Its stream.
    pub stream: WorkerStream,
    /// After a disconnect, the end of its grace period.
    pub until: Option<Time>,
    /// Whether it runs in the process of the server.
    pub is_local: bool,
}

/// The parts of an [`Api`].
#[derive(Debug)]
pub struct ApiSetup {
    /// The engine.
    pub engine: Engine,
    /// Settings.
    pub options: Options,
    /// The audit log.
    pub audit: Audit,
    /// The workers that are connected by a stream.
    pub workers: Arc<dyn ConnectedWorkers>,
    /// The names of the doors, as `/v1/info` lists them.
    pub doors: &'static [&'static str],
}

/// The API of one engine. Clones share it.
#[derive(Debug, Clone)]
pub struct Api(Arc<ApiState>);

/// A handle that does not keep the API alive.
#[derive(Debug)]
pub(crate) struct WeakApi(Weak<ApiState>);

impl WeakApi {
    pub(crate) fn upgrade(&self) -> Option<Api> {
        self.0.upgrade().map(Api)
    }
}

#[derive(Debug)]
struct ApiState {
    engine: Engine,
    options: Options,
    doors: &'static [&'static str],
    is_closing: watch::Sender<bool>,
    listeners: Arc<Semaphore>,
    access: Access,
    revocations: Revocations,
    budget: Arc<ByteBudget>,
    audit: Audit,
    workers: Arc<dyn ConnectedWorkers>,
    observer: Arc<Observer>,
    handler_check: OnceLock<HandlerCheck>,
    operations: OperationTable,
    names: NameCache,
    disk: DiskHistory,
    mask: FieldMask,
    worker_versions: WorkerVersionLog,
    marks: MarkTable,
    counts: RecentCounts,
}

/// Checks a handler against the runners that the server has.
struct HandlerCheck(Box<HandlerCheckFn>);

type HandlerCheckFn = dyn Fn(&Handler) -> Result<(), Invalid> + Send + Sync;

impl fmt::Debug for HandlerCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandlerCheck")
    }
}

impl Api {
    /// Creates the API of an engine, and registers its observer there unless the engine already has one.
    pub fn new(setup: ApiSetup) -> Self {
        let ApiSetup { engine, options, audit, workers, doors } = setup;
        let now = engine.status().now();
        let mask = FieldMask::new(&options.access.mask);
        let observer = Arc::new(Observer::new(Arc::clone(&workers), now));
        // An engine has one observer: jobs of a second API on the same engine are counted by the first.
        let _ = engine.telemetry().set_observer(observer.clone());
        Self(Arc::new(ApiState {
            access: Access::new(engine.clone(), options.access.clone()),
            revocations: Revocations::default(),
            budget: Arc::new(ByteBudget::new(options.in_flight.clone())),
            listeners: Arc::new(Semaphore::new(options.max_listeners.min(Semaphore::MAX_PERMITS))),
            engine,
            options,
            doors,
            is_closing: watch::Sender::new(false),
            audit,
            workers,
            observer,
            handler_check: OnceLock::new(),
            operations: OperationTable::default(),
            names: NameCache::default(),
            disk: DiskHistory::new(now),
            mask,
            worker_versions: WorkerVersionLog::default(),
            marks: MarkTable::new(now),
            counts: RecentCounts::default(),
        }))
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.0.engine.status().now()
    }

    /// The settings.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// The names of the doors.
    pub(crate) fn doors(&self) -> &'static [&'static str] {
        self.0.doors
    }

    /// Authentication.
    pub fn access(&self) -> &Access {
        &self.0.access
    }

    /// The audit log.
    pub fn audit(&self) -> &Audit {
        &self.0.audit
    }

    /// Bulk actions that run in the background.
    pub(crate) fn operations(&self) -> &OperationTable {
        &self.0.operations
    }

    /// Errors of failed deliveries.
    pub(crate) fn errors(&self) -> &ErrorTable {
        self.0.observer.errors()
    }

    /// Names in stored jobs, for completion.
    pub(crate) fn names(&self) -> &NameCache {
        &self.0.names
    }

    /// Sizes of the store over time.
    pub(crate) fn disk(&self) -> &DiskHistory {
        &self.0.disk
    }

    /// The payload fields that readers must not see.
    pub(crate) fn mask(&self) -> &FieldMask {
        &self.0.mask
    }

    /// A payload as readers may see it: with masked fields.
    pub fn masked(&self, payload: &Payload) -> Payload {
        self.0.mask.masked(payload)
    }

    /// Versions of connected workers over time.
    pub(crate) fn worker_versions(&self) -> &WorkerVersionLog {
        &self.0.worker_versions
    }

    /// Records that a worker has connected by a stream.
    pub fn worker_connected(&self, name: &Name, stream: &WorkerStream) {
        self.worker_versions().record(name.as_str(), stream);
        self.marks().connected(stream.since.0, stream);
    }

    /// Restarts, deploys and changes.
    pub(crate) fn marks(&self) -> &MarkTable {
        &self.0.marks
    }

    /// The newest counts of jobs.
    pub(crate) fn count_snapshot(&self) -> &RecentCounts {
        &self.0.counts
    }

    /// Metrics.
    pub fn metrics(&self) -> &Metrics {
        self.0.observer.metrics()
    }

    /// The engine's observer.
    pub fn observer(&self) -> &Arc<Observer> {
        &self.0.observer
    }

    /// The trace context that is delivered with a job: that of its run if tracing is on, otherwise that of its push.
    pub fn trace_of(&self, job: &Job) -> Option<String> {
        crore::observer::EngineObserver::trace_of(&*self.0.observer, job)
    }

    /// Sets the check that handlers have to pass: the runner exists, is allowed, and accepts the settings. Only the
    /// first call has an effect.
    pub fn check_handlers(
        &self,
        check: impl Fn(&Handler) -> Result<(), Invalid> + Send + Sync + 'static,
    ) {
        let _ = self.0.handler_check.set(HandlerCheck(Box::new(check)));
    }

    /// Checks a handler.
    pub fn check_handler(&self, handler: &Handler) -> Result<(), Invalid> {
        self.0.handler_check.get().map_or(Ok(()), |HandlerCheck(check)| check(handler))
    }

    /// Stops delivering jobs, and ends every wait for a job, a result or an event with what is available. Other calls
    /// continue. A draining server calls this before it stops its listeners: a waiting request would delay the stop.
    pub fn close(&self) {
        self.0.engine.lifecycle().quiesce();
        self.0.is_closing.send_replace(true);
    }

    /// Whether [`Api::close`] was called.
    pub fn is_closing(&self) -> bool {
        *self.0.is_closing.borrow()
    }

    /// Waits for [`Api::close`].
    pub async fn closing(&self) {
        let mut is_closing = self.0.is_closing.subscribe();
        // The sender lives as long as `self`.
        let _ = is_closing.wait_for(|is_closing| *is_closing).await;
    }

    /// The requested wait, at most `max_wait`; none by default.
    pub fn bounded_wait(&self, wait: Option<Period>) -> Span {
        wait.map_or(Span::ZERO, |wait| wait.0.min(self.0.options.max_wait))
    }

    /// The budget for bytes in flight.
    pub(crate) fn budget(&self) -> &Arc<ByteBudget> {
        &self.0.budget
    }

    /// The tokens of running calls.
    pub(crate) fn revocations(&self) -> &Revocations {
        &self.0.revocations
    }

    /// A handle that does not keep the API alive.
    pub(crate) fn downgrade(&self) -> WeakApi {
        WeakApi(Arc::downgrade(&self.0))
    }

    /// Permits for listeners to live events.
    pub(crate) fn listeners(&self) -> &Arc<Semaphore> {
        &self.0.listeners
    }

    pub(crate) fn connected_workers(&self) -> &dyn ConnectedWorkers {
        &*self.0.workers
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[derive(Debug)]
    struct NoWorkers;

    impl ConnectedWorkers for NoWorkers {
        fn list(&self) -> Vec<ConnectedWorker> {
            Vec::new()
        }

        fn changed(&self, _: &ObservedChange<'_>) {}

        fn request(&self, _: &str, _: WorkerRequest) {}

        fn version_of(&self, _: &Name) -> Option<String> {
            None
        }
    }

    pub(crate) fn api(engine: Engine) -> Api {
        let (options, audit, workers) = (Options::default(), Audit::none(), Arc::new(NoWorkers));
        Api::new(ApiSetup { engine, options, audit, workers, doors: &["test"] })
    }

    #[tokio::test]
    async fn waits_are_bounded() {
        let api = api(Engine::memory());
        assert_eq!(api.bounded_wait(None), Span::ZERO);
        assert_eq!(api.bounded_wait(Some(Period(Span::from_secs(5)))), Span::from_secs(5));
        assert_eq!(api.bounded_wait(Some(Period(Span::MAX))), Span::from_secs(60));
        assert!(!api.is_closing());
        api.close();
        api.closing().await;
    }
}
