//! Batches, groups, and repeated pushes.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::server::{BodyEncoding, Server, ServerResponse};

#[tokio::test]
async fn an_invalid_job_of_a_batch_has_a_result_of_its_own() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let batch = json!({"jobs": [
            {"kind": "good", "payload": 1},
            {"kind": "bad", "priority": 1.5},
            {"kind": "good", "after": [{"earlier": 1}]},
            {"kind": "", "payload": 2},
            {"kind": "good", "lease": "1ms"},
            {"kind": "good", "after": [{"earlier": 0}]},
            [1],
        ]});
        let answer = server.post(encoding, "/v1/jobs", &batch).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.body["refused"]),
            (207, &json!(5)),
            "{answer:?}"
        );
        let jobs = answer.body["jobs"].as_array().expect("a list");
        let brief = |job: &Value| {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            (text(&job["status"]).unwrap_or_default(), text(&job["problem"]["field"]))
        };
        let is = |status: &str, field: Option<&str>| (status.to_owned(), field.map(str::to_owned));
        let expected = [
            is("new", None),
            is("refused", Some("jobs[1].priority")),
            is("refused", Some("jobs[2].after")),
            is("refused", Some("jobs[3].kind")),
            is("refused", Some("jobs[4].lease")),
            is("new", None),
            is("refused", Some("jobs[6]")),
        ];
        assert_eq!(jobs.iter().map(brief).collect::<Vec<_>>(), expected, "{encoding:?}");
        let id = jobs[5]["id"].as_str().expect("an id");
        let waits = server.get(encoding, &format!("/v1/jobs/{id}")).await.body;
        assert_eq!(
            (&waits["state"], &waits["after"][0]["job"]),
            (&json!("waiting"), &jobs[0]["id"])
        );
    }
}

#[tokio::test]
async fn an_invalid_batch_stores_nothing() {
    let server = Server::start().await;
    let good = json!({"kind": "x"});
    for (batch, status, code, field) in [
        (json!({"jobs": vec![good.clone(); 1001]}), 413, "batch-too-large", Some("jobs")),
        (
            json!({"jobs": [{"kind": "x", "after": [{"earlier": 0}]}]}),
            400,
            "batch-reference",
            Some("jobs[0].after"),
        ),
        (
            json!({"jobs": [{"kind": "x", "group": {"new": 0}}]}),
            400,
            "batch-reference",
            Some("jobs[0].group"),
        ),
        (json!({"jobs": [good], "more": 1}), 400, "field-unknown", Some("more")),
        (json!({"jobs": {"kind": "x"}}), 400, "malformed", Some("jobs")),
        (json!({"groups": []}), 400, "malformed", Some("jobs")),
    ] {
        let answer = server.post(BodyEncoding::Json, "/v1/jobs", &batch).await;
        assert_eq!(answer.problem(), (status, code, field));
    }
    assert_eq!(server.get(BodyEncoding::Json, "/v1/counts").await.body, json!({"counts": []}));
}

#[tokio::test]
async fn a_group_is_made_by_a_push_and_sealed() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let batch = json!({"groups": [{"open": true}], "jobs": [
            {"kind": "member", "group": {"new": 0}},
            {"kind": "follow-up", "after": [{"new_group": 0, "needs": "end"}]},
        ]});
        let answer = server.post(encoding, "/v1/jobs", &batch).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        let group = answer.body["groups"][0].as_str().expect("an id");
        let at = format!("/v1/groups/{group}");
        let shown = server.get(encoding, &at).await.body;
        assert_eq!((&shown["size"], &shown["sealed"]), (&json!(1), &json!(false)));
        let more = json!({"kind": "member", "group": {"id": group}});
        assert_eq!(server.post(encoding, "/v1/jobs", &more).await.status, 201);
        let seal = format!("{at}/seal");
        for _ in 0..2 {
            let sealed = server.call(encoding, Method::POST, &seal, None).await.body;
            assert_eq!((&sealed["size"], &sealed["sealed"]), (&json!(2), &json!(true)));
        }
        let missing = server.call(encoding, Method::POST, "/v1/groups/4711/seal", None).await;
        assert_eq!(missing.problem().0, 404);
        let nowhere = json!({"kind": "member", "group": {"id": "4711"}});
        let nowhere = server.post(encoding, "/v1/jobs", &nowhere).await;
        assert_eq!(nowhere.problem(), (409, "refused", Some("group")));
    }
}

