//! All doors of a server: their settings, and what each of them holds.

use std::sync::Arc;

use crore::Engine;
use crore_api::audit::Audit;
use crore_api::metrics::{self, Metrics};
use crore_api::middleware::from_fn;
use crore_api::{Api, Setup, telemetry};
use crore_dispatch as dispatch;
use crore_outbound::{self as outbound, Outbound};
use crore_wire::worker::Session;

use crate::grpc;
use crate::http;
use crate::jobber;
use crate::jobworkerp;
use crate::lightjq::{self, LightJq};
use crate::listen::Served;
use crate::local::LocalSession;
use crate::worker_session::Registry;

/// Settings of the doors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// The API behind all doors.
    pub api: crore_api::Options,
    /// gRPC.
    pub grpc: grpc::Options,
    /// LightJQ, and push workers.
    pub lightjq: lightjq::Options,
    /// Jobber.
    pub jobber: jobber::Options,
    /// jobworkerp.
    pub jobworkerp: jobworkerp::Options,
    /// Addresses that may be called.
    pub outbound: outbound::Options,
}

/// All doors to one engine. Cloning gives another handle to the same.
#[derive(Debug, Clone)]
pub struct Doors(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    api: Api,
    options: Options,
    push_workers: dispatch::Handle,
    sessions: Registry,
}

impl Doors {
    /// The doors that are served on the one port.
    pub const NAMES: &[&str] = &["grpc", "http", "jobber", "jobworkerp", "lakh", "lightjq"];

    /// Doors to an engine, without an audit log.
    pub fn new(engine: Engine, options: Options) -> Self {
        Self::audited(engine, options, Audit::none())
    }

    /// Doors to an engine; changes made through them are written to the audit log.
    pub fn audited(engine: Engine, options: Options, audit: Audit) -> Self {
        let sessions = Registry::default();
        let api = Api::new(Setup {
            engine: engine.clone(),
            options: options.api.clone(),
            audit,
            workers: Arc::new(sessions.clone()),
            doors: Self::NAMES,
        });
        let outbound = Outbound::new(options.outbound.clone());
        let (protocol, workers) = (LightJq::new(api.observer().clone()), &options.lightjq.workers);
        let push_workers = dispatch::Handle::new(engine, outbound, protocol, workers.clone());
        Self(Arc::new(Shared { api, options, push_workers, sessions }))
    }

    /// The API behind all doors.
    pub fn api(&self) -> &Api {
        &self.0.api
    }

    /// All that is served on the one port.
    pub fn router(&self) -> axum::Router {
        let ancestors = lightjq::router(self).merge(jobber::router(self));
        let describe = |document: &mut _| lightjq::describe(self, document);
        let ours = http::router(self.api(), describe).merge(grpc::router(self));
        let router = http::with_fallbacks(ours.merge(ancestors));
        router.layer(from_fn((self.metrics().clone(), door_of as _), metrics::measure))
    }

    /// The description of the API, as it is served.
    pub fn description(&self) -> String {
        http::description(self.api(), |document| lightjq::describe(self, document))
    }

    /// The loop that gives jobs to push workers: to be run until the doors are [closing](Doors::closing).
    pub fn push_workers(&self) -> dispatch::Service {
        dispatch::Service::new(&self.0.push_workers)
    }

    /// Connected workers.
    pub(crate) fn sessions(&self) -> &Registry {
        &self.0.sessions
    }

    /// Where push workers register.
    pub(crate) fn workers(&self) -> &dispatch::Handle {
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

    /// Begins to make spans of what happens to jobs; `None`: they are made already.
    pub fn trace(&self, options: telemetry::Options) -> Option<telemetry::Spans> {
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

    /// Begins to drain: see [`Api::close`]. Called before [`listen::serve`](crate::listen::serve) is told to shut
    /// down.
    pub fn close(&self) {
        self.api().close();
    }

    /// Waits until the doors are closing.
    pub async fn closing(&self) {
        self.api().closing().await;
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
