//! The slack runner, with a scripted server.

use crore_core::machine::RetryDirective;
use crore_core::{Payload, Span};
use crore_runner::{FailureClass, Output, RunFailure, RunnerFactory, SlackFactory};
use serde_json::{Value, json};

use crate::outbound_fixture::{ForbiddenListener, SecretFile, reach, run, task};
use crore_testkit::http_peer::{Peer, PeerReply, response};

fn slack() -> SlackFactory {
    SlackFactory::new(reach(&["127.0.0.1/32"]))
}

fn summary(state: &str) -> Payload {
    let ended = json!({
        "job": "12", "kind": "mail", "state": state, "output": "sent\nto three", "error": "no host",
        "scheduled_at": 1_000, "started_at": 2_000, "ended_at": 3_000,
    });
    Payload::json(&ended.to_string())
}

fn by_token(peer: &Peer, token: &str) -> Value {
    let api = format!("{}/api/chat.postMessage", peer.url());
    json!({ "token": token, "channel": "#jobs", "api": api })
}

async fn post(settings: &Value, payload: Payload) -> Result<Output, RunFailure> {
    run(&slack(), settings, &task(payload)).await
}

#[tokio::test]
async fn a_webhook_message_is_one_attachment() {
    let peer = Peer::start(PeerReply::body(200, "ok")).await;
    let hook = SecretFile::new(&format!("{}/services/T0/B0/hush-hush", peer.url()));
    let settings = json!({ "webhook": hook.reference, "title": "night jobs" });
    for state in ["done", "dead"] {
        assert_eq!(post(&settings, summary(state)).await, Ok(Output::bytes("OK")));
    }
    let message = |n: usize| {
        let call = peer.call(n);
        assert_eq!((call.method.as_str(), call.uri.path()), ("POST", "/services/T0/B0/hush-hush"));
        assert_eq!(call.headers["content-type"], "application/json; charset=utf-8");
        assert!(!call.headers.contains_key("authorization"));
        serde_json::from_slice::<Value>(&call.body).expect("JSON")
    };
    let (done, dead) = (message(0), message(1));
    assert_eq!(done["attachments"].as_array().map(Vec::len), Some(1));
    let done = &done["attachments"][0];
    for (name, value) in [
        ("author_name", "night jobs"),
        ("title", "sent"),
        ("text", "to three"),
        ("color", "#36f64f"),
    ] {
        assert_eq!(done[name], value, "{name}");
    }
    assert_eq!(done["fields"][1]["value"], "1970-01-01T00:00:02.000Z");
    assert_eq!(dead["attachments"][0]["title"], "no host");
    assert_eq!(dead["attachments"][0]["color"], "#ff0000");
}

