//! `ETag` and `If-Match`: no change of a definition overwrites one that its caller has not seen.

use http::Method;
use serde_json::{Value, json};

use crate::server::{BodyEncoding, Server, ServerResponse};

async fn send(
    server: &Server,
    method: Method,
    path: &str,
    if_match: Option<&str>,
    body: &Value,
) -> ServerResponse {
    let json = BodyEncoding::Json;
    let mut headers = vec![("content-type", json.media_type())];
    headers.extend(if_match.map(|tag| ("if-match", tag)));
    server.send(json, (method, path), &headers, json.encode(body)).await
}

fn tag(response: &ServerResponse) -> String {
    assert_eq!(response.status, 200, "{response:?}");
    response.headers["etag"].to_str().expect("ASCII").to_owned()
}

#[tokio::test]
async fn a_definition_is_changed_only_in_the_state_that_its_caller_has_seen() {
    let server = Server::start().await;
    let job = |n: u32| json!({"queue": "mail", "kind": "mail", "payload": n});
    let rows = [
        (
            Method::PUT,
            "/v1/handlers/mail",
            ["date", "ls"]
                .map(|program| json!({"runner": "command", "settings": {"program": program}})),
        ),
        (Method::PUT, "/v1/limits/slow", [5, 6].map(|n| json!({"limit": format!("rate {n}/1m")}))),
        (Method::PATCH, "/v1/queues/mail", [7, 8].map(|n| json!({"max_done": n}))),
        (
            Method::PUT,
            "/v1/schedules/nightly",
            [1, 2].map(|n| json!({"timing": "every 1h", "job": job(n)})),
        ),
    ];
    for (method, path, [one, two]) in rows {
        let set = async |if_match: Option<&str>, body: &Value| {
            send(&server, method.clone(), path, if_match, body).await
        };
        let refused = set(Some("*"), &one).await;
        assert_eq!(refused.problem(), (412, "precondition-failed", None), "{path}: not there yet");
        let first = tag(&set(None, &one).await);
        assert_eq!(tag(&server.get(BodyEncoding::Json, path).await), first, "{path}");
        let second = tag(&set(Some(&first), &two).await);
        assert_ne!(first, second, "{path}");
        let refused = set(Some(&first), &one).await;
        assert_eq!(refused.problem(), (412, "precondition-failed", None), "{path}: {refused:?}");
        assert_eq!(tag(&server.get(BodyEncoding::Json, path).await), second, "{path}: unchanged");
        let either = format!("{first}, {second}");
        tag(&set(Some(&either), &one).await);
    }
}
