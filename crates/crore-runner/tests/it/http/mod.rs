//! The http runner.

mod denied;
mod faulty_server;
mod redirects;
mod tls;

use crore_core::machine::RetryDirective;
use crore_core::{Encoding, Payload, Span};
use crore_runner::{EncodedBytes, FailureClass, HttpFactory, Output, RunFailure, RunnerFactory};
use serde_json::{Value, json};

use crate::outbound_fixture::{SecretFile, reach, run, task, trace};
use crore_testkit::http_peer::{Peer, PeerCall, PeerReply, response};

const HERE: &[&str] = &["127.0.0.1/32"];

fn http() -> HttpFactory {
    HttpFactory::new(reach(HERE))
}

/// Settings for a URL, extended by more.
fn settings(url: &str, more: Value) -> Value {
    let mut settings = json!({ "url": url });
    let Value::Object(more) = more else { panic!("an object") };
    settings.as_object_mut().expect("an object").extend(more);
    settings
}

fn header_values(call: &PeerCall, header: &str) -> Vec<String> {
    let values = call.headers.get_all(header).iter();
    values.map(|value| value.to_str().expect("text").to_owned()).collect()
}

async fn called(more: Value, payload: Payload) -> PeerCall {
    let peer = Peer::start(PeerReply::status(204)).await;
    let settings = settings(&format!("{}/base/end", peer.url()), more);
    run(&http(), &settings, &task(payload)).await.expect("an answer");
    peer.call(0)
}

