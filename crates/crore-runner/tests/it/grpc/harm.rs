//! Whoever is called may be gone, slow, wrong or somebody else: that costs one call, and tells no
//! secret.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crore_core::Payload;
use crore_outbound::{Addresses, Outbound, Resolve};
use crore_runner::{Class, Failure, Grpc, Reach, Urls};
use crore_testkit::eventually_async;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::server::{Reflects, Says, Server};
use super::{grpc, settings};
use crate::secure::Authority;
use crate::stage::{Hidden, Trap, options, reach, run, run_until, task};
use crore_testkit::http_peer::{Peer, Reply, pause};

fn at(url: &str) -> Value {
    json!({ "url": url, "method": "shop.Till/Pay", "deadline": "5s" })
}

async fn failed(grpc: &Grpc, settings: &Value) -> Failure {
    run(grpc, settings, &task(Payload::json("{}"))).await.expect_err("no success")
}

#[tokio::test]
async fn a_slow_answer_is_given_up_and_tried_again() {
    let server = Server::start(Reflects::Not, |_| Says::Nothing).await;
    let failure = failed(&grpc(), &settings(&server, json!({ "deadline": "100ms" }))).await;
    assert_eq!(failure.class, Class::Again);
    assert_eq!(failure.error, "no answer within 100ms");
    let given_up = || async { server.given_up() == 1 };
    eventually_async(Duration::from_secs(5), pause, given_up).await;
}

#[tokio::test]
async fn a_stop_in_the_middle_ends_the_call_at_once() {
    let server = Server::start(Reflects::Not, |_| Says::Nothing).await;
    let (stop, grpc, job) = (CancellationToken::new(), grpc(), task(Payload::json("{}")));
    let settings = settings(&server, json!({ "deadline": "1h" }));
    let running = run_until(&grpc, &settings, &job, &stop);
    let mut running = std::pin::pin!(running);
    let began = tokio::time::timeout(Duration::from_millis(200), &mut running).await;
    assert!(began.is_err(), "it waits for an answer");
    stop.cancel();
    let stopped = tokio::time::timeout(Duration::from_secs(5), running).await.expect("at once");
    assert_eq!(stopped, Err(Failure::stopped()));
    let given_up = || async { server.given_up() == 1 };
    eventually_async(Duration::from_secs(5), pause, given_up).await;
}

#[tokio::test]
async fn a_message_that_is_too_large_is_not_taken() {
    for (bytes, is_well) in [(1000, true), (1001, false)] {
        let says = move |_: &_| Says::Message(vec![b'x'; bytes].into());
        let server = Server::start(Reflects::Not, says).await;
        let settings = settings(&server, json!({ "max_answer": "1000B" }));
        let result = run(&grpc(), &settings, &task(Payload::json("{}"))).await;
        assert_eq!(result.is_ok(), is_well, "{bytes}");
        if let Err(failure) = result {
            assert_eq!(failure.class, Class::Fatal);
            assert_eq!(failure.detail["status"], json!("OUT_OF_RANGE"));
        }
    }
}

#[tokio::test]
async fn frames_that_lie_are_no_answer() {
    for frames in [
        &b""[..],
        // Four gigabytes that never come.
        b"\0\xff\xff\xff\xff",
        // Ten bytes, of which there are three.
        b"\0\0\0\0\x0aabc",
        // Compressed, by nobody knows what.
        b"\x01\0\0\0\x01a",
        b"\x07\0\0\0\x01a",
    ] {
        let server = Server::start(Reflects::Not, |_| Says::Raw(Bytes::from_static(frames))).await;
        let failure = failed(&grpc(), &settings(&server, json!({ "deadline": "5s" }))).await;
        assert!(!failure.error.contains("no answer within"), "{frames:?}: {failure}");
    }
}

#[tokio::test]
async fn whoever_speaks_something_else_is_tried_again() {
    for speaks in [Reply::status(200), Reply::raw(b"hello\r\n".to_vec()), Reply::raw(Vec::new())] {
        let peer = Peer::start(speaks).await;
        let failure = failed(&grpc(), &at(&peer.url())).await;
        assert_eq!(failure.class, Class::Again, "{failure}");
    }
    let gone = Trap::at([127, 0, 0, 1]).port();
    let failure = failed(&grpc(), &at(&format!("http://127.0.0.1:{gone}"))).await;
    assert_eq!((failure.class, &failure.detail["reason"]), (Class::Again, &json!("unreachable")));
}

