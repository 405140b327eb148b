//! Invalid requests: each is refused with the offending field, and stores nothing.

use http::Method;
use serde_json::{Value, json};

use crate::server::{BodyEncoding, Server};

/// Invalid fields of a job: the value, the status, the code, and the field.
fn bad_fields() -> Vec<(Value, u16, &'static str, &'static str)> {
    let long = |n: usize| "x".repeat(n);
    let labels = |n: usize| -> Value {
        Value::Object((0..n).map(|n| (format!("k{n}"), json!("v"))).collect())
    };
    let mut deep = json!(1);
    (0..65).for_each(|_| deep = json!([deep]));
    vec![
        (json!({"priority": 2_147_483_648_i64}), 400, "malformed", "priority"),
        (json!({"priority": -2_147_483_649_i64}), 400, "malformed", "priority"),
        (json!({"priority": 1.5}), 400, "malformed", "priority"),
        (json!({"priority": "1"}), 400, "malformed", "priority"),
        (json!({"due": -1}), 400, "malformed", "due"),
        (json!({"due": 0}), 400, "malformed", "due"),
        (json!({"due": i64::MIN}), 400, "malformed", "due"),
        (json!({"due": i64::MAX}), 400, "malformed", "due"),
        (json!({"due": "10000-01-01T00:00:00Z"}), 400, "malformed", "due"),
        (json!({"due": "9000-01-01T00:00:00Z"}), 400, "time-range", "due"),
        (json!({"due": "2026-02-30T00:00:00Z"}), 400, "malformed", "due"),
        (json!({"due": "2026-01-01T00:00:00"}), 400, "malformed", "due"),
        (json!({"due": "2026-01-01T00:00:00Z", "delay": "1s"}), 400, "malformed", "delay"),
        (json!({"delay": "99999999d"}), 400, "time-range", "delay"),
        (json!({"delay": "99999999999999999999999d"}), 400, "malformed", "delay"),
        (json!({"lease": "0s"}), 400, "lease-range", "lease"),
        (json!({"lease": "25h"}), 400, "lease-range", "lease"),
        (json!({"lease": "-1s"}), 400, "malformed", "lease"),
        (json!({"lease": 30}), 400, "malformed", "lease"),
        (json!({"timeout": "0s"}), 400, "timeout-range", "timeout"),
        (json!({"timeout": "-1s"}), 400, "malformed", "timeout"),
        (json!({"timeout": "9223372036854775808s"}), 400, "malformed", "timeout"),
        (json!({"start_within": "0s"}), 400, "time-range", "start_within"),
        (json!({"start_within": "3654d"}), 400, "time-range", "start_within"),
        (json!({"start_within": 5}), 400, "malformed", "start_within"),
        (json!({"start_within": "1h", "delay": "1h"}), 400, "time-range", "start_within"),
        (json!({"deadline": "9999-01-01T00:00:00Z"}), 400, "time-range", "deadline"),
        (json!({"deadline": "soon"}), 400, "malformed", "deadline"),
        (
            json!({"deadline": "2026-01-01T00:00:00Z", "start_within": "1s"}),
            400,
            "malformed",
            "start_within",
        ),
        (json!({"wait_for": "paid"}), 400, "malformed", "wait_for"),
        (json!({"wait_for": {"event": ""}}), 400, "name-empty", "wait_for.event"),
        (
            json!({"wait_for": {"event": "a", "timeout": "0s"}}),
            400,
            "timeout-range",
            "wait_for.timeout",
        ),
        (
            json!({"wait_for": {"event": "a", "on_timeout": "run"}}),
            400,
            "malformed",
            "wait_for.on_timeout",
        ),
        (json!({"on_expired": {"kind": "x"}}), 400, "malformed", "on_expired"),
        (json!({"start_within": "1s", "on_expired": "x"}), 400, "malformed", "on_expired"),
        (json!({"start_within": "1s", "on_expired": {}}), 400, "malformed", "on_expired.kind"),
        (
            json!({"start_within": "1s", "on_expired": {"kind": "x", "lease": "1ms"}}),
            400,
            "lease-range",
            "on_expired.lease",
        ),
        (
            json!({"start_within": "1s", "on_expired": {"kind": "x", "start_within": "1s", "on_expired": {"kind": "y"}}}),
            400,
            "malformed",
            "on_expired.on_expired",
        ),
        (json!({"retry": {"max_attempts": 0}}), 400, "retry-range", "retry.max_attempts"),
        (json!({"retry": {"max_attempts": 1001}}), 400, "retry-range", "retry.max_attempts"),
        (json!({"retry": {"max_attempts": -1}}), 400, "malformed", "retry.max_attempts"),
        (json!({"retry": {"max_interval": "0s"}}), 400, "retry-range", "retry.max_interval"),
        (json!({"retry": {"base": "31d"}}), 400, "retry-range", "retry.base"),
        (json!({"retry": {"factor": 1e300}}), 400, "retry-range", "retry.factor"),
        (json!({"retry": {"jitter": 101}}), 400, "retry-range", "retry.jitter"),
        (json!({"retry": {"backoff": "random"}}), 400, "malformed", "retry.backoff"),
        (json!({"retry": {"back": "none"}}), 400, "field-unknown", "retry.back"),
        (json!({"retry": [1]}), 400, "malformed", "retry"),
        (json!({"max_crashes": 1001}), 400, "retry-range", "max_crashes"),
        (json!({"kind": ""}), 400, "name-empty", "kind"),
        (json!({"kind": long(256)}), 400, "name-too-long", "kind"),
        (json!({"kind": "a\u{0}b"}), 400, "name-control", "kind"),
        (json!({"kind": "a\r\nSET x"}), 400, "name-control", "kind"),
        (json!({"kind": 7}), 400, "malformed", "kind"),
        (json!({"queue": ""}), 400, "name-empty", "queue"),
        (json!({"queue": "é".repeat(128)}), 400, "name-too-long", "queue"),
        (json!({"retain": "for-ever"}), 400, "malformed", "retain"),
        (json!({"prio": 1}), 400, "field-unknown", "prio"),
        (json!({"__proto__": {}}), 400, "field-unknown", "__proto__"),
        (json!({"payload": 1, "payload_base64": "AA=="}), 400, "malformed", "payload"),
        (json!({"payload_base64": "%"}), 400, "malformed", "payload_base64"),
        (
            json!({"payload_base64": "/w==", "encoding": "text"}),
            400,
            "payload-malformed",
            "payload",
        ),
        (json!({"payload_base64": "/w==", "encoding": "xml"}), 400, "malformed", "encoding"),
        (json!({"payload": deep}), 400, "payload-malformed", "payload"),
        (json!({"payload": long((1 << 20) + 1)}), 413, "payload-too-large", "payload"),
        (json!({"group": {}}), 400, "malformed", "group"),
        (json!({"group": {"id": "1", "new": 0}}), 400, "malformed", "group"),
        (json!({"group": {"id": 1}}), 400, "malformed", "group.id"),
        (json!({"group": {"id": "4711"}}), 409, "refused", "group"),
        (json!({"after": [{}]}), 400, "malformed", "after[0]"),
        (json!({"after": [{"job": "0"}]}), 400, "malformed", "after[0].job"),
        (json!({"after": [{"job": "+1"}]}), 400, "malformed", "after[0].job"),
        (json!({"after": [{"job": "9223372036854775808"}]}), 400, "malformed", "after[0].job"),
        (json!({"after": [{"job": "4711"}]}), 409, "refused", "after"),
        (json!({"after": vec![json!({"job": "1"}); 1001]}), 400, "too-many-dependencies", "after"),
        (json!({"keep_result": "91d"}), 400, "time-range", "keep_result"),
        (json!({"read_once": true}), 400, "malformed", "read_once"),
        (json!({"unique": {"key": ""}}), 400, "key-empty", "unique.key"),
        (json!({"unique": {"key": long(257)}}), 400, "key-too-long", "unique.key"),
        (json!({"unique": {"key": "crore.chain:1"}}), 400, "key-reserved", "unique.key"),
        (json!({"unique": {"key": "k", "hold": "window"}}), 400, "time-range", "unique.window"),
        (json!({"unique": {"key": "k", "window": "0s"}}), 400, "time-range", "unique.window"),
        (json!({"unique": {}}), 400, "malformed", "unique.key"),
        (json!({"client_id": long(257)}), 400, "key-too-long", "client_id"),
        (json!({"client_id": "a\nb"}), 400, "key-control", "client_id"),
        (json!({"trace": long(1025)}), 400, "key-too-long", "trace"),
        (json!({"labels": labels(33)}), 400, "label-range", "labels"),
        (json!({"labels": labels(10_000)}), 400, "label-range", "labels"),
        (json!({"labels": {"a": long(257)}}), 400, "label-range", "labels"),
        (json!({"labels": {"a": 1}}), 400, "malformed", "labels.a"),
        (json!({"labels": ["a"]}), 400, "malformed", "labels"),
    ]
}