async fn push_as(
    server: &Server,
    encoding: BodyEncoding,
    key: &str,
    body: &Value,
) -> ServerResponse {
    let headers = [("content-type", encoding.media_type()), ("idempotency-key", key)];
    server.send(encoding, (Method::POST, "/v1/jobs"), &headers, encoding.encode(body)).await
}

#[tokio::test]
async fn a_repeated_push_with_one_key_is_one_push() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let (one, other) =
            (json!({"kind": "once", "payload": 1}), json!({"kind": "once", "payload": 2}));
        let key = format!("single-{encoding:?}");
        let first = push_as(&server, encoding, &key, &one).await;
        let second = push_as(&server, encoding, &key, &one).await;
        assert_eq!((first.status.as_u16(), &first.body), (201, &second.body));
        assert_eq!(
            (second.status, second.headers.get("location")),
            (first.status, first.headers.get("location"))
        );
        let refused = push_as(&server, encoding, &key, &other).await;
        assert_eq!(refused.problem(), (409, "key-reused", None));
        assert_eq!(refused.body["id"], first.body["id"], "the first id is named");

        let batch = json!({"groups": [{}], "jobs": [
            {"kind": "once", "group": {"new": 0}}, {"kind": ""}, {"kind": "once"},
        ]});
        let key = format!("batch-{encoding:?}");
        let first = push_as(&server, encoding, &key, &batch).await;
        let second = push_as(&server, encoding, &key, &batch).await;
        assert_eq!(first.body, second.body);
        let longer = json!({"jobs": [{"kind": "once"}, {"kind": "once"}, {"kind": "once"}, {"kind": "once"}]});
        assert_eq!(push_as(&server, encoding, &key, &longer).await.problem().1, "key-reused");
    }
    let counts = server.get(BodyEncoding::Json, "/v1/counts").await.body;
    assert_eq!(
        counts["counts"],
        json!([{"queue": "once", "kind": "once", "state": "ready", "n": 6}])
    );
}

#[tokio::test]
async fn a_key_holds_across_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let (one, other) =
        (json!({"kind": "once", "payload": 1}), json!({"kind": "once", "payload": 2}));
    let mut first = Value::Null;
    for round in 0..2 {
        let engine = crore::Engine::open(dir.path()).expect("a store");
        let mut server = Server::start_on(engine, Default::default(), Default::default()).await;
        if round == 1 {
            let refused = push_as(&server, BodyEncoding::Json, "k", &other).await;
            assert_eq!((refused.problem().1, &refused.body["id"]), ("key-reused", &first["id"]));
        }
        let pushed = push_as(&server, BodyEncoding::Json, "k", &one).await;
        assert_eq!(pushed.status, StatusCode::CREATED);
        assert!(round == 0 || pushed.body == first);
        first = pushed.body;
        server.stop().await.expect("no panic").expect("a success");
        server.engine.stop().expect("a success");
    }
}