#[tokio::test]
async fn a_token_posts_to_its_channel() {
    let peer = Peer::start(PeerReply::body(200, r#"{"ok":true,"ts":"1"}"#)).await;
    let token = SecretFile::new("xoxb-hush\n");
    post(&by_token(&peer, &token.reference), summary("done")).await.expect("a response");
    let call = peer.call(0);
    assert_eq!(call.headers["authorization"], "Bearer xoxb-hush");
    let message: Value = serde_json::from_slice(&call.body).expect("JSON");
    assert_eq!(message["channel"], "#jobs");
    assert_eq!(message["attachments"][0]["author_name"], "job result");
}

#[tokio::test]
async fn unwanted_or_empty_summaries_are_not_posted() {
    let peer = Peer::start(PeerReply::body(200, "ok")).await;
    let empty = Payload::json(r#"{"job":"1","kind":"k","state":"done","output":""}"#);
    for (settings, payload) in [
        (json!({ "webhook": peer.url(), "success": false }), summary("done")),
        (json!({ "webhook": peer.url(), "failure": false }), summary("dead")),
        (json!({ "webhook": peer.url() }), empty),
    ] {
        assert_eq!(post(&settings, payload).await, Ok(Output::bytes("not sent")));
    }
    assert_eq!(peer.calls(), 0);
    let failure = post(&json!({ "webhook": peer.url() }), Payload::json(r#"{"job":"1"}"#)).await;
    assert_eq!(failure.expect_err("an invalid payload").class, FailureClass::Other);
}

#[tokio::test]
async fn a_refusal_fails_with_the_error_of_slack_and_without_the_token() {
    let token = SecretFile::new("xoxb-hush");
    for (status, body, class, again) in [
        (
            200,
            r#"{"ok":false,"error":"channel_not_found"}"#,
            FailureClass::Other,
            RetryDirective::Never,
        ),
        (
            200,
            r#"{"ok":false,"error":"xoxb-hush is no token"}"#,
            FailureClass::Other,
            RetryDirective::Never,
        ),
        (
            200,
            r#"{"ok":false,"error":"internal_error"}"#,
            FailureClass::Temporary,
            RetryDirective::ByPolicy,
        ),
        (
            200,
            r#"{"ok":false,"error":"ratelimited"}"#,
            FailureClass::Temporary,
            RetryDirective::After(Span::from_secs(7)),
        ),
        (429, "", FailureClass::Temporary, RetryDirective::After(Span::from_secs(7))),
        (503, "", FailureClass::Temporary, RetryDirective::After(Span::from_secs(7))),
        (500, "oh", FailureClass::Temporary, RetryDirective::ByPolicy),
        (403, "invalid_token xoxb-hush", FailureClass::Other, RetryDirective::Never),
    ] {
        let peer = Peer::start(PeerReply::by(move |_, _| {
            Some(response(status).header("retry-after", "7").body(body.into()).expect("good"))
        }));
        let peer = peer.await;
        let failure = post(&by_token(&peer, &token.reference), summary("done")).await;
        let failure = failure.expect_err("no success");
        assert_eq!((failure.class, failure.retry), (class, again), "{body}: {failure}");
        assert!(!format!("{failure:?}").contains("hush"), "{failure:?}");
        assert_eq!(failure.detail["status"], json!(status));
    }
}

#[tokio::test]
async fn a_secret_webhook_url_is_masked_in_failures() {
    let peer = Peer::start(PeerReply::status(404)).await;
    let gone = ForbiddenListener::at([127, 0, 0, 1]).port();
    let inner = ForbiddenListener::at([127, 0, 0, 2]);
    for url in [
        format!("{}/hush-hush", peer.url()),
        format!("http://127.0.0.1:{gone}/hush-hush"),
        format!("http://127.0.0.2:{}/hush-hush", inner.port()),
        "http://127.0.0.1:22/hush-hush".to_owned(),
        "hush-hush".to_owned(),
    ] {
        let hook = SecretFile::new(&url);
        let failure = post(&json!({ "webhook": hook.reference }), summary("done")).await;
        let failure = failure.expect_err("no success");
        assert!(!format!("{failure:?}").contains("hush"), "{failure:?}");
    }
    assert!(inner.saw_nothing());
}

#[tokio::test]
async fn a_webhook_url_echoed_in_a_response_is_masked() {
    let peer = Peer::start(PeerReply::by(|_, call| {
        let rest = call.uri.path_and_query().expect("a path").as_str();
        let echo = format!("no_service at {rest}, {}", rest.replace('-', "%2d"));
        Some(response(404).body(echo.into()).expect("good"))
    }));
    let peer = peer.await;
    let echoing = Peer::start(PeerReply::body(200, r#"{"ok":false,"error":"no hush-hush"}"#)).await;
    for server in [&peer, &echoing] {
        let url = format!("{}/services/T0/B0/hush-hush?key=hush-key", server.url());
        for webhook in [&url, &SecretFile::new(&url).reference] {
            let failure = post(&json!({ "webhook": webhook }), summary("done")).await;
            let failure = failure.expect_err("no success");
            assert!(!format!("{failure:?}").contains("hush"), "{failure:?}");
        }
    }
    let webhook = format!("{}/services/hush-hush", peer.url());
    let failure = post(&json!({ "webhook": webhook }), summary("done")).await;
    let failure = failure.expect_err("no success");
    assert_eq!(failure.detail["body"], "no_service at ***, ***");
}

#[test]
fn invalid_settings_are_reported_with_their_field() {
    let slack = slack();
    assert_eq!((slack.name(), slack.must_be_allowed()), ("slack", false));
    for (settings, field) in [
        (json!({}), "settings.webhook"),
        (json!({ "webhook": "http://h/", "token": "t" }), "settings.webhook"),
        (json!({ "webhook": "ftp://h/" }), "settings.webhook"),
        (json!({ "webhook": "http://h/", "channel": "c" }), "settings.channel"),
        (json!({ "webhook": "http://h/", "api": "http://h/" }), "settings.api"),
        (json!({ "token": "t" }), "settings.channel"),
        (json!({ "token": "t", "channel": "" }), "settings.channel"),
        (json!({ "token": "t", "channel": "c", "api": "slack.com" }), "settings.api"),
        (json!({ "webhook": "http://h/", "success": "no" }), "settings.success"),
        (json!({ "webhook": "http://h/", "colour": "red" }), "settings.colour"),
    ] {
        assert_eq!(slack.check(&settings).expect_err("wrong").field, field, "{settings}");
    }
    slack.check(&json!({ "webhook": "env:HOOK" })).expect("looked up when a job is run");
    slack.check(&json!({ "token": "env:TOKEN", "channel": "#a" })).expect("through the Slack API");
}