#[tokio::test]
async fn every_invalid_field_of_a_job_is_refused_by_name_and_nothing_is_stored() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        for (fields, status, code, field) in bad_fields() {
            let mut job = json!({"kind": "k"});
            let more = fields.as_object().expect("fields").clone();
            job.as_object_mut().expect("an object").extend(more);
            let answer = server.post(encoding, "/v1/jobs", &job).await;
            // `delay` is checked as the `due` that it leads to.
            let field = if (code, field) == ("time-range", "delay") { "due" } else { field };
            assert_eq!(answer.problem(), (status, code, Some(field)), "{encoding:?} {answer:?}");
            assert!(answer.body["detail"].as_str().is_some_and(|detail| detail.len() < 500));
            // In a batch, where it is refused alone.
            let batch = json!({"jobs": [job]});
            let answer = server.post(encoding, "/v1/jobs", &batch).await;
            let problem = &answer.body["jobs"][0]["problem"];
            assert_eq!(problem["code"], code, "{encoding:?} {answer:?}");
            assert_eq!(problem["field"], format!("jobs[0].{field}"), "{encoding:?} {answer:?}");
        }
    }
    assert_eq!(server.get(BodyEncoding::Json, "/v1/counts").await.body, json!({"counts": []}));
}

#[tokio::test]
async fn unusual_but_valid_input_is_accepted() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        for fields in [
            json!({"due": "1990-01-01T00:00:00Z"}),
            json!({"due": "2016-12-31T23:59:60Z"}),
            json!({"due": "1969-01-01T00:00:00+01:00"}),
            json!({"priority": i32::MIN}),
            json!({"retry": {"max_attempts": null, "max_interval": null}, "max_crashes": null}),
            json!({"payload": "' OR 1=1--\u{0}\u{202e}<script>"}),
            json!({"labels": {"a": "</script>"}}),
        ] {
            let mut job = json!({"kind": "odd"});
            let more = fields.as_object().expect("fields").clone();
            job.as_object_mut().expect("an object").extend(more);
            let answer = server.post(encoding, "/v1/jobs", &job).await;
            assert_eq!(answer.status, 201, "{fields} {answer:?}");
        }
        for name in [
            "../x",
            "a/b",
            "{tag}",
            "%2e%2e",
            "__proto__",
            ";rm -rf",
            "' OR 1=1--",
            "${jndi:x}",
            "メ🙂",
            "\u{202e}x",
        ] {
            let answer = server.post(encoding, "/v1/jobs", &json!({"kind": name})).await;
            assert_eq!(answer.status, 201, "{name} {answer:?}");
            let path: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let queue = server.get(encoding, &format!("/v1/queues/{path}")).await.body;
            assert_eq!(queue["name"], name);
            assert_ne!(queue["counts"], json!({}));
        }
    }
}

