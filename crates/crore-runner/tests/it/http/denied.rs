//! Denied addresses in every known spelling. The listeners must see no connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crore_core::Payload;
use crore_core::machine::RetryDirective;
use crore_outbound::{Outbound, Resolve, ResolveFuture};
use crore_runner::{FailureClass, HttpFactory, NetworkAccess, RunFailure, Urls};
use serde_json::json;

use crate::outbound_fixture::{ForbiddenListener, options, reach, run, task};
use crore_testkit::http_peer::{Peer, PeerReply};

fn is_denied(failure: &RunFailure) -> bool {
    failure.class == FailureClass::Fatal
        && failure.retry == RetryDirective::Never
        && failure.error.starts_with("outbound-denied: ")
        && failure.detail["reason"] == json!("outbound-denied")
}

#[tokio::test]
async fn no_spelling_of_an_internal_address_is_called() {
    let (v4, v6) =
        (ForbiddenListener::at([127, 0, 0, 1]), ForbiddenListener::at([0, 0, 0, 0, 0, 0, 0, 1]));
    let http = HttpFactory::new(reach(&[]));
    for (host, trap) in [
        ("127.0.0.1", &v4),
        ("127.1", &v4),
        ("0x7f.1", &v4),
        ("0x7f000001", &v4),
        ("2130706433", &v4),
        ("017700000001", &v4),
        ("localhost", &v4),
        ("localhost.", &v4),
        ("LOCALHOST", &v4),
        ("0.0.0.0", &v4),
        ("0", &v4),
        ("[::ffff:127.0.0.1]", &v4),
        ("[64:ff9b::7f00:1]", &v4),
        ("[::1]", &v6),
        ("[::]", &v6),
    ] {
        for scheme in ["http", "https"] {
            let settings = json!({ "url": format!("{scheme}://{host}:{}/", trap.port()) });
            let failure = run(&http, &settings, &task(Payload::json("1"))).await.expect_err(host);
            // An unresolvable name is not called either.
            let is_unknown = failure.error.contains("could not be resolved");
            assert!(is_denied(&failure) || is_unknown, "{host}: {failure}");
            assert!(v4.saw_nothing() && v6.saw_nothing(), "{host}");
        }
    }
}

#[tokio::test]
async fn metadata_is_never_called_and_internal_networks_only_if_allowed() {
    let never =
        ["169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "100.100.100.200"];
    let everywhere = HttpFactory::new(reach(&["0.0.0.0/0", "::/0"]));
    for host in never {
        let settings = json!({ "url": format!("http://{host}/latest/meta-data"), "timeout": "2s" });
        let failure = run(&everywhere, &settings, &task(Payload::json("1"))).await;
        assert!(is_denied(&failure.expect_err(host)), "{host}");
    }
    for host in ["10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "[fd12::1]", "198.18.0.1"] {
        let settings = json!({ "url": format!("http://{host}/"), "timeout": "2s" });
        let failure =
            run(&HttpFactory::new(reach(&[])), &settings, &task(Payload::json("1"))).await;
        assert!(is_denied(&failure.expect_err(host)), "{host}");
    }
}

#[tokio::test]
async fn the_ports_of_the_server_itself_are_never_called() {
    let own = ForbiddenListener::at([127, 0, 0, 1]);
    let mut options = options(&["127.0.0.0/8"]);
    options.listens = vec![([0, 0, 0, 0], own.port()).into()];
    let http = HttpFactory::new(NetworkAccess::new(Outbound::new(options), Urls::default()));
    for host in ["127.0.0.1", "127.0.0.2", "[::ffff:127.0.0.1]"] {
        let settings = json!({ "url": format!("http://{host}:{}", own.port()) });
        let failure = run(&http, &settings, &task(Payload::json("1"))).await.expect_err(host);
        assert!(is_denied(&failure), "{host}: {failure}");
    }
    assert!(own.saw_nothing());
}

/// Names that resolve to another address the second time.
#[derive(Debug, Default)]
struct RebindingResolver(AtomicUsize);

impl Resolve for RebindingResolver {
    fn resolve(&self, _: &str, port: u16) -> ResolveFuture {
        let last = if self.0.fetch_add(1, Ordering::SeqCst) == 0 { 1 } else { 3 };
        Box::pin(async move { Ok(vec![([127, 0, 0, last], port).into()]) })
    }
}

#[tokio::test]
async fn dns_rebinding_is_denied() {
    // Closes the connection after each response, so that the name is resolved again.
    let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".to_vec();
    let peer = Peer::start(PeerReply::raw(answer)).await;
    let trap = ForbiddenListener::at([127, 0, 0, 3]);
    let names = Arc::new(RebindingResolver::default());
    let outbound = Outbound::with_resolver(options(&["127.0.0.1/32"]), names.clone());
    let http = HttpFactory::new(NetworkAccess::new(outbound, Urls::default()));
    let job = task(Payload::json("1"));
    let settings = json!({ "url": format!("http://rebinding.example:{}", peer.port()) });
    run(&http, &settings, &job).await.expect("still registered");
    let settings = json!({ "url": format!("http://rebinding.example:{}", trap.port()) });
    let failure = run(&http, &settings, &job).await.expect_err("the other one");
    assert!(is_denied(&failure) && trap.saw_nothing(), "{failure}");
    assert_eq!(names.0.load(Ordering::SeqCst), 2, "the checked address is called");
}

#[tokio::test]
async fn only_urls_that_the_operator_allows_are_called() {
    let peer = Peer::start(PeerReply::status(204)).await;
    let pattern = format!("http://127.0.0.1:{}/hooks/*", peer.port());
    let urls: Urls = [pattern.parse().expect("good")].into_iter().collect();
    let outbound = crate::outbound_fixture::outbound(&["127.0.0.1/32"]);
    let http = HttpFactory::new(NetworkAccess::new(outbound, urls));
    let job = task(Payload::json(r#"{"path":"../admin"}"#));
    for (path, payload, is_well) in [
        ("hooks/1", "body", true),
        ("admin", "body", false),
        ("hooks/../admin", "body", false),
        ("hooks/%2e%2e/admin", "body", false),
        ("hooks/more/", "request", true),
        ("hooks/", "request", false),
    ] {
        let url = format!("{}/{path}", peer.url());
        let settings = json!({ "url": url, "payload": payload });
        let result = run(&http, &settings, &job).await;
        assert_eq!(result.is_ok(), is_well, "{path}: {result:?}");
        let is_told = |failure: RunFailure| failure.error.contains("`runners.urls`");
        assert!(
            result.map_or_else(is_told, |_| true),
            "{path}: the error says what would allow it"
        );
    }
}
