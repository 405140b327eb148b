//! The grpc runner.

mod faulty_server;
mod server;

use bytes::Bytes;
use crore_core::{Encoding, Payload};
use crore_runner::{
    EncodedBytes, FailureClass, GrpcFactory, Output, RunContext, RunFailure, RunnerFactory,
};
use prost::Message;
use prost_reflect::DynamicMessage;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::outbound_fixture::{SecretFile, reach, run, task, trace};
use server::{Call, ReflectionSupport, ScriptedResponse, Server, pool};

fn grpc() -> GrpcFactory {
    GrpcFactory::new(reach(&["127.0.0.1/32"]))
}

fn settings(server: &Server, more: Value) -> Value {
    let mut settings = json!({ "url": server.url(), "method": "shop.Till/Pay" });
    let Value::Object(more) = more else { panic!("an object") };
    settings.as_object_mut().expect("an object").extend(more);
    settings
}

fn json_task(payload: &Value) -> crore_runner::Task {
    task(Payload::json(&payload.to_string()))
}

/// Encodes a message of the test server from JSON.
fn message(name: &str, json: &Value) -> Bytes {
    let about = pool().get_message_by_name(name).expect(name);
    DynamicMessage::deserialize(about, json).expect("good").encode_to_vec().into()
}

fn decoded(name: &str, message: &Bytes) -> Value {
    let about = pool().get_message_by_name(name).expect(name);
    let message = DynamicMessage::decode(about, message.clone()).expect("good");
    serde_json::to_value(&message).expect("JSON")
}

/// Accepts every payment.
fn accept_payment(call: &Call) -> ScriptedResponse {
    let paid = decoded("shop.Payment", &call.message);
    let receipt = json!({ "number": "7", "amount": paid["amount"], "lines": [paid["by"]] });
    ScriptedResponse::Message(message("shop.Receipt", &receipt))
}

#[tokio::test]
async fn bytes_are_transferred_unchanged_both_ways() {
    let server = Server::start(ReflectionSupport::Not, |_| {
        ScriptedResponse::Message(Bytes::from_static(b"\xff\0ab"))
    })
    .await;
    let token = SecretFile::new("hush-hush");
    let metadata =
        json!({ "authorization": token.reference, "x-many": ["a", "b"], "x-raw-bin": "AP8=" });
    let settings = settings(&server, json!({ "metadata": metadata, "deadline": "5s" }));
    let mut job = task(Payload::new(Encoding::Bytes, &b"\0\x01\xfe"[..]));
    job.trace = Some(trace());
    let output = run(&grpc(), &settings, &job).await.expect("an answer");
    let item =
        EncodedBytes { encoding: Encoding::Protobuf, bytes: Bytes::from_static(b"\xff\0ab") };
    assert_eq!(output, Output { items: vec![item] });
    let call = &server.calls()[0];
    assert_eq!((&*call.path, &call.message[..]), ("/shop.Till/Pay", &b"\0\x01\xfe"[..]));
    for (name, value) in [
        ("authorization", "hush-hush"),
        ("x-raw-bin", "AP8="),
        ("traceparent", &*trace()),
        ("grpc-timeout", "5000000u"),
        ("content-type", "application/grpc"),
        ("user-agent", "crore"),
    ] {
        assert_eq!(call.headers[name], value, "{name}");
    }
    assert_eq!(call.headers.get_all("x-many").iter().count(), 2);
    // An empty message is valid, and a huge timeout is capped.
    let server =
        Server::start(ReflectionSupport::Not, |_| ScriptedResponse::Message(Bytes::new())).await;
    let settings =
        json!({ "url": server.url(), "path": "/shop.Till/Pay", "deadline": "213503982334d" });
    let output = run(&grpc(), &settings, &task(Payload::new(Encoding::Bytes, []))).await;
    assert_eq!(output.expect("an answer").items[0].bytes, Bytes::new());
}

#[tokio::test]
async fn json_is_encoded_by_server_reflection_v1_and_v1alpha() {
    for reflects in [ReflectionSupport::V1, ReflectionSupport::V1Alpha] {
        let server = Server::start(reflects, accept_payment).await;
        let amount = json!({ "cents": "250", "currency": "EUR" });
        let payload = json!({ "by": "me", "amount": amount, "at": "2026-11-16T08:00:00Z" });
        let settings = settings(&server, json!({ "payload": "json" }));
        let output = run(&grpc(), &settings, &json_task(&payload)).await.expect("an answer");
        assert_eq!(output.items[0].encoding, Encoding::Json);
        let answer: Value = serde_json::from_slice(&output.items[0].bytes).expect("JSON");
        assert_eq!(
            answer,
            json!({ "number": "7", "amount": amount, "lines": ["me"] }),
            "{reflects:?}"
        );
        assert_eq!(decoded("shop.Payment", &server.calls()[0].message), payload);
    }
}