#[tokio::test]
async fn a_job_is_posted_and_the_response_is_its_result() {
    let peer = Peer::start(PeerReply::by(|_, _| {
        let json = response(200).header("content-type", "application/json; charset=utf-8");
        Some(json.body(r#"{"seen":1}"#.into()).expect("good"))
    }));
    let peer = peer.await;
    let mut job = task(Payload::json(r#"{"to":"me"}"#));
    job.trace = Some(trace());
    let result = run(&http(), &settings(&peer.url(), json!({})), &job).await;
    let item = EncodedBytes { encoding: Encoding::Json, bytes: r#"{"seen":1}"#.into() };
    assert_eq!(result, Ok(Output { items: vec![item] }));
    let call = peer.call(0);
    assert_eq!((call.method.as_str(), call.uri.path()), ("POST", "/"));
    assert_eq!(call.body, &br#"{"to":"me"}"#[..]);
    for (header, value) in [
        ("host", format!("127.0.0.1:{}", peer.port()).as_str()),
        ("content-type", "application/json"),
        ("idempotency-key", "crore-feed-12-5"),
        ("traceparent", &trace()),
        ("user-agent", "crore"),
    ] {
        assert_eq!(header_values(&call, header), [value], "{header}");
    }
}

#[tokio::test]
async fn a_result_is_text_json_or_bytes_according_to_the_response() {
    for (media_type, body, encoding) in [
        ("text/html", "grüße".as_bytes(), Encoding::Text),
        ("text/plain", b"\xff", Encoding::Bytes),
        ("application/problem+json", b"{}", Encoding::Json),
        ("application/json", b"{", Encoding::Bytes),
        ("application/json", b"", Encoding::Bytes),
        ("image/png", b"hello", Encoding::Bytes),
    ] {
        let peer = Peer::start(PeerReply::by(move |_, _| {
            Some(response(200).header("content-type", media_type).body(body.into()).expect("good"))
        }));
        let peer = peer.await;
        let settings = settings(&peer.url(), json!({}));
        let output = run(&http(), &settings, &task(Payload::json("1"))).await.expect("an answer");
        assert_eq!(
            output.items,
            [EncodedBytes { encoding, bytes: body.into() }],
            "{media_type} {body:?}"
        );
    }
}

#[tokio::test]
async fn the_settings_determine_the_request() {
    let key = SecretFile::new("hush-hush");
    let more = json!({
        "method": "PUT",
        "headers": { "X-One": "1", "x-many": ["a", "b"], "authorization": key.reference },
        "query": [["a", "1 2"], ["key", key.reference]],
        "idempotency_header": "X-Job",
    });
    let call = called(more, Payload::new(Encoding::Msgpack, &b"\x01"[..])).await;
    let uri = call.uri.to_string();
    assert_eq!((call.method.as_str(), &*uri), ("PUT", "/base/end?a=1+2&key=hush-hush"));
    assert_eq!(
        (header_values(&call, "x-one"), header_values(&call, "x-many").len()),
        (vec!["1".to_owned()], 2)
    );
    assert_eq!(header_values(&call, "authorization"), ["hush-hush"]);
    assert_eq!(
        (header_values(&call, "x-job"), header_values(&call, "idempotency-key").len()),
        (vec!["crore-feed-12-5".to_owned()], 0)
    );
    assert_eq!(
        (header_values(&call, "content-type"), &call.body[..]),
        (vec!["application/msgpack".to_owned()], &b"\x01"[..])
    );
}

#[tokio::test]
async fn a_call_has_the_body_of_its_handler() {
    for (more, payload, body, media_type) in [
        (json!({ "method": "GET" }), "1", "", &[][..]),
        (json!({ "method": "DELETE", "body": "payload" }), "1", "1", &["application/json"]),
        (json!({ "body": "none" }), "1", "", &[]),
        (json!({ "body": "hello" }), "1", "hello", &["text/plain; charset=utf-8"]),
        (json!({ "body": { "a": [1] } }), "1", r#"{"a":[1]}"#, &["application/json"]),
        (json!({ "headers": { "content-type": "a/b" } }), "1", "1", &["a/b"]),
    ] {
        let call = called(more.clone(), Payload::json(payload)).await;
        assert_eq!(call.body, body, "{more}");
        assert_eq!(header_values(&call, "content-type"), media_type, "{more}");
    }
    let call = called(json!({ "idempotency_header": "" }), Payload::json("1")).await;
    assert!(header_values(&call, "idempotency-key").is_empty(), "it was disabled");
}

#[tokio::test]
async fn a_payload_may_determine_the_request_if_its_handler_allows() {
    let payload = json!({
        "headers": { "x-many": ["a", "b"], "authorization": ["mine"] },
        "queries": [["q", "ü"], ["q", "2"]],
        "method": "POST",
        "body": "hello",
        "path": "more",
    });
    let more = json!({
        "payload": "request",
        "headers": { "Authorization": "its own" },
        "query": { "k": "v" },
    });
    // Without a trailing `/` the last segment of the base is replaced, as in a browser.
    let call = called(more, Payload::json(&payload.to_string())).await;
    let uri = call.uri.to_string();
    assert_eq!((call.method.as_str(), &*uri), ("POST", "/base/more?q=%C3%BC&q=2&k=v"));
    assert_eq!(
        (call.body.clone(), header_values(&call, "x-many")),
        ("hello".into(), vec!["a".to_owned(), "b".to_owned()])
    );
    assert_eq!(
        header_values(&call, "authorization"),
        ["its own"],
        "the value of the handler stays"
    );
    for (payload, uri) in [
        ("{}", "/base/end"),
        (r#"{"path":"/a b/../ü"}"#, "/%C3%BC"),
        (r#"{"path":"?x=1"}"#, "/base/end?x=1"),
    ] {
        let call = called(
            json!({ "payload": "request" }),
            Payload::new(Encoding::Bytes, payload.as_bytes()),
        )
        .await;
        assert_eq!((call.method.as_str(), call.uri.to_string().as_str()), ("GET", uri));
        assert!(call.body.is_empty() && header_values(&call, "content-type").is_empty());
    }
}

#[tokio::test]
async fn a_payload_with_an_invalid_request_fails_permanently() {
    let peer = Peer::start(PeerReply::status(204)).await;
    for (payload, class, names) in [
        ("", FailureClass::Other, "payload"),
        ("[]", FailureClass::Other, "payload"),
        (r#"{"headders":{}}"#, FailureClass::Other, "payload.headders"),
        (r#"{"headers":{"Host":["evil"]}}"#, FailureClass::Other, "payload.headers.Host"),
        (r#"{"headers":{"a":["b\r\nc: d"]}}"#, FailureClass::Other, "payload.headers.a"),
        (r#"{"headers":{"a":"b"}}"#, FailureClass::Other, "payload.headers.a"),
        (r#"{"method":"TRACE"}"#, FailureClass::Other, "payload.method"),
        (r#"{"method":"GET\r\n"}"#, FailureClass::Other, "payload.method"),
        (r#"{"path":"a\\b"}"#, FailureClass::Other, "payload.path"),
        (r#"{"path":"a\r\nb"}"#, FailureClass::Other, "payload.path"),
        (r#"{"path":"file:///etc/passwd"}"#, FailureClass::Other, "payload.path"),
        (
            r#"{"path":"//169.254.169.254/latest"}"#,
            FailureClass::Fatal,
            "outbound-denied: payload.path",
        ),
        (
            r#"{"path":"http://evil.example/"}"#,
            FailureClass::Fatal,
            "outbound-denied: payload.path",
        ),
    ] {
        let settings = settings(&peer.url(), json!({ "payload": "request" }));
        let job = task(Payload::new(Encoding::Text, payload.as_bytes()));
        let failure = run(&http(), &settings, &job).await.expect_err(payload);
        assert_eq!(
            (failure.class, failure.retry),
            (class, RetryDirective::Never),
            "{payload}: {failure}"
        );
        assert!(failure.error.starts_with(names), "{payload}: {failure}");
    }
    let settings = settings(&peer.url(), json!({ "payload": "request", "method": "GET" }));
    let job = task(Payload::json(r#"{"method":"DELETE"}"#));
    let failure = run(&http(), &settings, &job).await.expect_err("the handler sets GET");
    assert!(failure.error.contains("payload.method"), "{failure}");
    assert_eq!(peer.calls(), 0);
}

async fn answered(status: u16, headers: &'static [(&str, &str)]) -> RunFailure {
    let peer = Peer::start(PeerReply::by(move |_, _| {
        let mut answer = response(status);
        for (name, value) in headers {
            answer = answer.header(*name, *value);
        }
        Some(answer.body("why it is so".into()).expect("good"))
    }));
    let peer = peer.await;
    let job = task(Payload::json("1"));
    let settings = settings(&format!("{}/hook", peer.url()), json!({ "query": { "k": "v" } }));
    run(&http(), &settings, &job).await.expect_err("no success")
}

#[tokio::test]
async fn the_status_decides_about_a_retry() {
    for status in [408, 425, 429, 500, 502, 503, 504, 599] {
        let failure = answered(status, &[]).await;
        assert_eq!(
            (failure.class, failure.retry),
            (FailureClass::Temporary, RetryDirective::ByPolicy),
            "{status}"
        );
        assert_eq!(failure.detail["status"], json!(status));
        assert_eq!(failure.detail["body"], json!("why it is so"));
    }
    for status in [304, 400, 401, 403, 404, 409, 410, 418, 422] {
        let failure = answered(status, &[("retry-after", "7")]).await;
        assert_eq!(
            (failure.class, failure.retry),
            (FailureClass::Other, RetryDirective::Never),
            "{status}"
        );
        assert_eq!(failure.detail["status"], json!(status));
    }
    let failure = answered(404, &[]).await;
    assert!(failure.error.ends_with("/hook` answered 404 Not Found"), "{failure}");
    for status in [429, 503] {
        let failure = answered(status, &[("retry-after", "7")]).await;
        assert_eq!(failure.retry, RetryDirective::After(Span::from_secs(7)), "{status}");
        let dated = &[
            ("date", "Wed, 21 Oct 2026 07:28:00 GMT"),
            ("retry-after", "Wed, 21 Oct 2026 07:28:09 GMT"),
        ];
        assert_eq!(answered(status, dated).await.retry, RetryDirective::After(Span::from_secs(9)));
        assert_eq!(
            answered(status, &[("retry-after", "soon")]).await.retry,
            RetryDirective::ByPolicy
        );
    }
}

#[tokio::test]
async fn expected_statuses_are_successes() {
    for (expect, status, is_well) in [
        (json!([404, "500-503"]), 404, true),
        (json!([404, "500-503"]), 502, true),
        (json!([404, "500-503"]), 200, false),
        (json!(["200-399"]), 304, true),
    ] {
        let peer = Peer::start(PeerReply::status(status)).await;
        let settings = settings(&peer.url(), json!({ "expect": expect }));
        let result = run(&http(), &settings, &task(Payload::json("1"))).await;
        assert_eq!(result.is_ok(), is_well, "{expect} {status}");
    }
}

#[tokio::test]
async fn connections_are_kept_by_all_runners_of_a_maker() {
    let ports = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&ports);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let server = tokio::spawn(async move {
        loop {
            let (stream, from) = listener.accept().await.expect("a connection");
            seen.lock().expect("no panic").push(from.port());
            let service = hyper::service::service_fn(async |_| {
                Ok::<_, std::convert::Infallible>(http::Response::new(String::new()))
            });
            let io = hyper_util::rt::TokioIo::new(stream);
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(io, service));
        }
    });
    let http = http();
    for _ in 0..5 {
        let settings = settings(&url, json!({}));
        run(&http, &settings, &task(Payload::json("1"))).await.expect("an answer");
    }
    assert_eq!(ports.lock().expect("no panic").len(), 1);
    server.abort();
}

#[test]
fn the_http_runner_is_always_allowed_and_settings_errors_name_the_field() {
    let http = http();
    assert_eq!((http.name(), http.must_be_allowed()), ("http", false));
    let wrong = http.check(&json!({ "url": "http://127.0.0.1:22/" })).expect_err("a port");
    assert_eq!(wrong.field, "settings.url");
}
