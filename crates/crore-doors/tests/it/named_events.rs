//! Named events over HTTP, in both encodings, and over gRPC.

use crore_wire::grpc::v1;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::server::{BodyEncoding, Server};

async fn fetch(server: &Server, encoding: BodyEncoding) -> Value {
    let ask = json!({"queues": ["ship"], "n": 9, "wait": "10s"});
    let answer = server.post(encoding, "/v1/fetch", &ask).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    answer.body["jobs"].clone()
}

#[tokio::test]
async fn a_sent_event_releases_a_job_with_its_payload() {
    for encoding in BodyEncoding::BOTH {
        let server = Server::start().await;
        let wait_for = json!({"event": "paid", "timeout": "1d", "on_timeout": "dead"});
        let job = json!({"kind": "ship", "wait_for": wait_for});
        let pushed = server.post(encoding, "/v1/jobs", &job).await;
        assert_eq!(pushed.status, StatusCode::CREATED, "{pushed:?}");
        let shown = server.get(encoding, "/v1/jobs/1").await;
        assert_eq!((&shown.body["state"], &shown.body["wait_for"]), (&json!("waiting"), &wait_for));
        assert!(shown.body["wait_until"].is_string(), "{shown:?}");
        let why = server.get(encoding, "/v1/jobs/1/explain").await;
        assert_eq!(why.body["reasons"][0]["reason"], "waits-for-event", "{why:?}");
        let detail = why.body["reasons"][0]["detail"].as_str().expect("a text");
        for part in ["the event `paid`", "then it is dead", "crore event send 'paid'"] {
            assert!(detail.contains(part), "{detail}");
        }
        let sent = server.post(encoding, "/v1/events/paid", &json!({"payload": [7]})).await;
        assert_eq!((sent.status, &sent.body["waiting"]), (StatusCode::OK, &json!(1)), "{sent:?}");
        let jobs = fetch(&server, encoding).await;
        assert_eq!(
            (&jobs[0]["event"]["name"], &jobs[0]["event"]["payload"]),
            (&json!("paid"), &json!([7]))
        );
        let shown = server.get(encoding, "/v1/jobs/1").await;
        assert_eq!(shown.body["event"]["payload"], json!([7]), "{shown:?}");
        let list = server.get(encoding, "/v1/jobs").await;
        assert_eq!(list.body["jobs"][0]["event"].get("payload"), None, "{list:?}");
    }
}

#[tokio::test]
async fn a_kept_event_is_shown_listed_and_removed() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        for name in ["kept", "a%2Fb"] {
            let sent = server.post(encoding, &format!("/v1/events/{name}"), &json!({})).await;
            assert_eq!((sent.status, &sent.body["waiting"]), (StatusCode::OK, &json!(0)));
        }
        let event = server.get(encoding, "/v1/events/kept").await;
        assert_eq!((event.status, &event.body["name"]), (StatusCode::OK, &json!("kept")));
        let page = server.get(encoding, "/v1/kept-events?limit=1").await;
        let names = (&page.body["events"][0]["name"], &page.body["next"]);
        assert_eq!(names, (&json!("a/b"), &json!("a/b")), "{page:?}");
        let page = server.get(encoding, "/v1/kept-events?after=a%2Fb").await;
        assert_eq!(
            (&page.body["events"][0]["name"], page.body.get("next")),
            (&json!("kept"), None)
        );
        for _ in 0..2 {
            let removed = server.call(encoding, Method::DELETE, "/v1/events/kept", None).await;
            assert_eq!(removed.status, StatusCode::NO_CONTENT, "{removed:?}");
        }
        let missing = server.get(encoding, "/v1/events/kept").await;
        assert_eq!(missing.problem(), (404, "not-found", None), "{missing:?}");
        let bad = server.get(encoding, "/v1/kept-events?limit=0").await;
        assert_eq!(bad.problem(), (400, "count-range", Some("limit")), "{bad:?}");
    }
}

#[tokio::test]
async fn an_event_that_is_too_large_is_refused_and_not_stored() {
    let server = Server::start().await;
    let encoding = BodyEncoding::BOTH[0];
    let large = json!({"payload": "x".repeat(1 << 20)});
    let refused = server.post(encoding, "/v1/events/big", &large).await;
    assert_eq!(refused.problem(), (413, "payload-too-large", Some("payload")), "{refused:?}");
    let keep = server.post(encoding, "/v1/events/big", &json!({"keep": "999d"})).await;
    assert_eq!(keep.problem(), (400, "time-range", Some("keep")), "{keep:?}");
    let missing = server.get(encoding, "/v1/events/big").await;
    assert_eq!(missing.problem().0, 404, "{missing:?}");
    let whole = json!({"payload": "x".repeat((1 << 20) - 2)});
    let sent = server.post(encoding, "/v1/events/big", &whole).await;
    assert_eq!(sent.status, StatusCode::OK, "1 MiB with its quotes");
}

#[tokio::test]
async fn an_event_over_grpc_releases_a_job() {
    let server = Server::start().await;
    let channel = crate::grpc::connect(&server).await;
    let mut admin = v1::admin_client::AdminClient::new(channel.clone());
    let mut jobs = v1::jobs_client::JobsClient::new(channel.clone());
    let mut work = v1::work_client::WorkClient::new(channel);
    let wait_for = Some(v1::WaitFor { event: "paid".into(), ..v1::WaitFor::default() });
    let job = v1::NewJob { kind: "ship".into(), wait_for, ..v1::NewJob::default() };
    let request = v1::PushRequest { jobs: vec![job], ..v1::PushRequest::default() };
    jobs.push(request).await.expect("pushed");
    let payload = Some(b"[7]".to_vec().into());
    let event = v1::NewEvent { name: "paid".into(), payload, ..v1::NewEvent::default() };
    let sent = admin.send_event(event.clone()).await.expect("sent").into_inner();
    assert_eq!(sent.waiting, 1);
    let ask = v1::FetchRequest {
        queues: vec!["ship".into()],
        wait_ms: 10_000,
        ..v1::FetchRequest::default()
    };
    let fetched = work.fetch(ask).await.expect("fetched").into_inner();
    let received = fetched.jobs[0].event.clone().expect("an event");
    assert_eq!((received.name.as_str(), received.payload), ("paid", event.payload.clone()));
    let named = || v1::Named { name: "paid".into() };
    let kept = admin.get_event(named()).await.expect("kept").into_inner();
    assert_eq!(kept.payload, event.payload);
    let list = admin.list_events(v1::ListEventsRequest::default()).await.expect("listed");
    assert_eq!(list.into_inner().events[0].payload, None);
    admin.remove_event(named()).await.expect("removed");
    let missing = admin.get_event(named()).await.expect_err("gone");
    assert_eq!(missing.code(), tonic::Code::NotFound);
    let bad = v1::NewEvent { name: String::new(), ..v1::NewEvent::default() };
    assert_eq!(
        admin.send_event(bad).await.expect_err("refused").code(),
        tonic::Code::InvalidArgument
    );
}
