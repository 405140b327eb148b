//! Authentication and authorization: tokens and scopes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crore::core::Span;
use crore::store::Memory;
use crore::{Engine, block_on};
use crore_api::{Scope, access};
use crore_doors::{Doors, Options, listen};
use crore_testkit::{FakeClock, eventually_async};
use crore_wire::TokenSecret;
use crore_wire::api::tokens::{NewToken, Preset};
use crore_wire::units::Period;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::raw::{RawReply, request, send};
use crate::server::{BodyEncoding, Server};

/// Creates a token with these scopes directly in the engine.
pub(crate) async fn token(engine: &Engine, name: &str, scopes: &[Scope]) -> TokenSecret {
    let name = name.to_owned();
    let new = NewToken { name, scopes: scopes.to_vec(), ..NewToken::default() };
    access::create(engine, &new).await.expect("made").1
}

/// An authorization header with a token.
pub(crate) fn bearer(token: &TokenSecret) -> String {
    format!("authorization: Bearer {}", token.reveal())
}

/// A call in the API description.
#[derive(Debug)]
pub(crate) struct DescribedCall {
    pub(crate) id: String,
    pub(crate) method: String,
    pub(crate) path: String,
    /// It needs one of these scopes; none: it needs no token.
    pub(crate) scopes: Vec<Scope>,
}

impl DescribedCall {
    /// Makes the call, with sample values in the path.
    pub(crate) async fn make(&self, to: SocketAddr, n: u8, lines: &[&str]) -> RawReply {
        let path = self
            .path
            .replace("{id}", "1")
            .replace("{job_id}", "1")
            .replace("{name}", "x")
            .replace("{fingerprint}", "0123456789abcdef")
            .replace("{kind}", "x")
            .replace("{queue}", "x");
        assert!(!path.contains('{'), "{path}");
        send(to, n, &request(&self.method, &path, to, lines)).await
    }
}

/// All calls in the API description.
pub(crate) fn calls(doors: &Doors) -> Vec<DescribedCall> {
    let document: Value = serde_json::from_str(&doors.description()).expect("a description");
    let mut calls = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, call) in methods.as_object().expect("methods") {
            let security = call["security"].as_array().cloned().unwrap_or_default();
            let scope = |one: &Value| one["token"][0].as_str().and_then(|text| text.parse().ok());
            calls.push(DescribedCall {
                id: call["operationId"].as_str().expect("an id").to_owned(),
                method: method.to_uppercase(),
                path: path.clone(),
                scopes: security.iter().filter_map(scope).collect(),
            });
        }
    }
    calls
}

#[tokio::test]
async fn once_a_token_exists_every_call_needs_one() {
    let server = Server::start().await;
    let calls = calls(&server.doors);
    for call in &calls {
        let heard = call.make(server.address, 1, &[]).await;
        assert!(![401, 403].contains(&heard.status), "{call:?} {heard:?}");
    }
    let any = token(&server.engine, "first", &[Scope::Push]).await;
    until_token_required(&server).await;
    // Each from another address, so that none reaches the limit of failures.
    for (n, call) in (2..).zip(&calls) {
        let heard = call.make(server.address, n, &[]).await;
        match call.scopes.as_slice() {
            [] => assert_eq!(heard.status, 200, "{call:?}"),
            [..] => {
                assert_eq!(heard.status, 401, "{call:?}");
                assert!(heard.body.contains("token-needed"), "{call:?} {heard:?}");
                assert_eq!(heard.header("www-authenticate"), Some("Bearer"));
            }
        }
    }
    // Jobber's calls are not in the description.
    for (n, path) in (201..).zip(["/jobber/queue", "/jobs"]) {
        let ask = |lines: &[&str]| request("POST", path, server.address, lines);
        assert_eq!(send(server.address, n, &ask(&[])).await.status, 401, "{path}");
        let heard = send(server.address, n, &ask(&[&bearer(&any)])).await;
        assert!(![401, 403, 404].contains(&heard.status), "{path} {heard:?}");
    }
    let document = |lines: &[&str]| request("GET", "/openapi.json", server.address, lines);
    assert_eq!(send(server.address, 200, &document(&[])).await.status, 401);
    assert_eq!(send(server.address, 200, &document(&[&bearer(&any)])).await.status, 200);
}