#[tokio::test]
async fn pooled_runner_uses_reflection_once() {
    let server = Server::start(ReflectionSupport::V1, accept_payment).await;
    let (grpc, settings) = (grpc(), settings(&server, json!({ "payload": "json" })));
    let runner = grpc.make(&settings).await.expect("valid settings");
    assert_eq!(server.connections(), 0, "it connects when it is needed");
    let context = RunContext::new(CancellationToken::new(), |_| {});
    let mut questions = 0;
    for n in 1..=3 {
        runner.run(&json_task(&json!({ "by": "me" })), &context).await.expect("an answer");
        assert_eq!((server.calls().len(), server.connections()), (n, 1));
        questions = if n == 1 { server.questions() } else { questions };
    }
    assert!(questions > 0 && server.questions() == questions);
}

#[tokio::test]
async fn unknown_messages_and_methods_are_reported() {
    let server = Server::start(ReflectionSupport::V1, accept_payment).await;
    let silent = Server::start(ReflectionSupport::Not, accept_payment).await;
    for (server, method, payload, class, expected) in [
        (
            &server,
            "shop.Till/Pay",
            json!({ "buy": "me" }),
            FailureClass::Other,
            "payload: not a `shop.Payment`",
        ),
        (
            &server,
            "shop.Till/Pay",
            json!([1]),
            FailureClass::Other,
            "payload: not a `shop.Payment`",
        ),
        (
            &server,
            "shop.Till/Pay",
            json!({ "amount": { "cents": "x" } }),
            FailureClass::Other,
            "payload: not a",
        ),
        (&server, "shop.Till/Sell", json!({}), FailureClass::Fatal, "no method `Sell`"),
        (&server, "shop.Till/PayMany", json!({}), FailureClass::Fatal, "is a streaming method"),
        (&server, "shop.Till/Watch", json!({}), FailureClass::Fatal, "is a streaming method"),
        (&server, "shop.Bank/Pay", json!({}), FailureClass::Fatal, "answered NOT_FOUND"),
        (&silent, "shop.Till/Pay", json!({}), FailureClass::Fatal, "server reflection"),
    ] {
        let settings = settings(server, json!({ "payload": "json", "method": method }));
        let failure = run(&grpc(), &settings, &json_task(&payload)).await.expect_err(method);
        assert_eq!(failure.class, class, "{method}: {failure}");
        assert!(failure.error.contains(expected), "{method}: {failure}");
    }
    assert_eq!(server.calls().len() + silent.calls().len(), 0);
    let settings = settings(&server, json!({ "payload": "json" }));
    for bytes in [&b"{"[..], b"{} {}", b"\xff", b""] {
        let failure = run(&grpc(), &settings, &task(Payload::new(Encoding::Bytes, bytes))).await;
        assert_eq!(failure.expect_err("no JSON").class, FailureClass::Other, "{bytes:?}");
    }
}

#[tokio::test]
async fn a_response_that_is_not_a_message_fails_the_job() {
    let server = Server::start(ReflectionSupport::V1, |_| {
        ScriptedResponse::Message(Bytes::from_static(b"\xff\xff"))
    })
    .await;
    let settings = settings(&server, json!({ "payload": "json" }));
    let failure = run(&grpc(), &settings, &json_task(&json!({}))).await.expect_err("no message");
    assert_eq!(failure.class, FailureClass::Other);
    assert!(failure.error.starts_with("the response is not a `shop.Receipt`"), "{failure}");
}

async fn answered(status: i32) -> RunFailure {
    let server = Server::start(ReflectionSupport::Not, move |_| {
        ScriptedResponse::Status(status, "why".to_owned())
    })
    .await;
    let settings = settings(&server, json!({}));
    run(&grpc(), &settings, &json_task(&json!({}))).await.expect_err("no success")
}

#[tokio::test]
async fn the_status_decides_about_a_retry() {
    for (status, name, class) in [
        (1, "CANCELLED", FailureClass::Aborted),
        (2, "UNKNOWN", FailureClass::Other),
        (3, "INVALID_ARGUMENT", FailureClass::Fatal),
        (4, "DEADLINE_EXCEEDED", FailureClass::Temporary),
        (5, "NOT_FOUND", FailureClass::Fatal),
        (6, "ALREADY_EXISTS", FailureClass::Fatal),
        (7, "PERMISSION_DENIED", FailureClass::Fatal),
        (8, "RESOURCE_EXHAUSTED", FailureClass::Temporary),
        (9, "FAILED_PRECONDITION", FailureClass::Fatal),
        (10, "ABORTED", FailureClass::Aborted),
        (11, "OUT_OF_RANGE", FailureClass::Fatal),
        (12, "UNIMPLEMENTED", FailureClass::Fatal),
        (13, "INTERNAL", FailureClass::Fatal),
        (14, "UNAVAILABLE", FailureClass::Temporary),
        (15, "DATA_LOSS", FailureClass::Fatal),
        (16, "UNAUTHENTICATED", FailureClass::Fatal),
        (99, "UNKNOWN", FailureClass::Other),
    ] {
        let failure = answered(status).await;
        assert_eq!((failure.class, &failure.detail["status"]), (class, &json!(name)), "{status}");
        assert!(
            failure.error.ends_with(&format!("/shop.Till/Pay` answered {name}: why")),
            "{failure}"
        );
    }
}
