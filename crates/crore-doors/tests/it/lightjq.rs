//! LightJQ's calls.

use std::sync::Arc;
use std::time::Duration;

use crore::Engine;
use crore::fetch::Fetch;
use crore::finish::Finish;
use crore::store::Memory;
use crore_core::machine::{Outcome, RetryDirective};
use crore_core::{Encoding, Job, Name, Payload, Span};
use crore_testkit::FakeClock;
use crore_wire::Format;
use http::Method;
use serde_json::{Value, json};

use crate::local_server::LocalServer;

/// Fetches the next job, as a worker of the native API.
async fn fetch(engine: &Engine) -> Option<Job> {
    let name = |text| Name::new("name", text).expect("good");
    engine.fetch(Fetch::new(name("lightjq"), name("w1"))).await.expect("an answer").pop()
}

async fn finish(engine: &Engine, job: &Job, outcome: Outcome) {
    engine.finish(Finish::of(job, outcome)).await.expect("an answer");
}

fn gives(value: &Value) -> Outcome {
    let bytes = rmp_serde::to_vec_named(value).expect("MessagePack");
    Outcome::Done { result: Some(Payload::new(Encoding::Msgpack, bytes)) }
}

fn fails(error: &str, again: RetryDirective) -> Outcome {
    Outcome::Failed { error: error.into(), detail: None, again }
}

#[tokio::test]
async fn a_job_is_pushed_and_seen_in_both_encodings() {
    let place = LocalServer::start().await;
    let job = json!({"name": "mail", "argument": {"to": "ada"}});
    for format in [Format::Msgpack, Format::Json] {
        let pushed = place.ask(Method::POST, "/job", &[], Some((format, job.clone()))).await;
        assert_eq!(
            (pushed.status, &pushed.headers["content-type"]),
            (201, &format.media_type().parse().expect("good"))
        );
        let id = pushed.body()["job_id"].as_str().expect("a text").to_owned();
        for accept in [Format::Msgpack, Format::Json] {
            let headers = [("accept", accept.media_type())];
            let seen = place.ask(Method::GET, &format!("/job/{id}"), &headers, None).await;
            assert_eq!(seen.headers["content-type"], accept.media_type());
            let expected = json!({
                "status": "queued", "worker_id": null, "result": null, "error": null, "message": "",
                "reason": null, "retry_count": 0, "finished_at": null,
            });
            assert_eq!((seen.status, seen.body()), (200, expected));
        }
        let job = fetch(&place.engine).await.expect("it is ready");
        assert_eq!(
            &*job.spec.payload.bytes, b"\x81\xa2to\xa3ada",
            "MessagePack, whatever it came as"
        );
    }
}

#[tokio::test]
async fn the_smallest_priority_of_all_jobs_is_next_and_the_oldest_of_equals() {
    let place = LocalServer::start().await;
    for (name, priority) in [("a", 5), ("b", -1), ("c", 0), ("d", -1), ("e", i32::MIN)] {
        place.push(json!({"name": name, "argument": {}, "priority": priority})).await;
    }
    let mut order = String::new();
    while let Some(job) = fetch(&place.engine).await {
        order.push_str(job.spec.kind.as_str());
    }
    assert_eq!(order, "ebdca");
}

#[tokio::test]
async fn a_kept_result_is_read_once_and_then_null() {
    let place = LocalServer::start().await;
    let job = json!({"name": "sum", "argument": {}, "keep_result": true});
    let id = place.push(job.clone()).await;
    let running = fetch(&place.engine).await.expect("it is ready");
    assert_eq!(place.status(&id).await["status"], "running");
    finish(&place.engine, &running, gives(&json!([1, {"a": null}]))).await;
    for path in [format!("/job/{id}"), format!("/job/{id}/polling")] {
        let head = place.ask(Method::HEAD, &path, &[], None).await;
        assert_eq!((head.status, head.bytes.len()), (200, 0), "and nothing is taken");
    }
    let first = place.status(&id).await;
    assert_eq!((&first["status"], &first["result"]), (&json!("done"), &json!([1, {"a": null}])));
    assert_eq!(first["worker_id"], "w1");
    let finished_at = first["finished_at"].as_str().expect("a time");
    assert!(finished_at.ends_with('Z') && finished_at.contains('T'), "{finished_at}");
    let second = place.status(&id).await;
    assert_eq!((&second["status"], &second["result"]), (&json!("done"), &Value::Null));
    // The same by polling.
    let id = place.push(job).await;
    let running = fetch(&place.engine).await.expect("it is ready");
    finish(&place.engine, &running, gives(&json!(7))).await;
    let polled = place.get(&format!("/job/{id}/polling")).await.body();
    assert_eq!(polled["result"], 7);
    assert_eq!(place.get(&format!("/job/{id}/polling")).await.body()["result"], Value::Null);
}

