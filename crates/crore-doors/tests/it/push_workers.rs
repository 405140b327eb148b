//! Push workers: they work, die, hang, answer wrongly, and report twice or too late.

mod registration;
mod unreliable;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use crore::Engine;
use crore_core::{Name, Span};
use crore_doors::Options;
use crore_wire::Format;
use http::{Method, Response};
use serde_json::{Value, json};

use crate::local_server::{LocalServer, eventually};
use crore_testkit::http_peer::{Peer, PeerCall, PeerReply, response};

fn job_of(call: &PeerCall) -> Value {
    assert_eq!((call.method.as_str(), call.uri.path()), ("POST", "/worker-job"));
    assert_eq!(call.headers["content-type"], "application/msgpack");
    rmp_serde::from_slice(&call.body).expect("MessagePack")
}

fn packed(status: u16, body: &Value) -> Option<Response<Bytes>> {
    let response = response(status).header("content-type", "application/msgpack");
    Some(response.body(Format::Msgpack.encode(body).into()).expect("good"))
}

fn plain(status: u16) -> Option<Response<Bytes>> {
    Some(response(status).body(Bytes::new()).expect("good"))
}

/// A worker that finishes every job at once.
fn ready() -> PeerReply {
    PeerReply::by(|_, _| packed(200, &json!({"type": "success", "result": "ok"})))
}

fn job(name: &str) -> Value {
    json!({"name": name, "argument": {"n": 1}})
}

/// Intervals short enough for a test to wait for.
fn with_short_intervals(options: &mut Options) {
    let workers = &mut options.lightjq.workers;
    workers.rest = Span::from_millis(20);
    workers.max_rest = Span::from_millis(100);
}

#[tokio::test]
async fn a_job_is_given_to_a_worker_and_its_report_ends_it() {
    let server = LocalServer::start().await;
    let peer = Peer::start(PeerReply::status(202)).await;
    let worker = server.join(&peer.url(), 4).await;
    let id = server.push(json!({"name": "mail", "argument": {"n": 1}, "keep_result": true})).await;
    peer.until_called(1).await;
    let job = job_of(&peer.call(0));
    assert_eq!((&job["id"], &job["job_id"]), (&json!(id), &json!(id)));
    assert_eq!((&job["name"], &job["argument"]), (&json!("mail"), &json!({"n": 1})));
    assert_eq!(job["timeout"], 30);
    let running = server.status(&id).await;
    assert_eq!((&running["status"], &running["worker_id"]), (&json!("running"), &json!(worker)));
    let report = json!({"job_id": id, "type": "success", "result": [1, 2]});
    assert_eq!(server.done(&worker, report).await, 204);
    let done = server.status(&id).await;
    assert_eq!((&done["status"], &done["result"]), (&json!("done"), &json!([1, 2])));
}

#[tokio::test]
async fn an_argument_of_any_type_reaches_a_worker_unchanged() {
    let server = LocalServer::start().await;
    let peer = Peer::start(PeerReply::status(202)).await;
    server.join(&peer.url(), 9).await;
    for (n, argument) in
        [&b"\x93\x01\xc0\xa1x"[..], b"\xc0", b"\x81\x01\xd4\x05\xff", b"\xc4\x01\xff"]
            .into_iter()
            .enumerate()
    {
        let body = [&b"\x82\xa4name\xa4mail\xa8argument"[..], argument].concat();
        let kind = ("content-type".parse().expect("a name"), "application/msgpack".parse());
        let headers = [(kind.0, kind.1.expect("a value"))].into_iter().collect();
        let pushed = server.send(Method::POST, "/job", headers, body.into()).await;
        assert_eq!(pushed.status, 201, "{argument:?}");
        peer.until_called(n + 1).await;
        let sent = [&b"\xa8argument"[..], argument, b"\xa7timeout"].concat();
        let call = peer.call(n);
        assert!(call.body.windows(sent.len()).any(|part| part == sent), "{:?}", call.body);
        // The native API shows what JSON cannot represent in Base64.
        let id = pushed.body()["job_id"].as_str().expect("an id").to_owned();
        assert_eq!(server.get(&format!("/v1/jobs/{id}")).await.status, 200);
    }
}