#[tokio::test]
async fn under_a_key_that_was_used_before_a_restart_another_batch_stores_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let jobs = |n: usize| json!({"jobs": vec![json!({"kind": "once", "payload": 1}); n]});
    // A partly refused batch: refused jobs are refused again, and the others get the same answer.
    let partly = json!({"jobs": [
        {"kind": "once"}, {"kind": "", "payload": 2}, {"kind": "once", "group": {"id": "4711"}},
    ]});
    let mut first = None;
    // Each push goes to a newly started server, which has only what is stored.
    for others in [None, Some(3), Some(4), Some(1000), Some(2), Some(1)] {
        let engine = crore::Engine::open(dir.path()).expect("a store");
        let mut server = Server::start_on(engine, Default::default(), Default::default()).await;
        match others {
            Some(n @ 3..) => {
                let refused = push_as(&server, BodyEncoding::Json, "k", &jobs(n)).await;
                assert_eq!(refused.problem().1, "key-reused", "{n}");
            }
            // A prefix of the batch is answered with the stored jobs.
            Some(1) => {
                assert_eq!(push_as(&server, BodyEncoding::Json, "k", &jobs(1)).await.status, 200);
            }
            _ => {
                let both = (
                    push_as(&server, BodyEncoding::Json, "k", &jobs(2)).await.body,
                    push_as(&server, BodyEncoding::Json, "partly", &partly).await.body,
                );
                assert_eq!(both.1["refused"], 2, "{both:?}");
                assert_eq!(&both, first.get_or_insert_with(|| both.clone()));
            }
        }
        let counts = server.get(BodyEncoding::Json, "/v1/counts").await.body;
        assert_eq!(
            counts["counts"],
            json!([{"queue": "once", "kind": "once", "state": "ready", "n": 3}]),
            "{others:?}"
        );
        server.stop().await.expect("no panic").expect("a success");
        server.engine.stop().expect("a success");
    }
}

#[tokio::test]
async fn a_job_with_an_idempotency_key_may_not_have_a_unique_key() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let key = format!("{encoding:?}");
        let one = json!({"kind": "u", "unique": {"key": "mine"}});
        let refused = push_as(&server, encoding, &key, &one).await;
        assert_eq!(refused.problem(), (400, "malformed", Some("unique")));
        let batch = json!({"jobs": [{"kind": "good"}, one]});
        let refused = push_as(&server, encoding, &key, &batch).await;
        assert_eq!(refused.status, StatusCode::MULTI_STATUS, "{refused:?}");
        assert_eq!(refused.body["jobs"][1]["problem"]["field"], "jobs[1].unique");
    }
    let counts = server.get(BodyEncoding::Json, "/v1/counts").await.body;
    assert_eq!(
        counts["counts"],
        json!([{"queue": "good", "kind": "good", "state": "ready", "n": 2}])
    );
}

#[tokio::test]
async fn pushes_under_one_key_at_the_same_time_are_one_push() {
    let server = Server::start().await;
    let push = async |n: usize| {
        let batch = json!({"jobs": vec![json!({"kind": "once"}); n]});
        push_as(&server, BodyEncoding::Json, "k", &batch).await.status.as_u16()
    };
    let (a, b, c, d) = tokio::join!(push(2), push(3), push(4), push(5));
    let mut answers = [a, b, c, d];
    answers.sort_unstable();
    assert_eq!(answers, [200, 409, 409, 409]);
    let counts = server.get(BodyEncoding::Json, "/v1/counts").await.body;
    let n = [a, b, c, d].iter().position(|status| *status == 200).expect("one") + 2;
    assert_eq!(counts["counts"][0]["n"], json!(n));
}

#[tokio::test]
async fn unique_keys_and_client_ids_are_answered_with_the_first_job() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let key = format!("{encoding:?}");
        for job in
            [json!({"kind": "u", "unique": {"key": key}}), json!({"kind": "c", "client_id": key})]
        {
            let first = server.post(encoding, "/v1/jobs", &job).await;
            let second = server.post(encoding, "/v1/jobs", &job).await;
            assert_eq!((first.status.as_u16(), second.status.as_u16()), (201, 200));
            assert_eq!(second.body, json!({"status": "duplicate", "id": first.body["id"]}));
            let found = server.get(encoding, &format!("/v1/jobs?client_id={key}")).await.body;
            let is_named = job.get("client_id").is_some();
            assert_eq!(found["jobs"].as_array().map(Vec::len), Some(usize::from(is_named)));
            assert!(!is_named || found["jobs"][0]["id"] == first.body["id"]);
        }
    }
}

