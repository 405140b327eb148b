//! What is not called: every way in that is known, with listeners that must see nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crore_core::Payload;
use crore_core::machine::Again;
use crore_outbound::{Addresses, Outbound, Resolve};
use crore_runner::{Class, Failure, Http, Reach, Urls};
use serde_json::json;

use crate::stage::{Trap, options, reach, run, task};
use crore_testkit::http_peer::{Peer, Reply};

fn is_denied(failure: &Failure) -> bool {
    failure.class == Class::Fatal
        && failure.again == Again::Never
        && failure.error.starts_with("outbound-denied: ")
        && failure.detail["reason"] == json!("outbound-denied")
}

#[tokio::test]
async fn no_spelling_of_an_inner_address_is_called() {
    let (v4, v6) = (Trap::at([127, 0, 0, 1]), Trap::at([0, 0, 0, 0, 0, 0, 0, 1]));
    let http = Http::new(reach(&[]));
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
            // A name that this machine cannot resolve is not called either.
            let is_unknown = failure.error.contains("could not be resolved");
            assert!(is_denied(&failure) || is_unknown, "{host}: {failure}");
            assert!(v4.saw_nothing() && v6.saw_nothing(), "{host}");
        }
    }
}

#[tokio::test]
async fn metadata_is_never_called_and_inner_nets_only_if_they_are_allowed() {
    let never =
        ["169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "100.100.100.200"];
    let everywhere = Http::new(reach(&["0.0.0.0/0", "::/0"]));
    for host in never {
        let settings = json!({ "url": format!("http://{host}/latest/meta-data"), "timeout": "2s" });
        let failure = run(&everywhere, &settings, &task(Payload::json("1"))).await;
        assert!(is_denied(&failure.expect_err(host)), "{host}");
    }
    for host in ["10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "[fd12::1]", "198.18.0.1"] {
        let settings = json!({ "url": format!("http://{host}/"), "timeout": "2s" });
        let failure = run(&Http::new(reach(&[])), &settings, &task(Payload::json("1"))).await;
        assert!(is_denied(&failure.expect_err(host)), "{host}");
    }
}

#[tokio::test]
async fn the_ports_of_the_server_itself_are_never_called() {
    let own = Trap::at([127, 0, 0, 1]);
    let mut options = options(&["127.0.0.0/8"]);
    options.listens = vec![([0, 0, 0, 0], own.port()).into()];
    let http = Http::new(Reach::new(Outbound::new(options), Urls::default()));
    for host in ["127.0.0.1", "127.0.0.2", "[::ffff:127.0.0.1]"] {
        let settings = json!({ "url": format!("http://{host}:{}", own.port()) });
        let failure = run(&http, &settings, &task(Payload::json("1"))).await.expect_err(host);
        assert!(is_denied(&failure), "{host}: {failure}");
    }
    assert!(own.saw_nothing());
}

/// Names that stand for one address, and a moment later for another.
#[derive(Debug, Default)]
struct Turncoat(AtomicUsize);

impl Resolve for Turncoat {
    fn resolve(&self, _: &str, port: u16) -> Addresses {
        let last = if self.0.fetch_add(1, Ordering::SeqCst) == 0 { 1 } else { 3 };
        Box::pin(async move { Ok(vec![([127, 0, 0, last], port).into()]) })
    }
}

#[tokio::test]
async fn a_name_that_changes_its_mind_gains_nothing() {
    // It hangs up after each answer, so that the name is asked for again.
    let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".to_vec();
    let peer = Peer::start(Reply::raw(answer)).await;
    let trap = Trap::at([127, 0, 0, 3]);
    let names = Arc::new(Turncoat::default());
    let outbound = Outbound::with_resolver(options(&["127.0.0.1/32"]), names.clone());
    let http = Http::new(Reach::new(outbound, Urls::default()));
    let job = task(Payload::json("1"));
    let settings = json!({ "url": format!("http://rebinding.example:{}", peer.port()) });
    run(&http, &settings, &job).await.expect("it was still the one that may be called");
    let settings = json!({ "url": format!("http://rebinding.example:{}", trap.port()) });
    let failure = run(&http, &settings, &job).await.expect_err("now it is the other");
    assert!(is_denied(&failure) && trap.saw_nothing(), "{failure}");
    assert_eq!(names.0.load(Ordering::SeqCst), 2, "what was checked is what is called");
}

#[tokio::test]
async fn an_operator_says_which_urls_may_be_called() {
    let peer = Peer::start(Reply::status(204)).await;
    let pattern = format!("http://127.0.0.1:{}/hooks/*", peer.port());
    let urls: Urls = [pattern.parse().expect("good")].into_iter().collect();
    let outbound = crate::stage::outbound(&["127.0.0.1/32"]);
    let http = Http::new(Reach::new(outbound, urls));
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
        let is_told = |failure: Failure| failure.error.contains("`runners.urls`");
        assert!(result.map_or_else(is_told, |_| true), "{path}: what would allow it is told");
    }
}
