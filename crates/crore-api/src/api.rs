//! The handle that every door holds.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crore::Engine;
use crore::watch::Changed;
use crore_core::settings::section;
use crore_core::{Handler, Invalid, Job, Size, Span, Time};
use crore_wire::api::workers::WorkerStream;
use crore_wire::words::Period;
use tokio::sync::{Semaphore, watch};

use crate::access::{self, Access};
use crate::audit::Audit;
use crate::metrics::Metrics;
use crate::observer::Observer;

section! {
    /// What a call over HTTP may cost.
    pub struct Options: Eq = "http" {
        //! These are settings of the API, for all doors.

        /// The largest body of a request. A batch of 8 MiB in Base64 fits into 12 MiB.
        max_body: Size = "12MiB",
        /// How long the body of a request may take to arrive.
        body_time: Span = "30s",
        /// How long a caller may wait for a job or a result in one call; whoever asks for more gets this.
        max_wait: Span = "1m",
        /// How many may listen to live events at once.
        max_listeners: usize = "1000",
        /// Authentication.
        access: access::Options => access::Options::default(),
        /// Directory for backups; without one, backups are refused.
        backups: Option<PathBuf> => None,
    }
}

/// The workers that are connected to this server by a stream.
pub trait ConnectedWorkers: fmt::Debug + Send + Sync {
    /// The workers that are connected now.
    fn list(&self) -> Vec<ConnectedWorker>;

    /// A job has changed. Called in the path of every change: it must not block.
    fn changed(&self, change: &Changed<'_>);
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
}

/// The parts of an [`Api`].
#[derive(Debug)]
pub struct Setup {
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

/// The API of one engine. Cloning gives another handle to the same.
#[derive(Debug, Clone)]
pub struct Api(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    engine: Engine,
    options: Options,
    doors: &'static [&'static str],
    is_closing: watch::Sender<bool>,
    listeners: Arc<Semaphore>,
    access: Access,
    audit: Audit,
    workers: Arc<dyn ConnectedWorkers>,
    observer: Arc<Observer>,
    handler_check: OnceLock<HandlerCheck>,
}

/// Checks a handler against the runners that the server has.
struct HandlerCheck(Box<Check>);

type Check = dyn Fn(&Handler) -> Result<(), Invalid> + Send + Sync;

impl fmt::Debug for HandlerCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandlerCheck")
    }
}

impl Api {
    /// An API on an engine. Its observer watches the engine, if nothing else does yet.
    pub fn new(setup: Setup) -> Self {
        let Setup { engine, options, audit, workers, doors } = setup;
        let observer = Arc::new(Observer::new(Arc::clone(&workers)));
        // An engine has one watch: a second API on the same engine counts in the first one.
        let _ = engine.telemetry().watch(observer.clone());
        Self(Arc::new(Shared {
            access: Access::new(engine.clone(), options.access.clone()),
            listeners: Arc::new(Semaphore::new(options.max_listeners.min(Semaphore::MAX_PERMITS))),
            engine,
            options,
            doors,
            is_closing: watch::Sender::new(false),
            audit,
            workers,
            observer,
            handler_check: OnceLock::new(),
        }))
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
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

    /// Metrics.
    pub fn metrics(&self) -> &Metrics {
        self.0.observer.metrics()
    }

    /// The engine's observer.
    pub fn observer(&self) -> &Arc<Observer> {
        &self.0.observer
    }

    /// The trace context that goes out with a job to its worker: the context of its run where spans are made, and the
    /// context of its push otherwise.
    pub fn trace_of(&self, job: &Job) -> Option<String> {
        crore::watch::Watch::trace_of(&*self.0.observer, job)
    }

    /// Sets the check that handlers have to pass: the runner exists, it is allowed, and it accepts its settings. Only
    /// the first check is used.
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

    /// Stops handing out jobs, and ends every wait (for a job, a result or an event) with what there is. Other calls
    /// go on. A server that drains calls this before it stops its listeners: a waiting request would hold it up.
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

    /// The wait that a caller is granted.
    pub fn granted(&self, wait: Option<Period>) -> Span {
        wait.map_or(Span::ZERO, |wait| wait.0.min(self.0.options.max_wait))
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

        fn changed(&self, _: &Changed<'_>) {}
    }

    pub(crate) fn api(engine: Engine) -> Api {
        let (options, audit, workers) = (Options::default(), Audit::none(), Arc::new(NoWorkers));
        Api::new(Setup { engine, options, audit, workers, doors: &["test"] })
    }

    #[tokio::test]
    async fn no_wait_is_longer_than_is_granted() {
        let api = api(Engine::memory());
        assert_eq!(api.granted(None), Span::ZERO);
        assert_eq!(api.granted(Some(Period(Span::from_secs(5)))), Span::from_secs(5));
        assert_eq!(api.granted(Some(Period(Span::MAX))), Span::from_secs(60));
        assert!(!api.is_closing());
        api.close();
        api.closing().await;
    }
}
