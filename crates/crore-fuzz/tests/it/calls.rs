//! Every call of every door has an input that makes it.

use std::collections::BTreeSet;

use crore::Engine;
use crore_doors::{Doors, Options};
use crore_wire::grpc::DESCRIPTORS;
use prost_reflect::DescriptorPool;
use serde_json::Value;

use crate::corpus::inputs;

/// The first lines of all requests in the corpora of calls, without their queries.
fn requests() -> BTreeSet<String> {
    let all = ["http", "grpc", "queues"].into_iter().flat_map(inputs);
    let texts = all.map(|(_, input)| String::from_utf8_lossy(&input).into_owned());
    let lines = texts.flat_map(|text| {
        let requests = text.split("\n===\n").map(|request| {
            let first = request.lines().next().unwrap_or_default();
            first.split('?').next().unwrap_or_default().to_owned()
        });
        requests.collect::<Vec<_>>()
    });
    lines.collect()
}

/// Whether a request matches a path with parameters: `GET /v1/jobs/{id}`.
fn matches(template: &str, request: &str) -> bool {
    let (template, request) = (template.split('/'), request.split('/'));
    let is_same =
        |(expected, actual): (&str, &str)| expected.starts_with('{') || expected == actual;
    template.clone().count() == request.clone().count() && template.zip(request).all(is_same)
}

#[test]
fn every_http_call_has_an_input() {
    let doors = Doors::new(Engine::memory(), Options::default());
    let document: Value = serde_json::from_str(&doors.description()).expect("a description");
    let paths = document["paths"].as_object().expect("paths");
    let requests = requests();
    let mut n = 0;
    for (path, methods) in paths {
        for method in methods.as_object().expect("methods").keys() {
            // Calls that the server makes.
            if path == "/worker-job" {
                continue;
            }
            let call = format!("{} {path}", method.to_uppercase());
            assert!(requests.iter().any(|request| matches(&call, request)), "no input for {call}");
            n += 1;
        }
    }
    assert!(n > 50, "{n} calls");
}

#[test]
fn every_grpc_call_has_an_input() {
    let pool = DescriptorPool::decode(DESCRIPTORS).expect("our own descriptors");
    let requests = requests();
    let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let mut n = 0;
    for method in methods {
        let call = format!("/{}/{}", method.parent_service().full_name(), method.name());
        assert!(requests.contains(&call), "no input for {call}");
        n += 1;
    }
    assert!(n > 40, "{n} calls");
}
