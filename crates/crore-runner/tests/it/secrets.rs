//! A secret on a disk that hangs blocks only its own job.

use std::sync::mpsc;
use std::time::Duration;

use crore_core::Payload;
use crore_runner::docker::DockerFactory;
use crore_runner::{GrpcFactory, HttpFactory, Options, RunFailure, RunnerFactory, SlackFactory};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::outbound_fixture::{ForbiddenListener, SecretFile, reach, run_until, task};

/// Other tasks continue while it waits, it makes no call yet, and a stop ends it.
async fn waits_for_its_secret(
    maker: impl RunnerFactory,
    settings: Value,
    trap: &ForbiddenListener,
) {
    let (name, stop) = (maker.name(), CancellationToken::new());
    let job = task(Payload::json(r#"{"job":"1","kind":"k","state":"done","output":"x"}"#));
    let mut running = Box::pin(run_until(&maker, &settings, &job, &stop));
    let waited = timeout(Duration::from_millis(100), &mut running).await;
    assert!(waited.is_err(), "{name}: {waited:?}");
    assert!(trap.saw_nothing(), "{name} called without its secret");
    stop.cancel();
    assert_eq!(running.await, Err(RunFailure::stopped()), "{name}");
}

#[test]
fn a_slow_secret_delays_its_own_job_only() {
    let one = Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    one.expect("a runtime").block_on(async {
        // Blocks the only blocking thread.
        let (release, held) = mpsc::channel::<()>();
        let disk = spawn_blocking(move || held.recv());
        let (trap, secret) = (ForbiddenListener::at([127, 0, 0, 1]), SecretFile::new("hush"));
        let (port, secret) = (trap.port(), &secret.reference);
        let url = format!("http://127.0.0.1:{port}");
        let reach = reach(&["127.0.0.1/32"]);
        let settings = json!({ "url": url, "headers": { "x-key": secret } });
        waits_for_its_secret(HttpFactory::new(reach.clone()), settings, &trap).await;
        let settings = json!({ "url": url, "query": { "key": secret } });
        waits_for_its_secret(HttpFactory::new(reach.clone()), settings, &trap).await;
        let settings = json!({ "url": url, "method": "a.B/C", "metadata": { "x-key": secret } });
        waits_for_its_secret(GrpcFactory::new(reach.clone()), settings, &trap).await;
        let settings = json!({ "webhook": SecretFile::new(&url).reference });
        waits_for_its_secret(SlackFactory::new(reach.clone()), settings, &trap).await;
        let settings = json!({ "token": secret, "channel": "c", "api": url });
        waits_for_its_secret(SlackFactory::new(reach), settings, &trap).await;
        let address = format!("tcp://127.0.0.1:{port}");
        let settings = json!({ "image": "busybox", "env": { "KEY": secret } });
        let docker = DockerFactory::new(Options { docker: Some(address), ..Options::default() });
        waits_for_its_secret(docker, settings, &trap).await;
        drop(release);
        assert!(disk.await.expect("no panic").is_err(), "it was held all the time");
    });
}