#[tokio::test]
async fn payloads_are_stored_unchanged_and_converted_when_shown() {
    let server = Server::start().await;
    let show = async |id: &Value, encoding| {
        server.get(encoding, &format!("/v1/jobs/{}", id.as_str().expect("an id"))).await.body
    };
    // JSON is stored byte for byte, also where parsing would change it.
    let body =
        br#"{"kind":"p","payload":{"b" : 1.0, "a":123456789012345678901234567890}}"#.to_vec();
    let headers = [("content-type", "application/json")];
    let pushed = server.send(BodyEncoding::Json, (Method::POST, "/v1/jobs"), &headers, body).await;
    let id = pushed.body["id"].as_str().expect("an id").parse().expect("a number");
    let stored = server.engine.get(crore_core::JobId(id)).await.expect("an answer").expect("a job");
    assert_eq!(&*stored.spec.payload.bytes, br#"{"b" : 1.0, "a":123456789012345678901234567890}"#);

    let bytes = json!({"kind": "p", "payload_base64": "AAEC/w==", "encoding": "bytes"});
    let pushed = server.post(BodyEncoding::Msgpack, "/v1/jobs", &bytes).await;
    for encoding in BodyEncoding::BOTH {
        let shown = show(&pushed.body["id"], encoding).await;
        assert_eq!(
            (&shown["payload_base64"], &shown["encoding"]),
            (&json!("AAEC/w=="), &json!("bytes"))
        );
    }
    // Bytes in MessagePack cannot be represented in JSON.
    let packed = [&b"\x82\xa4kind\xa1p\xa7payload"[..], &[0x91, 0xc4, 1, 7]].concat();
    let headers = [("content-type", "application/msgpack")];
    let pushed =
        server.send(BodyEncoding::Json, (Method::POST, "/v1/jobs"), &headers, packed).await;
    let shown = show(&pushed.body["id"], BodyEncoding::Json).await;
    assert_eq!(
        (&shown["payload_base64"], &shown["encoding"]),
        (&json!("kcQBBw=="), &json!("msgpack"))
    );
    let nothing = server.post(BodyEncoding::Msgpack, "/v1/jobs", &json!({"kind": "p"})).await;
    assert_eq!(show(&nothing.body["id"], BodyEncoding::Json).await["payload"], Value::Null);
}

#[tokio::test]
async fn a_job_is_shown_with_its_deadline_and_expires() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let job = json!({
            "kind": "slow",
            "start_within": "1h",
            "on_expired": {"kind": "late", "payload": {"n": 1}},
        });
        let pushed = server.post(encoding, "/v1/jobs", &job).await;
        let path = format!("/v1/jobs/{}", pushed.body["id"].as_str().expect("an id"));
        let shown = server.get(encoding, &path).await.body;
        assert!(shown["deadline"].as_str() > shown["pushed_at"].as_str(), "{shown}");
        assert_eq!(shown["on_expired"]["kind"], "late");
        assert_eq!(shown["on_expired"]["payload"], json!({"n": 1}));
        let explained = server.get(encoding, &format!("{path}/explain")).await.body;
        assert_eq!(explained["deadline"], shown["deadline"]);
        let past = json!({"kind": "slow", "deadline": "2020-01-01T00:00:00Z"});
        let pushed = server.post(encoding, "/v1/jobs", &past).await;
        let path = format!("/v1/jobs/{}", pushed.body["id"].as_str().expect("an id"));
        let ended = server.get(encoding, &format!("{path}/result?wait=10s")).await.body;
        assert_eq!((&ended["ended"], &ended["state"]), (&json!(true), &json!("cancelled")));
        assert_eq!(server.get(encoding, &path).await.body["why"], "expired");
    }
}