#[tokio::test]
async fn bad_bodies_are_refused_before_anything_is_done() {
    let server = Server::start().await;
    let json: &[(&[u8], &str)] = &[
        (b"", "malformed"),
        (b"null", "malformed"),
        (b"[]", "malformed"),
        (b"[\"kind\"]", "malformed"),
        (b"\"kind\"", "malformed"),
        (b"{\"kind\":\"a\"", "malformed"),
        (b"{\"kind\":\"a\",}", "malformed"),
        (b"{\"kind\":\"a\"} {}", "malformed"),
        (b"\xef\xbb\xbf{\"kind\":\"a\"}", "malformed"),
        (b"{\"kind\":\"\xff\"}", "malformed"),
        (b"{\"kind\":\"\\ud800\"}", "malformed"),
        (b"{\"kind\":\"a\",\"kind\":\"b\"}", "malformed"),
        (b"{\"kind\":\"a\",\"labels\":{\"x\":\"1\",\"x\":\"2\"}}", "malformed"),
        (b"{\"kind\":\"a\",\"payload\":NaN}", "malformed"),
        (b"{\"kind\":\"a\",\"payload\":1e999}", "payload-malformed"),
        (b"{\"kind\":\"a\",\"payload\":\"\\ud800\"}", "payload-malformed"),
        (b"{\"kind\":\"a\",\"payload\":{\"x\":1,\"x\":2}}", "payload-malformed"),
        (b"{\"kind\":\"a\",\"payload\":\"\0\"}", "malformed"),
    ];
    for (body, code) in json {
        let headers = [("content-type", "application/json")];
        let answer = server
            .send(BodyEncoding::Json, (Method::POST, "/v1/jobs"), &headers, body.to_vec())
            .await;
        assert_eq!((answer.problem().0, answer.problem().1), (400, *code), "{body:?} {answer:?}");
    }
    let kind = |rest: &[u8]| [b"\x82\xa4kind\xa1a\xa7payload", rest].concat();
    let msgpack: &[(Vec<u8>, &str)] = &[
        (Vec::new(), "malformed"),
        (vec![0xc0], "malformed"),
        (vec![0xc1], "malformed"),
        (vec![0x91, 0xa1, b'a'], "malformed"),
        (b"\x81\xa4kind\xa1a\xc0".to_vec(), "malformed"),
        (b"\x81\xa4kind\xc4\x01a".to_vec(), "malformed"),
        (b"\x81\xc4\x04kind\xa1a".to_vec(), "malformed"),
        (b"\x82\xa4kind\xa1a\xa4kind\xa1b".to_vec(), "malformed"),
        (b"\x81\xa4kind\xa1\xff".to_vec(), "malformed"),
        (b"\x82\xa4kind\xa1a\x01\x02".to_vec(), "malformed"),
        (kind(&[0xd4, 1, 0]), "payload-malformed"),
        (kind(&[0xd6, 0xff, 0xff, 0xff, 0xff, 0xff]), "payload-malformed"),
        (
            kind(&[0xc7, 12, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]),
            "payload-malformed",
        ),
        (kind(&[0x81, 1, 1]), "payload-malformed"),
        (kind(&[0xdd, 255, 255, 255, 255]), "malformed"),
        (kind(&[0xdf, 255, 255, 255, 255]), "malformed"),
        (kind(&[0xc6, 255, 255, 255, 255]), "malformed"),
        (kind(&[0xdb, 255, 255, 255, 255]), "malformed"),
        (kind(&[vec![0x91; 200], vec![1]].concat()), "payload-malformed"),
        (kind(&[0x82, 0xa1, b'x', 1, 0xa1, b'x', 2]), "payload-malformed"),
    ];
    for (body, code) in msgpack {
        let headers = [("content-type", "application/msgpack")];
        let answer = server
            .send(BodyEncoding::Msgpack, (Method::POST, "/v1/jobs"), &headers, body.clone())
            .await;
        assert_eq!((answer.problem().0, answer.problem().1), (400, *code), "{body:?} {answer:?}");
    }
    assert_eq!(server.get(BodyEncoding::Json, "/v1/counts").await.body, json!({"counts": []}));
}

