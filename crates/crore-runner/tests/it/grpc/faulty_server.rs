//! Faulty gRPC servers: unreachable, slow, wrong or untrusted. Each costs one call and reveals no secret.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crore_core::Payload;
use crore_outbound::{Outbound, Resolve, ResolveFuture};
use crore_runner::{FailureClass, GrpcFactory, NetworkAccess, RunFailure, Urls};
use crore_testkit::eventually_async;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::server::{ReflectionSupport, ScriptedResponse, Server};
use super::{grpc, settings};
use crate::outbound_fixture::{
    ForbiddenListener, SecretFile, options, reach, run, run_until, task,
};
use crate::tls_authority::Authority;
use crore_testkit::http_peer::{Peer, PeerReply, pause};

fn at(url: &str) -> Value {
    json!({ "url": url, "method": "shop.Till/Pay", "deadline": "5s" })
}

async fn failed(grpc: &GrpcFactory, settings: &Value) -> RunFailure {
    run(grpc, settings, &task(Payload::json("{}"))).await.expect_err("no success")
}

#[tokio::test]
async fn a_slow_response_times_out_and_is_retried() {
    let server = Server::start(ReflectionSupport::Not, |_| ScriptedResponse::Nothing).await;
    let failure = failed(&grpc(), &settings(&server, json!({ "deadline": "100ms" }))).await;
    assert_eq!(failure.class, FailureClass::Temporary);
    assert_eq!(failure.error, "no response within 100ms");
    let given_up = || async { server.dropped() == 1 };
    eventually_async(Duration::from_secs(5), pause, given_up).await;
}

