//! Shared by tests of the http, grpc and slack runners.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;

use crore_core::{Delivery, JobId, Name, Payload, Time};
use crore_outbound::{Options, Outbound};
use crore_runner::{NetworkAccess, Output, RunContext, RunFailure, RunnerFactory, Task, Urls};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Allows public addresses, and those in `allow`.
pub(crate) fn outbound(allow: &[&str]) -> Outbound {
    Outbound::new(options(allow))
}

pub(crate) fn options(allow: &[&str]) -> Options {
    let allow = allow.iter().map(|text| text.parse().expect("good")).collect();
    Options { allow, listens: vec![([0, 0, 0, 0], 9).into()], ..Options::default() }
}

pub(crate) fn reach(allow: &[&str]) -> NetworkAccess {
    NetworkAccess::new(outbound(allow), Urls::default())
}

/// A task with this payload.
pub(crate) fn task(payload: Payload) -> Task {
    Task {
        store: "feed".into(),
        job: JobId(12),
        delivery: Delivery(3),
        kind: Name::new("kind", "mail").expect("a name"),
        attempt: 1,
        pushed_at: Time::from_millis(5),
        payload: payload.into(),
        timeout: None,
        trace: None,
    }
}

/// Runs a job to its end with these settings.
pub(crate) async fn run(
    maker: &impl RunnerFactory,
    settings: &Value,
    task: &Task,
) -> Result<Output, RunFailure> {
    run_until(maker, settings, task, &CancellationToken::new()).await
}

/// The same, until `stop`.
pub(crate) async fn run_until(
    maker: &impl RunnerFactory,
    settings: &Value,
    task: &Task,
    stop: &CancellationToken,
) -> Result<Output, RunFailure> {
    let runner = maker.make(settings).await?;
    let context =
        RunContext::new(stop.clone(), |message| panic!("unexpected message: {message:?}"));
    runner.run(task, &context).await
}

/// A listener that must not be called.
pub(crate) struct ForbiddenListener(TcpListener);

impl ForbiddenListener {
    pub(crate) fn at(ip: impl Into<IpAddr>) -> Self {
        let listener = TcpListener::bind((ip.into(), 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        Self(listener)
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.local_addr().expect("it is bound").port()
    }

    /// Whether no connection was made. A connection is in the backlog as soon as it is established, so this
    /// needs no waiting.
    pub(crate) fn saw_nothing(&self) -> bool {
        self.0.accept().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// A file with a secret, and the reference to it.
pub(crate) struct SecretFile {
    _dir: tempfile::TempDir,
    pub(crate) reference: String,
}

impl SecretFile {
    pub(crate) fn new(value: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("secret");
        std::fs::write(&file, value).expect("written");
        Self { reference: format!("file:{}", file.display()), _dir: dir }
    }
}

/// A W3C `traceparent`.
pub(crate) fn trace() -> Arc<str> {
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()
}