#[tokio::test]
async fn content_types_are_distinguished() {
    let server = Server::start().await;
    let send = async |headers: &[(&str, &str)]| {
        server
            .send(
                BodyEncoding::Json,
                (Method::POST, "/v1/jobs"),
                headers,
                br#"{"kind":"a"}"#.to_vec(),
            )
            .await
    };
    for kind in [
        "text/plain",
        "application/json; charset=utf-16",
        "application/x-www-form-urlencoded",
        "",
        "json",
    ] {
        assert_eq!(
            send(&[("content-type", kind)]).await.problem(),
            (415, "media-type", None),
            "{kind}"
        );
    }
    assert_eq!(send(&[]).await.problem(), (415, "media-type", None));
    for kind in [
        "application/json",
        "Application/JSON; charset=\"UTF-8\"",
        "application/json;charset=utf-8",
    ] {
        assert_eq!(send(&[("content-type", kind)]).await.status, 201, "{kind}");
    }
    let accept = async |accept: &str| {
        let headers = [("accept", accept)];
        server.send(BodyEncoding::Json, (Method::GET, "/v1/counts"), &headers, Vec::new()).await
    };
    for kind in ["text/html", "image/*", "application/json;q=0", "text/event-stream", ""] {
        assert_eq!(accept(kind).await.problem(), (406, "not-acceptable", None), "{kind}");
    }
    for kind in ["*/*", "application/*", "text/html, application/json;q=0.5", "application/json"] {
        assert_eq!(accept(kind).await.status, 200, "{kind}");
    }
    let headers = [
        ("content-type", "application/json"),
        ("accept", "text/html, application/msgpack;q=0.9, application/json;q=0.1"),
    ];
    let answer = server
        .send(
            BodyEncoding::Msgpack,
            (Method::POST, "/v1/jobs"),
            &headers,
            br#"{"kind":"a"}"#.to_vec(),
        )
        .await;
    assert_eq!(
        (answer.status.as_u16(), &answer.headers["content-type"]),
        (201, &"application/msgpack".parse().expect("a value"))
    );
}