#[tokio::test]
async fn a_result_is_null_after_its_retention_or_without_one() {
    let clock = Arc::new(FakeClock::default());
    let store = Arc::new(Memory::new(clock.clone()));
    let engine =
        crore::block_on(Engine::without_thread(store, clock.clone(), crore::Options::default()))
            .expect("an engine");
    let place = LocalServer::on(engine, |_| {}).await;
    let mut ids = Vec::new();
    for keep in [true, false] {
        ids.push(place.push(json!({"name": "sum", "argument": {}, "keep_result": keep})).await);
        let running = fetch(&place.engine).await.expect("it is ready");
        finish(&place.engine, &running, gives(&json!(7))).await;
    }
    assert_eq!(place.status(&ids[1]).await["result"], Value::Null, "discarded at once");
    clock.advance(Span::from_secs(12 * 60 * 60));
    let late = place.status(&ids[0]).await;
    assert_eq!((&late["status"], &late["result"]), (&json!("done"), &Value::Null));
}

#[tokio::test]
async fn a_result_that_json_cannot_represent_is_sent_as_messagepack() {
    let place = LocalServer::start().await;
    let id = place.push(json!({"name": "sum", "argument": {}, "keep_result": true})).await;
    let running = fetch(&place.engine).await.expect("it is ready");
    let result = Some(Payload::new(Encoding::Msgpack, &b"\xc4\x02\x00\xff"[..]));
    finish(&place.engine, &running, Outcome::Done { result }).await;
    let path = format!("/job/{id}");
    let seen = place.ask(Method::GET, &path, &[("accept", "application/json")], None).await;
    assert_eq!(seen.headers["content-type"], "application/msgpack");
    assert!(seen.bytes.windows(4).any(|part| part == b"\xc4\x02\x00\xff"));
}

#[tokio::test]
async fn polling_returns_the_end_of_the_job_or_408() {
    let place = LocalServer::start().await;
    let id = place.push(json!({"name": "sum", "argument": {}, "keep_result": true})).await;
    let late = place.get(&format!("/job/{id}/polling?timeout=0")).await;
    assert_eq!((late.status, &late.body()["code"]), (408, &json!("not-yet")));
    let running = fetch(&place.engine).await.expect("it is ready");
    let path = format!("/job/{id}/polling?timeout=20");
    let (polled, ()) = tokio::join!(place.get(&path), async {
        crate::local_server::eventually(|| async {
            place.status(&id).await["status"] == "running"
        })
        .await;
        finish(&place.engine, &running, gives(&json!("yes"))).await;
    });
    assert_eq!((polled.status, &polled.body()["result"]), (200, &json!("yes")));
    let id = place.push(json!({"name": "sum", "argument": {}, "max_retry": 0})).await;
    let running = fetch(&place.engine).await.expect("it is ready");
    finish(&place.engine, &running, fails("no", RetryDirective::ByPolicy)).await;
    let failed = place.get(&format!("/job/{id}/polling?timeout=20")).await;
    assert_eq!((failed.status, &failed.body()["status"]), (200, &json!("error")));
    assert_eq!(failed.body()["message"], "no");
    assert_eq!(place.get("/job/999/polling").await.status, 404);
    let bad = place.get(&format!("/job/{id}/polling?timeout=-1")).await;
    assert_eq!((bad.status, &bad.body()["field"]), (400, &json!("timeout")));
}

#[tokio::test]
async fn failures_are_retried_with_growing_delays_as_often_as_was_said() {
    let clock = Arc::new(FakeClock::default());
    let store = Arc::new(Memory::new(clock.clone()));
    let engine =
        crore::block_on(Engine::without_thread(store, clock.clone(), crore::Options::default()))
            .expect("an engine");
    let place = LocalServer::on(engine, |_| {}).await;
    let id = place.push(json!({"name": "sum", "argument": {}, "max_retry": 2})).await;
    for (n, most) in [(1, 1200), (2, 2400)] {
        let running = fetch(&place.engine).await.expect("it is ready");
        finish(&place.engine, &running, fails("no luck", RetryDirective::ByPolicy)).await;
        let seen = place.status(&id).await;
        assert_eq!((&seen["status"], &seen["retry_count"]), (&json!("retrying"), &json!(n)));
        assert_eq!((&seen["message"], &seen["worker_id"]), (&json!("no luck"), &json!("w1")));
        place.engine.upkeep().run_once().await.expect("upkeep");
        assert_eq!(fetch(&place.engine).await, None, "not at once");
        clock.advance(Span::from_millis(most));
        place.engine.upkeep().run_once().await.expect("upkeep");
    }
    let running = fetch(&place.engine).await.expect("it is ready");
    let seen = place.status(&id).await;
    assert_eq!((&seen["status"], &seen["retry_count"]), (&json!("running"), &json!(2)));
    finish(&place.engine, &running, fails("no luck", RetryDirective::ByPolicy)).await;
    let seen = place.status(&id).await;
    assert_eq!((&seen["status"], &seen["retry_count"]), (&json!("error"), &json!(2)));
}