/// Sleeps.
async fn pause(span: Duration) {
    sleep_until(Instant::now() + span).await;
}

/// Waits until the server requires a token.
pub(crate) async fn until_token_required(server: &Server) {
    let info = request("GET", "/v1/info", server.address, &[]);
    eventually_async(Duration::from_secs(3), pause, async || {
        send(server.address, 254, &info).await.status != 200
    })
    .await;
}

#[tokio::test]
async fn a_token_is_shown_once_and_valid_until_removed() {
    let server = Server::start().await;
    for speaks in BodyEncoding::BOTH {
        let new = json!({"name": "ada", "preset": "admin", "expires_in": "1h"});
        let made = server.post(speaks, "/v1/tokens", &new).await;
        assert_eq!(made.status, 201, "{made:?}");
        assert_eq!(made.headers["cache-control"], "no-store");
        let secret = made.body["token"].as_str().expect("a text").to_owned();
        let id = made.body["about"]["id"].as_str().expect("a text").to_owned();
        assert!(secret.starts_with(&format!("crore_{id}_")), "{secret}");
        // At once, without a delay.
        let nobody = server.get(speaks, "/v1/tokens").await;
        assert_eq!(nobody.problem(), (401, "token-needed", None));
        let show = [("authorization", format!("Bearer {secret}"))];
        let show: Vec<_> = show.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let listed = server.send(speaks, (::http::Method::GET, "/v1/tokens"), &show, vec![]).await;
        assert_eq!(listed.body["tokens"][0]["id"], id, "{listed:?}");
        assert_eq!(listed.body["tokens"][0]["scopes"].as_array().map(Vec::len), Some(6));
        let (_, hidden) = secret.rsplit_once('_').expect("parts");
        assert!(!listed.body.to_string().contains(hidden));
        let again = [show.as_slice(), &[("content-type", speaks.media_type())]].concat();
        let post = ::http::Method::POST;
        let twice = server.send(speaks, (post, "/v1/tokens"), &again, speaks.encode(&new)).await;
        assert_eq!(twice.problem(), (409, "refused", None));
        let (delete, path) = (::http::Method::DELETE, format!("/v1/tokens/{id}"));
        let gone = server.send(speaks, (delete.clone(), path.as_str()), &show, vec![]).await;
        assert_eq!(gone.status, 204, "{gone:?}");
        // The last token is revoked: local callers need none any more, and there is none left to revoke.
        let missing = server.send(speaks, (delete, path.as_str()), &[], vec![]).await;
        assert_eq!(missing.problem(), (404, "not-found", None));
    }
}

#[tokio::test]
async fn invalid_token_requests_are_refused() {
    let server = Server::start().await;
    let rows = [
        (json!({"preset": "admin"}), "malformed", "name"),
        (json!({"name": "", "preset": "admin"}), "name-empty", "name"),
        (json!({"name": "x"}), "malformed", "scopes"),
        (json!({"name": "x", "scopes": []}), "malformed", "scopes"),
        (json!({"name": "x", "scopes": ["everything"]}), "malformed", "scopes[0]"),
        (json!({"name": "x", "preset": "root"}), "malformed", "preset"),
        (json!({"name": "x", "preset": "admin", "expires_in": "0s"}), "time-range", "expires_in"),
        (json!({"name": "x", "preset": "admin", "hash": "y"}), "field-unknown", "hash"),
    ];
    for (new, code, field) in rows {
        let answer = server.post(BodyEncoding::Json, "/v1/tokens", &new).await;
        assert_eq!(answer.problem(), (400, code, Some(field)), "{new}");
    }
    assert!(!access::any_exist(&server.engine).await.expect("read"));
}

