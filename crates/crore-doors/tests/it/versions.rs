//! Required versions over HTTP, in both encodings. Those over gRPC are in `grpc/versions.rs`.

use http::StatusCode;
use serde_json::{Value, json};

use crate::server::{BodyEncoding, Server};

async fn fetch(server: &Server, encoding: BodyEncoding, more: Value) -> Value {
    let mut ask = json!({"queues": ["mail"], "n": 9});
    ask.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let answer = server.post(encoding, "/v1/fetch", &ask).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    answer.body["jobs"].clone()
}

#[tokio::test]
async fn a_job_goes_to_a_worker_with_a_version_that_it_accepts() {
    for encoding in BodyEncoding::BOTH {
        let server = Server::start().await;
        let job = json!({"kind": "mail", "worker_version": ">= 2.3  <3.0"});
        let pushed = server.post(encoding, "/v1/jobs", &job).await;
        assert_eq!(pushed.status, StatusCode::CREATED, "{pushed:?}");
        let shown = server.get(encoding, "/v1/jobs/1").await;
        assert_eq!(shown.body["worker_version"], ">=2.3 <3", "the shortest text");
        assert_eq!(fetch(&server, encoding, json!({})).await, json!([]));
        let why = server.get(encoding, "/v1/jobs/1/explain").await;
        assert_eq!(why.body["reasons"][0]["reason"], "no-worker-version", "{why:?}");
        let detail = why.body["reasons"][0]["detail"].as_str().expect("a text");
        assert!(detail.contains("`>=2.3 <3` of kind `mail`"), "{detail}");
        let metrics = server.page("/metrics").await.1;
        assert!(metrics.contains("crore_unrunnable_jobs{queue=\"mail\"} 1\n"), "{metrics}");
        let old = json!({"versions": {"mail": "2.2.9", "other": "9"}});
        assert_eq!(fetch(&server, encoding, old).await, json!([]));
        let why = server.get(encoding, "/v1/jobs/1/explain").await;
        let detail = why.body["reasons"][0]["detail"].as_str().expect("a text");
        assert!(detail.ends_with("connected: `2.2.9`"), "{detail}");
        let new = json!({"kinds": ["mail"], "versions": {"mail": "2.10"}});
        assert_eq!(fetch(&server, encoding, new).await[0]["id"], "1");
        let metrics = server.page("/metrics").await.1;
        assert!(metrics.contains("crore_unrunnable_jobs{queue=\"mail\"} 0\n"), "{metrics}");
    }
}

#[tokio::test]
async fn texts_that_are_no_versions_are_refused_by_field_and_store_nothing() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        for bad in ["", "2.3", ">=2.3-rc1", ">=3 <2", "latest"] {
            let job = json!({"kind": "mail", "worker_version": bad});
            let refused = server.post(encoding, "/v1/jobs", &job).await;
            let expected = (400, "version-requirement", Some("worker_version"));
            assert_eq!(refused.problem(), expected, "{bad}: {refused:?}");
        }
        for bad in ["", "v2", "2.x", "2.3.1.4", ">=2"] {
            let ask = json!({"queues": ["mail"], "versions": {"mail": bad}});
            let refused = server.post(encoding, "/v1/fetch", &ask).await;
            let expected = (400, "version-invalid", Some("versions.mail"));
            assert_eq!(refused.problem(), expected, "{bad}: {refused:?}");
        }
        let other = json!({"queues": ["mail"], "kinds": ["a"], "versions": {"b": "1"}});
        let refused = server.post(encoding, "/v1/fetch", &other).await;
        assert_eq!(refused.problem().2, Some("versions.b"), "{refused:?}");
    }
    let counted = server.get(BodyEncoding::Json, "/v1/counts").await;
    assert_eq!(counted.body["counts"], json!([]), "{counted:?}");
}
