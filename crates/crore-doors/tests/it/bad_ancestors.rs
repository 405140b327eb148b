//! Invalid requests to LightJQ and Jobber: each is refused, and stores nothing.

use crore_wire::Format;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use crate::local_server::LocalServer;

const BOTH: [Format; 2] = [Format::Msgpack, Format::Json];

fn headers<const N: usize>(pairs: [(HeaderName, &str); N]) -> HeaderMap {
    pairs.into_iter().map(|(name, value)| (name, value.parse().expect("a value"))).collect()
}

/// A valid job with this change.
fn job(change: &Value) -> Value {
    let mut job = json!({"name": "a", "argument": {}});
    let change = change.as_object().expect("an object").clone();
    job.as_object_mut().expect("an object").extend(change);
    job
}

#[tokio::test]
async fn every_invalid_field_of_a_lightjq_job_is_refused_and_nothing_is_stored() {
    let server = LocalServer::start().await;
    for (change, code, field) in [
        (json!({"priority": 1_u64 << 31}), "malformed", "priority"),
        (json!({"priority": -(1_i64 << 31) - 1}), "malformed", "priority"),
        (json!({"priority": 1.5}), "malformed", "priority"),
        (json!({"priority": "1"}), "malformed", "priority"),
        (json!({"max_retry": -1}), "malformed", "max_retry"),
        (json!({"max_retry": 1000}), "retry-range", "max_retry"),
        (json!({"max_retry": 1_u64 << 32}), "malformed", "max_retry"),
        (json!({"timeout": 0}), "timeout-range", "timeout"),
        (json!({"timeout": -1}), "malformed", "timeout"),
        (json!({"timeout": 1.5}), "malformed", "timeout"),
        (json!({"timeout": 86_391}), "timeout-range", "timeout"),
        (json!({"timeout": 1_u64 << 63}), "timeout-range", "timeout"),
        (json!({"keep_result": "yes"}), "malformed", "keep_result"),
        (json!({"keep_result": 1}), "malformed", "keep_result"),
        (json!({"name": ""}), "name-empty", "name"),
        (json!({"name": "x".repeat(256)}), "name-too-long", "name"),
        (json!({"name": "é".repeat(128)}), "name-too-long", "name"),
        (json!({"name": "a\r\nSET x"}), "name-control", "name"),
        (json!({"name": "a\u{0}b"}), "name-control", "name"),
        (json!({"name": 7}), "malformed", "name"),
    ] {
        for format in BOTH {
            let refused = server.ask(Method::POST, "/job", &[], Some((format, job(&change)))).await;
            let problem = refused.body();
            assert_eq!(refused.status, 400, "{format:?} {change}");
            assert_eq!(
                (&problem["code"], &problem["field"]),
                (&json!(code), &json!(field)),
                "{format:?} {change}"
            );
        }
    }
    assert_eq!(server.engine.jobs().counts(None).await.expect("an answer"), []);
}

#[tokio::test]
async fn unusual_names_and_unknown_fields_of_a_lightjq_job_are_accepted() {
    let server = LocalServer::start().await;
    let names =
        ["../x", "a/b", "{tag}", "%2e%2e", "__proto__", ";rm -rf", "' OR 1=1--", "${jndi:x}"];
    for change in names.map(|name| json!({"name": name})).into_iter().chain([json!({"stars": 5})]) {
        for format in BOTH {
            let taken = server.ask(Method::POST, "/job", &[], Some((format, job(&change)))).await;
            assert_eq!(taken.status, 201, "{format:?} {change}");
        }
    }
}

#[tokio::test]
async fn an_invalid_wait_for_a_lightjq_job_is_refused_with_its_field() {
    let server = LocalServer::start().await;
    let id = server.push(json!({"name": "a", "argument": {}})).await;
    for query in ["abc", "", "-1", "1.5", "18446744073709551616", "1&timeout=2", "%00"] {
        let refused = server.get(&format!("/job/{id}/polling?timeout={query}")).await;
        assert_eq!((refused.status, &refused.body()["field"]), (400, &json!("timeout")), "{query}");
    }
    for id in ["0", "-1", "abc", "%00", "..%2f..%2fetc%2fpasswd", "%c0%ae", "99999999999999999999"]
    {
        for path in [format!("/job/{id}"), format!("/job/{id}/polling?timeout=0")] {
            assert_eq!(server.get(&path).await.status, 404, "{path}");
        }
    }
}