#[tokio::test]
async fn all_invalid_tokens_get_the_same_response() {
    let clock = FakeClock::default();
    let memory = Arc::new(Memory::new(Arc::new(clock.clone())));
    let engine =
        Engine::on(memory, Arc::new(clock.clone()), Default::default()).expect("an engine");
    let server = Server::start_on(engine, Options::default(), listen::Options::default()).await;
    let new = |name: &str, seconds| NewToken {
        name: name.to_owned(),
        preset: Some(Preset::Admin),
        expires_in: Some(Period(Span::from_secs(seconds))),
        ..NewToken::default()
    };
    let (_, valid) = access::create(&server.engine, &new("valid", 1000)).await.expect("made");
    let (_, expired) = access::create(&server.engine, &new("expired", 10)).await.expect("made");
    let (_, removed) = access::create(&server.engine, &new("removed", 1000)).await.expect("made");
    access::remove(&server.engine, "removed").await.expect("removed").expect("it existed");
    clock.advance(Span::from_secs(10));
    let valid = valid.reveal();
    let (public, _) = valid.rsplit_once('_').expect("two parts");
    let wrong = format!("{public}_{}", "0".repeat(43));
    let long = "x".repeat(10_000);
    let rows: &[(&str, &[&str], u16)] = &[
        ("nothing", &[], 401),
        ("another secret", &[&wrong], 401),
        ("an expired one", &[expired.reveal()], 401),
        ("a removed one", &[removed.reveal()], 401),
        ("an empty one", &[""], 401),
        ("half of one", &[public], 401),
        ("a long one", &[&long], 401),
        ("one that is no text", &["crore_ä_ö"], 401),
        ("the word twice", &[&format!("Bearer {valid}")], 401),
        ("two headers", &[valid, valid], 400),
        ("a good one", &[valid], 200),
    ];
    let mut told = std::collections::BTreeSet::new();
    for (n, (what, tokens, status)) in (2..).zip(rows) {
        let lines: Vec<_> =
            tokens.iter().map(|text| format!("authorization: Bearer {text}")).collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let heard =
            send(server.address, n, &request("GET", "/v1/info", server.address, &lines)).await;
        assert_eq!(heard.status, *status, "{what}: {heard:?}");
        if *status == 401 {
            assert_eq!(heard.header("www-authenticate"), Some("Bearer"), "{what}");
            told.insert(heard.body);
        }
    }
    assert_eq!(told.len(), 1, "all have the same message: {told:?}");
    let schemes = [format!("Basic {valid}"), valid.to_owned(), format!("bearer  {valid}")];
    for (n, (scheme, status)) in (50..).zip(schemes.iter().zip([401, 401, 200])) {
        let line = format!("authorization: {scheme}");
        let heard =
            send(server.address, n, &request("GET", "/v1/info", server.address, &[&line])).await;
        assert_eq!(heard.status, status, "{scheme}");
    }
    // When the last valid token expires, the server still requires one.
    clock.advance(Span::from_secs(1000));
    let heard = send(server.address, 99, &request("GET", "/v1/info", server.address, &[])).await;
    assert_eq!(heard.status, 401);
}

#[tokio::test]
async fn a_token_in_an_address_is_refused() {
    let server = Server::start().await;
    let secret = token(&server.engine, "ada", Scope::ALL).await;
    let text = secret.reveal();
    for query in [format!("token={text}"), format!("access_token={text}"), format!("x={text}")] {
        let path = format!("/v1/info?{query}");
        for lines in [vec![], vec![bearer(&secret)]] {
            let lines: Vec<_> = lines.iter().map(String::as_str).collect();
            let heard =
                send(server.address, 1, &request("GET", &path, server.address, &lines)).await;
            assert_eq!((heard.status, heard.code().as_str()), (400, "malformed"), "{path}");
            assert!(heard.problem("detail").contains("Authorization"), "{heard:?}");
            assert!(!heard.body.contains(text), "it is not repeated");
        }
    }
}

