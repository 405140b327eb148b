//! Push workers that register, restart and leave, and servers that restart or stop: what becomes of the jobs in
//! flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use crore::Engine;
use crore_api::Scope;
use crore_core::Span;
use crore_doors::Options;
use crore_wire::Format;
use http::Method;
use serde_json::json;
use tokio::sync::Semaphore;

use super::{job, plain, ready};
use crate::access::token;
use crate::local_server::{LocalServer, eventually};
use crore_testkit::http_peer::{Peer, PeerReply};

#[tokio::test]
async fn a_worker_cannot_register_a_denied_url() {
    let place = LocalServer::start().await;
    let own = format!("http://{}", place.address());
    for url in [
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1:8080",
        "http://[fe80::1]:8080",
        "http://0.0.0.0:8080",
        "http://192.168.1.1",
        "file:///etc/passwd",
        "http://user@127.0.0.1:8080",
        "http://127.0.0.1:22",
        "http://no-such-host.invalid",
        &own,
    ] {
        let body = json!({"name": "w", "max_jobs": 1, "url": url});
        let refused = place.post("/worker", body).await;
        assert_eq!(refused.status, 400, "{url}");
        let problem = refused.body();
        assert_eq!(
            (&problem["code"], &problem["field"]),
            (&json!("outbound-denied"), &json!("url"))
        );
    }
    for (body, field) in [
        (json!({"max_jobs": 1}), "name"),
        (json!({"name": "", "max_jobs": 1}), "name"),
        (json!({"name": "w"}), "max_jobs"),
        (json!({"name": "w", "max_jobs": 0}), "max_jobs"),
        (json!({"name": "w", "max_jobs": -1}), "max_jobs"),
        (json!({"name": "w", "max_jobs": 1, "port": 70000}), "port"),
        (json!({"name": "w", "max_jobs": 1, "host": "a b"}), "url"),
    ] {
        let refused = place.post("/worker", body).await;
        assert_eq!((refused.status, &refused.body()["field"]), (400, &json!(field)));
    }
    assert_eq!(place.engine.workers().list().await.expect("an answer"), []);
}

#[tokio::test]
async fn a_worker_on_loopback_needs_permission_as_soon_as_a_token_exists() {
    let place = LocalServer::start().await;
    let peer = Peer::start(ready()).await;
    place.join(&peer.url(), 1).await;
    let secret = token(&place.engine, "ada", Scope::ALL).await;
    let authorization = format!("Bearer {}", secret.reveal());
    let join = || {
        let body = json!({"name": "w", "max_jobs": 1, "url": peer.url()});
        let headers = [("authorization", authorization.as_str())];
        let place = &place;
        async move { place.ask(Method::POST, "/worker", &headers, Some((Format::Msgpack, body))).await }
    };
    // The server learns of a token that another process created within a second.
    let refused = eventually(|| async {
        let answer = join().await;
        if answer.status == 201 { Err(answer) } else { Ok(answer) }
    })
    .await;
    assert_eq!((refused.status, &refused.body()["code"]), (400, &json!("outbound-denied")));
}

#[tokio::test]
async fn a_worker_without_a_url_is_called_at_its_peer_address() {
    let peer = Peer::start(ready()).await;
    let port = peer.port();
    let place =
        LocalServer::on(Engine::memory(), |options| options.lightjq.worker_port = port).await;
    for body in
        [json!({"name": "w", "max_jobs": 1}), json!({"name": "w", "max_jobs": 1, "port": port})]
    {
        let joined = place.post("/worker", body).await;
        assert_eq!(joined.status, 201, "{:?}", joined.body());
        let worker = joined.body()["worker_id"].as_str().expect("an id").to_owned();
        let id = place.push(job("mail")).await;
        assert_eq!(place.until(&id, "done").await["worker_id"], json!(worker));
        let left = place.ask(Method::DELETE, "/worker", &[("worker-id", &worker)], None).await;
        assert_eq!(left.status, 204);
        let again = place.ask(Method::DELETE, "/worker", &[("worker-id", &worker)], None).await;
        assert_eq!(again.status, 404);
    }
    let nameless = place.delete("/worker").await;
    assert_eq!((nameless.status, &nameless.body()["field"]), (400, &json!("worker_id")));
}

#[tokio::test]
async fn workers_and_their_jobs_survive_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let status = Arc::new(AtomicU16::new(202));
    let says = Arc::clone(&status);
    let peer = Peer::start(PeerReply::by(move |_, _| plain(says.load(Ordering::SeqCst)))).await;
    let place = LocalServer::on(Engine::open(dir.path()).expect("open"), |_| {}).await;
    let worker = place.join(&peer.url(), 1).await;
    let job = json!({"name": "mail", "argument": {}, "keep_result": true});
    let (first, second) = (place.push(job.clone()).await, place.push(job).await);
    peer.until_called(1).await;
    place.until(&first, "running").await;
    place.stop().await;
    status.store(200, Ordering::SeqCst);
    let engine = eventually(|| async { Engine::open(dir.path()) }).await;
    let place = LocalServer::on(engine, |_| {}).await;
    // Its slot is still in use, and it may still report.
    assert_eq!(place.status(&first).await["status"], "running");
    assert_eq!(place.status(&second).await["status"], "queued");
    let report = json!({"job_id": first, "type": "success", "result": "late"});
    assert_eq!(place.done(&worker, report).await, 204);
    assert_eq!(place.status(&first).await["result"], "late");
    assert_eq!(place.until(&second, "done").await["worker_id"], json!(worker));
    assert_eq!(peer.calls(), 2);
}

