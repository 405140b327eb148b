//! `/v1/workers/{name}/quiet`, `resume` and `stop`.

use serde_json::json;

use crate::grpc::{Worker, hello, push};
use crate::server::{BodyEncoding, Server, ServerResponse, eventually};

const JSON: BodyEncoding = BodyEncoding::Json;

async fn ask(server: &Server, worker: &str, request: &str) -> ServerResponse {
    server.post(JSON, &format!("/v1/workers/{worker}/{request}"), &json!({})).await
}

#[tokio::test]
async fn a_quiet_worker_gets_no_jobs_until_it_is_resumed() {
    let server = Server::start().await;
    let mut quiet = Worker::start(&server, hello("mail", 5, "one")).await;
    let asked = ask(&server, "one", "quiet").await;
    assert_eq!(asked.status, 200, "{asked:?}");
    assert_eq!(asked.body["workers"][0]["stream"]["quiet"], json!(true));
    // Its waiting fetch ends, so that it takes no job from another worker.
    eventually(async || server.engine.deliveries().waiting() == 0).await;
    let id = push(&server, "mail", 1).await[0];
    let explained = server.get(JSON, "/v1/queues/mail/explain").await;
    assert_eq!(explained.body["reasons"][0]["reason"], "workers-quiet", "{explained:?}");
    let mut other = Worker::start(&server, hello("mail", 1, "two")).await;
    assert_eq!(other.jobs().await[0].id, id);
    push(&server, "mail", 1).await;
    let resumed = ask(&server, "one", "resume").await;
    assert_eq!(resumed.body["workers"][0]["stream"]["quiet"], json!(false));
    assert_eq!(quiet.jobs().await.len(), 1);
}

#[tokio::test]
async fn a_worker_that_is_asked_to_stop_is_told_once_and_gets_no_more_jobs() {
    let server = Server::start().await;
    let mut worker = Worker::start(&server, hello("mail", 5, "one")).await;
    let asked = ask(&server, "one", "stop").await;
    assert_eq!(asked.body["workers"][0]["stream"]["stopping"], json!(true), "{asked:?}");
    assert!(worker.next_message().await.exit);
    let refused = ask(&server, "one", "resume").await;
    assert_eq!(refused.problem().0, 409, "{refused:?}");
    // The request survives a reconnect.
    drop(worker);
    let mut again = Worker::start(&server, hello("mail", 5, "one")).await;
    let listed = server.get(JSON, "/v1/workers").await;
    let stream = &listed.body["workers"][0]["stream"];
    if stream["stopping"] == json!(true) {
        assert!(again.next_message().await.exit);
    }
}

#[tokio::test]
async fn workers_without_a_stream_and_unknown_ones_are_refused() {
    let server = Server::start().await;
    assert_eq!(ask(&server, "none", "quiet").await.problem().0, 404);
    let set = server.call(JSON, http::Method::PUT, "/v1/workers/w", Some(&json!({}))).await;
    assert_eq!(set.status, 204);
    let refused = ask(&server, "w", "stop").await;
    assert_eq!(refused.problem().0, 409, "{refused:?}");
    let detail = refused.body["detail"].as_str().expect("a text");
    assert!(detail.contains("has no stream"), "{detail}");
}
