//! Bulk actions in the background.

use crore::core::Name;
use crore_wire::api::act::{ActOnAll, Filter, Verb};
use crore_wire::api::operations::{Operation, OperationState};
use crore_wire::units::Moment;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::server::{BodyEncoding, Server, ServerResponse};

const JSON: BodyEncoding = BodyEncoding::Json;

async fn push(server: &Server, n: usize) {
    for start in (0..n).step_by(1000) {
        let job = |nth: usize| json!({"kind": "mail", "payload": {"nth": nth}});
        let jobs: Vec<Value> = (start..n.min(start + 1000)).map(job).collect();
        let pushed = server.post(JSON, "/v1/jobs", &json!({"jobs": jobs})).await;
        assert!(pushed.status.is_success(), "{pushed:?}");
    }
}

async fn start(server: &Server, act: &str, q: &str) -> ServerResponse {
    server.post(JSON, "/v1/operations", &json!({"act": act, "filter": {"q": q}})).await
}

/// The operation when it has ended.
async fn ended(server: &Server, started: &ServerResponse) -> Value {
    assert_eq!(started.status, StatusCode::ACCEPTED, "{started:?}");
    let id = started.body["id"].as_str().expect("an id");
    let answer = server.get(JSON, &format!("/v1/operations/{id}?wait=1m")).await;
    assert_ne!(answer.body["state"], "running", "{answer:?}");
    answer.body
}

fn counts(operation: &Value) -> [Option<u64>; 4] {
    ["scanned", "matched", "changed", "refused"].map(|name| operation[name].as_u64())
}

#[tokio::test]
async fn an_operation_runs_in_the_background_and_keeps_its_result() {
    let server = Server::start().await;
    push(&server, 1500).await;
    for encoding in BodyEncoding::BOTH {
        let request = json!({"act": "cancel", "filter": {"q": "payload.nth<1000 kind:mail"}});
        let preview = server.post(encoding, "/v1/operations/preview", &request).await;
        let body = &preview.body;
        assert_eq!((&body["matched"], &body["changed"]), (&json!(1000), &json!(1000)), "{body}");
        assert_eq!((&body["scanned"], &body["complete"]), (&json!(1500), &json!(true)));
        assert_eq!(body["samples"].as_array().map(Vec::len), Some(10));
        assert_eq!(body["samples"][0].get("payload"), None);
    }
    let done = ended(&server, &start(&server, "cancel", "payload.nth<1000 kind:mail").await).await;
    assert_eq!((&done["state"], counts(&done)), (&json!("done"), [1500, 1000, 1000, 0].map(Some)));
    assert_eq!(done["request"]["filter"]["q"], "payload.nth<1000 kind:mail");
    assert!(done["started_at"].is_string() && done["ended_at"].is_string());
    let queue = server.get(JSON, "/v1/queues/mail").await;
    assert_eq!(queue.body["counts"], json!({"ready": 500, "cancelled": 1000}));
    let again = ended(&server, &start(&server, "cancel", "payload.nth<1001").await).await;
    assert_eq!(counts(&again), [1500, 1001, 1, 1000].map(Some), "{again}");
    let listed = server.get(JSON, "/v1/operations").await;
    assert_eq!(listed.body["operations"], json!([done, again]));
}

#[tokio::test]
async fn a_request_that_is_not_valid_starts_nothing() {
    let server = Server::start().await;
    push(&server, 1).await;
    let long = "x".repeat(100_000);
    let nested = format!("state:ready {}", "(".repeat(1000));
    for (filter, code, field, at) in [
        (json!({}), "malformed", "filter", None),
        (json!({"q": ""}), "malformed", "filter", None),
        (json!({"q": long}), "filter-too-long", "filter.q", Some(4096)),
        (json!({"q": nested}), "filter-syntax", "filter.q", Some(12)),
        (json!({"q": "state:ready kind:"}), "filter-syntax", "filter.q", Some(17)),
        (json!({"q": "state:ready", "all": true}), "malformed", "filter.all", None),
    ] {
        for path in ["/v1/operations", "/v1/operations/preview", "/v1/jobs/act"] {
            let refused =
                server.post(JSON, path, &json!({"act": "delete", "filter": filter})).await;
            assert_eq!(refused.problem(), (400, code, Some(field)), "{path} {refused:?}");
            assert_eq!(refused.body["at"].as_u64(), at, "{path} {refused:?}");
        }
    }
    assert_eq!(server.get(JSON, "/v1/operations").await.body, json!({"operations": []}));
    assert_eq!(server.get(JSON, "/v1/jobs/1").await.body["state"], "ready");
    for (method, path) in
        [(Method::GET, "/v1/operations/7"), (Method::POST, "/v1/operations/7/cancel")]
    {
        let missing = server.call(JSON, method, path, None).await;
        assert_eq!(missing.problem(), (404, "not-found", None));
    }
}

