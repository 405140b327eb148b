//! `/v1/queues/{queue}/explain`, and what lists of queues and limits say about waiting jobs.

use http::Method;
use serde_json::{Value, json};

use crate::grpc::{Worker, hello, push};
use crate::server::{BodyEncoding, Server, eventually};

const JSON: BodyEncoding = BodyEncoding::Json;

async fn reasons(server: &Server, queue: &str) -> Vec<(String, String)> {
    let explained = server.get(JSON, &format!("/v1/queues/{queue}/explain")).await;
    assert_eq!(explained.status, 200, "{explained:?}");
    let text = |reason: &Value, name: &str| reason[name].as_str().unwrap_or_default().to_owned();
    let reasons = explained.body["reasons"].as_array().expect("reasons");
    reasons.iter().map(|reason| (text(reason, "reason"), text(reason, "detail"))).collect()
}

async fn set_limit(server: &Server, name: &str, limit: &str) {
    let body = json!({"limit": limit});
    let set = server.call(JSON, Method::PUT, &format!("/v1/limits/{name}"), Some(&body)).await;
    assert_eq!(set.status, 200, "{set:?}");
}

#[tokio::test]
async fn a_queue_is_explained_by_its_pause_its_workers_and_its_later_jobs() {
    let server = Server::start().await;
    let only = async |expected: &str| {
        let reasons = reasons(&server, "mail").await;
        assert_eq!(reasons.iter().map(|it| it.0.as_str()).collect::<Vec<_>>(), [expected]);
        reasons[0].1.clone()
    };
    only("empty").await;
    let later = json!({"kind": "mail", "delay": "1h"});
    server.post(JSON, "/v1/jobs", &later).await;
    let detail = only("scheduled").await;
    assert!(detail.starts_with("1 job is due later, the next one in 59m"), "{detail}");
    push(&server, "mail", 2).await;
    let all = reasons(&server, "mail").await;
    assert_eq!((all[0].0.as_str(), all.len()), ("no-worker", 2), "{all:?}");
    server.post(JSON, "/v1/queues/mail/pause", &json!({})).await;
    let all = reasons(&server, "mail").await;
    assert_eq!((all[0].0.as_str(), all.len()), ("paused", 2), "{all:?}");
    server.post(JSON, "/v1/queues/mail/resume", &json!({})).await;
    let mut worker = Worker::start(&server, hello("mail", 1, "one")).await;
    worker.jobs().await;
    let all = reasons(&server, "mail").await;
    let expected = "workers are busy: 1 of 1 slots of 1 workers run jobs; 1 job waits behind them";
    assert_eq!(all[0], ("workers-busy".to_owned(), expected.to_owned()));
    let queue = server.get(JSON, "/v1/queues/mail").await.body;
    assert_eq!((&queue["workers"], &queue["slots"]), (&json!(1), &json!(1)), "{queue}");
    assert_eq!(queue["busy_slots"], 1);
    assert!(queue["oldest_at"].is_string());
    let listed = server.get(JSON, "/v1/queues").await.body;
    assert_eq!(listed["queues"][0], queue, "the list says the same");
}

#[tokio::test]
async fn jobs_that_a_rate_holds_back_are_counted_with_the_time_until_the_last_starts() {
    let server = Server::start().await;
    set_limit(&server, "smtp", r#"where kind = "mail" rate 1/1h"#).await;
    let mut worker = Worker::start(&server, hello("mail", 10, "one")).await;
    push(&server, "mail", 4).await;
    worker.jobs().await;
    eventually(async || reasons(&server, "mail").await[0].0 == "limited").await;
    let all = reasons(&server, "mail").await;
    let expected = "3 jobs wait for limit `smtp` (1/1h); at this rate the last starts in 3h";
    assert_eq!((all.len(), all[0].1.as_str()), (1, expected));
    for path in ["/v1/limits/smtp", "/v1/limits"] {
        let mut limit = server.get(JSON, path).await.body;
        if path.ends_with('s') {
            limit = limit["limits"][0].take();
        }
        assert_eq!(limit["waiting"], 3, "{limit}");
        let held = &limit["held_back"][0];
        assert_eq!((&held["queue"], &held["jobs"]), (&json!("mail"), &json!(3)));
        assert_eq!(held["clears_in"], "3h");
        assert!(held["until"].is_string());
    }
    set_limit(&server, "smtp", r#"where kind = "mail" rate 1000/1s"#).await;
    let limit = async || server.get(JSON, "/v1/limits/smtp").await.body;
    eventually(async || limit().await["waiting"] == 0).await;
    assert_eq!(limit().await.get("held_back"), None);
}

#[tokio::test]
async fn jobs_that_a_concurrency_limit_holds_back_are_counted_by_key() {
    let server = Server::start().await;
    set_limit(&server, "tenants", r#"where kind = "mail" concurrency 1 per payload.tenant"#).await;
    for tenant in ["a", "a", "a", "b", "b", "c"] {
        let job = json!({"kind": "mail", "payload": {"tenant": tenant}});
        server.post(JSON, "/v1/jobs", &job).await;
    }
    let mut worker = Worker::start(&server, hello("mail", 10, "one")).await;
    let mut n = 0;
    while n < 3 {
        n += worker.jobs().await.len();
    }
    eventually(async || server.get(JSON, "/v1/limits/tenants").await.body["waiting"] == 3).await;
    let limit = server.get(JSON, "/v1/limits/tenants").await.body;
    let held =
        |n: usize| (limit["held_back"][n]["value"].clone(), limit["held_back"][n]["jobs"].clone());
    assert_eq!(held(0), (json!("a"), json!(2)), "the most jobs first: {limit}");
    assert_eq!(held(1), (json!("b"), json!(1)));
    let all = reasons(&server, "mail").await;
    let expected = "2 jobs wait for limit `tenants` for `a`: 1 of at most 1 jobs run";
    assert_eq!(all[0], ("limited".to_owned(), expected.to_owned()));
}

#[tokio::test]
async fn the_largest_shares_of_a_queue_are_shown() {
    let server = Server::start().await;
    let fair = json!({"fair": {"by": "payload.tenant", "weights": {"b": 3}}});
    server.call(JSON, Method::PATCH, "/v1/queues/mail", Some(&fair)).await;
    for n in 0..30 {
        let tenant = if n < 12 {
            "a"
        } else if n < 19 {
            "b"
        } else {
            &format!("t{n}")
        };
        let job = json!({"kind": "mail", "payload": {"tenant": tenant}});
        server.post(JSON, "/v1/jobs", &job).await;
    }
    let queue = server.get(JSON, "/v1/queues/mail").await.body;
    let shares = queue["shares"].as_array().expect("shares");
    assert_eq!(shares.len(), 10);
    assert_eq!(shares[0], json!({"value": "a", "weight": 1, "ready": 12}));
    assert_eq!(shares[1], json!({"value": "b", "weight": 3, "ready": 7}));
}
