//! Statistics of jobs by queue and kind, over HTTP and gRPC.

use std::sync::Arc;

use crore::Engine;
use crore::core::{Clock, JobCounter, JobStats, Name, Span};
use crore::store::Memory;
use crore::store::views::{Note, Views};
use crore_api::{Scope, access};
use crore_doors::{Options, listen};
use crore_testkit::FakeClock;
use crore_wire::api::tokens::NewToken;
use crore_wire::grpc::v1;
use crore_wire::grpc::v1::admin_client::AdminClient;
use http::Method;
use serde_json::{Value, json};

use crate::grpc::connect;
use crate::server::{BodyEncoding, Server};

fn note(queue: &str, kind: &str, done: u64, wait: u64) -> Note {
    let name = |text: &str| Name::new("name", text).expect("a name");
    let mut stats = JobStats::default();
    stats.add(JobCounter::Done, done);
    stats.wait.record(Span::from_millis(wait), done);
    Note::Jobs { series: Some((name(queue), name(kind))), stats: Box::new(stats) }
}

/// A server whose store has statistics of two minutes.
async fn server() -> (Server, FakeClock) {
    let clock = FakeClock::default();
    let store = Arc::new(Memory::new(Arc::new(clock.clone())));
    let first = vec![note("mail", "send", 3, 20), note("sms", "send", 4, 5)];
    store.note(first).await.expect("noted");
    clock.advance(Span::from_secs(60));
    let second = vec![note("mail", "send", 1, 9_000), note("mail", "bounce", 2, 20)];
    store.note(second).await.expect("noted");
    let options = crore::Options::default();
    let engine = Engine::without_thread(store, Arc::new(clock.clone()), options);
    let engine = crore::block_on(engine).expect("an engine");
    let listening = listen::Options::default();
    (Server::start_on(engine, Options::default(), listening).await, clock)
}

/// A field of every row.
fn fields<'a>(body: &'a Value, name: &str) -> Vec<&'a Value> {
    body["rows"].as_array().expect("rows").iter().map(|row| &row[name]).collect()
}

#[tokio::test]
async fn statistics_are_selected_and_grouped() {
    let (server, _) = server().await;
    for encoding in BodyEncoding::BOTH {
        let all = server.get(encoding, "/v1/stats").await.body;
        assert_eq!((&all["step"], &all["by"]), (&json!("minute"), &json!("time")));
        assert_eq!(fields(&all, "done"), [7, 3], "by minute");
        assert_eq!(all["total"]["done"], 10);
        assert_eq!(all["total"].get("run"), None, "nothing has ended");
        let mail = server.get(encoding, "/v1/stats?queue=mail&step=day").await.body;
        assert_eq!(fields(&mail, "done"), [6]);
        let quantile = |name: &str| {
            let text = mail["rows"][0]["wait"][name].as_str().expect("a duration").to_owned();
            text.parse::<Span>().expect("a duration").as_millis()
        };
        assert!(quantile("p50").abs_diff(20) <= 3 && quantile("p99").abs_diff(9_000) <= 1_350);
        let queues = server.get(encoding, "/v1/stats?by=queue&step=hour").await.body;
        assert_eq!(fields(&queues, "queue"), ["mail", "sms"]);
        assert_eq!(
            (fields(&queues, "done"), fields(&queues, "kind").len()),
            (vec![&json!(6), &json!(4)], 2)
        );
        let kinds = server.get(encoding, "/v1/stats?by=kind").await.body;
        assert_eq!(
            (fields(&kinds, "kind"), fields(&kinds, "done")),
            (vec![&json!("bounce"), &json!("send")], vec![&json!(2), &json!(8)])
        );
        let series = server.get(encoding, "/v1/stats?by=series&queue=mail").await.body;
        assert_eq!(fields(&series, "kind"), ["bounce", "send"]);
        let one = server.get(encoding, "/v1/stats?series=done&queue=mail").await.body;
        let points = one["points"].as_array().expect("points").iter().map(|point| &point["n"]);
        assert_eq!(points.collect::<Vec<_>>(), [3, 3]);
    }
}

#[tokio::test]
async fn statistics_are_selected_by_time() {
    let (server, clock) = server().await;
    let moment = |at| crore_wire::units::Moment(at).to_string();
    let now = clock.now();
    let late = format!("/v1/stats?from={}", moment(now));
    let late = server.get(BodyEncoding::Json, &late).await.body;
    assert_eq!((fields(&late, "done"), &late["step"]), (vec![&json!(3)], &json!("minute")));
    let early = format!(
        "/v1/stats?step=minute&to={}",
        moment(now.before(Span::from_secs(60)).after(Span::from_millis(1)))
    );
    let early = server.get(BodyEncoding::Json, &early).await.body;
    assert_eq!(fields(&early, "done"), [7]);
    let old = format!("/v1/stats?from={}", moment(now.before(Span::from_secs(3 * 24 * 3600))));
    assert_eq!(server.get(BodyEncoding::Json, &old).await.body["step"], "hour");
}

#[tokio::test]
async fn a_restricted_token_gets_the_statistics_of_its_queues() {
    let (server, _) = server().await;
    let new = NewToken {
        name: "mail".into(),
        scopes: vec![Scope::Read],
        queues: vec!["mail".into()],
        ..NewToken::default()
    };
    let (_, secret) = access::create(&server.engine, &new).await.expect("made");
    server.doors.api().access().tokens_changed();
    let header = format!("Bearer {}", secret.reveal());
    let get = async |path: &str| {
        let headers = [("authorization", header.as_str())];
        server.send(BodyEncoding::Json, (Method::GET, path), &headers, Vec::new()).await
    };
    assert_eq!(get("/v1/stats?by=queue").await.body["total"]["done"], 6);
    assert_eq!(fields(&get("/v1/stats?by=queue").await.body, "queue"), ["mail"]);
    let done = get("/v1/stats?series=done&step=hour").await.body;
    assert_eq!(done["points"][0]["n"], 6, "{done}");
    assert_eq!(get("/v1/stats?queue=sms").await.status, 403);
}

#[tokio::test]
async fn statistics_over_grpc_are_the_same() {
    let (server, _) = server().await;
    let mut admin = AdminClient::new(connect(&server).await);
    let request = v1::StatsRequest { by: "queue".into(), ..v1::StatsRequest::default() };
    let stats = admin.stats(request).await.expect("a response").into_inner();
    let rows: Vec<_> = stats.rows.iter().map(|row| (row.queue.as_str(), row.done)).collect();
    assert_eq!((rows, stats.step.as_str()), (vec![("mail", 6), ("sms", 4)], "minute"));
    let total = stats.total.expect("a total");
    assert!(total.done == 10 && total.wait.is_some_and(|wait| wait.p50_ms.abs_diff(20) <= 3));
    assert_eq!(total.run, None);
    for (field, request) in [
        ("step", v1::StatsRequest { step: "year".into(), ..v1::StatsRequest::default() }),
        ("by", v1::StatsRequest { by: "worker".into(), ..v1::StatsRequest::default() }),
        ("kind", v1::StatsRequest { kind: "\u{1}".into(), ..v1::StatsRequest::default() }),
        (
            "from_ms",
            v1::StatsRequest { from_ms: Some(2), to_ms: Some(1), ..v1::StatsRequest::default() },
        ),
    ] {
        let refused = admin.stats(request).await.expect_err("refused");
        assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused:?}");
        assert!(format!("{refused:?}").contains(field), "{refused:?}");
    }
}
