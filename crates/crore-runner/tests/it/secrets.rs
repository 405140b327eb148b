//! A secret that does not come, from a disk that does not answer, holds up its own job alone.

use std::sync::mpsc;
use std::time::Duration;

use crore_core::Payload;
use crore_runner::docker::Docker;
use crore_runner::{Failure, Grpc, Http, Maker, Options, Slack};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::stage::{Hidden, Trap, reach, run_until, task};

/// Others go on while it waits, it calls nobody yet, and a stop ends it.
async fn waits_for_its_secret(maker: impl Maker, settings: Value, trap: &Trap) {
    let (name, stop) = (maker.name(), CancellationToken::new());
    let job = task(Payload::json(r#"{"job":"1","kind":"k","state":"done","output":"x"}"#));
    let mut running = Box::pin(run_until(&maker, &settings, &job, &stop));
    let waited = timeout(Duration::from_millis(100), &mut running).await;
    assert!(waited.is_err(), "{name}: {waited:?}");
    assert!(trap.saw_nothing(), "{name} called without its secret");
    stop.cancel();
    assert_eq!(running.await, Err(Failure::stopped()), "{name}");
}

#[test]
fn a_secret_that_does_not_come_holds_up_its_job_alone() {
    let one = Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    one.expect("a runtime").block_on(async {
        // Whatever may block waits for this.
        let (release, held) = mpsc::channel::<()>();
        let disk = spawn_blocking(move || held.recv());
        let (trap, secret) = (Trap::at([127, 0, 0, 1]), Hidden::new("hush"));
        let (port, secret) = (trap.port(), &secret.reference);
        let url = format!("http://127.0.0.1:{port}");
        let reach = reach(&["127.0.0.1/32"]);
        let settings = json!({ "url": url, "headers": { "x-key": secret } });
        waits_for_its_secret(Http::new(reach.clone()), settings, &trap).await;
        let settings = json!({ "url": url, "query": { "key": secret } });
        waits_for_its_secret(Http::new(reach.clone()), settings, &trap).await;
        let settings = json!({ "url": url, "method": "a.B/C", "metadata": { "x-key": secret } });
        waits_for_its_secret(Grpc::new(reach.clone()), settings, &trap).await;
        let settings = json!({ "webhook": Hidden::new(&url).reference });
        waits_for_its_secret(Slack::new(reach.clone()), settings, &trap).await;
        let settings = json!({ "token": secret, "channel": "c", "api": url });
        waits_for_its_secret(Slack::new(reach), settings, &trap).await;
        let address = format!("tcp://127.0.0.1:{port}");
        let settings = json!({ "image": "busybox", "env": { "KEY": secret } });
        let docker = Docker::new(Options { docker: Some(address), ..Options::default() });
        waits_for_its_secret(docker, settings, &trap).await;
        drop(release);
        assert!(disk.await.expect("no panic").is_err(), "it was held all the time");
    });
}
