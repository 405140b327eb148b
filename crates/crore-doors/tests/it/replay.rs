//! Replays over HTTP, in both encodings, and as bulk operations. Those over gRPC are in `grpc/replay.rs`.

use http::StatusCode;
use serde_json::{Value, json};

use crate::server::{BodyEncoding, Server};

const JSON: BodyEncoding = BodyEncoding::Json;

/// A job with many fields.
async fn push(server: &Server, encoding: BodyEncoding) {
    let job = json!({
        "kind": "mail", "queue": "fast", "payload": {"to": "ada"}, "priority": 3, "client_id": "mine",
        "labels": {"tenant": "acme"}, "worker_version": ">=2", "timeout": "9s", "start_within": "1h",
    });
    let pushed = server.post(encoding, "/v1/jobs", &job).await;
    assert_eq!(pushed.status, StatusCode::CREATED, "{pushed:?}");
}

async fn job(server: &Server, id: &str) -> Value {
    server.get(JSON, &format!("/v1/jobs/{id}")).await.body
}

#[tokio::test]
async fn a_replay_is_a_new_job_with_edits_and_a_link() {
    for encoding in BodyEncoding::BOTH {
        let server = Server::start().await;
        push(&server, encoding).await;
        let replayed = server.post(encoding, "/v1/jobs/1/replay", &json!({})).await;
        assert_eq!(replayed.status, StatusCode::CREATED, "{replayed:?}");
        assert_eq!(replayed.body, json!({"status": "new", "id": "2"}));
        let (original, replay) = (job(&server, "1").await, job(&server, "2").await);
        assert_eq!((&replay["replay_of"], &original["replay_of"]), (&json!("1"), &Value::Null));
        for field in ["kind", "queue", "payload", "priority", "labels", "worker_version", "timeout"]
        {
            assert_eq!(replay[field], original[field], "{field}");
        }
        for field in ["client_id", "deadline", "group", "after", "parent"] {
            assert_eq!(replay.get(field), None, "{field}");
        }
        let edits = json!({
            "payload": {"to": "bob"}, "queue": "slow", "worker_version": null, "priority": 0, "delay": "1h",
        });
        let replayed = server.post(encoding, "/v1/jobs/2/replay", &edits).await;
        assert_eq!(replayed.body["id"], "3", "{replayed:?}");
        let edited = job(&server, "3").await;
        let shown = ["replay_of", "queue", "state", "kind"].map(|field| edited[field].clone());
        assert_eq!(shown, ["2", "slow", "scheduled", "mail"].map(Value::from));
        assert_eq!((&edited["payload"], &edited["priority"]), (&json!({"to": "bob"}), &json!(0)));
        assert_eq!(edited.get("worker_version"), None);
        let listed = server.get(encoding, "/v1/jobs?q=replays%3A1,2").await;
        let ids: Vec<_> = listed.body["jobs"].as_array().into_iter().flatten().collect();
        assert_eq!(ids.len(), 2, "{listed:?}");
    }
}

#[tokio::test]
async fn an_invalid_replay_is_refused_by_field_and_stores_nothing() {
    let server = Server::start().await;
    push(&server, JSON).await;
    let large = json!({"payload": "x".repeat(1 << 20)});
    for (edits, status, code, field) in [
        (json!({"queue": ""}), 400, "name-empty", "queue"),
        (json!({"queue": "x".repeat(300)}), 400, "name-too-long", "queue"),
        (json!({"worker_version": "2"}), 400, "version-requirement", "worker_version"),
        (json!({"worker_version": ""}), 400, "version-requirement", "worker_version"),
        (large, 400, "payload-too-large", "payload"),
        (json!({"payload_base64": "e30", "encoding": "json"}), 400, "malformed", "payload_base64"),
        (
            json!({"payload_base64": "ew==", "encoding": "json"}),
            400,
            "payload-malformed",
            "payload",
        ),
        (json!({"delay": "100000d"}), 400, "time-range", "due"),
        (json!({"kind": "other"}), 400, "field-unknown", "kind"),
    ] {
        let refused = server.post(JSON, "/v1/jobs/1/replay", &edits).await;
        let (heard, heard_code, heard_field) = refused.problem();
        assert_eq!((heard_code, heard_field), (code, Some(field)), "{refused:?}");
        assert!(heard == status || code == "payload-too-large", "{refused:?}");
    }
    let missing = server.post(JSON, "/v1/jobs/7/replay", &json!({})).await;
    assert_eq!(missing.problem(), (404, "not-found", None));
    assert_eq!(server.get(JSON, "/v1/jobs/2").await.problem(), (404, "not-found", None));
}

