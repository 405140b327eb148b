//! What every test of a runner needs: a maker that may call this machine, a job, and its run.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;

use crore_core::{Delivery, JobId, Name, Payload};
use crore_outbound::{Options, Outbound};
use crore_runner::{Context, Failure, Maker, Output, Reach, Task, Urls};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Addresses of this machine may be called, if `allow` says so, and whatever is public.
pub(crate) fn outbound(allow: &[&str]) -> Outbound {
    Outbound::new(options(allow))
}

pub(crate) fn options(allow: &[&str]) -> Options {
    let allow = allow.iter().map(|text| text.parse().expect("good")).collect();
    Options { allow, listens: vec![([0, 0, 0, 0], 9).into()], ..Options::default() }
}

pub(crate) fn reach(allow: &[&str]) -> Reach {
    Reach::new(outbound(allow), Urls::default())
}

/// A job with this payload.
pub(crate) fn task(payload: Payload) -> Task {
    Task {
        job: JobId(12),
        delivery: Delivery(3),
        kind: Name::new("kind", "mail").expect("a name"),
        attempt: 1,
        payload: payload.into(),
        timeout: None,
        trace: None,
    }
}

/// Runs a job as a handler with these settings says, until it ends.
pub(crate) async fn run(
    maker: &impl Maker,
    settings: &Value,
    task: &Task,
) -> Result<Output, Failure> {
    run_until(maker, settings, task, &CancellationToken::new()).await
}

/// The same, until it is told to stop.
pub(crate) async fn run_until(
    maker: &impl Maker,
    settings: &Value,
    task: &Task,
    stop: &CancellationToken,
) -> Result<Output, Failure> {
    let runner = maker.make(settings).await?;
    let context = Context::new(stop.clone(), |said| panic!("nothing is said: {said:?}"));
    runner.run(task, &context).await
}

/// Listens, and must not be called.
pub(crate) struct Trap(TcpListener);

impl Trap {
    pub(crate) fn at(ip: impl Into<IpAddr>) -> Self {
        let listener = TcpListener::bind((ip.into(), 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        Self(listener)
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.local_addr().expect("it is bound").port()
    }

    /// Whether nobody has come. A connection stands in the backlog as soon as it is made, accepted or
    /// not, so this needs no time.
    pub(crate) fn saw_nothing(&self) -> bool {
        self.0.accept().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// A file with a secret in it, and how settings refer to it.
pub(crate) struct Hidden {
    _dir: tempfile::TempDir,
    pub(crate) reference: String,
}

impl Hidden {
    pub(crate) fn new(value: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("secret");
        std::fs::write(&file, value).expect("written");
        Self { reference: format!("file:{}", file.display()), _dir: dir }
    }
}

/// A trace, as W3C writes it.
pub(crate) fn trace() -> Arc<str> {
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()
}