#[tokio::test]
async fn what_a_worker_says_about_the_end_of_a_job_is_shown() {
    let server = LocalServer::on(Engine::memory(), with_short_intervals).await;
    let report = |more: Value| {
        let mut report = json!({"type": "failure", "should_retry": false, "message": "late"});
        report.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("one"));
        report
    };
    let timeout =
        report(json!({"reason": "timeout", "finished_at": "2024-02-03T04:05:06.789+01:00"}));
    let peer = Peer::start(PeerReply::by(move |n, _| match n {
        0 => plain(202),
        1 => packed(200, &timeout),
        _ => packed(200, &json!({"type": "success", "finished_at": "2024-02-03T04:05:06"})),
    }))
    .await;
    let worker = server.join(&peer.url(), 1).await;
    let id = server.push(json!({"name": "mail", "argument": 1})).await;
    peer.until_called(1).await;
    let mut late = report(json!({"job_id": id, "reason": "other", "finished_at": "tomorrow"}));
    assert_eq!(server.done(&worker, late.clone()).await, 400, "not a time");
    late["finished_at"] = json!("2024-02-03T04:05:06Z");
    assert_eq!(server.done(&worker, late).await, 204);
    let failed = server.until(&id, "error").await;
    assert_eq!(
        (&failed["finished_at"], &failed["reason"]),
        (&json!("2024-02-03T04:05:06.000Z"), &json!("other"))
    );
    let id = server.push(json!({"name": "mail", "argument": 2})).await;
    let failed = server.until(&id, "error").await;
    assert_eq!(
        (&failed["finished_at"], &failed["reason"]),
        (&json!("2024-02-03T03:05:06.789Z"), &json!("timeout"))
    );
    let id = server.push(json!({"name": "mail", "argument": 3})).await;
    let done = server.until(&id, "done").await;
    assert_eq!(
        (&done["finished_at"], &done["reason"]),
        (&json!("2024-02-03T04:05:06.000Z"), &Value::Null)
    );
}

#[tokio::test]
async fn the_call_to_a_worker_carries_the_trace_of_its_push() {
    let server = LocalServer::start().await;
    let peer = Peer::start(PeerReply::status(202)).await;
    server.join(&peer.url(), 4).await;
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let parent = format!("00-{trace}-{span}-01");
    let sent = [("traceparent", parent.as_str()), ("tracestate", "a=1")];
    let body = Some((Format::Msgpack, job("mail")));
    assert_eq!(server.ask(Method::POST, "/job", &sent, body).await.status, 201);
    peer.until_called(1).await;
    let call = peer.call(0);
    let header = |name: &str| call.headers.get(name).and_then(|value| value.to_str().ok());
    let b3 = format!("{trace}-{span}-1");
    assert_eq!(
        (header("traceparent"), header("tracestate"), header("b3")),
        (Some(parent.as_str()), Some("a=1"), Some(b3.as_str()))
    );
    server.push(job("mail")).await;
    peer.until_called(2).await;
    assert!(
        ["traceparent", "tracestate", "b3"].map(|name| peer.call(1).headers.contains_key(name))
            == [false; 3]
    );
}

#[tokio::test]
async fn a_report_may_be_in_the_response() {
    let server = LocalServer::start().await;
    let peer = Peer::start(PeerReply::by(|n, _| match n {
        0 => packed(200, &json!({"type": "success", "result": {"sum": 3}})),
        1 => {
            let body = br#"{"type":"failure","reason":"other","should_retry":false,"message":"no","error":5}"#;
            let response = response(200).header("content-type", "application/json");
            Some(response.body(Bytes::from_static(body)).expect("good"))
        }
        _ => plain(200),
    }))
    .await;
    server.join(&peer.url(), 1).await;
    let keep = json!({"name": "sum", "argument": {}, "keep_result": true});
    let first = server.push(keep.clone()).await;
    assert_eq!(server.until(&first, "done").await["result"], json!({"sum": 3}));
    let second = server.push(job("sum")).await;
    let failed = server.until(&second, "error").await;
    assert_eq!((&failed["message"], &failed["error"]), (&json!("no"), &json!(5)));
    let third = server.push(keep).await;
    assert_eq!(server.until(&third, "done").await["result"], Value::Null);
}

