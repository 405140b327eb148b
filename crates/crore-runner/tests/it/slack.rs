//! Jobs that tell Slack about jobs, with somebody in its place.

use crore_core::machine::Again;
use crore_core::{Payload, Span};
use crore_runner::{Class, Failure, Maker, Output, Slack};
use serde_json::{Value, json};

use crate::stage::{Hidden, Trap, reach, run, task};
use crore_testkit::http_peer::{Peer, Reply, response};

fn slack() -> Slack {
    Slack::new(reach(&["127.0.0.1/32"]))
}

fn ended(state: &str) -> Payload {
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

async fn tell(settings: &Value, payload: Payload) -> Result<Output, Failure> {
    run(&slack(), settings, &task(payload)).await
}

#[tokio::test]
async fn a_webhook_is_told_in_one_attachment() {
    let peer = Peer::start(Reply::body(200, "ok")).await;
    let hook = Hidden::new(&format!("{}/services/T0/B0/hush-hush", peer.url()));
    let settings = json!({ "webhook": hook.reference, "title": "night jobs" });
    for state in ["done", "dead"] {
        assert_eq!(tell(&settings, ended(state)).await, Ok(Output::bytes("OK")));
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
    let peer = Peer::start(Reply::body(200, r#"{"ok":true,"ts":"1"}"#)).await;
    let token = Hidden::new("xoxb-hush\n");
    tell(&by_token(&peer, &token.reference), ended("done")).await.expect("it is told");
    let call = peer.call(0);
    assert_eq!(call.headers["authorization"], "Bearer xoxb-hush");
    let message: Value = serde_json::from_slice(&call.body).expect("JSON");
    assert_eq!(message["channel"], "#jobs");
    assert_eq!(message["attachments"][0]["author_name"], "job result");
}

#[tokio::test]
async fn what_is_not_wanted_or_says_nothing_is_not_told() {
    let peer = Peer::start(Reply::body(200, "ok")).await;
    let empty = Payload::json(r#"{"job":"1","kind":"k","state":"done","output":""}"#);
    for (settings, payload) in [
        (json!({ "webhook": peer.url(), "success": false }), ended("done")),
        (json!({ "webhook": peer.url(), "failure": false }), ended("dead")),
        (json!({ "webhook": peer.url() }), empty),
    ] {
        assert_eq!(tell(&settings, payload).await, Ok(Output::bytes("not sent")));
    }
    assert_eq!(peer.calls(), 0);
    let failure = tell(&json!({ "webhook": peer.url() }), Payload::json(r#"{"job":"1"}"#)).await;
    assert_eq!(failure.expect_err("it is about nothing").class, Class::Other);
}

#[tokio::test]
async fn a_refusal_is_a_failure_with_slacks_word_and_without_the_token() {
    let token = Hidden::new("xoxb-hush");
    for (status, said, class, again) in [
        (200, r#"{"ok":false,"error":"channel_not_found"}"#, Class::Other, Again::Never),
        (200, r#"{"ok":false,"error":"xoxb-hush is no token"}"#, Class::Other, Again::Never),
        (200, r#"{"ok":false,"error":"internal_error"}"#, Class::Again, Again::ByPolicy),
        (
            200,
            r#"{"ok":false,"error":"ratelimited"}"#,
            Class::Again,
            Again::After(Span::from_secs(7)),
        ),
        (429, "", Class::Again, Again::After(Span::from_secs(7))),
        (503, "", Class::Again, Again::After(Span::from_secs(7))),
        (500, "oh", Class::Again, Again::ByPolicy),
        (403, "invalid_token xoxb-hush", Class::Other, Again::Never),
    ] {
        let peer = Peer::start(Reply::by(move |_, _| {
            Some(response(status).header("retry-after", "7").body(said.into()).expect("good"))
        }));
        let peer = peer.await;
        let failure = tell(&by_token(&peer, &token.reference), ended("done")).await;
        let failure = failure.expect_err("no success");
        assert_eq!((failure.class, failure.again), (class, again), "{said}: {failure}");
        assert!(!format!("{failure:?}").contains("hush"), "{failure:?}");
        assert_eq!(failure.detail["status"], json!(status));
    }
}

#[tokio::test]
async fn a_webhook_that_is_a_secret_is_in_no_failure() {
    let peer = Peer::start(Reply::status(404)).await;
    let gone = Trap::at([127, 0, 0, 1]).port();
    let inner = Trap::at([127, 0, 0, 2]);
    for url in [
        format!("{}/hush-hush", peer.url()),
        format!("http://127.0.0.1:{gone}/hush-hush"),
        format!("http://127.0.0.2:{}/hush-hush", inner.port()),
        "http://127.0.0.1:22/hush-hush".to_owned(),
        "hush-hush".to_owned(),
    ] {
        let hook = Hidden::new(&url);
        let failure = tell(&json!({ "webhook": hook.reference }), ended("done")).await;
        let failure = failure.expect_err("no success");
        assert!(!format!("{failure:?}").contains("hush"), "{failure:?}");
    }
    assert!(inner.saw_nothing());
}

#[tokio::test]
async fn a_webhook_that_is_sent_back_is_in_no_failure() {
    let peer = Peer::start(Reply::by(|_, call| {
        let rest = call.uri.path_and_query().expect("a path").as_str();
        let echo = format!("no_service at {rest}, {}", rest.replace('-', "%2d"));
        Some(response(404).body(echo.into()).expect("good"))
    }));
    let peer = peer.await;
    let said = Peer::start(Reply::body(200, r#"{"ok":false,"error":"no hush-hush"}"#)).await;
    for server in [&peer, &said] {
        let url = format!("{}/services/T0/B0/hush-hush?key=hush-key", server.url());
        for webhook in [&url, &Hidden::new(&url).reference] {
            let failure = tell(&json!({ "webhook": webhook }), ended("done")).await;
            let failure = failure.expect_err("no success");
            assert!(!format!("{failure:?}").contains("hush"), "{failure:?}");
        }
    }
    let webhook = format!("{}/services/hush-hush", peer.url());
    let failure = tell(&json!({ "webhook": webhook }), ended("done")).await;
    let failure = failure.expect_err("no success");
    assert_eq!(failure.detail["body"], "no_service at ***, ***");
}

#[test]
fn settings_are_checked_by_their_fields() {
    let slack = slack();
    assert_eq!((slack.name(), slack.needs_leave()), ("slack", false));
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
    slack.check(&json!({ "token": "env:TOKEN", "channel": "#a" })).expect("by Slack's own API");
}
