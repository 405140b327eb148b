//! The API description: valid, complete, and consistent with the server.

use std::collections::BTreeSet;

use http::Method;
use serde_json::Value;

use crate::server::{BodyEncoding, Server};

/// All operations: method, path, and description.
fn operations(api: &Value) -> Vec<(&str, &str, &Value)> {
    let mut all = Vec::new();
    for (path, methods) in api["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            all.push((method.as_str(), path.as_str(), operation));
        }
    }
    all
}

/// Every `$ref` in a value.
fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[tokio::test]
async fn the_description_is_complete() {
    let server = Server::start().await;
    let api = server.get(BodyEncoding::Json, "/openapi.json").await.body;
    assert_eq!((&api["openapi"], &api["info"]["title"]), (&"3.1.0".into(), &"crore".into()));
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations(&api) {
        let what = format!("{method} {path}");
        assert!(ids.insert(operation["operationId"].as_str().expect("an id").to_owned()), "{what}");
        assert!(operation["summary"].is_string() && operation["tags"][0].is_string(), "{what}");
        for (status, response) in operation["responses"].as_object().expect("responses") {
            let about = response["description"].as_str().unwrap_or_default();
            assert!(!about.is_empty(), "{what} {status}");
            let content = &response["content"];
            let (json, msgpack) = ("application/json", "application/msgpack");
            let is_native = path.starts_with("/v1/") && content.get(json).is_some();
            assert!(!is_native || content[json] == content[msgpack], "{what} {status}");
        }
        if path.starts_with("/v1/") {
            let problem = &operation["responses"]["400"]["content"]["application/problem+json"];
            assert_eq!(problem["schema"]["$ref"], "#/components/schemas/Problem", "{what}");
        }
    }
    let mut found = BTreeSet::new();
    references(&api, &mut found);
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("a path in the document");
        assert!(api.pointer(pointer).is_some(), "{reference}");
    }
}

#[tokio::test]
async fn every_described_call_exists() {
    let server = Server::start().await;
    let api = server.get(BodyEncoding::Json, "/openapi.json").await.body;
    let all = operations(&api);
    assert!(all.len() > 40, "{}", all.len());
    // Calls that do not end, or do not answer in JSON.
    let others = ["/v1/events", "/metrics"];
    for (method, path, _) in all.into_iter().filter(|(_, path, _)| !others.contains(path)) {
        let path = path
            .replace("{id}", "4711")
            .replace("{job_id}", "4711")
            .replace("{queue}", "q")
            .replace("{name}", "n");
        let method: Method = method.to_uppercase().parse().expect("a method");
        let answer = server.call(BodyEncoding::Json, method.clone(), &path, None).await;
        assert_ne!(answer.status, 405, "{method} {path}");
        let detail = answer.body["detail"].as_str().unwrap_or_default();
        assert!(!detail.contains("no such path"), "{method} {path}");
    }
}

#[tokio::test]
async fn the_try_it_page_loads_nothing_from_elsewhere() {
    let server = Server::start().await;
    let (headers, page) = server.page("/docs").await;
    let policy = headers["content-security-policy"].to_str().expect("a text");
    assert!(policy.contains("default-src 'none'"));
    for part in ["/docs/page.js", "/docs/page.css"] {
        assert!(page.contains(part));
        let (_, text) = server.page(part).await;
        assert!(
            !text.contains("http://") && !text.contains("https://"),
            "it loads nothing from elsewhere"
        );
    }
    assert!(page.contains("/openapi.json") && !page.contains("http"));
}