#[tokio::test]
async fn bad_parameters_and_addresses_are_refused() {
    let server = Server::start().await;
    for (path, status, field) in [
        ("/v1/jobs?limit=-1", 400, Some("limit")),
        ("/v1/jobs?limit=0", 400, Some("limit")),
        ("/v1/jobs?limit=1001", 400, Some("limit")),
        ("/v1/jobs?limit=x", 400, Some("limit")),
        ("/v1/jobs?limit=1&limit=2", 400, Some("limit")),
        ("/v1/jobs?cursor=../../", 400, Some("cursor")),
        ("/v1/jobs?cursor=AAAAAAAA", 400, Some("cursor")),
        ("/v1/jobs?state=sleeping", 400, Some("state")),
        ("/v1/jobs?status=ready", 400, Some("status")),
        ("/v1/jobs?queue=", 400, Some("queue")),
        ("/v1/jobs?client_id=", 400, Some("client_id")),
        ("/v1/jobs?client_id=x&queue=y", 400, Some("client_id")),
        ("/v1/jobs?queue=%00", 400, Some("queue")),
        ("/v1/jobs/%00", 404, None),
        ("/v1/jobs/0", 404, None),
        ("/v1/jobs/-1", 404, None),
        ("/v1/jobs/1e3", 404, None),
        ("/v1/jobs/99999999999999999999", 404, None),
        ("/v1/jobs/..%2f..%2fetc%2fpasswd", 404, None),
        ("/v1/jobs/%252e%252e", 404, None),
        ("/v1/jobs/%c0%ae", 404, None),
        ("/v1/../v1/jobs", 404, None),
        ("/v1/queues/%00", 400, Some("queue")),
        ("/v1/jobs/1/result?wait=soon", 400, Some("wait")),
        ("/v1/stats?series=births", 400, Some("series")),
        ("/v1/stats?step=year", 400, Some("step")),
        ("/v1/stats?queue=", 400, Some("queue")),
        ("/v1/stats?kind=%00", 400, Some("kind")),
        ("/v1/stats?from=yesterday", 400, Some("from")),
        ("/v1/stats?to=2026-11-15", 400, Some("to")),
        ("/v1/stats?from=2026-11-15T08:00:00Z&to=2026-11-14T08:00:00Z", 400, Some("from")),
        ("/v1/stats?by=worker", 400, Some("by")),
        ("/v1/stats?by=queue&series=done", 400, Some("by")),
        ("/v1/stats?since=1h", 400, Some("since")),
        ("/v1/preview?timing=never", 400, Some("timing")),
        ("/v1/preview?timing=every%201m&n=0", 400, Some("n")),
        ("/v1/preview?timing=cron%200%200%2031%202%20*", 400, Some("timing")),
        (
            "/v1/preview?timing=cron%200%200%201%201%20*%20in%20../../etc/passwd",
            400,
            Some("timing"),
        ),
    ] {
        let answer = server.get(BodyEncoding::Json, path).await;
        let (got, _, named) = answer.problem();
        assert_eq!((got, named), (status, field), "{path} {answer:?}");
    }
}

