//! gRPC-Web over HTTP/1.1 and HTTP/2, and CORS.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use crore_api::Scope;
use crore_doors::{Options, grpc, listen};
use crore_wire::grpc::v1;
use http::Version;
use prost::Message;
use tokio::time::{Instant, sleep_until};

use super::frames::{RawConnection, RawResponse, framed, request};
use super::job;
use crate::access::token;
use crate::server::Server;

const PUSH: &str = "/crore.v1.Jobs/Push";
const APP: &str = "https://app.example.com";

fn one() -> v1::PushRequest {
    v1::PushRequest { jobs: vec![job("mail")], ..v1::PushRequest::default() }
}

/// A server that allows one other origin.
async fn server() -> Server {
    let grpc = grpc::Options {
        allow_origins: vec![APP.parse().expect("an origin")],
        ..grpc::Options::default()
    };
    let options = Options { grpc, ..Options::default() };
    Server::start_with(options, listen::Options::default()).await
}

/// The messages of a response, and its trailers.
fn parts(body: &[u8]) -> (Vec<Vec<u8>>, String) {
    let (mut messages, mut trailers, mut rest) = (Vec::new(), String::new(), body);
    while let [flag, a, b, c, d, more @ ..] = rest {
        let (bytes, after) = more.split_at(u32::from_be_bytes([*a, *b, *c, *d]) as usize);
        match flag & 0x80 {
            0 => messages.push(bytes.to_vec()),
            _ => trailers = String::from_utf8(bytes.to_vec()).expect("a text"),
        }
        rest = after;
    }
    (messages, trailers)
}

fn pushed(response: &RawResponse) -> v1::PushResponse {
    let (messages, trailers) = parts(&response.body);
    assert!(trailers.replace(' ', "").contains("grpc-status:0"), "{trailers}");
    v1::PushResponse::decode(&*messages[0]).expect("an answer")
}

#[tokio::test]
async fn grpc_web_works_over_both_http_versions_and_as_text() {
    let server = server().await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut connection = RawConnection::open(&server, version).await;
        for kind in ["application/grpc-web", "application/grpc-web+proto"] {
            let headers = [("content-type", kind), ("accept", kind), ("x-grpc-web", "1")];
            let response =
                connection.send(request(&server, "POST", PUSH, &headers, framed(&one()))).await;
            assert_eq!(response.status, 200, "{version:?} {kind}");
            let content_type = response.header("content-type").expect("a type").to_owned();
            assert!(content_type.starts_with("application/grpc-web"), "{content_type}");
            assert_eq!(pushed(&response).jobs.len(), 1);
        }
        let kind = "application/grpc-web-text";
        let headers = [("content-type", kind), ("accept", kind)];
        let text = BASE64_STANDARD.encode(framed(&one()));
        let mut response = connection.send(request(&server, "POST", PUSH, &headers, text)).await;
        // Each part of the response is encoded separately.
        let text = String::from_utf8(response.body.to_vec()).expect("a text");
        let mut bytes = Vec::new();
        for quartet in text.as_bytes().chunks(4) {
            bytes.extend(BASE64_STANDARD.decode(quartet).expect("Base64"));
        }
        response.body = bytes.into();
        assert_eq!(pushed(&response).jobs.len(), 1);
    }
}

#[tokio::test]
async fn a_slow_response_over_http_1_keeps_the_connection() {
    let server = server().await;
    let mut connection = RawConnection::open(&server, Version::HTTP_11).await;
    let headers = [("content-type", "application/grpc-web+proto")];
    let ask = v1::FetchRequest {
        queues: vec!["mail".to_owned()],
        n: 1,
        wait_ms: 10_000,
        ..v1::FetchRequest::default()
    };
    for _ in 0..2 {
        let fetch = request(&server, "POST", "/crore.v1.Work/Fetch", &headers, framed(&ask));
        let pushing = async {
            while server.engine.deliveries().waiting() == 0 {
                tokio::task::yield_now().await;
            }
            // Longer than the server keeps hyper's state for a pending response.
            sleep_until(Instant::now() + Duration::from_millis(250)).await;
            super::push(&server, "mail", 1).await
        };
        let (response, ids) = tokio::join!(connection.send(fetch), pushing);
        let (messages, trailers) = parts(&response.body);
        let fetched = v1::FetchResponse::decode(&*messages[0]).expect("an answer");
        assert_eq!(fetched.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), ids);
        assert!(trailers.contains("grpc-status:0"), "{trailers}");
    }
}

