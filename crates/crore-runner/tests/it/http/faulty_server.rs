//! Faulty HTTP servers: slow, endless or wrong. Each costs one call and reveals no secret.

use std::time::Duration;

use crore_core::machine::RetryDirective;
use crore_core::{Payload, Span};
use crore_runner::{FailureClass, RunFailure};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{http, settings};
use crate::outbound_fixture::{ForbiddenListener, SecretFile, run, run_until, task};
use crore_testkit::http_peer::{Peer, PeerReply, response};

async fn failed(url: &str, more: serde_json::Value) -> RunFailure {
    let settings = settings(url, more);
    run(&http(), &settings, &task(Payload::json("1"))).await.expect_err("no success")
}

/// Responds with this head and then up to `bytes` bytes. The handle returns how many were sent.
async fn serve_endless_body(
    head: &'static str,
    bytes: usize,
) -> (String, tokio::task::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let poured = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut question = [0; 4096];
        let _ = stream.read(&mut question).await;
        let _ = stream.write_all(head.as_bytes()).await;
        let (chunk, mut sent) = (vec![b'x'; 64 << 10], 0);
        while sent < bytes && stream.write_all(&chunk).await.is_ok() {
            sent += chunk.len();
        }
        while matches!(stream.read(&mut question).await, Ok(1..)) {}
        sent
    });
    (url, poured)
}

#[tokio::test]
async fn a_response_of_100_megabytes_is_not_read() {
    const LARGE: usize = 100_000_000;
    for head in [
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n",
    ] {
        let (url, poured) = serve_endless_body(head, LARGE).await;
        let failure = failed(&url, json!({})).await;
        assert_eq!(failure.class, FailureClass::Other, "{failure}");
        assert_eq!(failure.detail["reason"], json!("answer-too-large"));
        let sent = poured.await.expect("no panic");
        assert!(sent < LARGE / 2, "the connection ends with the call: {sent}");
    }
    // An error response is not read to its end either, but is reported with its status.
    let (url, _) = serve_endless_body("HTTP/1.1 404 Not Found\r\n\r\n", LARGE).await;
    let failure = failed(&url, json!({ "max_answer": "10KB" })).await;
    assert_eq!(failure.detail["status"], json!(404));
    assert_eq!(failure.detail["body"].as_str().map(str::len), Some(4096));
}

#[tokio::test]
async fn a_response_may_have_exactly_the_maximum_size() {
    for (bytes, is_well) in [(1000, true), (1001, false)] {
        let peer = Peer::start(PeerReply::body(200, vec![b'x'; bytes])).await;
        let settings = settings(&peer.url(), json!({ "max_answer": "1000B" }));
        let result = run(&http(), &settings, &task(Payload::json("1"))).await;
        assert_eq!(result.is_ok(), is_well, "{bytes}");
    }
}

#[tokio::test]
async fn responses_are_not_decompressed() {
    let gzip = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n\
        content-length: 2\r\n\r\n{}";
    let peer = Peer::start(PeerReply::raw(gzip.to_vec())).await;
    let settings = settings(&peer.url(), json!({}));
    let output = run(&http(), &settings, &task(Payload::json("1"))).await.expect("an answer");
    assert_eq!(output.items[0].encoding, crore_core::Encoding::Bytes, "it is not what it says");
    assert_eq!(output.items[0].bytes, &b"{}"[..]);
}

#[tokio::test]
async fn a_slow_response_times_out_and_is_retried() {
    let silent = Peer::start(PeerReply::nothing()).await;
    let failure = failed(&silent.url(), json!({ "timeout": "100ms" })).await;
    assert_eq!((failure.class, failure.retry), (FailureClass::Temporary, RetryDirective::ByPolicy));
    assert_eq!(failure.error, "no response within 100ms");
    assert!(silent.wait_hung_up().await);
    // Also after the beginning of a response.
    let (url, _) = serve_endless_body("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n", 0).await;
    let failure = failed(&url, json!({ "timeout": "100ms" })).await;
    assert_eq!(failure.error, "no response within 100ms");
    // Without a timeout in the handler, the job's applies.
    let mut job = task(Payload::json("1"));
    job.timeout = Some(Span::from_millis(50));
    let silent = Peer::start(PeerReply::nothing()).await;
    let settings = settings(&silent.url(), json!({}));
    let failure = run(&http(), &settings, &job).await.expect_err("no answer");
    assert_eq!(failure.error, "no response within 50ms");
}

