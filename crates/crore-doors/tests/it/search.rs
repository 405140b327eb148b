//! Search by a filter, over HTTP and gRPC.

use crore_wire::grpc::v1;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::grpc::{jobs, problem};
use crate::server::{BodyEncoding, Server, ServerResponse, eventually};

/// Percent-encodes what is not a letter or a digit.
fn encoded(text: &str) -> String {
    let one = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

async fn search(server: &Server, q: &str) -> ServerResponse {
    server.get(BodyEncoding::Json, &format!("/v1/jobs?q={}", encoded(q))).await
}

fn ids(page: &ServerResponse) -> Vec<String> {
    assert_eq!(page.status, StatusCode::OK, "{page:?}");
    let jobs = page.body["jobs"].as_array().cloned().unwrap_or_default();
    jobs.iter().filter_map(|job| job["id"].as_str().map(ToOwned::to_owned)).collect()
}

/// Pushes three jobs, and fails the first.
async fn with_jobs() -> Server {
    let server = Server::start().await;
    for (nth, to) in ["ada", "bob", "ada"].into_iter().enumerate() {
        let labels = json!({"tenant": if nth == 2 { "acme" } else { "other" }});
        let job = json!({"kind": "mail", "queue": "q", "payload": {"to": to, "n": nth}, "labels": labels, "retry": {"max_attempts": 1}});
        let pushed = server.post(BodyEncoding::Json, "/v1/jobs", &job).await;
        assert_eq!(pushed.status, StatusCode::CREATED, "{pushed:?}");
    }
    let ask = json!({"queues": ["q"], "worker": "w1"});
    let fetched = server.post(BodyEncoding::Json, "/v1/fetch", &ask).await;
    let job = &fetched.body["jobs"][0];
    let report = json!({"id": job["id"], "delivery": job["delivery"], "outcome": "failed", "error": "timeout after 30s"});
    server.post(BodyEncoding::Json, "/v1/finish", &json!({"jobs": [report]})).await;
    server
}

#[tokio::test]
async fn jobs_are_found_by_any_field() {
    let server = with_jobs().await;
    for (q, expected) in [
        ("payload.to=ada", &["3", "1"][..]),
        ("payload.to=ada -state:dead", &["3"]),
        ("state:dead error~TIMEOUT why:exhausted", &["1"]),
        ("label:tenant=acme kind:mail queue:q", &["3"]),
        ("payload.n>=1 worker:*", &[]),
        ("payload.n>=1 attempt=0 age<1h", &["2", "3"]),
        ("id:3,2", &["2", "3"]),
    ] {
        let page = search(&server, q).await;
        assert_eq!(
            (ids(&page), &page.body["complete"]),
            (expected.iter().map(ToString::to_string).collect(), &json!(true)),
            "{q}"
        );
    }
    let dead = search(&server, "state:dead").await;
    let fingerprint = dead.body["jobs"][0]["history"][0]["fingerprint"].as_str().expect("one");
    assert_eq!(ids(&search(&server, &format!("error={fingerprint}")).await), ["1"]);
}

#[tokio::test]
async fn parameters_mean_the_same_as_terms() {
    let server = with_jobs().await;
    for (parameters, q) in [
        ("state=ready", "state:ready"),
        ("queue=q&kind=mail", "queue:q kind:mail"),
        ("queue=none", "queue:none"),
    ] {
        let path = format!("/v1/jobs?{parameters}");
        let page = server.get(BodyEncoding::Json, &path).await;
        assert_eq!(page.body, search(&server, q).await.body, "{parameters}");
        let both = server.get(BodyEncoding::Json, &format!("{path}&q=payload.to%3Dbob")).await;
        assert_eq!(ids(&both), ids(&search(&server, &format!("{q} payload.to=bob")).await));
    }
    let path = "/v1/jobs?limit=1&q=payload.to%3Dada";
    let first = server.get(BodyEncoding::Json, path).await;
    let cursor = first.body["next"].as_str().expect("more").to_owned();
    let second = server.get(BodyEncoding::Json, &format!("{path}&cursor={cursor}")).await;
    assert_eq!([ids(&first), ids(&second)].concat(), ["3", "1"]);
    let other = server.get(BodyEncoding::Json, &format!("/v1/jobs?cursor={cursor}")).await;
    assert_eq!(other.problem(), (400, "cursor-invalid", Some("cursor")));
}

#[tokio::test]
async fn a_filter_that_cannot_be_read_is_refused_by_its_position() {
    let server = with_jobs().await;
    for (q, code, at) in [
        ("state:dead kind:", "filter-syntax", 16),
        ("timeout", "filter-syntax", 0),
        ("id:0", "filter-range", 3),
        (&"(".repeat(1000), "filter-syntax", 0),
        (&format!("kind:a{}", ")".repeat(1000)), "filter-syntax", 6),
        (&"age>1h ".repeat(100), "filter-too-long", 448),
        (&"x".repeat(5000), "filter-too-long", 4096),
    ] {
        let refused = search(&server, q).await;
        assert_eq!(refused.problem(), (400, code, Some("q")), "{refused:?}");
        assert_eq!(refused.body["at"], json!(at), "{refused:?}");
    }
}

#[tokio::test]
async fn grpc_searches_by_the_same_filter() {
    let server = with_jobs().await;
    let mut client = jobs(&server).await;
    let ask = |q: &str| v1::ListRequest { q: q.to_owned(), ..v1::ListRequest::default() };
    let listed = client.list(ask("payload.to=ada state:dead")).await.expect("listed").into_inner();
    assert_eq!(listed.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [1]);
    assert!(listed.complete && listed.scanned == 1, "{listed:?}");
    assert_eq!(listed.jobs[0].history[0].fingerprint.len(), 16);
    for (q, code) in [(&*"x".repeat(100_000), "filter-too-long"), ("state:", "filter-syntax")] {
        let refused = client.list(ask(q)).await.expect_err("refused");
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        let problem = problem(&refused);
        assert_eq!((problem.code.as_str(), problem.field.as_str()), (code, "q"));
    }
}

#[tokio::test]
async fn a_payload_that_is_not_an_object_matches_no_field() {
    let server = Server::start().await;
    for payload in [json!(7), json!("x"), Value::Null, json!([{"to": "ada"}])] {
        let job = json!({"kind": "k", "payload": payload});
        server.post(BodyEncoding::Json, "/v1/jobs", &job).await;
    }
    assert_eq!(ids(&search(&server, "payload.to=ada").await), [""; 0]);
    assert_eq!(ids(&search(&server, "payload[0].to=ada").await), ["4"]);
    assert_eq!(ids(&search(&server, "-payload.to=ada").await).len(), 4);
}

async fn patch(server: &Server, changes: &Value) -> ServerResponse {
    server.call(BodyEncoding::Json, Method::PATCH, "/v1/queues/q", Some(changes)).await
}

#[tokio::test]
async fn an_indexed_field_is_searched_without_reading_other_jobs() {
    let server = with_jobs().await;
    let set = json!({"index": ["payload.to"]});
    let changed = patch(&server, &set).await;
    assert_eq!(changed.body["index"][0]["field"], "payload.to", "{changed:?}");
    eventually(|| async {
        let queue = server.get(BodyEncoding::Json, "/v1/queues/q").await;
        queue.body["index"][0]["complete"] == true
    })
    .await;
    let page = search(&server, "queue:q payload.to=ada").await;
    assert_eq!(
        (ids(&page), &page.body["scanned"]),
        (vec!["3".to_owned(), "1".to_owned()], &json!(2))
    );
    for (bad, code) in [
        (json!({"index": ["error"]}), "index-field"),
        (json!({"index": ["payload.a", "payload.a"]}), "index-field"),
        (
            json!({"index": ["payload.a", "payload.b", "payload.c", "payload.d", "payload.e"]}),
            "count-range",
        ),
        (json!({"index": "payload.a"}), "malformed"),
    ] {
        let refused = patch(&server, &bad).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (StatusCode::BAD_REQUEST, &json!(code)),
            "{bad}"
        );
    }
    let kept = server.get(BodyEncoding::Json, "/v1/queues/q").await;
    assert_eq!(kept.body["index"], json!([{"field": "payload.to", "complete": true}]));
    let none = patch(&server, &json!({"index": null})).await;
    assert!(none.body.get("index").is_none(), "{none:?}");
}