#[tokio::test]
async fn a_connection_is_kept_and_comes_back_when_its_server_does() {
    let says = |_: &_| Says::Message(Bytes::from_static(b"ok"));
    let server = Server::start(Reflects::Not, says).await;
    let (grpc, job, address) = (grpc(), task(Payload::json("{}")), server.address());
    for _ in 0..3 {
        run(&grpc, &at(&server.url()), &job).await.expect("an answer");
    }
    assert_eq!(server.connections(), 1);
    let url = server.url();
    drop(server);
    let unheard = || async { run(&grpc, &at(&url), &job).await.is_err() };
    eventually_async(Duration::from_secs(5), pause, unheard).await;
    let _server = Server::start_at(address, None, Reflects::Not, Arc::new(says)).await;
    let heard = || async { run(&grpc, &at(&url), &job).await.is_ok() };
    eventually_async(Duration::from_secs(5), pause, heard).await;
}

#[tokio::test]
async fn nobody_is_called_who_may_not_be() {
    let (v4, v6) = (Trap::at([127, 0, 0, 1]), Trap::at([0, 0, 0, 0, 0, 0, 0, 1]));
    let careful = Grpc::new(reach(&[]));
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
                assert_eq!(failure.class, Class::Fatal, "{host}: {failure}");
                assert!(failure.error.starts_with("outbound-denied: "), "{host}: {failure}");
            }
        }
    }
    assert!(v4.saw_nothing() && v6.saw_nothing());
}

/// A name that stands for a good address and a bad one.
#[derive(Debug)]
struct Mixed;

impl Resolve for Mixed {
    fn resolve(&self, _: &str, port: u16) -> Addresses {
        Box::pin(async move {
            Ok(vec![([127, 0, 0, 1], port).into(), ([169, 254, 169, 254], port).into()])
        })
    }
}

#[tokio::test]
async fn one_bad_address_of_a_name_is_enough() {
    let trap = Trap::at([127, 0, 0, 1]);
    let outbound = Outbound::with_resolver(options(&["127.0.0.1/32"]), Arc::new(Mixed));
    let grpc = Grpc::new(Reach::new(outbound, Urls::default()));
    let failure = failed(&grpc, &at(&format!("http://mixed.example:{}", trap.port()))).await;
    assert!(failure.error.starts_with("outbound-denied: ") && trap.saw_nothing(), "{failure}");
}

#[tokio::test]
async fn tls_is_spoken_with_whom_an_authority_has_signed_for() {
    let authority = Authority::new();
    let says = |_: &_| Says::Message(Bytes::from_static(b"ok"));
    let loopback = ([127, 0, 0, 1], 0).into();
    let tls = Some(authority.acceptor(&["h2"]));
    let server = Server::start_at(loopback, tls, Reflects::Not, Arc::new(says)).await;
    let job = task(Payload::json("{}"));
    let trusting = Grpc::new(authority.reach());
    let output = run(&trusting, &at(&server.url()), &job).await.expect("an answer");
    assert_eq!(output.items[0].bytes, "ok");
    let failure = failed(&grpc(), &at(&server.url())).await;
    assert!(failure.error.contains("is not to be trusted"), "{failure}");
    assert_eq!(failure.class, Class::Again);
}

#[tokio::test]
async fn secrets_are_in_no_failure() {
    let token = Hidden::new("hush-hush");
    let server = Server::start(Reflects::Not, |call| {
        let token = call.headers["authorization"].to_str().expect("text");
        Says::Status(16, format!("`{token}` is not known here"))
    });
    let server = server.await;
    let metadata = json!({ "metadata": { "authorization": token.reference } });
    let failure = failed(&grpc(), &settings(&server, metadata)).await;
    assert!(!format!("{failure:?}").contains("hush"), "{failure:?}");
    assert!(failure.error.ends_with("`***` is not known here"), "{failure}");
    let missing = json!({ "metadata": { "authorization": "env:CRORE_NO_SUCH" } });
    let failure = failed(&grpc(), &settings(&server, missing)).await;
    assert_eq!((failure.class, server.calls().len()), (Class::Fatal, 1));
}
