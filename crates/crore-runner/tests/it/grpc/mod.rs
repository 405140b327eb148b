//! Jobs that are calls by gRPC.

mod harm;
mod server;

use bytes::Bytes;
use crore_core::{Encoding, Payload};
use crore_runner::{Class, Context, Failure, Grpc, Item, Maker, Output};
use prost::Message;
use prost_reflect::DynamicMessage;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::stage::{Hidden, reach, run, task, trace};
use server::{Call, Reflects, Says, Server, pool};

fn grpc() -> Grpc {
    Grpc::new(reach(&["127.0.0.1/32"]))
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

/// A message of the shop from its JSON.
fn message(name: &str, json: &Value) -> Bytes {
    let about = pool().get_message_by_name(name).expect(name);
    DynamicMessage::deserialize(about, json).expect("good").encode_to_vec().into()
}

fn said(name: &str, message: &Bytes) -> Value {
    let about = pool().get_message_by_name(name).expect(name);
    let message = DynamicMessage::decode(about, message.clone()).expect("good");
    serde_json::to_value(&message).expect("JSON")
}

/// A till that takes every payment.
fn pays(call: &Call) -> Says {
    let paid = said("shop.Payment", &call.message);
    let receipt = json!({ "number": "7", "amount": paid["amount"], "lines": [paid["by"]] });
    Says::Message(message("shop.Receipt", &receipt))
}

#[tokio::test]
async fn bytes_go_through_as_they_are_both_ways() {
    let server =
        Server::start(Reflects::Not, |_| Says::Message(Bytes::from_static(b"\xff\0ab"))).await;
    let token = Hidden::new("hush-hush");
    let metadata =
        json!({ "authorization": token.reference, "x-many": ["a", "b"], "x-raw-bin": "AP8=" });
    let settings = settings(&server, json!({ "metadata": metadata, "deadline": "5s" }));
    let mut job = task(Payload::new(Encoding::Bytes, &b"\0\x01\xfe"[..]));
    job.trace = Some(trace());
    let output = run(&grpc(), &settings, &job).await.expect("an answer");
    let item = Item { encoding: Encoding::Protobuf, bytes: Bytes::from_static(b"\xff\0ab") };
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
    // Nothing at all is a message too, and no time is too long to be said.
    let server = Server::start(Reflects::Not, |_| Says::Message(Bytes::new())).await;
    let settings =
        json!({ "url": server.url(), "path": "/shop.Till/Pay", "deadline": "213503982334d" });
    let output = run(&grpc(), &settings, &task(Payload::new(Encoding::Bytes, []))).await;
    assert_eq!(output.expect("an answer").items[0].bytes, Bytes::new());
}

#[tokio::test]
async fn json_is_the_message_that_the_other_end_says_it_is_in_either_version() {
    for reflects in [Reflects::V1, Reflects::V1Alpha] {
        let server = Server::start(reflects, pays).await;
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
        assert_eq!(said("shop.Payment", &server.calls()[0].message), payload);
    }
}

#[tokio::test]
async fn a_runner_that_is_kept_asks_once_what_the_other_end_is() {
    let server = Server::start(Reflects::V1, pays).await;
    let (grpc, settings) = (grpc(), settings(&server, json!({ "payload": "json" })));
    let runner = grpc.make(&settings).await.expect("good settings");
    assert_eq!(server.connections(), 0, "it connects when it is needed");
    let context = Context::new(CancellationToken::new(), |_| {});
    let mut questions = 0;
    for n in 1..=3 {
        runner.run(&json_task(&json!({ "by": "me" })), &context).await.expect("an answer");
        assert_eq!((server.calls().len(), server.connections()), (n, 1));
        questions = if n == 1 { server.questions() } else { questions };
    }
    assert!(questions > 0 && server.questions() == questions);
}

#[tokio::test]
async fn what_is_no_such_message_or_method_is_told() {
    let server = Server::start(Reflects::V1, pays).await;
    let silent = Server::start(Reflects::Not, pays).await;
    for (server, method, payload, class, told) in [
        (
            &server,
            "shop.Till/Pay",
            json!({ "buy": "me" }),
            Class::Other,
            "payload: is no `shop.Payment`",
        ),
        (&server, "shop.Till/Pay", json!([1]), Class::Other, "payload: is no `shop.Payment`"),
        (
            &server,
            "shop.Till/Pay",
            json!({ "amount": { "cents": "x" } }),
            Class::Other,
            "payload: is no",
        ),
        (&server, "shop.Till/Sell", json!({}), Class::Fatal, "no method `Sell`"),
        (&server, "shop.Till/PayMany", json!({}), Class::Fatal, "it has a stream"),
        (&server, "shop.Till/Watch", json!({}), Class::Fatal, "it has a stream"),
        (&server, "shop.Bank/Pay", json!({}), Class::Fatal, "answered NOT_FOUND"),
        (&silent, "shop.Till/Pay", json!({}), Class::Fatal, "server reflection"),
    ] {
        let settings = settings(server, json!({ "payload": "json", "method": method }));
        let failure = run(&grpc(), &settings, &json_task(&payload)).await.expect_err(method);
        assert_eq!(failure.class, class, "{method}: {failure}");
        assert!(failure.error.contains(told), "{method}: {failure}");
    }
    assert_eq!(server.calls().len() + silent.calls().len(), 0);
    let settings = settings(&server, json!({ "payload": "json" }));
    for bytes in [&b"{"[..], b"{} {}", b"\xff", b""] {
        let failure = run(&grpc(), &settings, &task(Payload::new(Encoding::Bytes, bytes))).await;
        assert_eq!(failure.expect_err("no JSON").class, Class::Other, "{bytes:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_message_is_a_failure() {
    let server =
        Server::start(Reflects::V1, |_| Says::Message(Bytes::from_static(b"\xff\xff"))).await;
    let settings = settings(&server, json!({ "payload": "json" }));
    let failure = run(&grpc(), &settings, &json_task(&json!({}))).await.expect_err("no message");
    assert_eq!(failure.class, Class::Other);
    assert!(failure.error.starts_with("the answer is no `shop.Receipt`"), "{failure}");
}

async fn answered(status: i32) -> Failure {
    let server =
        Server::start(Reflects::Not, move |_| Says::Status(status, "why".to_owned())).await;
    let settings = settings(&server, json!({}));
    run(&grpc(), &settings, &json_task(&json!({}))).await.expect_err("no success")
}

#[tokio::test]
async fn a_status_says_whether_a_job_is_tried_again() {
    for (status, name, class) in [
        (1, "CANCELLED", Class::Aborted),
        (2, "UNKNOWN", Class::Other),
        (3, "INVALID_ARGUMENT", Class::Fatal),
        (4, "DEADLINE_EXCEEDED", Class::Again),
        (5, "NOT_FOUND", Class::Fatal),
        (6, "ALREADY_EXISTS", Class::Fatal),
        (7, "PERMISSION_DENIED", Class::Fatal),
        (8, "RESOURCE_EXHAUSTED", Class::Again),
        (9, "FAILED_PRECONDITION", Class::Fatal),
        (10, "ABORTED", Class::Aborted),
        (11, "OUT_OF_RANGE", Class::Fatal),
        (12, "UNIMPLEMENTED", Class::Fatal),
        (13, "INTERNAL", Class::Fatal),
        (14, "UNAVAILABLE", Class::Again),
        (15, "DATA_LOSS", Class::Fatal),
        (16, "UNAUTHENTICATED", Class::Fatal),
        (99, "UNKNOWN", Class::Other),
    ] {
        let failure = answered(status).await;
        assert_eq!((failure.class, &failure.detail["status"]), (class, &json!(name)), "{status}");
        assert!(
            failure.error.ends_with(&format!("/shop.Till/Pay` answered {name}: why")),
            "{failure}"
        );
    }
}