#[tokio::test]
async fn an_operation_that_ran_when_the_server_stopped_is_interrupted() {
    let server = Server::start().await;
    let filter = Filter { q: Some("state:dead".to_owned()), ..Filter::default() };
    let request = ActOnAll { act: Verb::Retry, filter, change: None, replay: None, dry_run: false };
    let operation = Operation {
        id: "0000000000007".to_owned(),
        state: OperationState::Running,
        request,
        by: "loopback".to_owned(),
        started_at: Moment(server.engine.status().now()),
        ended_at: None,
        scanned: 0,
        matched: 0,
        changed: 0,
        refused: 0,
        error: None,
    };
    let id = Name::new("id", &operation.id).expect("a name");
    let text = serde_json::to_string(&operation).expect("text");
    server.engine.operations().add(id, text).await.expect("added");
    let found = server.get(JSON, "/v1/operations/0000000000007?wait=1m").await;
    assert_eq!(found.body["state"], "interrupted", "{found:?}");
    // Cancelling it changes nothing, and a later operation has a later id.
    let path = "/v1/operations/0000000000007/cancel";
    assert_eq!(server.call(JSON, Method::POST, path, None).await.body["state"], "interrupted");
    let next = ended(&server, &start(&server, "retry", "state:dead").await).await;
    assert!(next["id"].as_str().is_some_and(|id| id > "0000000000007"), "{next}");
    server.doors.api().close();
    let refused = start(&server, "retry", "state:dead").await;
    assert_eq!(refused.problem().1, "stopping", "{refused:?}");
}

#[tokio::test]
async fn a_cancelled_operation_stops_and_a_closing_server_interrupts() {
    let server = Server::start().await;
    push(&server, 3000).await;
    let grant = crore_api::Grant::full();
    let api = server.doors.api();
    let filter = Filter { all: true, ..Filter::default() };
    let request = ActOnAll { act: Verb::Delete, filter, change: None, replay: None, dry_run: true };
    // The task of an operation yields after each page, so the calls come before its end.
    let started = api.start_operation(&grant, &request).await.expect("started");
    let id = Name::new("id", &started.id).expect("a name");
    api.cancel_operation(&grant, &id).await.expect("cancelled");
    let minute = Some(crore_wire::units::Period(crore::core::Span::from_secs(60)));
    let ended = api.get_operation(&grant, &id, minute).await.expect("found");
    assert_eq!(ended.state, OperationState::Cancelled, "{ended:?}");
    assert!(ended.scanned < 3000 && ended.ended_at.is_some(), "{ended:?}");
    let started = api.start_operation(&grant, &request).await.expect("started");
    let id = Name::new("id", &started.id).expect("a name");
    api.close();
    let ended = api.get_operation(&grant, &id, minute).await.expect("found");
    assert_eq!(ended.state, OperationState::Interrupted, "{ended:?}");
    let recorded = server.engine.operations().list().await.expect("listed");
    assert!(format!("{recorded:?}").contains("interrupted"), "{recorded:?}");
}

#[tokio::test]
async fn running_and_remembered_operations_are_bounded() {
    let server = Server::start().await;
    push(&server, 3000).await;
    let api = server.doors.api();
    let grant = crore_api::Grant::full();
    let filter = Filter { all: true, ..Filter::default() };
    let request = ActOnAll { act: Verb::Delete, filter, change: None, replay: None, dry_run: true };
    let mut results = Vec::new();
    for _ in 0..6 {
        results.push(api.start_operation(&grant, &request).await.map(|operation| operation.id));
    }
    let refused = results.iter().filter(|result| result.is_err()).count();
    assert_eq!(refused, 2, "four run at the same time: {results:?}");
    let none = json!({"act": "delete", "filter": {"q": "state:dead"}});
    for _ in 0..110 {
        let started = server.post(JSON, "/v1/operations", &none).await;
        if started.status == StatusCode::ACCEPTED {
            ended(&server, &started).await;
        } else {
            assert_eq!(started.problem().1, "too-many", "{started:?}");
        }
    }
    let listed = server.get(JSON, "/v1/operations").await;
    let n = listed.body["operations"].as_array().map_or(0, Vec::len);
    assert!(n <= 100, "{n} are remembered");
}
