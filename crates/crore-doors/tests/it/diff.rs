//! `/v1/jobs/{id}/diff`: what distinguishes a job from the last good one.

use crore_wire::grpc::v1;
use serde_json::{Value, json};

use crate::grpc::{Worker, hello};
use crate::server::{BodyEncoding, Server};

const JSON: BodyEncoding = BodyEncoding::Json;

async fn push(server: &Server, encoding: BodyEncoding, payload: &Value) -> String {
    let job = json!({"queue": "q", "kind": "k", "payload": payload, "retry": {"max_attempts": 1}});
    let pushed = server.post(encoding, "/v1/jobs", &job).await;
    pushed.body["id"].as_str().expect("an id").to_owned()
}

async fn finish(server: &Server, outcome: &str) {
    let fetched = server.post(JSON, "/v1/fetch", &json!({"queues": ["q"], "worker": "w"})).await;
    let job = &fetched.body["jobs"][0];
    let mut report = json!({"id": job["id"], "delivery": job["delivery"], "outcome": outcome});
    if outcome == "failed" {
        report["error"] = json!("no");
    }
    let done = server.post(JSON, "/v1/finish", &json!({"jobs": [report]})).await;
    assert!(done.status.is_success(), "{done:?}");
}

async fn diff(server: &Server, id: &str) -> Value {
    let diff = server.get(JSON, &format!("/v1/jobs/{id}/diff")).await;
    assert_eq!(diff.status, 200, "{diff:?}");
    diff.body
}

#[tokio::test]
async fn a_job_is_compared_with_the_last_good_one_field_by_field() {
    for encoding in BodyEncoding::BOTH {
        let server = Server::start().await;
        let first = push(&server, encoding, &json!({"to": "ada", "n": 1, "old": true})).await;
        let alone = diff(&server, &first).await;
        assert_eq!((alone.get("good"), &alone["comparable"]), (None, &json!(false)));
        finish(&server, "done").await;
        let failed = push(&server, encoding, &json!({"to": "eve", "n": 1, "new": [1]})).await;
        finish(&server, "failed").await;
        let found = diff(&server, &failed).await;
        assert_eq!((&found["good"]["job"], &found["run"]["job"]), (&json!(first), &json!(failed)));
        assert_eq!(found["good"]["worker"], "w");
        assert_eq!(
            found["fields"],
            json!([
                {"field": "payload.new", "change": "added", "value": "[1]"},
                {"field": "payload.old", "change": "removed", "good": "true"},
                {"field": "payload.to", "change": "changed", "good": "\"ada\"", "value": "\"eve\""},
            ])
        );
        assert_eq!((&found["field_count"], &found["comparable"]), (&json!(3), &json!(true)));
        // A done job is not compared with itself.
        assert_eq!(diff(&server, &first).await.get("good"), None);
    }
    let server = Server::start().await;
    assert_eq!(server.get(JSON, "/v1/jobs/1/diff").await.problem().1, "not-found");
}

#[tokio::test]
async fn versions_of_workers_are_those_of_the_runs() {
    let server = Server::start().await;
    for (version, outcome) in [("1.0", "done"), ("1.1", "failed")] {
        let id = push(&server, JSON, &json!({"n": 1})).await;
        let mut worker = Worker::start(
            &server,
            v1::Hello { version: version.to_owned(), ..hello("q", 1, version) },
        )
        .await;
        let delivered = worker.jobs().await.remove(0);
        let report = match outcome {
            "done" => {
                json!({"id": id, "delivery": delivered.delivery.to_string(), "outcome": "done"})
            }
            _ => {
                json!({"id": id, "delivery": delivered.delivery.to_string(), "outcome": "failed", "error": "no"})
            }
        };
        let done = server.post(JSON, "/v1/finish", &json!({"jobs": [report]})).await;
        assert!(done.status.is_success(), "{done:?}");
    }
    let found = diff(&server, "2").await;
    assert_eq!(
        (&found["good"]["version"], &found["run"]["version"]),
        (&json!("1.0"), &json!("1.1"))
    );
    assert_eq!(found["fields"], json!([]));
}