#[tokio::test]
async fn no_worker_exceeds_its_slots_and_the_smallest_priority_is_first() {
    let server = LocalServer::start().await;
    let mut ids = Vec::new();
    for priority in [3, 1, 2] {
        ids.push(server.push(json!({"name": "a", "argument": {}, "priority": priority})).await);
    }
    let peer = Peer::start(PeerReply::status(202)).await;
    let worker = server.join(&peer.url(), 2).await;
    peer.until_called(2).await;
    let given = |n| job_of(&peer.call(n))["id"].clone();
    let mut first: Vec<Value> = vec![given(0), given(1)];
    first.sort_by_key(ToString::to_string);
    assert_eq!(first, [json!(ids[1]), json!(ids[2])]);
    // The third job is given when there is room for it, and not before.
    server.until(&ids[1], "running").await;
    assert_eq!(server.status(&ids[0]).await["status"], "queued");
    assert_eq!(peer.calls(), 2);
    assert_eq!(server.done(&worker, json!({"job_id": ids[1], "type": "success"})).await, 204);
    peer.until_called(3).await;
    assert_eq!(given(2), json!(ids[0]));
}

#[tokio::test]
async fn a_job_that_a_worker_does_not_know_is_given_to_another() {
    let server = LocalServer::start().await;
    let knows = |name: &'static str| {
        PeerReply::by(move |_, call| {
            if job_of(call)["name"] == name {
                packed(200, &json!({"type": "success"}))
            } else {
                plain(404)
            }
        })
    };
    let (mail, call) = (Peer::start(knows("mail")).await, Peer::start(knows("call")).await);
    server.join(&mail.url(), 1).await;
    server.join(&call.url(), 1).await;
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.push(server.push(job(if n % 2 == 0 { "mail" } else { "call" })).await);
    }
    let unknown = server.push(json!({"name": "dance", "argument": {}, "priority": -1})).await;
    for id in &ids {
        assert_eq!(server.until(id, "done").await["retry_count"], 0);
    }
    // Each worker is asked once about a name it does not know, and no job fails for that.
    let asked = |peer: &Peer, name: &str| {
        (0..peer.calls()).filter(|n| job_of(&peer.call(*n))["name"] == name).count()
    };
    eventually(|| async { asked(&mail, "dance") == 1 && asked(&call, "dance") == 1 }).await;
    assert!(asked(&mail, "call") <= 1 && asked(&call, "mail") <= 1);
    let waits = server.status(&unknown).await;
    assert_eq!((&waits["status"], &waits["retry_count"]), (&json!("queued"), &json!(0)));
    // A worker that registers later and knows the name is given the job at once.
    let dance = Peer::start(knows("dance")).await;
    server.join(&dance.url(), 1).await;
    server.until(&unknown, "done").await;
}

#[tokio::test]
async fn a_kind_that_a_worker_rejected_is_offered_again_after_a_while() {
    let server = LocalServer::on(Engine::memory(), |options| {
        options.lightjq.workers.unknown_for = Span::from_millis(300);
    })
    .await;
    let peer =
        Peer::start(PeerReply::by(|n, _| if n == 0 { plain(404) } else { plain(200) })).await;
    server.join(&peer.url(), 1).await;
    let id = server.push(job("mail")).await;
    assert_eq!(server.until(&id, "done").await["retry_count"], 0);
    assert_eq!(peer.calls(), 2);
}

