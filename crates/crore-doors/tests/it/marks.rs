//! `/v1/marks`: restarts, deploys and changes.

use crore::Engine;
use crore_api::audit::{self, Audit};
use crore_doors::{Doors, Options, listen};
use crore_wire::grpc::v1;
use http::Method;
use serde_json::{Value, json};

use crate::grpc::{Worker, hello};
use crate::server::{BodyEncoding, Server, eventually};

const JSON: BodyEncoding = BodyEncoding::Json;

async fn marks(server: &Server, query: &str) -> Vec<Value> {
    let found = server.get(JSON, &format!("/v1/marks{query}")).await;
    assert_eq!(found.status, 200, "{found:?}");
    found.body["marks"].as_array().expect("marks").clone()
}

#[tokio::test]
async fn starts_deploys_and_changes_are_marks() {
    let server = Server::start().await;
    for (method, path, body) in [
        (Method::POST, "/v1/queues/mail/pause", json!({})),
        (Method::POST, "/v1/queues/mail/pause", json!({})),
        (Method::POST, "/v1/queues/mail/resume", json!({})),
        (Method::PATCH, "/v1/queues/mail", json!({"max_done": 9})),
        (Method::PATCH, "/v1/queues/mail", json!({"max_done": 9})),
        (Method::PUT, "/v1/limits/smtp", json!({"limit": "rate 5/1s"})),
        (Method::PUT, "/v1/limits/smtp", json!({"limit": "rate 5/1s"})),
        (Method::DELETE, "/v1/limits/smtp", json!({})),
        (Method::DELETE, "/v1/limits/smtp", json!({})),
    ] {
        let body = Some(&body).filter(|_| method != Method::DELETE);
        let done = server.call(JSON, method, path, body).await;
        assert!(done.status.is_success(), "{path}: {done:?}");
    }
    for version in ["1.0", "1.1", "1.0"] {
        Worker::start(
            &server,
            v1::Hello { version: version.to_owned(), ..hello("mail", 1, version) },
        )
        .await;
    }
    let shown: Vec<Value> = marks(&server, "")
        .await
        .iter()
        .map(|mark| json!([mark["mark"], mark["names"], mark["action"], mark["version"]]))
        .collect();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        shown,
        [
            json!(["start", null, null, version]),
            json!(["queue", ["mail"], "pause", null]),
            json!(["queue", ["mail"], "resume", null]),
            json!(["queue", ["mail"], "change", null]),
            json!(["limit", ["smtp"], "change", null]),
            json!(["limit", ["smtp"], "remove", null]),
            json!(["deploy", ["mail"], null, "1.1"]),
        ]
    );
    assert_eq!(marks(&server, "").await[1]["by"], "loopback");
    assert_eq!(marks(&server, "?to=2001-01-01T00:00:00Z").await.len(), 0);
    assert_eq!(marks(&server, "?from=2001-01-01T00:00:00Z").await.len(), 7);
}

#[tokio::test]
async fn marks_before_a_restart_come_from_the_audit_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let options =
        audit::Options { file: Some(dir.path().join("audit.jsonl")), ..audit::Options::default() };
    for starts in 1..=2 {
        let audit = Audit::open(&options).expect("opened");
        let doors = Doors::audited(Engine::memory(), Options::default(), audit);
        let server = Server::open(doors, listen::Options::default(), None).await;
        let api = server.doors.api().clone();
        let background = tokio::spawn(async move { api.run_background().await });
        let count = |marks: &[Value]| marks.iter().filter(|mark| mark["mark"] == "start").count();
        eventually(async || count(&marks(&server, "").await) == starts).await;
        if starts == 2 {
            let all = marks(&server, "").await;
            assert!(
                all.iter()
                    .any(|mark| mark["names"] == json!(["mail"]) && mark["action"] == "pause"),
                "{all:?}"
            );
        }
        server.post(JSON, "/v1/queues/mail/pause", &json!({})).await;
        server.doors.api().close();
        background.await.expect("it ends");
    }
}
