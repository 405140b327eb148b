//! Each call of the native API, in both encodings.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::server::{Server, Speaks};

/// Pushes a job and gives its id.
async fn push(server: &Server, speaks: Speaks, job: Value) -> String {
    let answer = server.post(speaks, "/v1/jobs", &job).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
    answer.body["id"].as_str().expect("ids are texts").to_owned()
}

/// Fetches one job of a queue.
async fn fetch(server: &Server, speaks: Speaks, queue: &str) -> Value {
    let ask = json!({"queues": [queue], "worker": "w1"});
    let mut answer = server.post(speaks, "/v1/fetch", &ask).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    answer.body["jobs"][0].take()
}

#[tokio::test]
async fn a_job_is_pushed_fetched_renewed_and_finished() {
    let server = Server::start().await;
    for speaks in Speaks::BOTH {
        let payload = json!({"to": "ada", "n": [1, 2.5, null, true]});
        let job =
            json!({"kind": "mail", "payload": payload, "keep_result": "1h", "labels": {"a": "b"}});
        let id = push(&server, speaks, job).await;
        let got = server.get(speaks, &format!("/v1/jobs/{id}")).await;
        assert_eq!(got.body["state"], "ready");
        assert_eq!(got.body["payload"], payload);
        assert_eq!(got.headers["content-type"], speaks.media_type());

        let job = fetch(&server, speaks, "mail").await;
        assert_eq!((&job["id"], &job["payload"]), (&json!(id), &payload));
        let held = json!({"id": id, "delivery": job["delivery"]});
        let renewed =
            server.post(speaks, "/v1/renew", &json!({"jobs": [held], "lease": "5m"})).await;
        assert_eq!(renewed.body["jobs"][0]["status"], "renewed", "{renewed:?}");

        let report =
            json!({"id": id, "delivery": job["delivery"], "outcome": "done", "result": [7]});
        let finish = json!({"jobs": [report]});
        let finished = server.post(speaks, "/v1/finish", &finish).await;
        assert_eq!(finished.body["jobs"][0], json!({"status": "finished", "state": "done"}));
        let again = server.post(speaks, "/v1/finish", &finish).await;
        assert_eq!(again.body["jobs"][0], json!({"status": "stale"}));

        let result = server.get(speaks, &format!("/v1/jobs/{id}/result")).await;
        assert_eq!(result.status, StatusCode::OK);
        assert_eq!((&result.body["result"], &result.body["state"]), (&json!([7]), &json!("done")));
    }
}

#[tokio::test]
async fn unknown_addresses_and_methods_are_problems() {
    let server = Server::start().await;
    for speaks in Speaks::BOTH {
        let nowhere = server.get(Speaks::Json, "/v1/nowhere").await;
        assert_eq!(nowhere.problem(), (404, "not-found", None));
        let put = server.call(Speaks::Json, Method::PUT, "/v1/jobs", None).await;
        assert_eq!(put.problem(), (405, "method-not-allowed", None));
        let allowed = put.headers["allow"].to_str().expect("a text");
        assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
        let missing = server.get(speaks, "/v1/jobs/4711").await;
        assert_eq!(missing.problem(), (404, "not-found", None));
        assert!(missing.headers["content-type"].to_str().expect("a text").contains("problem"));
    }
}