#[tokio::test]
async fn an_unreachable_worker_costs_no_attempt() {
    let server = LocalServer::on(Engine::memory(), with_short_intervals).await;
    let gone = Peer::start(ready()).await;
    let (url, port) = (gone.url(), gone.port());
    drop(gone);
    server.join(&url, 1).await;
    let id = server.push(json!({"name": "mail", "argument": {}, "max_retry": 0})).await;
    let notes = || async {
        let notes =
            server.engine.jobs().notes(crore_core::JobId(id.parse().expect("a number"))).await;
        notes.expect("an answer").lines.len()
    };
    eventually(|| async { notes().await >= 3 }).await;
    eventually(|| async { server.status(&id).await["status"] == "queued" }).await;
    let back = Peer::start_at(([127, 0, 0, 1], port).into(), ready()).await;
    let done = server.until(&id, "done").await;
    assert_eq!((&done["retry_count"], back.calls()), (&json!(0), 1));
}

#[tokio::test]
async fn a_worker_that_does_not_return_is_removed_and_others_continue() {
    let server = LocalServer::on(Engine::memory(), |options| {
        with_short_intervals(options);
        options.lightjq.workers.gone_after = Span::from_millis(100);
    })
    .await;
    let gone = Peer::start(ready()).await;
    let (url, peer) = (gone.url(), Peer::start(ready()).await);
    drop(gone);
    let absent = server.join(&url, 5).await;
    server.join(&peer.url(), 1).await;
    for _ in 0..5 {
        let id = server.push(json!({"name": "mail", "argument": {}, "max_retry": 0})).await;
        assert_eq!(server.until(&id, "done").await["retry_count"], 0);
    }
    let is_gone = || async {
        // An absent worker is noticed only when a job is posted to it.
        server.push(job("mail")).await;
        let workers = server.engine.workers().list().await.expect("an answer");
        workers.iter().all(|entry| entry.name.as_str() != absent)
    };
    eventually(is_gone).await;
    let left = server.ask(Method::DELETE, "/worker", &[("worker-id", &absent)], None).await;
    assert_eq!(left.status, 404);
}

#[tokio::test]
async fn an_invalid_response_of_a_worker_fails_the_job() {
    for (encoding, message) in [
        (PeerReply::status(500), "the worker answered 500"),
        (PeerReply::status(400), "the worker answered 400"),
        (PeerReply::body(200, "<html>"), "is not a valid report"),
        (PeerReply::by(|_, _| None), "sent no valid response"),
        (PeerReply::raw(b"garbage\r\n\r\n".to_vec()), "sent no valid response"),
        (PeerReply::body(200, vec![0; 2 << 20]), "sent a response larger than 1MiB"),
    ] {
        let server = LocalServer::start().await;
        let peer = Peer::start(encoding).await;
        server.join(&peer.url(), 1).await;
        let id = server.push(json!({"name": "mail", "argument": {}, "max_retry": 0})).await;
        let failed = server.until(&id, "error").await;
        let text = failed["message"].as_str().expect("a text");
        assert!(text.contains(message), "{text}");
    }
}

#[tokio::test]
async fn a_failure_is_retried_and_may_succeed() {
    let server = LocalServer::start().await;
    let peer =
        Peer::start(PeerReply::by(|n, _| if n == 0 { plain(500) } else { plain(200) })).await;
    server.join(&peer.url(), 1).await;
    let id = server.push(job("mail")).await;
    let retrying = server.until(&id, "retrying").await;
    assert_eq!(retrying["retry_count"], 1);
    assert_eq!(server.until(&id, "done").await["retry_count"], 1);
    assert_eq!(job_of(&peer.call(1))["retry_count"], 1);
}

#[tokio::test]
async fn a_job_declined_by_a_busy_worker_is_given_to_another() {
    let server = LocalServer::start().await;
    let busy = Peer::start(PeerReply::status(503)).await;
    server.join(&busy.url(), 10).await;
    let id = server.push(json!({"name": "mail", "argument": {}, "max_retry": 0})).await;
    busy.until_called(1).await;
    let peer = Peer::start(ready()).await;
    server.join(&peer.url(), 1).await;
    assert_eq!(server.until(&id, "done").await["retry_count"], 0);
}

