//! What every door shares.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crore::Engine;
use crore::watch::Watch as _;
use crore_core::{Handler, Invalid, Job, Span};
use crore_outbound::{self as outbound, Outbound};
use crore_wire::words::{Period, Size};
use crore_wire::worker::Session;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, watch};

use crate::access::{self, Access};
use crate::around::around;
use crate::audit::Audit;
use crate::grpc;
use crate::jobber;
use crate::jobworkerp;
use crate::lightjq::{self, push};
use crate::listen::Served;
use crate::local::LocalSession;
use crate::metrics::{self, Metrics};
use crate::sight::Sight;
use crate::telemetry;
use crate::worker_session::Registry;

/// How the doors are set up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Options {
    /// The largest body of a request. A batch of 8 MiB in Base64 fits into the default of 12 MiB.
    pub max_body: Size,
    /// How long the body of a request may take to arrive.
    pub body_time: Period,
    /// How long a caller may wait for a job or a result in one call; whoever asks for more gets this.
    pub max_wait: Period,
    /// How many may listen to live events at once.
    pub max_listeners: usize,
    /// gRPC.
    pub grpc: grpc::Options,
    /// LightJQ, and push workers.
    pub lightjq: lightjq::Options,
    /// Jobber.
    pub jobber: jobber::Options,
    /// jobworkerp.
    pub jobworkerp: jobworkerp::Options,
    /// What may be called.
    pub outbound: outbound::Options,
    /// How callers are known.
    pub access: access::Options,
    /// The directory in which backups are made; none are, unless one is named.
    pub backups: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_body: Size(12 << 20),
            body_time: Period(Span::from_secs(30)),
            max_wait: Period(Span::from_secs(60)),
            max_listeners: 1000,
            grpc: grpc::Options::default(),
            lightjq: lightjq::Options::default(),
            jobber: jobber::Options::default(),
            jobworkerp: jobworkerp::Options::default(),
            outbound: outbound::Options::default(),
            access: access::Options::default(),
            backups: None,
        }
    }
}

/// What every door shares. Cloning gives another handle to the same.
#[derive(Debug, Clone)]
pub struct Doors(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    engine: Engine,
    options: Options,
    is_closing: watch::Sender<bool>,
    listeners: Arc<Semaphore>,
    access: Access,
    audit: Audit,
    keys: crate::http::Keys,
    push_workers: push::Handle,
    sessions: Registry,
    sight: Arc<Sight>,
    handlers: OnceLock<Checks>,
}

/// Whoever knows the runners says whether a handler can be had.
struct Checks(Box<Check>);

type Check = dyn Fn(&Handler) -> Result<(), Invalid> + Send + Sync;

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Checks")
    }
}

impl Doors {
    /// The doors that are served on the one port.
    pub const NAMES: &[&str] = &["grpc", "http", "jobber", "jobworkerp", "lakh", "lightjq"];

    /// Doors to an engine, without an audit log.
    pub fn new(engine: Engine, options: Options) -> Self {
        Self::audited(engine, options, Audit::none())
    }

    /// Doors to an engine; what is changed through them is written into the audit log.
    pub fn audited(engine: Engine, options: Options, audit: Audit) -> Self {
        let listeners = Arc::new(Semaphore::new(options.max_listeners.min(Semaphore::MAX_PERMITS)));
        let is_closing = watch::Sender::new(false);
        let outbound = Outbound::new(options.outbound.clone());
        let workers = options.lightjq.workers.clone();
        let sessions = Registry::default();
        let sight = Arc::new(Sight::new(sessions.clone()));
        let push_workers = push::Handle::seen(engine.clone(), outbound, workers, sight.clone());
        let access = Access::new(engine.clone(), options.access.clone());
        // Whoever opens a second set of doors to one engine reads in the first what happens to its jobs.
        let _ = engine.watch(sight.clone());
        let keys = Default::default();
        Self(Arc::new(Shared {
            engine,
            options,
            is_closing,
            listeners,
            access,
            audit,
            keys,
            push_workers,
            sessions,
            sight,
            handlers: OnceLock::new(),
        }))
    }

    /// All that is served on the one port.
    pub fn router(&self) -> axum::Router {
        let ancestors = lightjq::router(self).merge(jobber::router(self));
        let ours = crate::http::router(self).merge(grpc::router(self));
        let router = crate::http::with_fallbacks(ours.merge(ancestors));
        router.layer(around(self.metrics().clone(), metrics::measure))
    }

    /// The loop that gives jobs to push workers: to be run until the doors are [closing](Doors::closing).
    pub fn push_workers(&self) -> push::Service {
        push::Service::new(&self.0.push_workers)
    }

    /// Connected workers.
    pub(crate) fn sessions(&self) -> &Registry {
        &self.0.sessions
    }

    /// Where push workers register.
    pub(crate) fn workers(&self) -> &push::Handle {
        &self.0.push_workers
    }

    /// All that is served on the one port, for [`listen::serve`](crate::listen::serve), with its connections counted.
    pub fn served(&self) -> Served {
        let origins = self.options().grpc.allow_origins.clone();
        Served::counted(self.router(), self.metrics().clone(), origins)
    }