#[tokio::test]
async fn a_stop_refuses_new_requests_and_waits_for_those_in_flight() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = LocalServer::on(Engine::open(dir.path()).expect("open"), |_| {}).await;
    let peer = Peer::start(ready()).await;
    place.join(&peer.url(), 3).await;
    let mut ids = Vec::new();
    for _ in 0..50 {
        ids.push(place.push(job("mail")).await);
    }
    place.stop().await;
    let called = peer.calls();
    let engine = eventually(|| async { Engine::open(dir.path()) }).await;
    let place = LocalServer::on(engine, |_| {}).await;
    for id in &ids {
        assert_eq!(place.until(id, "done").await["retry_count"], 0);
    }
    assert_eq!(peer.calls(), ids.len(), "none twice, and none lost; {called} before the stop");
}

#[tokio::test]
async fn a_leaving_worker_may_still_report_and_gets_no_more_jobs() {
    let place = LocalServer::start().await;
    let gate = Arc::new(Semaphore::new(0));
    let peer = Peer::start(ready().gated_by(&gate)).await;
    let worker = place.join(&peer.url(), 1).await;
    let keep = json!({"name": "mail", "argument": {}, "keep_result": true});
    let (first, second) = (place.push(keep.clone()).await, place.push(keep).await);
    peer.until_called(1).await;
    let left = place.ask(Method::DELETE, "/worker", &[("worker-id", &worker)], None).await;
    assert_eq!(left.status, 204);
    gate.add_permits(2);
    assert_eq!(place.until(&first, "done").await["result"], "ok");
    assert_eq!(place.status(&second).await["status"], "queued");
    assert_eq!(peer.calls(), 1);
}

#[tokio::test]
async fn a_restarted_worker_replaces_its_registration() {
    let place = LocalServer::start().await;
    let peer = Peer::start(PeerReply::status(202)).await;
    let former = place.join(&peer.url(), 1).await;
    let (lost, next) = (place.push(job("mail")).await, place.push(job("mail")).await);
    peer.until_called(1).await;
    let worker = place.join(&format!("{}/", peer.url()), 1).await;
    let workers = place.engine.workers().list().await.expect("an answer");
    let names: Vec<&str> = workers.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, [worker.as_str()]);
    // A job that it has forgotten ends by its timeout; everything else uses its new id.
    peer.until_called(2).await;
    assert_eq!(place.until(&next, "running").await["worker_id"], json!(worker));
    assert_eq!(place.status(&lost).await["worker_id"], json!(former));
    assert_eq!(place.done(&worker, json!({"job_id": next, "type": "success"})).await, 204);
}

#[tokio::test]
async fn the_later_registration_of_a_worker_wins() {
    let engine = Engine::memory();
    let often = |options: &mut Options| {
        options.lightjq.workers.refresh_every = Span::from_millis(100);
    };
    let (first, second) = (
        LocalServer::on(engine.clone(), often).await,
        LocalServer::on(engine.clone(), often).await,
    );
    let peer = Peer::start(PeerReply::status(202)).await;
    // The other server has not read the new registration yet.
    first.join(&peer.url(), 1).await;
    let joined_at = engine.status().now();
    eventually(|| async { engine.status().now() > joined_at }).await;
    let worker = second.join(&peer.url(), 1).await;
    eventually(|| async {
        let workers = engine.workers().list().await.expect("an answer");
        workers.iter().map(|entry| entry.name.as_str()).eq([worker.as_str()])
    })
    .await;
}

#[tokio::test]
async fn shutdown_waits_for_pending_responses() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = LocalServer::on(Engine::open(dir.path()).expect("open"), |_| {}).await;
    let gate = Arc::new(Semaphore::new(0));
    let peer = Peer::start(ready().gated_by(&gate)).await;
    place.join(&peer.url(), 1).await;
    let id = place.push(json!({"name": "mail", "argument": {}, "keep_result": true})).await;
    peer.until_called(1).await;
    let ((), ()) = tokio::join!(place.stop(), async { gate.add_permits(1) });
    let engine = eventually(|| async { Engine::open(dir.path()) }).await;
    let place = LocalServer::on(engine, |_| {}).await;
    let done = place.status(&id).await;
    assert_eq!((&done["status"], &done["result"]), (&json!("done"), &json!("ok")));
    assert_eq!(peer.calls(), 1);
}