#[tokio::test]
async fn refusals_are_readable_by_browsers() {
    let server = server().await;
    let kind = "application/grpc-web+proto";
    let headers = [("content-type", kind), ("accept", kind)];
    let mut connection = RawConnection::open(&server, Version::HTTP_11).await;
    let status = |response: &RawResponse| {
        let (_, trailers) = parts(&response.body);
        let line = trailers.lines().find_map(|line| line.strip_prefix("grpc-status:"));
        line.and_then(|code| code.trim().parse().ok()).or_else(|| response.grpc())
    };
    let list = v1::ListRequest { limit: 9999, ..v1::ListRequest::default() };
    let ask = request(&server, "POST", "/crore.v1.Jobs/List", &headers, framed(&list));
    let response = connection.send(ask).await;
    assert_eq!((response.status, status(&response)), (200, Some(3)), "{response:?}");
    let ask = request(&server, "POST", "/crore.v1.Jobs/Nothing", &headers, framed(&one()));
    let response = connection.send(ask).await;
    assert_eq!((response.status, status(&response)), (200, Some(12)), "{response:?}");
    assert_eq!(response.header("content-type"), Some(kind));
    for bad in [&b"?"[..], &[0, 0xff, 0xff, 0xff, 0xff], &[0x80, 0, 0, 0, 0]] {
        let response =
            connection.send(request(&server, "POST", PUSH, &headers, bad.to_vec())).await;
        assert!(status(&response).is_some_and(|code| code != 0), "{bad:?}: {response:?}");
    }
    let text = [("content-type", "application/grpc-web-text")];
    let response = connection.send(request(&server, "POST", PUSH, &text, "!!!!")).await;
    assert_ne!(status(&response), Some(0), "{response:?}");
    let counts = server.engine.jobs().counts(None).await.expect("counted");
    assert!(counts.is_empty(), "{counts:?}");
    let server = Server::start().await;
    token(&server.engine, "ada", &[Scope::Push]).await;
    let mut connection = RawConnection::open(&server, Version::HTTP_11).await;
    let response = connection.send(request(&server, "POST", PUSH, &headers, framed(&one()))).await;
    assert_eq!((response.status, status(&response)), (200, Some(16)), "{response:?}");
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_gets_cors_headers() {
    let server = server().await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut connection = RawConnection::open(&server, version).await;
        let headers = [
            ("origin", APP),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization,content-type,x-grpc-web"),
            ("sec-fetch-site", "cross-site"),
        ];
        let response = connection.send(request(&server, "OPTIONS", PUSH, &headers, "")).await;
        assert_eq!(response.status, 204);
        for (name, value) in [
            ("access-control-allow-origin", APP),
            ("access-control-allow-methods", "POST"),
            ("access-control-allow-headers", "authorization,content-type,x-grpc-web"),
            ("vary", "origin"),
        ] {
            assert_eq!(response.header(name), Some(value), "{name}");
        }
        let kind = "application/grpc-web+proto";
        let headers = [("content-type", kind), ("origin", APP), ("sec-fetch-site", "cross-site")];
        let response =
            connection.send(request(&server, "POST", PUSH, &headers, framed(&one()))).await;
        assert_eq!(response.header("access-control-allow-origin"), Some(APP));
        let seen = response.header("access-control-expose-headers").expect("exposed headers");
        assert!(seen.contains("grpc-status"), "{seen}");
        assert_eq!(pushed(&response).jobs.len(), 1);
    }
}

#[tokio::test]
async fn other_origins_are_refused_and_cors_applies_to_grpc_only() {
    let server = server().await;
    let mut connection = RawConnection::open(&server, Version::HTTP_11).await;
    let kind = ("content-type", "application/grpc-web+proto");
    for origin in
        ["https://evil.example", "http://app.example.com", "https://app.example.com:8443", "null"]
    {
        for method in ["POST", "OPTIONS"] {
            let headers = [kind, ("origin", origin), ("access-control-request-method", "POST")];
            let response =
                connection.send(request(&server, method, PUSH, &headers, framed(&one()))).await;
            assert_eq!(response.grpc(), Some(7), "{origin} {method}: {response:?}");
            assert_eq!(response.header("content-type"), Some(kind.1));
            assert_eq!(response.header("access-control-allow-origin"), None);
        }
    }
    // An allowed origin may call only gRPC.
    for path in ["/v1/jobs", "/v1/info", "/job", "/metrics"] {
        let headers = [("origin", APP), ("content-type", "application/json")];
        let response = connection.send(request(&server, "POST", path, &headers, "{}")).await;
        assert_eq!(response.status, 403, "{path}");
    }
    // Without the setting, no origin is allowed.
    let closed = Server::start().await;
    let mut connection = RawConnection::open(&closed, Version::HTTP_11).await;
    let headers = [kind, ("origin", APP)];
    let response = connection.send(request(&closed, "POST", PUSH, &headers, framed(&one()))).await;
    assert_eq!(response.grpc(), Some(7), "{response:?}");
    assert_eq!(server.engine.jobs().counts(None).await.expect("counted").len(), 0);
}