#[tokio::test]
async fn a_stop_during_a_call_ends_it_at_once() {
    let silent = Peer::start(PeerReply::nothing()).await;
    let stop = CancellationToken::new();
    let settings = settings(&silent.url(), json!({ "timeout": "1h" }));
    let (http, job) = (http(), task(Payload::json("1")));
    let running = run_until(&http, &settings, &job, &stop);
    let mut running = std::pin::pin!(running);
    let began = tokio::time::timeout(Duration::from_millis(200), &mut running).await;
    assert!(began.is_err(), "it waits for an answer");
    stop.cancel();
    let stopped = tokio::time::timeout(Duration::from_secs(5), running).await.expect("at once");
    assert_eq!(stopped, Err(RunFailure::stopped()));
    assert!(silent.wait_hung_up().await, "and the connection ends with it");
    // A run that is stopped before it starts makes no call.
    let trap = ForbiddenListener::at([127, 0, 0, 1]);
    let settings = super::settings(&format!("http://127.0.0.1:{}", trap.port()), json!({}));
    assert_eq!(run_until(&http, &settings, &job, &stop).await, Err(RunFailure::stopped()));
    assert!(trap.saw_nothing());
}

#[tokio::test]
async fn a_malformed_response_is_retried() {
    for garbage in [
        "",
        "hello\r\n",
        "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ] {
        let peer = Peer::start(PeerReply::raw(garbage.into())).await;
        let failure = failed(&peer.url(), json!({ "timeout": "5s" })).await;
        assert_eq!(failure.class, FailureClass::Temporary, "{garbage:?}: {failure}");
        assert!(failure.error.contains("broke the connection"), "{garbage:?}: {failure}");
    }
    let endless = [&b"HTTP/1.1 200 OK\r\nx: "[..], &vec![b'x'; 1 << 20]].concat();
    let peer = Peer::start(PeerReply::raw(endless)).await;
    assert_eq!(
        failed(&peer.url(), json!({ "timeout": "5s" })).await.class,
        FailureClass::Temporary
    );
    let gone = ForbiddenListener::at([127, 0, 0, 1]).port();
    let failure = failed(&format!("http://127.0.0.1:{gone}"), json!({})).await;
    assert_eq!(
        (failure.class, &failure.detail["reason"]),
        (FailureClass::Temporary, &json!("unreachable"))
    );
    let plain = Peer::start(PeerReply::status(200)).await;
    let failure = failed(&format!("https://127.0.0.1:{}", plain.port()), json!({})).await;
    assert!(failure.error.contains("failed the TLS handshake"), "{failure}");
}

#[tokio::test]
async fn secrets_are_in_no_failure() {
    let (key, other) = (SecretFile::new("hush-hush"), SecretFile::new("bad\nvalue"));
    let peer = Peer::start(PeerReply::by(|_, call| {
        let echo = format!("{} {:?}", call.uri, call.headers["x-key"]);
        Some(response(403).body(echo.into()).expect("good"))
    }));
    let peer = peer.await;
    let gone = ForbiddenListener::at([127, 0, 0, 1]).port();
    let silent = Peer::start(PeerReply::nothing()).await;
    let secret = json!({
        "headers": { "x-key": key.reference },
        "query": { "key": key.reference },
        "timeout": "200ms",
    });
    for url in [
        peer.url(),
        silent.url(),
        format!("http://127.0.0.1:{gone}"),
        "http://127.0.0.2:8080".to_owned(),
    ] {
        let failure = failed(&url, secret.clone()).await;
        assert!(!format!("{failure:?}").contains("hush"), "{url}: {failure:?}");
    }
    let failure = failed(&peer.url(), secret).await;
    assert!(failure.detail["body"].as_str().is_some_and(|body| body.contains("***")));
    let failure = failed(&peer.url(), json!({ "headers": { "x-key": other.reference } })).await;
    assert!(!format!("{failure:?}").contains("value\""), "{failure:?}");
    assert_eq!((failure.class, peer.calls()), (FailureClass::Fatal, 2));
    let spaced = SecretFile::new("hush hush/ü");
    let secret = json!({ "headers": { "x-key": "a" }, "query": { "key": spaced.reference } });
    let failure = failed(&peer.url(), secret).await;
    assert_eq!(failure.detail["body"], "/?key=*** \"a\"", "also as it stands in a URL");
    let failure = failed(&peer.url(), json!({ "headers": { "x-key": "env:CRORE_NO_SUCH" } })).await;
    assert!(failure.error.contains("env:CRORE_NO_SUCH"), "{failure}");
}