#[tokio::test]
async fn only_a_job_that_never_began_can_be_cancelled() {
    let place = LocalServer::start().await;
    let job = json!({"name": "sum", "argument": {}, "max_retry": 1});
    let queued = place.push(job.clone()).await;
    assert_eq!(place.delete(&format!("/job/{queued}")).await.status, 204);
    assert_eq!(place.delete(&format!("/job/{queued}")).await.status, 404);
    assert_eq!(place.get(&format!("/job/{queued}")).await.status, 404);
    assert_eq!(fetch(&place.engine).await, None);
    let id = place.push(job).await;
    let path = format!("/job/{id}");
    let running = fetch(&place.engine).await.expect("it is ready");
    assert_eq!(place.delete(&path).await.status, 409);
    finish(&place.engine, &running, fails("no", RetryDirective::ByPolicy)).await;
    assert_eq!(place.delete(&path).await.status, 409, "it waits to be retried");
    place.until(&id, "retrying").await;
    let running = crate::local_server::eventually(|| fetch(&place.engine)).await;
    finish(&place.engine, &running, gives(&json!(1))).await;
    assert_eq!(place.delete(&path).await.status, 409, "it has ended");
    for absent in ["0", "999", "abc", "%00", "..%2f1", "18446744073709551616"] {
        assert_eq!(place.delete(&format!("/job/{absent}")).await.status, 404, "{absent}");
    }
}

#[tokio::test]
async fn jobs_of_other_doors_are_not_found() {
    let place = LocalServer::start().await;
    let id = place.engine.push("mail", "hello").await.expect("pushed");
    for path in [format!("/job/{id}"), format!("/job/{id}/polling")] {
        assert_eq!(place.get(&path).await.status, 404);
    }
    assert_eq!(place.delete(&format!("/job/{id}")).await.status, 404);
    let report = json!({"job_id": id.to_string(), "type": "success"});
    assert_eq!(place.done("w1", report).await, 404);
    assert!(place.engine.get(id).await.expect("an answer").is_some());
}