#[tokio::test]
async fn bad_reports_of_lightjq_workers_change_nothing() {
    let server = LocalServer::start().await;
    let id = server.push(json!({"name": "a", "argument": {}})).await;
    let worker = [("worker-id", "somebody")];
    let failure = |change: Value| {
        let whole = json!({"job_id": id, "type": "failure", "reason": "other", "should_retry": true, "message": "m"});
        let mut whole = whole.as_object().expect("an object").clone();
        whole.extend(change.as_object().expect("an object").clone());
        whole.retain(|_, value| !value.is_null());
        Value::Object(whole)
    };
    for (headers, report, status, field) in [
        (&[][..], json!({"job_id": id, "type": "success"}), 400, json!("worker_id")),
        (&worker, json!({"type": "success"}), 400, json!("job_id")),
        (&worker, json!({"job_id": 1, "type": "success"}), 400, json!("job_id")),
        (&worker, json!({"job_id": id}), 400, json!("type")),
        (&worker, json!({"job_id": id, "type": "maybe"}), 400, json!("type")),
        (&worker, failure(json!({"reason": null})), 400, json!("reason")),
        (&worker, failure(json!({"reason": "bored"})), 400, json!("reason")),
        (&worker, failure(json!({"should_retry": null})), 400, json!("should_retry")),
        (&worker, failure(json!({"should_retry": "yes"})), 400, json!("should_retry")),
        (&worker, failure(json!({"message": null})), 400, json!("message")),
        (&worker, failure(json!({"message": 7})), 400, json!("message")),
        (
            &worker,
            json!({"job_id": id, "type": "success", "delivery": "0"}),
            400,
            json!("delivery"),
        ),
        // Valid, but the worker does not hold the job.
        (&worker, json!({"job_id": id, "type": "success"}), 404, Value::Null),
        (&worker, json!({"job_id": id, "type": "success", "delivery": "4711"}), 404, Value::Null),
        (&worker, json!({"job_id": "abc", "type": "success"}), 404, Value::Null),
        (&worker, json!({"job_id": "4711", "type": "success"}), 404, Value::Null),
        (&[("worker-id", "")], json!({"job_id": id, "type": "success"}), 404, Value::Null),
    ] {
        for format in BOTH {
            let body = Some((format, report.clone()));
            let refused = server.ask(Method::POST, "/done", headers, body).await;
            assert_eq!((refused.status, &refused.body()["field"]), (status, &field), "{report}");
        }
    }
    assert_eq!(server.status(&id).await["status"], "queued");
    assert_eq!(server.delete("/worker").await.status, 400, "the leaving worker is not named");
}

#[tokio::test]
async fn no_door_decompresses_requests() {
    let server = LocalServer::start().await;
    for (path, kind) in [
        ("/job", "application/json"),
        ("/job", "application/msgpack"),
        ("/v1/jobs", "application/json"),
    ] {
        for coding in ["gzip", "br", "deflate", "identity, gzip"] {
            let headers = headers([(CONTENT_TYPE, kind), (CONTENT_ENCODING, coding)]);
            let body = b"\x1f\x8b\x08\0\0\0\0\0\0\0"[..].into();
            let refused = server.send(Method::POST, path, headers, body).await;
            assert_eq!(refused.status, 415, "{path} {coding}");
            let detail = refused.body()["detail"].to_string();
            assert!(detail.contains("content-encoding"), "{detail}");
        }
    }
    let plain = headers([(CONTENT_TYPE, "application/json"), (CONTENT_ENCODING, "identity")]);
    let taken = server.send(Method::POST, "/v1/jobs", plain, br#"{"kind":"a"}"#[..].into()).await;
    assert_eq!(taken.status, 201);
}

#[tokio::test]
async fn every_invalid_jobber_body_is_refused_and_nothing_is_stored() {
    let server = LocalServer::start().await;
    let deep = format!(r#"{{"type":"a","payload":{}{}}}"#, "[".repeat(70), "]".repeat(70));
    let large = format!(r#"{{"type":"a","payload":"{}"}}"#, "x".repeat(1 << 20));
    let bodies: [&[u8]; 12] = [
        b"\xef\xbb\xbf{\"type\":\"a\"}",
        b"{\"type\":\"\xff\"}",
        b"{\"type\":\"\\ud800\"}",
        b"{\"type\":\"a\",\"type\":\"b\"}",
        b"{\"type\":\"a\",}",
        b"{\"type\":\"a\"} x",
        b"{\"type\":\"a\",\"payload\":NaN}",
        b"{\"type\":\"a\",\"payload\":1e999}",
        b"{\"type\":\"a\\r\\nSET x\"}",
        b"\x81\xa4type\xa1a",
        deep.as_bytes(),
        large.as_bytes(),
    ];
    for path in ["/jobber/queue", "/jobs"] {
        for body in bodies {
            let body = body.to_vec().into();
            let refused = server.send(Method::POST, path, HeaderMap::new(), body).await;
            let text = String::from_utf8_lossy(&refused.bytes).into_owned();
            assert_eq!(refused.status, 400, "{text}");
            assert!(text.starts_with("Request body is not in the right format"), "{text}");
            assert!(text.len() < 500 && !text.contains("panic"), "{text}");
        }
        for method in [Method::GET, Method::PUT, Method::DELETE, Method::PATCH] {
            let refused = server.send(method, path, HeaderMap::new(), "".into()).await;
            assert_eq!(refused.status, 405);
        }
    }
    assert_eq!(server.engine.jobs().counts(None).await.expect("an answer"), []);
}
