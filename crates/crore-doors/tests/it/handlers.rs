//! Handlers as the API shows them, and labels that are reserved for the server.

use std::sync::Arc;

use crore::Engine;
use crore::store::registry::{Define, RegistryValue};
use crore::store::{Memory, Registry};
use crore_core::handler::BUILT_IN_ID;
use crore_core::{Handler, Name};
use crore_doors::{Options, listen};
use crore_testkit::FakeClock;
use crore_wire::grpc::v1;
use crore_wire::grpc::v1::admin_client::AdminClient;
use crore_wire::grpc::v1::jobs_client::JobsClient;
use http::{Method, StatusCode};
use serde_json::{Map, json};

use crate::grpc::connect;
use crate::server::{BodyEncoding, Server};

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

#[tokio::test]
async fn a_built_in_handler_has_no_number() {
    let server = Server::start().await;
    let brought = Handler { id: BUILT_IN_ID, ..Handler::new(name("slack"), Map::new()) };
    server.engine.handlers().set(name("brought"), brought).await.expect("set");
    let other = Handler::new(name("command"), Map::new());
    server.engine.handlers().set(name("other"), other).await.expect("set");
    for encoding in BodyEncoding::BOTH {
        let all = server.get(encoding, "/v1/handlers").await.body;
        assert_eq!(all["handlers"][0]["kind"], "brought");
        assert_eq!(
            (all["handlers"][0].get("id"), all["handlers"][1]["id"].as_u64()),
            (None, Some(1))
        );
        assert_eq!(all.get("unreadable"), None);
        let one = server.get(encoding, "/v1/handlers/brought").await.body;
        assert_eq!((one.get("id"), &one["runner"]), (None, &json!("slack")));
    }
}

#[tokio::test]
async fn an_unreadable_handler_is_listed_and_can_be_replaced() {
    let clock = Arc::new(FakeClock::default());
    let store = Arc::new(Memory::new(clock.clone()));
    let newer = |kind: &str| Define::set(name(kind), RegistryValue::Handler("by post".into()));
    store.define(vec![newer("a"), newer("b")]).await.expect("stored").into_inner();
    let engine = crore::block_on(Engine::without_thread(store, clock, crore::Options::default()))
        .expect("an engine");
    let server = Server::start_on(engine, Options::default(), listen::Options::default()).await;
    for encoding in BodyEncoding::BOTH {
        let all = server.get(encoding, "/v1/handlers").await.body;
        assert_eq!((&all["handlers"], &all["unreadable"]), (&json!([]), &json!(["a", "b"])));
        let refused = server.get(encoding, "/v1/handlers/a").await;
        assert_eq!(refused.problem(), (409, "refused", None), "{refused:?}");
    }
    let mut admin = AdminClient::new(connect(&server).await);
    let all = admin.list_handlers(v1::Nothing {}).await.expect("a response").into_inner();
    assert_eq!((all.handlers.len(), all.unreadable), (0, vec!["a".to_owned(), "b".to_owned()]));
    let set = json!({"runner": "command", "settings": {"program": "ls"}});
    let shown = server.call(BodyEncoding::Json, Method::PUT, "/v1/handlers/a", Some(&set)).await;
    assert_eq!((shown.status, &shown.body["id"]), (StatusCode::OK, &json!(1)));
    let gone = server.call(BodyEncoding::Json, Method::DELETE, "/v1/handlers/b", None).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    let all = server.get(BodyEncoding::Json, "/v1/handlers").await.body;
    assert_eq!((all["handlers"][0]["kind"].as_str(), all.get("unreadable")), (Some("a"), None));
}

#[tokio::test]
async fn reserved_labels_are_refused() {
    let server = Server::start().await;
    let bad = json!({"kind": "k", "labels": {"crore.phase": "99999999999999"}});
    for encoding in BodyEncoding::BOTH {
        let refused = server.post(encoding, "/v1/jobs", &bad).await;
        assert_eq!(refused.problem(), (400, "label-range", Some("labels")), "{refused:?}");
        let schedule = json!({"timing": "every 1h", "job": bad});
        let at = "/v1/schedules/nightly";
        let refused = server.call(encoding, Method::PUT, at, Some(&schedule)).await;
        assert_eq!(refused.problem(), (400, "label-range", Some("job.labels")));
    }
    let mut jobs = JobsClient::new(connect(&server).await);
    let labels = [("crore.handler".to_owned(), "1".to_owned())].into();
    let job = v1::NewJob { kind: "k".to_owned(), labels, ..v1::NewJob::default() };
    let push = v1::PushRequest { jobs: vec![job], ..v1::PushRequest::default() };
    let pushed = jobs.push(push).await.expect("a response").into_inner().jobs.remove(0);
    let problem = pushed.problem.expect("it is refused");
    assert_eq!((problem.code.as_str(), problem.field.as_str()), ("label-range", "jobs[0].labels"));
    let counts = server.engine.jobs().counts(None).await.expect("counted");
    assert!(counts.is_empty(), "{counts:?}");
}