#[tokio::test]
async fn bad_reports_change_nothing() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let pushed =
            server.post(encoding, "/v1/jobs", &json!({"kind": "r", "retry": {"base": "1h"}})).await;
        let id = pushed.body["id"].as_str().expect("an id").to_owned();
        let fetched = server.post(encoding, "/v1/fetch", &json!({"queues": ["r"]})).await;
        let delivery = &fetched.body["jobs"][0]["delivery"];
        let report =
            async |one: Value| server.post(encoding, "/v1/finish", &json!({"jobs": [one]})).await;
        let is = |outcome: &str| json!({"id": id, "delivery": delivery, "outcome": outcome});
        let with = |outcome: &str, field: &str, value: Value| {
            let mut one = is(outcome);
            one[field] = value;
            one
        };
        for (one, field) in [
            (with("done", "delivery", json!("0")), "jobs[0].delivery"),
            (with("done", "delivery", json!(7)), "jobs[0].delivery"),
            (with("done", "id", json!("x")), "jobs[0].id"),
            (with("well", "id", json!(id)), "jobs[0].outcome"),
            (with("done", "error", json!("no")), "jobs[0].error"),
            (with("failed", "result", json!(1)), "jobs[0].result"),
            (with("snooze", "retry", json!(true)), "jobs[0].retry"),
            (is("snooze"), "jobs[0].after"),
            (with("done", "stars", json!(5)), "jobs[0].stars"),
            (with("done", "on_done", json!([{"kind": ""}])), "jobs[0].on_done[0].kind"),
            (
                with("done", "on_done", json!([{"kind": "k", "lease": "1ms"}])),
                "jobs[0].on_done[0].lease",
            ),
        ] {
            let answer = report(one).await;
            assert_eq!((answer.problem().0, answer.problem().2), (400, Some(field)), "{answer:?}");
        }
        let large = "x".repeat((1 << 20) + 1);
        let answer = report(with("done", "result", json!(large))).await;
        assert_eq!(answer.problem(), (413, "payload-too-large", Some("jobs[0].result")));
        let stale = report(with("done", "delivery", json!("4711"))).await;
        assert_eq!(stale.body["jobs"][0], json!({"status": "stale"}));
        let unknown = report(with("done", "id", json!("4711"))).await;
        assert_eq!(unknown.body["jobs"][0], json!({"status": "not-found"}));
        let still = server.get(encoding, &format!("/v1/jobs/{id}")).await.body;
        assert_eq!(still["state"], "running");

        // A long error is truncated, and otherwise stored unchanged.
        let error = format!("\u{1b}[31m<b>{}", "x".repeat(10_000_000));
        let failed = report(with("failed", "error", json!(error))).await;
        assert_eq!(failed.body["jobs"][0]["state"], "scheduled", "{failed:?}");
        let job = server.get(encoding, &format!("/v1/jobs/{id}")).await.body;
        let kept = job["history"][0]["error"].as_str().expect("a text");
        assert!(kept.starts_with("\u{1b}[31m<b>x") && kept.len() == 64 << 10);
    }
    let many = json!({"jobs": vec![json!({"id": "1", "delivery": "1", "outcome": "done"}); 1001]});
    assert_eq!(
        server.post(BodyEncoding::Json, "/v1/finish", &many).await.problem(),
        (400, "count-range", Some("jobs"))
    );
}