#[tokio::test]
async fn a_job_of_a_worker_that_hangs_or_never_reports_times_out() {
    for encoding in [PeerReply::nothing(), PeerReply::status(202)] {
        let server = LocalServer::start().await;
        let peer = Peer::start(encoding).await;
        let worker = server.join(&peer.url(), 1).await;
        let slow = json!({"name": "slow", "argument": {}, "timeout": 1, "max_retry": 0});
        let id = server.push(slow).await;
        let failed = server.until(&id, "error").await;
        assert_eq!(failed["message"], "timed out");
        // The worker reports too late.
        let late = json!({"job_id": id, "type": "success", "result": 1});
        assert_eq!(server.done(&worker, late).await, 404);
        assert_eq!(server.status(&id).await["status"], "error");
    }
}

#[tokio::test]
async fn the_slot_of_a_job_that_timed_out_is_free_again() {
    let server = LocalServer::start().await;
    let peer =
        Peer::start(PeerReply::by(|n, _| if n == 0 { plain(202) } else { plain(200) })).await;
    server.join(&peer.url(), 1).await;
    let lost =
        server.push(json!({"name": "a", "argument": {}, "timeout": 1, "max_retry": 0})).await;
    let next = server.push(job("b")).await;
    peer.until_called(1).await;
    assert_eq!(server.status(&next).await["status"], "queued");
    server.until(&next, "done").await;
    assert_eq!(server.status(&lost).await["status"], "error");
}

#[tokio::test]
async fn a_killed_worker_loses_no_job() {
    let server = LocalServer::on(Engine::memory(), with_short_intervals).await;
    let mortal = Peer::start(PeerReply::status(202)).await;
    server.join(&mortal.url(), 3).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(server.push(json!({"name": "mail", "argument": {}, "timeout": 1})).await);
    }
    mortal.until_called(3).await;
    drop(mortal);
    let peer = Peer::start(ready()).await;
    server.join(&peer.url(), 3).await;
    for id in &ids {
        assert_eq!(server.until(id, "done").await["retry_count"], 1, "the timeout was a failure");
    }
}

#[tokio::test]
async fn a_report_counts_once_and_only_from_the_holder_of_the_job() {
    let server = LocalServer::start().await;
    let peer = Peer::start(PeerReply::status(202)).await;
    let worker = server.join(&peer.url(), 1).await;
    let id = server.push(json!({"name": "mail", "argument": {}, "keep_result": true})).await;
    peer.until_called(1).await;
    let delivery = job_of(&peer.call(0))["delivery"].as_str().expect("a text").to_owned();
    assert_eq!(peer.call(0).headers["crore-delivery"], delivery.as_str());
    let report = |result: u64| json!({"job_id": id, "type": "success", "result": result});
    assert_eq!(server.done("lightjq-somebody-else", report(1)).await, 404);
    let mut other = report(2);
    other["delivery"] = json!(format!("{delivery}0"));
    assert_eq!(server.done(&worker, other).await, 404, "another delivery");
    let mut mine = report(3);
    mine["delivery"] = json!(delivery);
    assert_eq!(server.done(&worker, mine).await, 204);
    assert_eq!(server.done(&worker, report(4)).await, 204, "it did not receive the response");
    assert_eq!(server.status(&id).await["result"], 3, "the first report counts");
    for (report, status) in [
        (json!({"type": "success"}), 400),
        (json!({"job_id": id}), 400),
        (json!({"job_id": id, "type": "failure"}), 400),
        (json!({"job_id": "x", "type": "success"}), 404),
        (json!({"job_id": "999", "type": "success"}), 404),
    ] {
        assert_eq!(server.done(&worker, report.clone()).await, status, "{report}");
    }
    let nameless = Some((Format::Json, report(5)));
    let refused = server.ask(Method::POST, "/done", &[], nameless).await;
    assert_eq!((refused.status, &refused.body()["field"]), (400, &json!("worker_id")));
}