#[tokio::test]
async fn a_replay_under_an_idempotency_key_is_stored_once() {
    let server = Server::start().await;
    let headers = [("idempotency-key", "again"), ("content-type", "application/json")];
    let pushed = json!({"kind": "mail", "payload": 1});
    let post = async |path: &str, body: &Value| {
        let call = (http::Method::POST, path);
        server.send(JSON, call, &headers, JSON.encode(body)).await
    };
    assert_eq!(post("/v1/jobs", &pushed).await.body["id"], "1");
    // The idempotency key of the original does not belong to the replay.
    let replayed = server.post(JSON, "/v1/jobs/1/replay", &json!({})).await;
    assert_eq!(replayed.body, json!({"status": "new", "id": "2"}));
    let headers = [("idempotency-key", "replay"), ("content-type", "application/json")];
    for _ in 0..2 {
        let call = (http::Method::POST, "/v1/jobs/1/replay");
        let replayed = server.send(JSON, call, &headers, b"{}".to_vec()).await;
        assert_eq!(replayed.body["id"], "3", "{replayed:?}");
    }
}

#[tokio::test]
async fn an_operation_replays_each_matching_job_once() {
    let server = Server::start().await;
    let jobs: Vec<Value> = (0..500).map(|n| json!({"kind": "mail", "payload": {"n": n}})).collect();
    server.post(JSON, "/v1/jobs", &json!({"jobs": jobs})).await;
    let request = json!({
        "act": "replay", "filter": {"q": "kind:mail payload.n<300"},
        "replay": {"worker_version": ">=3", "priority": 5},
    });
    let preview = server.post(JSON, "/v1/operations/preview", &request).await.body;
    assert_eq!((&preview["matched"], &preview["changed"]), (&json!(300), &json!(300)));
    let started = server.post(JSON, "/v1/operations", &request).await;
    assert_eq!(started.status, StatusCode::ACCEPTED, "{started:?}");
    assert_eq!(started.body["request"]["replay"], request["replay"]);
    let id = started.body["id"].as_str().expect("an id");
    let ended = server.get(JSON, &format!("/v1/operations/{id}?wait=1m")).await.body;
    assert_eq!((&ended["state"], &ended["changed"]), (&json!("done"), &json!(300)), "{ended}");
    let queue = server.get(JSON, "/v1/queues/mail").await;
    assert_eq!(queue.body["counts"], json!({"ready": 800}));
    let replay = job(&server, "501").await;
    let shown = ["replay_of", "worker_version"].map(|field| replay[field].clone());
    assert_eq!(shown, ["1", ">=3"].map(Value::from));
    assert_eq!(replay["priority"], 5);
    for (act, replay, field) in [
        ("cancel", json!({}), "replay"),
        ("replay", json!({"queue": ""}), "replay.queue"),
        ("replay", json!({"worker_version": "x"}), "replay.worker_version"),
        ("replay", json!({"payload": 1}), "replay.payload"),
    ] {
        let bad = json!({"act": act, "filter": {"q": "kind:mail"}, "replay": replay});
        for path in ["/v1/operations", "/v1/operations/preview", "/v1/jobs/act"] {
            let refused = server.post(JSON, path, &bad).await;
            assert_eq!(
                (refused.problem().0, refused.problem().2),
                (400, Some(field)),
                "{refused:?}"
            );
        }
    }
    assert_eq!(server.get(JSON, "/v1/queues/mail").await.body["counts"], json!({"ready": 800}));
}