#[tokio::test]
async fn a_stop_during_a_call_ends_it_at_once() {
    let server = Server::start(ReflectionSupport::Not, |_| ScriptedResponse::Nothing).await;
    let (stop, grpc, job) = (CancellationToken::new(), grpc(), task(Payload::json("{}")));
    let settings = settings(&server, json!({ "deadline": "1h" }));
    let running = run_until(&grpc, &settings, &job, &stop);
    let mut running = std::pin::pin!(running);
    let began = tokio::time::timeout(Duration::from_millis(200), &mut running).await;
    assert!(began.is_err(), "it waits for a response");
    stop.cancel();
    let stopped = tokio::time::timeout(Duration::from_secs(5), running).await.expect("at once");
    assert_eq!(stopped, Err(RunFailure::stopped()));
    let given_up = || async { server.dropped() == 1 };
    eventually_async(Duration::from_secs(5), pause, given_up).await;
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused() {
    for (bytes, is_well) in [(1000, true), (1001, false)] {
        let says = move |_: &_| ScriptedResponse::Message(vec![b'x'; bytes].into());
        let server = Server::start(ReflectionSupport::Not, says).await;
        let settings = settings(&server, json!({ "max_answer": "1000B" }));
        let result = run(&grpc(), &settings, &task(Payload::json("{}"))).await;
        assert_eq!(result.is_ok(), is_well, "{bytes}");
        if let Err(failure) = result {
            assert_eq!(failure.class, FailureClass::Fatal);
            assert_eq!(failure.detail["status"], json!("OUT_OF_RANGE"));
        }
    }
}

#[tokio::test]
async fn invalid_frames_are_failures() {
    for frames in [
        &b""[..],
        // Four gigabytes that never arrive.
        b"\0\xff\xff\xff\xff",
        // A length of ten with three bytes.
        b"\0\0\0\0\x0aabc",
        // An unknown compression.
        b"\x01\0\0\0\x01a",
        b"\x07\0\0\0\x01a",
    ] {
        let server = Server::start(ReflectionSupport::Not, |_| {
            ScriptedResponse::Raw(Bytes::from_static(frames))
        })
        .await;
        let failure = failed(&grpc(), &settings(&server, json!({ "deadline": "5s" }))).await;
        assert!(!failure.error.contains("no response within"), "{frames:?}: {failure}");
    }
}

#[tokio::test]
async fn server_without_http2_is_retried() {
    for speaks in
        [PeerReply::status(200), PeerReply::raw(b"hello\r\n".to_vec()), PeerReply::raw(Vec::new())]
    {
        let peer = Peer::start(speaks).await;
        let failure = failed(&grpc(), &at(&peer.url())).await;
        assert_eq!(failure.class, FailureClass::Temporary, "{failure}");
    }
    let gone = ForbiddenListener::at([127, 0, 0, 1]).port();
    let failure = failed(&grpc(), &at(&format!("http://127.0.0.1:{gone}"))).await;
    assert_eq!(
        (failure.class, &failure.detail["reason"]),
        (FailureClass::Temporary, &json!("unreachable"))
    );
}

#[tokio::test]
async fn a_connection_is_kept_and_reopened_when_its_server_returns() {
    let says = |_: &_| ScriptedResponse::Message(Bytes::from_static(b"ok"));
    let server = Server::start(ReflectionSupport::Not, says).await;
    let (grpc, job, address) = (grpc(), task(Payload::json("{}")), server.address());
    for _ in 0..3 {
        run(&grpc, &at(&server.url()), &job).await.expect("an answer");
    }
    assert_eq!(server.connections(), 1);
    let url = server.url();
    drop(server);
    let unheard = || async { run(&grpc, &at(&url), &job).await.is_err() };
    eventually_async(Duration::from_secs(5), pause, unheard).await;
    let _server = Server::start_at(address, None, ReflectionSupport::Not, Arc::new(says)).await;
    let succeeds = || async { run(&grpc, &at(&url), &job).await.is_ok() };
    eventually_async(Duration::from_secs(5), pause, succeeds).await;
}

#[tokio::test]
async fn denied_addresses_are_not_called() {
    let (v4, v6) =
        (ForbiddenListener::at([127, 0, 0, 1]), ForbiddenListener::at([0, 0, 0, 0, 0, 0, 0, 1]));
    let careful = GrpcFactory::new(reach(&[]));
    for (host, port) in [
        ("127.0.0.1", v4.port()),
        ("127.1", v4.port()),
        ("localhost", v4.port()),
        ("[::ffff:127.0.0.1]", v4.port()),
        ("[::1]", v6.port()),
        ("169.254.169.254", 80),
        ("10.0.0.1", 80),
    ] {
        for scheme in ["http", "https"] {
            for payload in ["bytes", "json"] {
                let mut settings = at(&format!("{scheme}://{host}:{port}"));
                settings["payload"] = json!(payload);
                let failure = failed(&careful, &settings).await;
                assert_eq!(failure.class, FailureClass::Fatal, "{host}: {failure}");
                assert!(failure.error.starts_with("outbound-denied: "), "{host}: {failure}");
            }
        }
    }
    assert!(v4.saw_nothing() && v6.saw_nothing());
}

/// A name with an allowed and a denied address.
#[derive(Debug)]
struct Mixed;

impl Resolve for Mixed {
    fn resolve(&self, _: &str, port: u16) -> ResolveFuture {
        Box::pin(async move {
            Ok(vec![([127, 0, 0, 1], port).into(), ([169, 254, 169, 254], port).into()])
        })
    }
}

#[tokio::test]
async fn one_denied_address_of_a_name_refuses_the_call() {
    let trap = ForbiddenListener::at([127, 0, 0, 1]);
    let outbound = Outbound::with_resolver(options(&["127.0.0.1/32"]), Arc::new(Mixed));
    let grpc = GrpcFactory::new(NetworkAccess::new(outbound, Urls::default()));
    let failure = failed(&grpc, &at(&format!("http://mixed.example:{}", trap.port()))).await;
    assert!(failure.error.starts_with("outbound-denied: ") && trap.saw_nothing(), "{failure}");
}

#[tokio::test]
async fn tls_requires_a_trusted_certificate() {
    let authority = Authority::new();
    let says = |_: &_| ScriptedResponse::Message(Bytes::from_static(b"ok"));
    let loopback = ([127, 0, 0, 1], 0).into();
    let tls = Some(authority.acceptor(&["h2"]));
    let server = Server::start_at(loopback, tls, ReflectionSupport::Not, Arc::new(says)).await;
    let job = task(Payload::json("{}"));
    let trusting = GrpcFactory::new(authority.reach());
    let output = run(&trusting, &at(&server.url()), &job).await.expect("an answer");
    assert_eq!(output.items[0].bytes, "ok");
    let failure = failed(&grpc(), &at(&server.url())).await;
    assert!(failure.error.contains("failed the TLS handshake"), "{failure}");
    assert_eq!(failure.class, FailureClass::Temporary);
}

#[tokio::test]
async fn secrets_are_in_no_failure() {
    let token = SecretFile::new("hush-hush");
    let server = Server::start(ReflectionSupport::Not, |call| {
        let token = call.headers["authorization"].to_str().expect("text");
        ScriptedResponse::Status(16, format!("`{token}` is not known here"))
    });
    let server = server.await;
    let metadata = json!({ "metadata": { "authorization": token.reference } });
    let failure = failed(&grpc(), &settings(&server, metadata)).await;
    assert!(!format!("{failure:?}").contains("hush"), "{failure:?}");
    assert!(failure.error.ends_with("`***` is not known here"), "{failure}");
    let missing = json!({ "metadata": { "authorization": "env:CRORE_NO_SUCH" } });
    let failure = failed(&grpc(), &settings(&server, missing)).await;
    assert_eq!((failure.class, server.calls().len()), (FailureClass::Fatal, 1));
}
