//! Jobs that are calls by HTTP.

mod denied;
mod harm;
mod redirects;
mod tls;

use crore_core::machine::Again;
use crore_core::{Encoding, Payload, Span};
use crore_runner::{Class, Failure, Http, Item, Maker, Output};
use serde_json::{Value, json};

use crate::stage::{Hidden, reach, run, task, trace};
use crore_testkit::http_peer::{Call, Peer, Reply, response};

const HERE: &[&str] = &["127.0.0.1/32"];

fn http() -> Http {
    Http::new(reach(HERE))
}

/// Settings that call a peer, and more of them.
fn settings(url: &str, more: Value) -> Value {
    let mut settings = json!({ "url": url });
    let Value::Object(more) = more else { panic!("an object") };
    settings.as_object_mut().expect("an object").extend(more);
    settings
}

fn said(call: &Call, header: &str) -> Vec<String> {
    let values = call.headers.get_all(header).iter();
    values.map(|value| value.to_str().expect("text").to_owned()).collect()
}

async fn called(more: Value, payload: Payload) -> Call {
    let peer = Peer::start(Reply::status(204)).await;
    let settings = settings(&format!("{}/base/end", peer.url()), more);
    run(&http(), &settings, &task(payload)).await.expect("an answer");
    peer.call(0)
}