#[tokio::test]
async fn only_addresses_that_fail_too_often_are_throttled() {
    let server = Server::start().await;
    let secret = token(&server.engine, "ada", Scope::ALL).await;
    let ask = |lines: &[&str]| request("GET", "/v1/info", server.address, lines);
    let wrong = ask(&["authorization: Bearer crore_x_y"]);
    for n in 0..10 {
        assert_eq!(send(server.address, 7, &wrong).await.status, 401, "failure {n}");
    }
    let late = send(server.address, 7, &wrong).await;
    assert_eq!((late.status, late.code().as_str()), (429, "too-many"));
    let wait: u64 =
        late.header("retry-after").and_then(|wait| wait.parse().ok()).expect("a number");
    assert!((1..=6).contains(&wait), "{wait}");
    assert_eq!(send(server.address, 8, &wrong).await.status, 401, "from another address");
    let right = ask(&[&bearer(&secret)]);
    assert_eq!(
        send(server.address, 7, &right).await.status,
        200,
        "a valid token is not locked out"
    );
}

#[tokio::test]
async fn a_client_behind_a_proxy_is_not_local() {
    let server = Server::start().await;
    let ask = |lines: &[&str]| request("GET", "/v1/info", server.address, lines);
    assert_eq!(send(server.address, 1, &ask(&[])).await.status, 200);
    for line in ["x-forwarded-for: 10.0.0.1", "forwarded: for=10.0.0.1", "via: 1.1 proxy"] {
        assert_eq!(send(server.address, 1, &ask(&[line])).await.status, 401, "{line}");
    }
    let mut options = Options::default();
    options.api.access.insecure = true;
    let open = Server::start_with(options, listen::Options::default()).await;
    let far = request("GET", "/v1/info", open.address, &["x-forwarded-for: 10.0.0.1"]);
    assert_eq!(send(open.address, 1, &far).await.status, 200, "the operator configured it");
    token(&open.engine, "ada", Scope::ALL).await;
    until_token_required(&open).await;
    assert_eq!(send(open.address, 1, &far).await.status, 401, "and it ends with the first token");
}

#[tokio::test]
async fn a_token_that_another_engine_removes_is_refused_within_moments() {
    let server = Server::start().await;
    token(&server.engine, "other", Scope::ALL).await;
    let secret = token(&server.engine, "ada", Scope::ALL).await;
    let ask = request("GET", "/v1/info", server.address, &[&bearer(&secret)]);
    assert_eq!(send(server.address, 1, &ask).await.status, 200);
    access::remove(&server.engine, "ada").await.expect("removed").expect("it existed");
    eventually_async(Duration::from_secs(3), pause, async || {
        send(server.address, 1, &ask).await.status != 200
    })
    .await;
}

#[test]
fn the_first_token_can_be_created_without_a_running_server() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = Engine::open(dir.path()).expect("opened");
    let secret = block_on(token(&engine, "ada", Scope::ALL));
    engine.stop().expect("stopped");
    drop(engine);
    let mut found = false;
    for entry in std::fs::read_dir(dir.path()).expect("a directory") {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("read");
        let (_, hidden) = secret.reveal().rsplit_once('_').expect("parts");
        let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(!has(hidden), "no secret is stored");
        found |= has("created_at");
    }
    assert!(found, "the token is stored");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let engine = Engine::open(dir.path()).expect("opened again");
        let server = Server::start_on(engine, Options::default(), listen::Options::default()).await;
        let ask = |lines: &[&str]| request("GET", "/v1/info", server.address, lines);
        assert_eq!(send(server.address, 1, &ask(&[])).await.status, 401);
        assert_eq!(send(server.address, 1, &ask(&[&bearer(&secret)])).await.status, 200);
    });
}