#[tokio::test]
async fn a_report_that_arrives_before_the_response_counts() {
    let server = Arc::new(LocalServer::start().await);
    let worker = Arc::new(Mutex::new(String::new()));
    let (reporter, id) = (Arc::clone(&server), Arc::clone(&worker));
    let hangs = Peer::start(PeerReply::by(move |_, call| {
        let (server, id) = (Arc::clone(&reporter), id.lock().expect("no panic").clone());
        let report = json!({"job_id": job_of(call)["id"], "type": "success", "result": "early"});
        tokio::spawn(async move { server.done(&id, report).await });
        plain(202)
    }))
    .await;
    *worker.lock().expect("no panic") = server.join(&hangs.url(), 1).await;
    let job = json!({"name": "mail", "argument": {}, "keep_result": true});
    for _ in 0..10 {
        let id = server.push(job.clone()).await;
        assert_eq!(server.until(&id, "done").await["result"], "early");
    }
}

#[tokio::test]
async fn redirects_are_not_followed_and_cost_no_attempt() {
    let server = LocalServer::on(Engine::memory(), with_short_intervals).await;
    let trap = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    trap.set_nonblocking(true).expect("a socket");
    let inner = format!("http://{}/worker-job", trap.local_addr().expect("bound"));
    for location in ["http://169.254.169.254/latest/meta-data", &inner] {
        let liar = Peer::start(PeerReply::redirect(307, location)).await;
        let worker = server.join(&liar.url(), 1).await;
        let id = server.push(json!({"name": "mail", "argument": {}, "max_retry": 0})).await;
        liar.until_called(2).await;
        let left = server.ask(Method::DELETE, "/worker", &[("worker-id", &worker)], None).await;
        assert_eq!(left.status, 204);
        let peer = Peer::start(ready()).await;
        let honest = server.join(&peer.url(), 1).await;
        assert_eq!(server.until(&id, "done").await["retry_count"], 0);
        server.ask(Method::DELETE, "/worker", &[("worker-id", &honest)], None).await;
    }
    assert!(trap.accept().is_err(), "no client connected");
}

#[tokio::test]
async fn jobs_are_signed_with_the_configured_secret() {
    let key = [7; 32];
    let secret =
        format!("whsec_{}", base64::Engine::encode(&base64::prelude::BASE64_STANDARD, key));
    let server = LocalServer::on(Engine::memory(), |options| {
        options.lightjq.workers.secret = Some(secret.try_into().expect("good"));
    })
    .await;
    let peer = Peer::start(ready()).await;
    server.join(&peer.url(), 1).await;
    let id = server.push(job("mail")).await;
    server.until(&id, "done").await;
    let call = peer.call(0);
    let text = |name: &str| call.headers[name].to_str().expect("text").to_owned();
    let timestamp: i64 = text("webhook-timestamp").parse().expect("seconds");
    assert!((timestamp - jiff::Timestamp::now().as_second()).abs() < 60);
    assert!(text("webhook-id").starts_with(&format!("job_{id}_")));
    let signed = [format!("{}.{timestamp}.", text("webhook-id")).as_bytes(), &call.body].concat();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key);
    let signature = text("webhook-signature");
    let signature = signature.strip_prefix("v1,").expect("a version");
    let signature =
        base64::Engine::decode(&base64::prelude::BASE64_STANDARD, signature).expect("base64");
    ring::hmac::verify(&key, &signed, &signature).expect("it is signed with the secret");
}

#[tokio::test]
async fn limits_hold_for_push_workers() {
    let server = LocalServer::start().await;
    let limit =
        crore_core::limit::Limit::parse(r#"where kind = "mail" concurrency 2"#).expect("good");
    server
        .engine
        .limits()
        .set(Name::new("limit", "mail").expect("good"), limit)
        .await
        .expect("set");
    let peer = Peer::start(PeerReply::status(202)).await;
    let worker = server.join(&peer.url(), 10).await;
    for _ in 0..5 {
        server.push(job("mail")).await;
    }
    let free = server.push(job("call")).await;
    server.until(&free, "running").await;
    peer.until_called(3).await;
    assert_eq!(peer.calls(), 3, "two of the five, and the one without a limit");
    let first = job_of(&peer.call(0))["id"].clone();
    assert_eq!(server.done(&worker, json!({"job_id": first, "type": "success"})).await, 204);
    peer.until_called(4).await;
}