#[tokio::test]
async fn other_invalid_bodies_are_refused_with_their_field() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let put = async |path: &str, body: Value| {
            server.call(encoding, Method::PUT, path, Some(&body)).await
        };
        let post = async |path: &str, body: Value| server.post(encoding, path, &body).await;
        let job = json!({"kind": "k"});
        for (answer, code, field) in [
            (post("/v1/fetch", json!({"queues": []})).await, "count-range", "queues"),
            (post("/v1/fetch", json!({})).await, "malformed", "queues"),
            (post("/v1/fetch", json!({"queues": ["a", ""]})).await, "name-empty", "queues[1]"),
            (
                post("/v1/fetch", json!({"queues": ["a"], "kinds": []})).await,
                "count-range",
                "kinds",
            ),
            (post("/v1/fetch", json!({"queues": ["a"], "n": 0})).await, "count-range", "n"),
            (post("/v1/fetch", json!({"queues": ["a"], "n": 1001})).await, "count-range", "n"),
            (post("/v1/fetch", json!({"queues": ["a"], "n": -1})).await, "malformed", "n"),
            (
                post("/v1/fetch", json!({"queues": ["a"], "worker": ""})).await,
                "name-empty",
                "worker",
            ),
            (
                post("/v1/fetch", json!({"queues": ["a"], "order": "random"})).await,
                "malformed",
                "order",
            ),
            (
                post("/v1/renew", json!({"jobs": [{"id": "1"}]})).await,
                "malformed",
                "jobs[0].delivery",
            ),
            (post("/v1/renew", json!({"jobs": [["1", "2"]]})).await, "malformed", "jobs[0]"),
            (
                post("/v1/notes", json!({"notes": [{"id": "1", "delivery": "1"}]})).await,
                "malformed",
                "notes[0]",
            ),
            (
                post("/v1/notes", json!({"notes": [{"id": "1", "delivery": "1", "percent": 101}]}))
                    .await,
                "count-range",
                "notes[0].percent",
            ),
            (
                post("/v1/jobs/act", json!({"act": "purge", "filter": {"all": true}})).await,
                "malformed",
                "act",
            ),
            (
                post("/v1/jobs/act", json!({"act": "change", "filter": {"kind": "k"}})).await,
                "malformed",
                "change",
            ),
            (
                post("/v1/jobs/act", json!({"act": "delete", "filter": {"kind": ""}})).await,
                "name-empty",
                "filter.kind",
            ),
            (
                post("/v1/jobs/act", json!({"act": "delete", "filter": {"kinds": []}})).await,
                "field-unknown",
                "filter.kinds",
            ),
            (
                put("/v1/schedules/s", json!({"timing": "cron 0 0 31 2 *", "job": job})).await,
                "schedule-never",
                "timing",
            ),
            (
                put("/v1/schedules/s", json!({"timing": "every 1ms", "job": job})).await,
                "schedule-too-often",
                "timing",
            ),
            (
                put("/v1/schedules/s", json!({"timing": "cron * * * *", "job": job})).await,
                "schedule-syntax",
                "timing",
            ),
            (
                put(
                    "/v1/schedules/s",
                    json!({"timing": "every 1m in ../../etc/passwd", "job": job}),
                )
                .await,
                "schedule-syntax",
                "timing",
            ),
            (
                put(
                    "/v1/schedules/s",
                    json!({"timing": "cron 0 0 1 1 * in ../../etc/passwd", "job": job}),
                )
                .await,
                "zone-unknown",
                "timing",
            ),
            (
                put("/v1/schedules/s", json!({"timing": "every 1m", "job": {"kind": ""}})).await,
                "name-empty",
                "job.kind",
            ),
            (
                put(
                    "/v1/schedules/s",
                    json!({"timing": "every 1m", "job": {"kind": "k", "lease": "1ms"}}),
                )
                .await,
                "lease-range",
                "job.lease",
            ),
            (put("/v1/limits/l", json!({"limit": "rate 0/1s"})).await, "limit-range", "limit"),
            (
                put("/v1/limits/l", json!({"limit": "x".repeat(20_000)})).await,
                "limit-too-long",
                "limit",
            ),
            (put("/v1/limits/l", json!({"limit": "where kind ="})).await, "limit-syntax", "limit"),
            (put("/v1/workers/w", json!({"within": "0s"})).await, "time-range", "within"),
        ] {
            let (status, got, named) = answer.problem();
            assert_eq!((status, got, named), (400, code, Some(field)), "{encoding:?} {answer:?}");
        }
    }
}