#[tokio::test]
async fn a_job_is_posted_and_what_is_answered_is_its_result() {
    let peer = Peer::start(Reply::by(|_, _| {
        let json = response(200).header("content-type", "application/json; charset=utf-8");
        Some(json.body(r#"{"seen":1}"#.into()).expect("good"))
    }));
    let peer = peer.await;
    let mut job = task(Payload::json(r#"{"to":"me"}"#));
    job.trace = Some(trace());
    let result = run(&http(), &settings(&peer.url(), json!({})), &job).await;
    let item = Item { encoding: Encoding::Json, bytes: r#"{"seen":1}"#.into() };
    assert_eq!(result, Ok(Output { items: vec![item] }));
    let call = peer.call(0);
    assert_eq!((call.method.as_str(), call.uri.path()), ("POST", "/"));
    assert_eq!(call.body, &br#"{"to":"me"}"#[..]);
    for (header, value) in [
        ("host", format!("127.0.0.1:{}", peer.port()).as_str()),
        ("content-type", "application/json"),
        ("idempotency-key", "crore-12"),
        ("traceparent", &trace()),
        ("user-agent", "crore"),
    ] {
        assert_eq!(said(&call, header), [value], "{header}");
    }
}

#[tokio::test]
async fn a_result_is_text_json_or_bytes_as_the_answer_truly_is() {
    for (media_type, body, encoding) in [
        ("text/html", "grüße".as_bytes(), Encoding::Text),
        ("text/plain", b"\xff", Encoding::Bytes),
        ("application/problem+json", b"{}", Encoding::Json),
        ("application/json", b"{", Encoding::Bytes),
        ("application/json", b"", Encoding::Bytes),
        ("image/png", b"hello", Encoding::Bytes),
    ] {
        let peer = Peer::start(Reply::by(move |_, _| {
            Some(response(200).header("content-type", media_type).body(body.into()).expect("good"))
        }));
        let peer = peer.await;
        let settings = settings(&peer.url(), json!({}));
        let output = run(&http(), &settings, &task(Payload::json("1"))).await.expect("an answer");
        assert_eq!(output.items, [Item { encoding, bytes: body.into() }], "{media_type} {body:?}");
    }
}

#[tokio::test]
async fn a_handler_says_how_it_is_called() {
    let key = Hidden::new("hush-hush");
    let more = json!({
        "method": "PUT",
        "headers": { "X-One": "1", "x-many": ["a", "b"], "authorization": key.reference },
        "query": [["a", "1 2"], ["key", key.reference]],
        "idempotency_header": "X-Job",
    });
    let call = called(more, Payload::new(Encoding::Msgpack, &b"\x01"[..])).await;
    let uri = call.uri.to_string();
    assert_eq!((call.method.as_str(), &*uri), ("PUT", "/base/end?a=1+2&key=hush-hush"));
    assert_eq!((said(&call, "x-one"), said(&call, "x-many").len()), (vec!["1".to_owned()], 2));
    assert_eq!(said(&call, "authorization"), ["hush-hush"]);
    assert_eq!(
        (said(&call, "x-job"), said(&call, "idempotency-key").len()),
        (vec!["crore-12".to_owned()], 0)
    );
    assert_eq!(
        (said(&call, "content-type"), &call.body[..]),
        (vec!["application/msgpack".to_owned()], &b"\x01"[..])
    );
}

#[tokio::test]
async fn a_call_has_the_body_that_its_handler_wants() {
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
        assert_eq!(said(&call, "content-type"), media_type, "{more}");
    }
    let call = called(json!({ "idempotency_header": "" }), Payload::json("1")).await;
    assert!(said(&call, "idempotency-key").is_empty(), "it was switched off");
}

#[tokio::test]
async fn a_payload_may_say_what_is_called_where_its_handler_lets_it() {
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
    // A base without a `/` at its end loses its last part, as in a browser.
    let call = called(more, Payload::json(&payload.to_string())).await;
    let uri = call.uri.to_string();
    assert_eq!((call.method.as_str(), &*uri), ("POST", "/base/more?q=%C3%BC&q=2&k=v"));
    assert_eq!(
        (call.body.clone(), said(&call, "x-many")),
        ("hello".into(), vec!["a".to_owned(), "b".to_owned()])
    );
    assert_eq!(said(&call, "authorization"), ["its own"], "what a handler says stands");
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
        assert!(call.body.is_empty() && said(&call, "content-type").is_empty());
    }
}

#[tokio::test]
async fn a_payload_that_says_what_cannot_be_called_fails_for_good() {
    let peer = Peer::start(Reply::status(204)).await;
    for (payload, class, names) in [
        ("", Class::Other, "payload"),
        ("[]", Class::Other, "payload"),
        (r#"{"headders":{}}"#, Class::Other, "payload.headders"),
        (r#"{"headers":{"Host":["evil"]}}"#, Class::Other, "payload.headers.Host"),
        (r#"{"headers":{"a":["b\r\nc: d"]}}"#, Class::Other, "payload.headers.a"),
        (r#"{"headers":{"a":"b"}}"#, Class::Other, "payload.headers.a"),
        (r#"{"method":"TRACE"}"#, Class::Other, "payload.method"),
        (r#"{"method":"GET\r\n"}"#, Class::Other, "payload.method"),
        (r#"{"path":"a\\b"}"#, Class::Other, "payload.path"),
        (r#"{"path":"a\r\nb"}"#, Class::Other, "payload.path"),
        (r#"{"path":"file:///etc/passwd"}"#, Class::Other, "payload.path"),
        (r#"{"path":"//169.254.169.254/latest"}"#, Class::Fatal, "outbound-denied: payload.path"),
        (r#"{"path":"http://evil.example/"}"#, Class::Fatal, "outbound-denied: payload.path"),
    ] {
        let settings = settings(&peer.url(), json!({ "payload": "request" }));
        let job = task(Payload::new(Encoding::Text, payload.as_bytes()));
        let failure = run(&http(), &settings, &job).await.expect_err(payload);
        assert_eq!((failure.class, failure.again), (class, Again::Never), "{payload}: {failure}");
        assert!(failure.error.starts_with(names), "{payload}: {failure}");
    }
    let settings = settings(&peer.url(), json!({ "payload": "request", "method": "GET" }));
    let job = task(Payload::json(r#"{"method":"DELETE"}"#));
    let failure = run(&http(), &settings, &job).await.expect_err("its handler says GET");
    assert!(failure.error.contains("payload.method"), "{failure}");
    assert_eq!(peer.calls(), 0);
}

async fn answered(status: u16, headers: &'static [(&str, &str)]) -> Failure {
    let peer = Peer::start(Reply::by(move |_, _| {
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
async fn a_status_says_whether_a_job_is_tried_again() {
    for status in [408, 425, 429, 500, 502, 503, 504, 599] {
        let failure = answered(status, &[]).await;
        assert_eq!((failure.class, failure.again), (Class::Again, Again::ByPolicy), "{status}");
        assert_eq!(failure.detail["status"], json!(status));
        assert_eq!(failure.detail["body"], json!("why it is so"));
    }
    for status in [304, 400, 401, 403, 404, 409, 410, 418, 422] {
        let failure = answered(status, &[("retry-after", "7")]).await;
        assert_eq!((failure.class, failure.again), (Class::Other, Again::Never), "{status}");
        assert_eq!(failure.detail["status"], json!(status));
    }
    let failure = answered(404, &[]).await;
    assert!(failure.error.ends_with("/hook` answered 404 Not Found"), "{failure}");
    for status in [429, 503] {
        let failure = answered(status, &[("retry-after", "7")]).await;
        assert_eq!(failure.again, Again::After(Span::from_secs(7)), "{status}");
        let dated = &[
            ("date", "Wed, 21 Oct 2026 07:28:00 GMT"),
            ("retry-after", "Wed, 21 Oct 2026 07:28:09 GMT"),
        ];
        assert_eq!(answered(status, dated).await.again, Again::After(Span::from_secs(9)));
        assert_eq!(answered(status, &[("retry-after", "soon")]).await.again, Again::ByPolicy);
    }
}

#[tokio::test]
async fn a_handler_says_which_statuses_are_well() {
    for (expect, status, is_well) in [
        (json!([404, "500-503"]), 404, true),
        (json!([404, "500-503"]), 502, true),
        (json!([404, "500-503"]), 200, false),
        (json!(["200-399"]), 304, true),
    ] {
        let peer = Peer::start(Reply::status(status)).await;
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
            let (stream, from) = listener.accept().await.expect("somebody");
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
fn it_needs_no_leave_and_checks_settings_by_their_fields() {
    let http = http();
    assert_eq!((http.name(), http.needs_leave()), ("http", false));
    let wrong = http.check(&json!({ "url": "http://127.0.0.1:22/" })).expect_err("a port");
    assert_eq!(wrong.field, "settings.url");
}
