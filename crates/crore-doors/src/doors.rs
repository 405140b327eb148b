//! All doors of a server, and their settings.

use std::sync::Arc;

use axum::extract::FromRef;
use crore::Engine;
use crore_api::audit::Audit;
use crore_api::metrics::{self, Metrics};
use crore_api::middleware::from_fn;
use crore_api::{Api, ApiSetup, telemetry};
use crore_dispatch as dispatch;
use crore_outbound::{self as outbound, Authentication, AuthenticationFuture, Outbound};
use crore_wire::worker::Session;

use crate::grpc;
use crate::http;
use crate::jobber;
use crate::jobworkerp;
use crate::lightjq::{self, LightJq};
use crate::listen::ListenerService;
use crate::local::LocalSession;
use crate::worker_session::SessionRegistry;

/// Settings of all doors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// The API behind all doors.
    pub api: crore_api::Options,
    /// gRPC.
    pub grpc: grpc::Options,
    /// LightJQ and its push workers.
    pub lightjq: lightjq::Options,
    /// Jobber.
    pub jobber: jobber::Options,
    /// jobworkerp.
    pub jobworkerp: jobworkerp::Options,
    /// Addresses that crore may call.
    pub outbound: outbound::Options,
}

/// All doors to one engine. Clones share the same state.
#[derive(Debug, Clone)]
pub struct Doors(Arc<DoorsShared>);

#[derive(Debug)]
struct DoorsShared {
    api: Api,
    options: Options,
    outbound: Outbound,
    push_workers: dispatch::Handle,
    sessions: SessionRegistry,
}

impl Doors {
    /// Doors served on the single port.
    pub const NAMES: &[&str] = &["grpc", "http", "jobber", "jobworkerp", "lakh", "lightjq"];

    /// Doors without an audit log.
    pub fn new(engine: Engine, options: Options) -> Self {
        Self::audited(engine, options, Audit::none())
    }

    /// Doors that write changes to the audit log.
    pub fn audited(engine: Engine, options: Options, audit: Audit) -> Self {
        let sessions = SessionRegistry::default();
        let api = Api::new(ApiSetup {
            engine: engine.clone(),
            options: options.api.clone(),
            audit,
            workers: Arc::new(sessions.clone()),
            doors: Self::NAMES,
        });
        let outbound = Outbound::new(options.outbound.clone())
            .with_authentication(ServerAuthentication(api.clone()));
        let (protocol, workers) = (LightJq::new(api.observer().clone()), &options.lightjq.workers);
        let push_workers =
            dispatch::Handle::new(engine, outbound.clone(), protocol, workers.clone());
        Self(Arc::new(DoorsShared { api, options, outbound, push_workers, sessions }))
    }

    /// The API behind all doors.
    pub fn api(&self) -> &Api {
        &self.0.api
    }

    /// Outbound calls of this server.
    pub fn outbound(&self) -> &Outbound {
        &self.0.outbound
    }

    /// The router for everything on the single port.
    pub fn router(&self) -> axum::Router {
        self.router_with(axum::Router::new())
    }

    /// The router for everything on the single port, and for these pages.
    fn router_with(&self, pages: axum::Router) -> axum::Router {
        let other_queues = lightjq::router(self).merge(jobber::router(self));
        let describe = |document: &mut _| lightjq::describe(self, document);
        let native = http::router(self.api(), describe).merge(grpc::router(self));
        let router = http::with_fallbacks(native.merge(other_queues).merge(pages));
        router.layer(from_fn((self.metrics().clone(), door_of as _), metrics::measure))
    }

    /// The OpenAPI description, as served.
    pub fn description(&self) -> String {
        http::description(self.api(), |document| lightjq::describe(self, document))
    }

    /// The loop that dispatches jobs to push workers. Run it until the doors are [closing](Doors::closing).
    pub fn push_workers(&self) -> dispatch::DispatchService {
        dispatch::DispatchService::new(&self.0.push_workers)
    }

    /// Connected workers.
    pub(crate) fn sessions(&self) -> &SessionRegistry {
        &self.0.sessions
    }

    /// Registry of push workers.
    pub(crate) fn push_worker_handle(&self) -> &dispatch::Handle {
        &self.0.push_workers
    }

    /// Everything on the single port for [`listen::serve`](crate::listen::serve), with connection metrics.
    pub fn served(&self) -> ListenerService {
        self.served_with(axum::Router::new())
    }

    /// Like [`Self::served`], with pages for browsers.
    pub fn served_with(&self, pages: axum::Router) -> ListenerService {
        let origins = self.options().grpc.allow_origins.clone();
        ListenerService::new(self.router_with(pages), self.api().clone(), origins)
    }

    /// A session for a worker in this process, such as the host of its runners. It needs no token, because no other
    /// process can reach it. The caller must poll it for as long as it lives; otherwise jobs fetched for it wait.
    pub fn local_session(&self) -> impl Session + use<> {
        LocalSession::new(self.clone())
    }

    /// Starts emitting spans for jobs. `None`: tracing is already on.
    pub fn trace(&self, options: telemetry::Options) -> Option<telemetry::SpanReceiver> {
        self.api().observer().trace(options)
    }

    /// Metrics.
    pub(crate) fn metrics(&self) -> &Metrics {
        self.api().metrics()
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        self.api().engine()
    }

    /// The settings.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// Whether the doors are closing.
    pub(crate) fn is_closing(&self) -> bool {
        self.api().is_closing()
    }

    /// Starts draining: see [`Api::close`]. Call it before the `shutdown` future of
    /// [`listen::serve`](crate::listen::serve) completes.
    pub fn close(&self) {
        self.api().close();
    }

    /// Waits until the doors are closing.
    pub async fn closing(&self) {
        self.api().closing().await;
    }
}

/// Tells the outbound rules whether callers need a token.
#[derive(Debug)]
struct ServerAuthentication(Api);

impl Authentication for ServerAuthentication {
    fn needs_token(&self) -> AuthenticationFuture<'_> {
        Box::pin(self.0.access().needs_token())
    }
}

impl FromRef<Doors> for Api {
    fn from_ref(doors: &Doors) -> Self {
        doors.api().clone()
    }
}

/// The door that a route belongs to, or `none`.
pub(crate) fn door_of(route: &str) -> &'static str {
    const OURS: [&str; 5] = ["/metrics", "/livez", "/readyz", "/openapi.json", "/docs"];
    match route {
        "/job" | "/worker" | "/done" => "lightjq",
        _ if route.starts_with("/job/") => "lightjq",
        "/jobs" | "/jobber/queue" => "jobber",
        _ if route.starts_with("/jobs/") || route.starts_with("/jobber/queue/") => "jobber",
        _ if route.starts_with("/lakh.") => "lakh",
        _ if route.starts_with("/jobworkerp.") => "jobworkerp",
        _ if is_grpc(route) => "grpc",
        "/" | "/ui" => "ui",
        _ if route.starts_with("/ui/") => "ui",
        _ if route.starts_with("/v1/") || OURS.contains(&route) => "http",
        _ => "none",
    }
}

/// Whether the path is a gRPC path.
pub(crate) fn is_grpc(path: &str) -> bool {
    const SERVICES: [&str; 5] =
        ["/crore.v1.", "/grpc.health.", "/grpc.reflection.", "/jobworkerp.", "/lakh."];
    SERVICES.iter().any(|service| path.starts_with(service))
}
