//! Invalid requests apart from single fields: methods, ranges, lengths, sizes, and many keys.

use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::{BodyEncoding, Server};

/// Every invalid request is answered within this time.
const SOON: Duration = Duration::from_secs(1);

#[expect(clippy::disallowed_methods, reason = "how long an answer takes is real time")]
fn now() -> Instant {
    Instant::now()
}

async fn response_to(server: &Server, bytes: &[u8]) -> String {
    let mut stream = server.connect().await;
    // The server may close the connection before everything is written.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn methods_that_are_not_for_an_address_are_refused_and_head_is_get_without_a_body() {
    let server = Server::start().await;
    server.post(BodyEncoding::Json, "/v1/jobs", &json!({"kind": "k"})).await;
    for path in ["/v1/jobs", "/v1/jobs/1", "/livez", "/docs", "/metrics", "/openapi.json"] {
        assert_eq!(server.head_status(path).await, StatusCode::OK, "{path}");
    }
    for method in ["OPTIONS", "TRACE", "BREW", "PUT"] {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let answer = server.call(BodyEncoding::Json, method, "/v1/jobs", None).await;
        assert_eq!(answer.problem(), (405, "method-not-allowed", None));
        assert_eq!(answer.headers.get("access-control-allow-origin"), None);
    }
    for request in ["OPTIONS * HTTP/1.1", "CONNECT 127.0.0.1:80 HTTP/1.1"] {
        let response = response_to(
            &server,
            format!("{request}\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes(),
        )
        .await;
        assert!(response.starts_with("HTTP/1.1 40"), "{request}: {response}");
    }
}

#[tokio::test]
async fn a_bare_line_feed_ends_no_header_line() {
    let server = Server::start().await;
    let good = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let last = "GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let count = |said: &str, status: &str| said.matches(&format!("HTTP/1.1 {status}")).count();
    for bad in [
        "GET /livez HTTP/1.1\nhost: localhost\r\n\r\n",
        "GET /livez HTTP/1.1\r\nhost: localhost\nx: y\r\n\r\n",
        "GET /livez HTTP/1.1\r\nhost: localhost\r\n\n",
        "\nGET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ] {
        let said = response_to(&server, bad.as_bytes()).await;
        assert!(said.starts_with("HTTP/1.1 400"), "{bad:?}: {said}");
        let said = response_to(&server, format!("{good}{bad}").as_bytes()).await;
        assert_eq!((count(&said, "200"), count(&said, "400")), (1, 1), "{bad:?}: {said}");
    }
    // In a body they are data, and the next request is found behind it.
    let post = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let body = "{\n\n\"kind\":\n\"k\"}\n";
    let length = body.len();
    let known = format!("{post}content-length: {length}\r\n\r\n{body}");
    let chunked =
        format!("{post}transfer-encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n");
    let said = response_to(&server, format!("{known}{chunked}{known}{last}").as_bytes()).await;
    assert_eq!((count(&said, "201"), count(&said, "200")), (3, 1), "{said}");
}

#[tokio::test]
async fn a_range_of_a_page_is_the_whole_page() {
    let server = Server::start().await;
    let range = [("range", "bytes=0-10")];
    let request =
        "GET /docs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nrange: bytes=0-10\r\n\r\n";
    let page = response_to(&server, request.as_bytes()).await;
    assert!(page.starts_with("HTTP/1.1 200") && page.ends_with("</html>\n"), "{page}");
    let answer =
        server.send(BodyEncoding::Json, (Method::GET, "/v1/counts"), &range, Vec::new()).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn bytes_after_a_body_are_a_separate_bad_request() {
    let server = Server::start().await;
    let post = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let request =
        format!("{post}content-length: 12\r\n\r\n{{\"kind\":\"k\"}}EXTRA GARBAGE\r\n\r\n");
    let answer = response_to(&server, request.as_bytes()).await;
    assert_eq!(
        (answer.matches("HTTP/1.1 201").count(), answer.matches("HTTP/1.1 400").count()),
        (1, 1)
    );
    let long =
        format!("GET /livez HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(1 << 20));
    let answer = response_to(&server, long.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn decoding_time_grows_with_bytes_and_not_with_keys() {
    let server = Server::start().await;
    let keys = |n: usize| -> Value {
        Value::Object((0..n).map(|n| (n.to_string(), json!("1"))).collect())
    };
    for encoding in BodyEncoding::BOTH {
        let start = now();
        let job = json!({"kind": "k", "payload": keys(60_000)});
        assert_eq!(server.post(encoding, "/v1/jobs", &job).await.status, 201);
        let refused =
            server.post(encoding, "/v1/jobs", &json!({"kind": "k", "labels": keys(60_000)})).await;
        assert_eq!(refused.problem(), (400, "label-range", Some("labels")));
        assert!(start.elapsed() < 5 * SOON, "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn oversized_numbers_are_refused_in_fields_and_kept_in_payloads() {
    let server = Server::start().await;
    let post = async |body: &str| {
        let headers = [("content-type", "application/json")];
        let body = body.as_bytes().to_vec();
        server.send(BodyEncoding::Json, (Method::POST, "/v1/jobs"), &headers, body).await
    };
    for (body, field) in [
        (r#"{"kind":"k","priority":-9223372036854775809}"#, "priority"),
        (r#"{"kind":"k","priority":18446744073709551616}"#, "priority"),
        (r#"{"kind":"k","max_crashes":18446744073709551616}"#, "max_crashes"),
    ] {
        let refused = post(body).await;
        assert_eq!(refused.problem(), (400, "malformed", Some(field)), "{body}");
    }
    for number in
        ["-9223372036854775809", "18446744073709551616", "0.1000000000000000055511151231257827"]
    {
        let pushed = post(&format!(r#"{{"kind":"k","payload":{number}}}"#)).await;
        let id = pushed.body["id"].as_str().expect("an id");
        let request =
            format!("GET /v1/jobs/{id} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let shown = response_to(&server, request.as_bytes()).await;
        assert!(shown.contains(&format!(r#""payload":{number}"#)), "{shown}");
    }
}

#[tokio::test]
async fn names_are_compared_by_bytes() {
    let server = Server::start().await;
    for kind in ["e\u{301}", "\u{e9}"] {
        server.post(BodyEncoding::Json, "/v1/jobs", &json!({"kind": kind, "queue": "q"})).await;
    }
    let counts = server.get(BodyEncoding::Json, "/v1/counts?queue=q").await.body;
    assert_eq!(counts["counts"].as_array().map(Vec::len), Some(2), "{counts}");
}

#[tokio::test]
async fn an_altered_cursor_is_refused() {
    let server = Server::start().await;
    for _ in 0..3 {
        server.post(BodyEncoding::Json, "/v1/jobs", &json!({"kind": "k"})).await;
    }
    let page = server.get(BodyEncoding::Json, "/v1/jobs?limit=1").await.body;
    let cursor = page["next"].as_str().expect("more").to_owned();
    assert_eq!(
        server.get(BodyEncoding::Json, &format!("/v1/jobs?limit=1&cursor={cursor}")).await.status,
        200
    );
    for at in 0..cursor.len() {
        let other = if cursor.as_bytes()[at] == b'A' { "B" } else { "A" };
        let mut changed = cursor.clone();
        changed.replace_range(at..=at, other);
        let answer = server.get(BodyEncoding::Json, &format!("/v1/jobs?cursor={changed}")).await;
        assert_eq!(answer.problem(), (400, "cursor-invalid", Some("cursor")), "{changed}");
    }
    // A cursor of another list is refused too.
    let answer = server.get(BodyEncoding::Json, &format!("/v1/jobs?kind=k&cursor={cursor}")).await;
    assert_eq!(answer.problem(), (400, "cursor-invalid", Some("cursor")));
}

#[tokio::test]
async fn long_timings_and_heavy_batches_are_refused_and_store_nothing() {
    let server = Server::start().await;
    let long = format!("cron {}0 0 * * *", "0,".repeat(80));
    for encoding in BodyEncoding::BOTH {
        let set = json!({"timing": long, "job": {"kind": "k"}});
        let answer = server.call(encoding, Method::PUT, "/v1/schedules/s", Some(&set)).await;
        assert_eq!(answer.problem(), (400, "schedule-syntax", Some("timing")));
        let heavy = json!({"kind": "k", "payload": "x".repeat(1_000_000)});
        let answer = server.post(encoding, "/v1/jobs", &json!({"jobs": vec![heavy; 9]})).await;
        assert_eq!(answer.problem(), (413, "batch-too-large", Some("jobs")));
    }
    assert_eq!(server.get(BodyEncoding::Json, "/v1/counts").await.body, json!({"counts": []}));
    assert_eq!(
        server.get(BodyEncoding::Json, "/v1/schedules").await.body,
        json!({"schedules": []})
    );
}
