//! Which addresses are called and which are not: known techniques of server-side request forgery, checked with
//! listeners that must see no connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use crore_core::{Code, Size, Span};
use crore_outbound::{
    Authentication, AuthenticationFuture, CallError, Options, Outbound, Resolve, ResolveFuture,
    Target,
};
use http::{HeaderMap, StatusCode};

use crore_testkit::http_peer::{Peer, PeerReply};

/// A listener that must not be called.
pub(crate) struct Trap(pub(crate) TcpListener);

impl Trap {
    pub(crate) fn at(ip: impl Into<IpAddr>) -> Self {
        let listener = TcpListener::bind((ip.into(), 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        Self(listener)
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.local_addr().expect("it is bound").port()
    }

    /// Whether there was no connection. A connection is in the backlog as soon as it is made, so there is no need
    /// to wait.
    pub(crate) fn saw_nothing(&self) -> bool {
        self.0.accept().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Options of a server that listens on all interfaces and may call `allow`.
pub(crate) fn open_options(allow: &[&str]) -> Options {
    let allow = allow.iter().map(|text| text.parse().expect("good")).collect();
    Options { allow, listens: vec![([0, 0, 0, 0], 9).into()], ..Options::default() }
}

fn target(url: &str) -> Target {
    Target::parse("url", url).expect(url)
}

pub(crate) async fn post(outbound: &Outbound, url: &str) -> Result<StatusCode, CallError> {
    let target = target(url);
    let answer = outbound.post(&target, HeaderMap::new(), Bytes::from_static(b"hello"));
    Ok(answer.await?.status())
}

fn is_denied(result: &Result<StatusCode, CallError>) -> bool {
    matches!(result, Err(CallError::Denied(_)))
}

#[tokio::test]
async fn no_spelling_of_an_internal_address_is_called() {
    let (v4, v6) = (Trap::at([127, 0, 0, 1]), Trap::at([0, 0, 0, 0, 0, 0, 0, 1]));
    let outbound = Outbound::new(open_options(&[]));
    for (host, trap) in [
        ("127.0.0.1", &v4),
        ("127.1", &v4),
        ("0x7f.1", &v4),
        ("0x7f000001", &v4),
        ("2130706433", &v4),
        ("017700000001", &v4),
        ("0177.0.0.1", &v4),
        ("localhost", &v4),
        ("localhost.", &v4),
        ("LOCALHOST", &v4),
        ("0.0.0.0", &v4),
        ("0", &v4),
        ("[::ffff:127.0.0.1]", &v4),
        ("[::ffff:7f00:1]", &v4),
        ("[::127.0.0.1]", &v4),
        ("[64:ff9b::7f00:1]", &v4),
        ("[::1]", &v6),
        ("[0:0:0:0:0:0:0:1]", &v6),
        ("[::]", &v6),
    ] {
        let called = post(&outbound, &format!("http://{host}:{}/", trap.port())).await;
        // A name that this machine cannot resolve is not called.
        assert!(is_denied(&called) || matches!(called, Err(CallError::Unreachable(_))), "{host}");
        assert!(v4.saw_nothing() && v6.saw_nothing(), "{host}");
    }
}

#[tokio::test]
async fn internal_addresses_must_be_allowed_and_metadata_is_never_called() {
    let inside = ["10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "[fd12::1]", "198.18.0.1"];
    let never = [
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "100.100.100.200",
        "192.0.0.192",
        "224.0.0.1",
        "255.255.255.255",
    ];
    let (strict, all) =
        (Outbound::new(open_options(&[])), Outbound::new(open_options(&["0.0.0.0/0", "::/0"])));
    for host in inside {
        let target = target(&format!("http://{host}/"));
        assert!(matches!(strict.addresses(&target).await, Err(CallError::Denied(_))), "{host}");
        assert!(all.addresses(&target).await.is_ok(), "{host}");
    }
    for host in never {
        let target = target(&format!("http://{host}/latest/meta-data"));
        for outbound in [&strict, &all] {
            let Err(CallError::Denied(denied)) = outbound.addresses(&target).await else {
                panic!("{host}")
            };
            let invalid = denied.into_invalid("url");
            assert_eq!((invalid.code, invalid.field.as_str()), (Code::OutboundDenied, "url"));
        }
    }
    assert!(strict.addresses(&target("http://93.184.216.34/")).await.is_ok());
}

#[tokio::test]
async fn loopback_is_called_by_a_server_on_loopback_but_never_its_own_ports() {
    let own = Trap::at([127, 0, 0, 1]);
    let peer = Peer::start(PeerReply::status(202)).await;
    let listens = vec![SocketAddr::from(([127, 0, 0, 1], own.port()))];
    let outbound = Outbound::new(Options { listens, ..Options::default() });
    assert_eq!(post(&outbound, &peer.url()).await, Ok(StatusCode::ACCEPTED));
    for host in ["127.0.0.1", "localhost", "127.0.0.2", "[::ffff:127.0.0.1]"] {
        let called = post(&outbound, &format!("http://{host}:{}", own.port())).await;
        assert!(is_denied(&called), "{host}: {called:?}");
    }
    assert!(own.saw_nothing());
    // The same for a server that listens on all interfaces, whatever is allowed.
    let options = Options {
        listens: vec![([0, 0, 0, 0], own.port()).into()],
        ..open_options(&["127.0.0.0/8"])
    };
    let called = post(&Outbound::new(options), &format!("http://127.0.0.1:{}", own.port())).await;
    assert!(is_denied(&called) && own.saw_nothing());
    // Without known listeners, loopback is denied.
    let called = post(&Outbound::new(Options::default()), &peer.url()).await;
    assert!(is_denied(&called));
}

/// A server whose callers need a token, or not.
#[derive(Debug)]
struct Tokens(bool);

impl Authentication for Tokens {
    fn needs_token(&self) -> AuthenticationFuture<'_> {
        Box::pin(std::future::ready(self.0))
    }
}

#[tokio::test]
async fn loopback_needs_permission_as_soon_as_callers_need_a_token() {
    let peer = Peer::start(PeerReply::status(202)).await;
    let listens = vec![SocketAddr::from(([127, 0, 0, 1], 9))];
    let options = Options { listens, ..Options::default() };
    let outbound =
        |has_token| Outbound::new(options.clone()).with_authentication(Tokens(has_token));
    assert_eq!(post(&outbound(false), &peer.url()).await, Ok(StatusCode::ACCEPTED));
    assert!(is_denied(&post(&outbound(true), &peer.url()).await));
    let allow = vec!["127.0.0.1".parse().expect("an address")];
    let allowed = Outbound::new(Options { allow, ..options.clone() });
    let called = post(&allowed.with_authentication(Tokens(true)), &peer.url()).await;
    assert_eq!(called, Ok(StatusCode::ACCEPTED));
}

#[tokio::test]
async fn allowed_ranges_addresses_and_names_are_called() {
    let peer = Peer::start(PeerReply::status(202)).await;
    for allow in ["127.0.0.0/8", "127.0.0.1", "127.0.0.1/32"] {
        assert_eq!(
            post(&Outbound::new(open_options(&[allow])), &peer.url()).await,
            Ok(StatusCode::ACCEPTED)
        );
    }
    let by_name = format!("http://LocalHost.:{}", peer.port());
    let named = Outbound::with_resolver(
        open_options(&["localhost"]),
        FakeResolver::new(&[&[[127, 0, 0, 1]]]),
    );
    assert_eq!(post(&named, &by_name).await, Ok(StatusCode::ACCEPTED));
    assert!(is_denied(&post(&named, &peer.url()).await), "the name is allowed, not the address");
    assert!(is_denied(&post(&Outbound::new(open_options(&["127.0.0.2/31"])), &peer.url()).await));
}

/// A resolver that returns the next of these lists of addresses for every name.
#[derive(Debug)]
pub(crate) struct FakeResolver {
    answers: Vec<Vec<Ipv4Addr>>,
    asked: AtomicUsize,
}

impl FakeResolver {
    pub(crate) fn new(answers: &[&[[u8; 4]]]) -> Arc<Self> {
        let answers = answers.iter().map(|all| all.iter().copied().map(Into::into).collect());
        Arc::new(Self { answers: answers.collect(), asked: AtomicUsize::new(0) })
    }
}

impl Resolve for FakeResolver {
    fn resolve(&self, _: &str, port: u16) -> ResolveFuture {
        let n = self.asked.fetch_add(1, Ordering::SeqCst).min(self.answers.len() - 1);
        let addresses = self.answers[n].iter().map(|ip| (*ip, port).into()).collect();
        Box::pin(async move { Ok(addresses) })
    }
}

#[tokio::test]
async fn dns_rebinding_has_no_effect() {
    let peer = Peer::start(PeerReply::status(202)).await;
    let trap = TcpListener::bind(("127.0.0.3", peer.port())).map(|listener| {
        listener.set_nonblocking(true).expect("a socket");
        Trap(listener)
    });
    let trap = trap.expect("the same port of another address");
    let names = FakeResolver::new(&[&[[127, 0, 0, 1]], &[[127, 0, 0, 3]]]);
    let outbound = Outbound::with_resolver(open_options(&["127.0.0.1/32"]), names.clone());
    let url = format!("http://rebinding.example:{}", peer.port());
    assert_eq!(post(&outbound, &url).await, Ok(StatusCode::ACCEPTED));
    assert_eq!(names.asked.load(Ordering::SeqCst), 1, "the checked address is called");
    assert!(is_denied(&post(&outbound, &url).await));
    assert!(trap.saw_nothing());
}

#[tokio::test]
async fn one_forbidden_address_denies_the_host() {
    let peer = Peer::start(PeerReply::status(202)).await;
    let names = FakeResolver::new(&[&[[127, 0, 0, 1], [169, 254, 169, 254]]]);
    let outbound = Outbound::with_resolver(open_options(&["127.0.0.0/8"]), names);
    assert!(is_denied(&post(&outbound, &format!("http://mixed.example:{}", peer.port())).await));
    assert_eq!(peer.calls(), 0);
    let nobody = Outbound::with_resolver(open_options(&[]), FakeResolver::new(&[&[]]));
    assert!(matches!(post(&nobody, "http://nobody.example").await, Err(CallError::Unreachable(_))));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let trap = Trap::at([127, 0, 0, 1]);
    let inner = format!("http://127.0.0.1:{}/", trap.port());
    let outbound = Outbound::new(open_options(&["127.0.0.1/32"]));
    for status in [301, 302, 303, 307, 308] {
        for location in ["http://169.254.169.254/latest/meta-data", &inner] {
            let peer = Peer::start(PeerReply::redirect(status, location)).await;
            assert_eq!(post(&outbound, &peer.url()).await.map(|s| s.as_u16()), Ok(status));
            assert_eq!(peer.calls(), 1);
        }
    }
    assert!(trap.saw_nothing());
}

#[tokio::test]
async fn responses_are_bounded_and_not_decompressed() {
    let options = Options { max_answer: Size(1000), ..open_options(&["127.0.0.1/32"]) };
    let outbound = Outbound::new(options);
    let peer = Peer::start(PeerReply::body(200, vec![b'x'; 1000])).await;
    assert_eq!(post(&outbound, &peer.url()).await, Ok(StatusCode::OK));
    let peer = Peer::start(PeerReply::body(200, vec![b'x'; 1001])).await;
    assert!(matches!(post(&outbound, &peer.url()).await, Err(CallError::Broken(_))));
    let peer = Peer::start(PeerReply::raw(endless(b"HTTP/1.1 200 OK\r\n\r\n"))).await;
    assert!(matches!(post(&outbound, &peer.url()).await, Err(CallError::Broken(_))));
    let peer = Peer::start(PeerReply::raw(endless(b"HTTP/1.1 200 OK\r\nx: "))).await;
    assert!(matches!(post(&outbound, &peer.url()).await, Err(CallError::Broken(_))));
    let gzip =
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n\x1f\x8b".to_vec();
    let peer = Peer::start(PeerReply::raw(gzip)).await;
    let answer = outbound.post(&target(&peer.url()), HeaderMap::new(), Bytes::new()).await;
    assert_eq!(answer.expect("an answer").body(), &b"\x1f\x8b"[..], "unchanged");
}

fn endless(start: &[u8]) -> Vec<u8> {
    [start, &vec![b'x'; 1 << 20]].concat()
}

#[tokio::test]
async fn garbage_and_silence_are_errors() {
    let options =
        Options { connect_time: Span::from_millis(200), ..open_options(&["127.0.0.1/32"]) };
    let outbound = Outbound::new(options);
    for garbage in [
        "",
        "hello\r\n",
        "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
    ] {
        let peer = Peer::start(PeerReply::raw(garbage.into())).await;
        let called = post(&outbound, &peer.url()).await;
        assert!(matches!(called, Err(CallError::Broken(_))), "{garbage:?}: {called:?}");
    }
    let gone = Trap::at([127, 0, 0, 1]).port();
    let called = post(&outbound, &format!("http://127.0.0.1:{gone}")).await;
    assert!(matches!(called, Err(CallError::Unreachable(_))));
    let silent = Peer::start(PeerReply::nothing()).await;
    let url = silent.url();
    let called = tokio::time::timeout(Duration::from_millis(200), post(&outbound, &url)).await;
    assert!(called.is_err(), "the caller sets the timeout");
    assert!(silent.wait_hung_up().await, "the connection ends with the call");
}

#[tokio::test]
async fn a_call_sets_host_and_closes_the_connection() {
    let peer = Peer::start(PeerReply::status(202)).await;
    let outbound = Outbound::new(open_options(&["127.0.0.1/32"]));
    let mut headers = HeaderMap::new();
    headers.insert("host", "evil.example".parse().expect("good"));
    headers.insert("x-mark", "1".parse().expect("good"));
    let target = target(&format!("{}/base/", peer.url())).join_path("worker-job");
    outbound.post(&target, headers, Bytes::from_static(b"hello")).await.expect("an answer");
    let call = peer.call(0);
    assert_eq!((call.method.as_str(), call.uri.path()), ("POST", "/base/worker-job"));
    assert_eq!(call.headers["host"], format!("127.0.0.1:{}", peer.port()).as_str());
    assert_eq!(
        (&call.headers["x-mark"], &call.headers["connection"]),
        (&"1".parse().expect("good"), &"close".parse().expect("good"))
    );
    assert_eq!(call.body, &b"hello"[..]);
}
