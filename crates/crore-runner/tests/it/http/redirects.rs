//! Redirects are followed only if the handler allows it, and each is checked like any other call.

use crore_core::Payload;
use crore_runner::{FailureClass, Output, RunFailure};
use serde_json::json;

use super::{header_values, http, settings};
use crate::outbound_fixture::{ForbiddenListener, run, task};
use crore_testkit::http_peer::{Peer, PeerReply, response};

async fn follow(url: &str, redirects: u8) -> Result<Output, RunFailure> {
    let settings = settings(
        url,
        json!({ "redirects": redirects, "headers": { "x-key": "hush", "accept": "text/plain" } }),
    );
    run(&http(), &settings, &task(Payload::json("1"))).await
}

#[tokio::test]
async fn redirects_are_not_followed_by_default() {
    let trap = ForbiddenListener::at([127, 0, 0, 1]);
    for status in [301, 302, 303, 307, 308] {
        let location = format!("http://127.0.0.1:{}/", trap.port());
        let peer = Peer::start(PeerReply::redirect(status, &location)).await;
        let failure = follow(&peer.url(), 0).await.expect_err("no success");
        assert_eq!(
            (failure.class, &failure.detail["status"]),
            (FailureClass::Other, &json!(status))
        );
    }
    assert!(trap.saw_nothing());
}

#[tokio::test]
async fn the_status_of_a_redirect_decides_about_the_method() {
    for (status, method, body) in [
        (301, "GET", ""),
        (302, "GET", ""),
        (303, "GET", ""),
        (307, "POST", "1"),
        (308, "POST", "1"),
    ] {
        let peer = Peer::start(PeerReply::by(move |n, _| {
            let answer = if n == 0 {
                response(status).header("location", "next?a=b#part")
            } else {
                response(204)
            };
            Some(answer.body("".into()).expect("good"))
        }));
        let peer = peer.await;
        follow(&format!("{}/a/b", peer.url()), 1).await.expect("a success");
        let call = peer.call(1);
        let asked = (call.method.as_str(), call.uri.to_string());
        assert_eq!(asked, (method, "/a/next?a=b".to_owned()), "{status}");
        assert_eq!(
            (&call.body[..], header_values(&call, "x-key")),
            (body.as_bytes(), vec!["hush".to_owned()])
        );
    }
}

#[tokio::test]
async fn redirect_to_another_host_drops_secret_headers() {
    let other = Peer::start(PeerReply::status(204)).await;
    let peer = Peer::start(PeerReply::redirect(307, &other.url())).await;
    follow(&peer.url(), 1).await.expect("a success");
    let call = other.call(0);
    assert!(
        header_values(&call, "x-key").is_empty()
            && header_values(&call, "idempotency-key").is_empty()
    );
    assert_eq!(header_values(&call, "accept"), ["text/plain"]);
}

#[tokio::test]
async fn redirects_to_denied_addresses_are_refused() {
    let trap = ForbiddenListener::at([127, 0, 0, 2]);
    let inner = format!("http://127.0.0.2:{}/", trap.port());
    for location in [
        "http://169.254.169.254/latest/meta-data",
        "//169.254.169.254/latest",
        "http://[::ffff:169.254.169.254]/",
        &inner,
        "http://127.0.0.1:22/",
        "http://user@127.0.0.1/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_FLUSHALL",
    ] {
        for status in [302, 307] {
            let peer = Peer::start(PeerReply::redirect(status, location)).await;
            let failure = follow(&peer.url(), 5).await.expect_err(location);
            assert_eq!(failure.class, FailureClass::Fatal, "{location}: {failure}");
            assert!(failure.error.starts_with("outbound-denied: "), "{location}: {failure}");
            assert_eq!(peer.calls(), 1);
        }
    }
    assert!(trap.saw_nothing());
}

#[tokio::test]
async fn redirects_are_limited() {
    let peer = Peer::start(PeerReply::redirect(302, "/again")).await;
    let failure = follow(&peer.url(), 10).await.expect_err("there is no end");
    assert_eq!((failure.class, &failure.detail["status"]), (FailureClass::Other, &json!(302)));
    assert_eq!(peer.calls(), 11);
    // Without a `Location` a redirect is an ordinary response.
    let peer = Peer::start(PeerReply::status(302)).await;
    assert!(follow(&peer.url(), 10).await.is_err());
    assert_eq!(peer.calls(), 1);
}