    /// The session of a worker in this process, such as the host of its runners. No other process can reach it, so there
    /// is no token to show. It is polled for as long as it lives: jobs may wait for it otherwise.
    pub fn work(&self) -> impl Session + use<> {
        LocalSession::new(self.clone())
    }

    /// From now on spans are made of what happens to jobs, for whoever sends them on; `None`: they are made already.
    pub fn trace(&self, options: telemetry::Options) -> Option<telemetry::Spans> {
        self.0.sight.trace(options)
    }

    /// The trace context that goes out with a job to its worker: that of its run where spans are made, and that of
    /// its push otherwise.
    pub fn trace_of(&self, job: &Job) -> Option<String> {
        self.0.sight.trace_of(job)
    }

    /// From now on handlers are checked by whoever knows the runners: that there is such a one, that it is
    /// allowed, and that it understands its settings. Only the first who asks for it is heard.
    pub fn check_handlers(
        &self,
        check: impl Fn(&Handler) -> Result<(), Invalid> + Send + Sync + 'static,
    ) {
        let _ = self.0.handlers.set(Checks(Box::new(check)));
    }

    /// Whether a handler can be had.
    pub(crate) fn check_handler(&self, handler: &Handler) -> Result<(), Invalid> {
        self.0.handlers.get().map_or(Ok(()), |Checks(check)| check(handler))
    }

    /// Everything that is counted.
    pub(crate) fn metrics(&self) -> &Metrics {
        self.0.sight.metrics()
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// How the doors are set up.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// From now on nothing is handed out, and whoever waits (for a job, a result or an event) is answered
    /// with what there is. Everything else goes on. Called when a server begins to drain, before
    /// [`listen::serve`](crate::listen::serve) is told to shut down: otherwise those who wait hold it up.
    pub fn close(&self) {
        self.0.engine.quiet();
        self.0.is_closing.send_replace(true);
    }

    /// Whether the doors are being closed.
    pub fn is_closing(&self) -> bool {
        *self.0.is_closing.borrow()
    }

    /// Comes when the doors are being closed.
    pub async fn closing(&self) {
        let mut is_closing = self.0.is_closing.subscribe();
        // The sender lives as long as `self`.
        let _ = is_closing.wait_for(|is_closing| *is_closing).await;
    }

    /// Who may call.
    pub(crate) fn access(&self) -> &Access {
        &self.0.access
    }

    /// Where changes are written down.
    pub fn audit(&self) -> &Audit {
        &self.0.audit
    }

    /// Room for one who listens to live events.
    pub(crate) fn listeners(&self) -> &Arc<Semaphore> {
        &self.0.listeners
    }

    /// What idempotency keys were used for.
    pub(crate) fn keys(&self) -> &crate::http::Keys {
        &self.0.keys
    }

    /// A wait that somebody asks for, as far as it is granted.
    pub fn at_most(&self, wait: Option<Period>) -> Span {
        wait.map_or(Span::ZERO, |wait| wait.0.min(self.0.options.max_wait.0))
    }
}

/// The door that a route belongs to. What is no route belongs to none.
pub(crate) fn door_of(route: &str) -> &'static str {
    const OURS: [&str; 5] = ["/metrics", "/livez", "/readyz", "/openapi.json", "/docs"];
    match route {
        "/job" | "/worker" | "/done" => "lightjq",
        _ if route.starts_with("/job/") => "lightjq",
        "/jobs" | "/jobber/queue" => "jobber",
        _ if route.starts_with("/lakh.") => "lakh",
        _ if route.starts_with("/jobworkerp.") => "jobworkerp",
        _ if is_grpc(route) => "grpc",
        _ if route.starts_with("/v1/") || OURS.contains(&route) => "http",
        _ => "none",
    }
}

/// Whether this is where gRPC is called.
pub(crate) fn is_grpc(path: &str) -> bool {
    const SERVICES: [&str; 5] =
        ["/crore.v1.", "/grpc.health.", "/grpc.reflection.", "/jobworkerp.", "/lakh."];
    SERVICES.iter().any(|service| path.starts_with(service))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_said_in_words_and_typing_mistakes_are_found() {
        let read = serde_json::from_str::<Options>;
        let said = read(r#"{"max-body": "2MiB"}"#).expect("good options");
        assert_eq!(said, Options { max_body: Size(2 << 20), ..Options::default() });
        assert!(read(r#"{"max_body": "2MiB"}"#).is_err());
    }

    #[tokio::test]
    async fn nobody_waits_longer_than_is_granted() {
        let doors = Doors::new(Engine::memory(), Options::default());
        assert_eq!(doors.at_most(None), Span::ZERO);
        assert_eq!(doors.at_most(Some(Period(Span::from_secs(5)))), Span::from_secs(5));
        assert_eq!(doors.at_most(Some(Period(Span::MAX))), Span::from_secs(60));
        assert!(!doors.is_closing());
        doors.close();
        doors.closing().await;
    }
}
