//! Calls by https: protocol negotiation and trust.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use crore_core::Payload;
use crore_runner::{FailureClass, HttpFactory};
use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::net::TcpListener;

use super::http;
use crate::outbound_fixture::{run, task};
use crate::tls_authority::Authority;

/// Serves the negotiated protocol. Returns its URL and the HTTP version of each call.
async fn serves(authority: &Authority, speaks: &[&str]) -> (String, Arc<Mutex<Vec<Version>>>) {
    let tls = authority.acceptor(speaks);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("bound"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not trust the certificate closes the connection here.
            let Ok(stream) = tls.accept(stream).await else { continue };
            let is_two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let sees = Arc::clone(&sees);
            let service = service_fn(move |request: Request<Incoming>| {
                sees.lock().expect("no panic").push(request.version());
                async { Ok::<_, Infallible>(Response::new("hello".to_owned())) }
            });
            let io = TokioIo::new(stream);
            if is_two {
                let server = http2::Builder::new(TokioExecutor::new());
                tokio::spawn(server.serve_connection(io, service));
            } else {
                tokio::spawn(http1::Builder::new().serve_connection(io, service));
            }
        }
    });
    (url, seen)
}

#[tokio::test]
async fn alpn_chooses_the_http_version() {
    let authority = Authority::new();
    let trusting = HttpFactory::new(authority.reach());
    for (speaks, version) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ] {
        let (url, seen) = serves(&authority, speaks).await;
        let (settings, job) = (json!({ "url": url }), task(Payload::json("1")));
        for _ in 0..2 {
            let output = run(&trusting, &settings, &job).await.expect("an answer");
            assert_eq!(output.items[0].bytes, "hello");
        }
        assert_eq!(*seen.lock().expect("no panic"), [version, version], "{speaks:?}");
    }
}

#[tokio::test]
async fn untrusted_server_gets_no_request() {
    let (url, seen) = serves(&Authority::new(), &["h2", "http/1.1"]).await;
    for http in [http(), HttpFactory::new(Authority::new().reach())] {
        let failure = run(&http, &json!({ "url": url }), &task(Payload::json("1"))).await;
        let failure = failure.expect_err("not trusted");
        assert_eq!(failure.class, FailureClass::Temporary);
        assert!(failure.error.contains("failed the TLS handshake"), "{failure}");
    }
    assert!(seen.lock().expect("no panic").is_empty());
}