#[tokio::test]
async fn invalid_bodies_are_refused_with_their_field() {
    let place = LocalServer::start().await;
    for (body, field) in [
        (json!({"argument": {}}), "name"),
        (json!({"name": "a\u{0}b", "argument": {}}), "name"),
        (json!({"name": "a"}), "argument"),
        (json!({"name": "a", "argument": {}, "priority": 1_u64 << 31}), "priority"),
        (json!({"name": "a", "argument": {}, "max_retry": 1000}), "max_retry"),
        (json!({"name": "a", "argument": {}, "timeout": 0}), "timeout"),
        (json!({"name": "a", "argument": {"big": "x".repeat(1 << 20)}}), "argument"),
    ] {
        for format in [Format::Msgpack, Format::Json] {
            let refused = place.ask(Method::POST, "/job", &[], Some((format, body.clone()))).await;
            let is_large = body["argument"]["big"].is_string();
            assert_eq!(refused.status, if is_large { 413 } else { 400 }, "{field}");
            assert_eq!(refused.body()["field"], field);
            let kind = refused.headers["content-type"].to_str().expect("text");
            assert_eq!(kind, format.problem_type());
        }
    }
    for (kind, bytes) in [
        ("application/msgpack", &b"\x81"[..]),
        ("application/msgpack", b"\xc1"),
        ("application/msgpack", b"\xdf\xff\xff\xff\xff"),
        ("application/msgpack", b"\x82\xa4name\xa1a\xa8argument\x80\x00"),
        ("application/msgpack", b"\x82\xa4name\xa1a\xa8argument\x81\x01"),
        ("application/msgpack", b"\x82\xa4name\xa1a\xa8argument\xc1"),
        ("application/msgpack", b"\x82\xa4name\xa1a\xa8argument\xd5\x01\x00"),
        ("application/msgpack", b"\x82\xa4name\xa1a\xa8argument\xc9\xff\xff\xff\xff\x01"),
        ("application/json", b"{"),
        ("application/json", b"\xef\xbb\xbf{}"),
        ("application/json", br#"{"name":"a","name":"b","argument":{}}"#),
        ("application/json", b"[]"),
        ("application/json", b""),
    ] {
        let headers =
            [(http::header::CONTENT_TYPE, kind.parse().expect("good"))].into_iter().collect();
        let refused = place.send(Method::POST, "/job", headers, bytes.into()).await;
        assert_eq!(refused.status, 400, "{kind} {bytes:?}");
    }
    let headers = [(http::header::CONTENT_TYPE, "text/html".parse().expect("good"))];
    let refused = place.send(Method::POST, "/job", headers.into_iter().collect(), "x".into()).await;
    assert_eq!(refused.status, 415);
    assert_eq!(place.get("/job").await.status, 405);
    assert_eq!(fetch(&place.engine).await, None, "nothing was pushed");
}

#[tokio::test]
async fn a_deep_argument_is_refused() {
    let place = LocalServer::start().await;
    let nested = |n: usize| (0..n).fold(json!(1), |inner, _| json!({"a": inner}));
    for (depth, status) in [(60, 201), (65, 400)] {
        let body = json!({"name": "a", "argument": nested(depth)});
        assert_eq!(place.post("/job", body).await.status, status, "{depth}");
    }
}

#[tokio::test]
async fn a_limit_on_a_name_and_a_parameter_holds() {
    let place = LocalServer::start().await;
    let limit = r#"where queue = "lightjq" and kind = "mail" and payload.to = "ada" concurrency 1"#;
    let limit = crore_core::limit::Limit::parse(limit).expect("good");
    place.engine.limits().set(Name::new("limit", "ada").expect("good"), limit).await.expect("set");
    for to in ["ada", "ada", "bob", "ada"] {
        place.push(json!({"name": "mail", "argument": {"to": to}})).await;
    }
    place.push(json!({"name": "call", "argument": {"to": "ada"}})).await;
    let mut running = Vec::new();
    while let Some(job) = fetch(&place.engine).await {
        running.push(job);
    }
    let ids: Vec<u64> = running.iter().map(|job| job.id.0).collect();
    assert_eq!(ids.len(), 3, "one to ada, one to bob, and the call: {ids:?}");
    finish(&place.engine, &running[0], gives(&json!(1))).await;
    assert!(fetch(&place.engine).await.is_some(), "the next one to ada");
    assert!(fetch(&place.engine).await.is_none(), "and no more");
}

#[tokio::test]
async fn a_run_that_takes_longer_than_its_timeout_has_failed() {
    let place = LocalServer::start().await;
    let id =
        place.push(json!({"name": "slow", "argument": {}, "timeout": 1, "max_retry": 0})).await;
    let running = fetch(&place.engine).await.expect("it is ready");
    let seen = place.get(&format!("/job/{id}/polling?timeout=20")).await.body();
    assert_eq!((&seen["status"], &seen["message"]), (&json!("error"), &json!("timed out")));
    let stale = place.engine.finish(Finish::of(&running, gives(&json!(1)))).await;
    assert_eq!(stale.expect("an answer"), crore::finish::FinishResult::Stale);
}

#[tokio::test]
async fn shutdown_answers_waiting_calls() {
    let place = LocalServer::start().await;
    let id = place.push(json!({"name": "sum", "argument": {}})).await;
    let path = format!("/job/{id}/polling?timeout=50");
    let address = place.address();
    let waiting = {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n");
        tokio::spawn(async move {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
            stream.write_all(request.as_bytes()).await.expect("sent");
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.expect("an answer");
            answer
        })
    };
    // A status by another connection, after which the first one is waiting.
    place.status(&id).await;
    tokio::time::timeout(Duration::from_secs(10), place.stop()).await.expect("in time");
    assert_eq!(&waiting.await.expect("no panic"), b"HTTP/1.1 408");
}

#[tokio::test]
async fn the_description_has_every_call_including_the_one_of_workers() {
    let place = LocalServer::start().await;
    let api = place.get("/openapi.json").await.body();
    for (path, method) in [
        ("/job", "post"),
        ("/job/{job_id}", "get"),
        ("/job/{job_id}", "delete"),
        ("/job/{job_id}/polling", "get"),
        ("/worker", "post"),
        ("/worker", "delete"),
        ("/done", "post"),
    ] {
        let call = &api["paths"][path][method];
        assert!(call["operationId"].as_str().is_some_and(|id| id.starts_with("lightjq")), "{path}");
        assert!(call["responses"]["404"]["content"]["application/problem+msgpack"].is_object());
    }
    let body = &api["paths"]["/job"]["post"]["requestBody"]["content"];
    assert!(body["application/msgpack"].is_object() && body["application/json"].is_object());
    let webhook = &api["webhooks"]["worker-job"]["post"];
    assert!(webhook["requestBody"]["content"]["application/msgpack"].is_object());
    let schemas = api["components"]["schemas"].as_object().expect("schemas");
    for name in ["NewJob", "Status", "NewWorker", "Report", "WorkerJob"] {
        assert!(schemas.contains_key(&format!("lightjq.{name}")), "{name}");
    }
}
