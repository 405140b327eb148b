//! Jobber's calls, and the life of its jobs.

use std::sync::Arc;

use crore::Engine;
use crore::fetch::Fetch;
use crore::finish::Finish;
use crore::store::Memory;
use crore_api::job_uuid;
use crore_core::machine::{Outcome, RetryDirective};
use crore_core::{Encoding, Job, Name, Span, State};
use crore_testkit::FakeClock;
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use crate::local_server::{LocalResponse, LocalServer};

async fn post(place: &LocalServer, path: &str, body: &str) -> LocalResponse {
    place.send(Method::POST, path, HeaderMap::new(), body.to_owned().into()).await
}

async fn fetch(engine: &Engine, queue: &str) -> Option<Job> {
    let name = |text| Name::new("name", text).expect("good");
    engine.fetch(Fetch::new(name(queue), name("w1"))).await.expect("an answer").pop()
}

#[tokio::test]
async fn both_paths_accept_either_key_and_return_their_own() {
    let place = LocalServer::start().await;
    for (path, key) in [("/jobber/queue", "job-id"), ("/jobs", "jobId")] {
        for body in [
            r#"{"type":"sample","payload":{"ms": 5.50}}"#,
            r#"{"jobType":" sample ","payload":{"ms": 5.50}}"#,
        ] {
            let posted = post(&place, path, body).await;
            assert_eq!(posted.status, 201);
            assert_eq!(posted.headers["content-type"], "application/json");
            let answer: Value = serde_json::from_slice(&posted.bytes).expect("JSON");
            let uuid = answer[key].as_str().expect("a uuid");
            assert_eq!((answer.as_object().map(serde_json::Map::len), uuid.len()), (Some(1), 36));
            let job = fetch(&place.engine, "sample").await.expect("it is ready");
            let store = place.engine.status().store_id();
            assert_eq!(job_uuid::job_of(store, uuid), Some(job.id), "the uuid names the job");
            assert_eq!(
                (job.spec.kind.as_str(), job.spec.payload.encoding),
                ("sample", Encoding::Json)
            );
            assert_eq!(&*job.spec.payload.bytes, br#"{"ms": 5.50}"#, "unchanged");
        }
    }
}

/// Pushes a job, and returns its UUID.
async fn pushed(place: &LocalServer) -> String {
    let posted = post(place, "/jobs", r#"{"type":"sample","payload":{"ms": 5.50}}"#).await;
    posted.body()["jobId"].as_str().expect("a uuid").to_owned()
}

#[tokio::test]
async fn two_servers_give_their_jobs_different_uuids() {
    let (one, other) = (LocalServer::start().await, LocalServer::start().await);
    let mine = pushed(&one).await;
    assert_ne!(mine, pushed(&other).await);
    for path in ["/jobs", "/jobber/queue", "/v1/jobs"] {
        assert_eq!(one.get(&format!("{path}/{mine}")).await.status, 200, "{path}");
        assert_eq!(other.get(&format!("{path}/{mine}")).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_job_is_looked_up_by_its_uuid() {
    let place = LocalServer::start().await;
    let uuid = pushed(&place).await;
    let payload = json!({"ms": 5.50});
    let shown = json!({"jobId": uuid, "jobType": "sample", "payload": payload, "status": "ready"});
    assert_eq!(place.get(&format!("/jobs/{uuid}")).await.body(), shown);
    let shown = json!({"job-id": uuid, "type": "sample", "payload": payload, "status": "ready"});
    assert_eq!(place.get(&format!("/jobber/queue/{uuid}")).await.body(), shown);
    let native = place.get(&format!("/v1/jobs/{}", uuid.to_uppercase())).await.body();
    assert_eq!((&native["kind"], &native["id"]), (&json!("sample"), &json!("1")));
    let cancelled = post(&place, &format!("/v1/jobs/{uuid}/cancel"), "").await;
    assert_eq!(cancelled.status, 200);
    let cancelled = place.get(&format!("/jobs/{uuid}")).await.body();
    assert_eq!(cancelled["status"], "cancelled");
    for unknown in ["", "x", "0", "2", "00000000-0000-8000-8000-000000000000"] {
        let missing = place.get(&format!("/jobs/{unknown}")).await;
        assert_eq!(missing.status, 404, "{unknown}");
    }
}

#[tokio::test]
async fn any_payload_will_do_and_none_is_null() {
    let place = LocalServer::start().await;
    for (body, payload) in [
        (r#"{"type":"a"}"#, "null"),
        (r#"{"type":"a","payload":null}"#, "null"),
        (r#"{"type":"a","payload":"text"}"#, r#""text""#),
        (r#"{"type":"a","payload":[1,2]}"#, "[1,2]"),
        (r#"{"type":"a","payload":7,"colour":"blue"}"#, "7"),
    ] {
        assert_eq!(post(&place, "/jobs", body).await.status, 201, "{body}");
        let job = fetch(&place.engine, "a").await.expect("it is ready");
        assert_eq!(std::str::from_utf8(&job.spec.payload.bytes), Ok(payload));
    }
}

#[tokio::test]
async fn errors_have_the_wording_of_jobber() {
    let place = LocalServer::start().await;
    let wrong = "Request body is not in the right format\n";
    for path in ["/jobber/queue", "/jobs"] {
        for body in
            ["", "{", "[]", "null", "{}", r#"{"type":""}"#, r#"{"jobType":" \t"}"#, r#"{"type":5}"#]
        {
            let refused = post(&place, path, body).await;
            assert_eq!((refused.status, &refused.bytes[..]), (400, wrong.as_bytes()), "{body}");
            assert_eq!(refused.headers["content-type"], "text/plain; charset=utf-8");
            assert_eq!(refused.headers["x-content-type-options"], "nosniff");
        }
        let long = format!(r#"{{"type":"{}"}}"#, "x".repeat(256));
        for (body, field) in [
            (long.as_str(), "type"),
            ("{\"type\":\"a\\u0000b\"}", "type"),
            (r#"{"type":"a","payload":{"x":1,"x":2}}"#, "payload"),
        ] {
            let refused = post(&place, path, body).await;
            let text = String::from_utf8_lossy(&refused.bytes).into_owned();
            assert_eq!(refused.status, 400);
            assert!(text.starts_with(&format!("{}: {field}: ", wrong.trim_end())), "{text}");
        }
        assert_eq!(place.get(path).await.status, 405);
    }
    assert_eq!(post(&place, "/jobber", "{}").await.status, 404);
}

#[tokio::test]
async fn a_job_that_cannot_be_stored_is_refused() {
    let place = LocalServer::start().await;
    place.engine.stop().expect("stopped");
    let refused = post(&place, "/jobs", r#"{"type":"a"}"#).await;
    let text = String::from_utf8_lossy(&refused.bytes).into_owned();
    assert_eq!(
        (refused.status, &refused.headers["x-content-type-options"]),
        (500, &"nosniff".parse().expect("good"))
    );
    assert!(text.starts_with("Unable to post job, Error: stopping: "), "{text}");
}

/// An engine on a fake clock.
fn engine() -> (Engine, Arc<FakeClock>) {
    let clock = Arc::new(FakeClock::default());
    let store = Arc::new(Memory::new(clock.clone()));
    let engine =
        crore::block_on(Engine::without_thread(store, clock.clone(), crore::Options::default()))
            .expect("an engine");
    (engine, clock)
}

#[tokio::test]
async fn an_abandoned_job_is_redelivered_any_number_of_times() {
    let (engine, clock) = engine();
    let place = LocalServer::on(engine, |_| {}).await;
    for n in 0..3 {
        let body = json!({"type": "sample", "payload": n}).to_string();
        assert_eq!(post(&place, "/jobs", &body).await.status, 201);
    }
    for round in 0..30 {
        let mut taken = Vec::new();
        while let Some(job) = fetch(&place.engine, "sample").await {
            taken.push(job.spec.payload.bytes.to_vec());
        }
        assert_eq!(taken, [b"0", b"1", b"2"], "round {round}: all of them, in order");
        clock.advance(Span::from_millis(14_999));
        place.engine.upkeep().run_once().await.expect("upkeep");
        assert_eq!(fetch(&place.engine, "sample").await, None, "not before it is due");
        clock.advance(Span::from_millis(1));
        place.engine.upkeep().run_once().await.expect("upkeep");
    }
    let job = fetch(&place.engine, "sample").await.expect("it still exists");
    assert_eq!((job.live.crashes, job.live.attempt), (30, 1));
    let done = Finish::of(&job, Outcome::Done { result: None });
    place.engine.finish(done).await.expect("an answer");
    let job = place.engine.get(job.id).await.expect("an answer").expect("it is kept for a while");
    assert_eq!(job.live.state, State::Done);
}

#[tokio::test]
async fn a_type_may_have_a_visibility_timeout_of_its_own() {
    let (engine, clock) = engine();
    let place = LocalServer::on(engine, |options| {
        let slow = ("slow".to_owned(), Span::from_secs(60));
        options.jobber.types.extend([slow]);
    })
    .await;
    for kind in ["slow", "fast"] {
        let body = json!({"type": kind}).to_string();
        assert_eq!(post(&place, "/jobs", &body).await.status, 201);
        assert!(fetch(&place.engine, kind).await.is_some());
    }
    clock.advance(Span::from_secs(15));
    place.engine.upkeep().run_once().await.expect("upkeep");
    assert!(fetch(&place.engine, "fast").await.is_some());
    assert!(fetch(&place.engine, "slow").await.is_none());
    clock.advance(Span::from_secs(45));
    place.engine.upkeep().run_once().await.expect("upkeep");
    assert!(fetch(&place.engine, "slow").await.is_some());
}

#[tokio::test]
async fn a_failed_job_is_retried_and_not_lost() {
    let (engine, clock) = engine();
    let place = LocalServer::on(engine, |_| {}).await;
    assert_eq!(post(&place, "/jobs", r#"{"type":"sample"}"#).await.status, 201);
    for _ in 0..30 {
        let job = fetch(&place.engine, "sample").await.expect("it exists again");
        let failed =
            Outcome::Failed { error: "no".into(), detail: None, again: RetryDirective::ByPolicy };
        place.engine.finish(Finish::of(&job, failed)).await.expect("an answer");
        clock.advance(Span::from_secs(2 * 60 * 60));
        place.engine.upkeep().run_once().await.expect("upkeep");
    }
    assert!(fetch(&place.engine, "sample").await.is_some());
}
