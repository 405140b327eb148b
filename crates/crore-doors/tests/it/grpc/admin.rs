//! `crore.v1.Admin`.

use crore_wire::grpc::v1;
use crore_wire::grpc::v1::admin_client::AdminClient;
use serde_json::json;
use tonic::Code;
use tonic::transport::Channel;

use super::{Worker, connect, hello, job, problem, push};
use crate::server::{BodyEncoding, Server};

async fn admin(server: &Server) -> AdminClient<Channel> {
    AdminClient::new(connect(server).await)
}

fn queue(queue: &str) -> v1::QueueRef {
    v1::QueueRef { queue: queue.to_owned() }
}

fn named(name: &str) -> v1::Named {
    v1::Named { name: name.to_owned() }
}

#[tokio::test]
async fn server_information_and_statistics_equal_those_of_http() {
    let server = Server::start().await;
    let mut admin = admin(&server).await;
    let info = admin.info(v1::InfoRequest {}).await.expect("a response").into_inner();
    let other = server.get(BodyEncoding::Json, "/v1/info").await.body;
    assert_eq!((json!(info.version), json!(info.durability)), {
        (other["version"].clone(), other["durability"].clone())
    });
    assert!((1..=server.engine.status().now().as_millis()).contains(&info.now_ms), "{info:?}");
    push(&server, "mail", 3).await;
    push(&server, "other", 1).await;
    let counts = admin.counts(queue("mail")).await.expect("a response").into_inner().counts;
    let ready = v1::State::Ready.into();
    let mail = v1::Count { queue: "mail".into(), kind: "mail".into(), state: ready, n: 3 };
    assert_eq!(counts, [mail]);
    assert_eq!(admin.counts(queue("")).await.expect("a response").into_inner().counts.len(), 2);
}

#[tokio::test]
async fn a_paused_queue_delivers_nothing_until_resumed() {
    let server = Server::start().await;
    let mut admin = admin(&server).await;
    admin.pause_queue(queue("mail")).await.expect("paused");
    let paused = server.get(BodyEncoding::Json, "/v1/queues/mail").await.body;
    assert_eq!(paused["paused"], true);
    let ids = push(&server, "mail", 1).await;
    let mut worker = Worker::start(&server, hello("mail", 1, "one")).await;
    admin.resume_queue(queue("mail")).await.expect("resumed");
    assert_eq!(worker.jobs().await.remove(0).id, ids[0]);
    let status = admin.pause_queue(queue("")).await.expect_err("an id is required");
    assert_eq!((status.code(), problem(&status).field.as_str()), (Code::InvalidArgument, "queue"));
}

#[tokio::test]
async fn schedules_and_limits_are_set_seen_and_removed() {
    let server = Server::start().await;
    let mut admin = admin(&server).await;
    let schedule = v1::Schedule {
        name: "nightly".into(),
        timing: "every 15m".into(),
        missed: "once".into(),
        job: Some(job("mail")),
        ..v1::Schedule::default()
    };
    admin.set_schedule(schedule.clone()).await.expect("set");
    let all =
        admin.list_schedules(v1::Nothing {}).await.expect("a response").into_inner().schedules;
    let seen = &all[0];
    assert_eq!((&seen.name, &seen.timing, &seen.missed), {
        (&schedule.name, &schedule.timing, &schedule.missed)
    });
    assert!(seen.next_at_ms.is_some_and(|next| next > server.engine.status().now().as_millis()));
    assert_eq!(seen.job.as_ref().map(|job| job.kind.as_str()), Some("mail"));
    // A listed schedule can be set again.
    admin.set_schedule(seen.clone()).await.expect("set again");
    for (field, bad) in [
        ("name", v1::Schedule { name: String::new(), ..schedule.clone() }),
        ("timing", v1::Schedule { timing: "now and then".into(), ..schedule.clone() }),
        ("missed", v1::Schedule { missed: "sometimes".into(), ..schedule.clone() }),
        ("job", v1::Schedule { job: None, ..schedule.clone() }),
        ("job.kind", v1::Schedule { job: Some(v1::NewJob::default()), ..schedule.clone() }),
    ] {
        let status = admin.set_schedule(bad).await.expect_err("refused");
        assert_eq!(status.code(), Code::InvalidArgument, "{field}");
        assert_eq!(problem(&status).field, field);
    }
    admin.delete_schedule(named("nightly")).await.expect("removed");
    let limit = v1::Limit { name: "slow".into(), limit: "rate 100/1m".into() };
    admin.set_limit(limit.clone()).await.expect("set");
    assert_eq!(
        admin.list_limits(v1::Nothing {}).await.expect("a response").into_inner().limits,
        [limit]
    );
    let bad = v1::Limit { name: "slow".into(), limit: "rate of climb".into() };
    let status = admin.set_limit(bad).await.expect_err("refused");
    assert_eq!((status.code(), problem(&status).field.as_str()), (Code::InvalidArgument, "limit"));
    admin.delete_limit(named("slow")).await.expect("removed");
    let left =
        admin.list_schedules(v1::Nothing {}).await.expect("a response").into_inner().schedules;
    let limits = admin.list_limits(v1::Nothing {}).await.expect("a response").into_inner().limits;
    assert!(left.is_empty() && limits.is_empty());
}

#[tokio::test]
async fn workers_are_listed_with_their_descriptions() {
    let server = Server::start().await;
    let about = json!({ "about": { "version": "1.2" }, "within": "1m" });
    server.call(BodyEncoding::Json, http::Method::PUT, "/v1/workers/ada", Some(&about)).await;
    let workers = admin(&server).await.list_workers(v1::Nothing {}).await;
    let workers = workers.expect("a response").into_inner().workers;
    assert_eq!(workers.len(), 1);
    assert_eq!(
        (workers[0].name.as_str(), workers[0].about.as_str()),
        ("ada", r#"{"version":"1.2"}"#)
    );
    assert!(
        workers[0].until_ms.is_some_and(|until| until > server.engine.status().now().as_millis())
    );
}

#[tokio::test]
async fn a_streaming_worker_is_listed_while_connected() {
    let server = Server::start().await;
    let named = v1::Hello {
        name: "ada".to_owned(),
        version: "1.2".to_owned(),
        kinds: vec!["mail".to_owned()],
        ..hello("mail", 3, "one")
    };
    let mut worker = Worker::start(&server, named).await;
    push(&server, "mail", 1).await;
    worker.jobs().await;
    let list = async || {
        let workers = admin(&server).await.list_workers(v1::Nothing {}).await;
        workers.expect("a response").into_inner().workers
    };
    let listed = list().await;
    assert_eq!((listed.len(), listed[0].name.as_str(), listed[0].until_ms), (1, "ada", None));
    let stream = listed[0].stream.clone().expect("a stream");
    assert_eq!((stream.incarnation.as_str(), stream.version.as_str()), ("one", "1.2"));
    assert_eq!((stream.queues, stream.kinds), (vec!["mail".to_owned()], vec!["mail".to_owned()]));
    assert_eq!((stream.slots, stream.running), (3, 1));
    assert!(stream.since_ms > 0 && stream.heard_ms >= stream.since_ms);
    let says = v1::WorkerSays { slots: Some(5), ..v1::WorkerSays::default() };
    worker.says.send(says).await.expect("sent");
    while list().await[0].stream.as_ref().is_some_and(|stream| stream.slots != 5) {}
    drop(worker);
    // It stays listed for the grace period, and is then removed.
    let mut seen_to_leave = false;
    loop {
        let listed = list().await;
        let Some(worker) = listed.first() else { break };
        seen_to_leave |= worker.until_ms.is_some();
    }
    assert!(seen_to_leave);
}

#[tokio::test]
async fn a_bulk_action_reports_progress_and_keeps_to_its_filter() {
    let server = Server::start().await;
    for n in [1000, 1000, 500] {
        push(&server, "mail", n).await;
    }
    push(&server, "other", 3).await;
    let mut admin = admin(&server).await;
    let ask = v1::ActRequest {
        act: v1::act_request::Act::Cancel.into(),
        queue: "mail".into(),
        dry_run: true,
        ..v1::ActRequest::default()
    };
    for (dry_run, cancelled) in [(true, 0), (false, 2500)] {
        let ask = v1::ActRequest { dry_run, ..ask.clone() };
        let mut steps = admin.act_on_all(ask).await.expect("begun").into_inner();
        let mut last = v1::ActProgress::default();
        while let Some(step) = steps.message().await.expect("a response") {
            assert!(step.seen >= last.seen && step.done >= last.done, "{step:?} after {last:?}");
            last = step;
        }
        assert_eq!((last.matched, last.done), (2500, 2500));
        let counts = admin.counts(queue("mail")).await.expect("a response").into_inner().counts;
        let n: u64 =
            counts.iter().filter(|one| one.state() == v1::State::Cancelled).map(|one| one.n).sum();
        assert_eq!(n, cancelled);
    }
    for (field, bad) in [
        ("act", v1::ActRequest { act: 0, ..ask.clone() }),
        ("act", v1::ActRequest { act: 99, ..ask.clone() }),
        ("states[1]", v1::ActRequest { states: vec![1, 77], ..ask.clone() }),
        ("states[0]", v1::ActRequest { states: vec![0], ..ask.clone() }),
        ("queue", v1::ActRequest { queue: "a\u{0}b".into(), ..ask.clone() }),
        ("", v1::ActRequest { queue: String::new(), ..ask.clone() }),
        ("all", v1::ActRequest { all: true, ..ask.clone() }),
    ] {
        let status = admin.act_on_all(bad).await.expect_err("refused");
        assert_eq!(status.code(), Code::InvalidArgument, "{field}");
        assert_eq!(problem(&status).field, field, "{status:?}");
    }
}

#[tokio::test]
async fn listeners_receive_events_of_matching_jobs() {
    let server = Server::start().await;
    let mut admin = admin(&server).await;
    let ask = v1::ListenRequest { queue: "mail".into(), kind: String::new() };
    let mut events = admin.listen(ask).await.expect("a stream").into_inner();
    push(&server, "other", 1).await;
    let id = push(&server, "mail", 1).await[0];
    let mut worker = Worker::start(&server, hello("mail", 1, "one")).await;
    let jobs = worker.jobs().await;
    worker.done(&jobs).await;
    let mut received = Vec::new();
    while received.len() < 3 {
        let event = events.message().await.expect("a response").expect("the stream continues");
        assert_eq!((event.id, event.queue.as_str(), event.missed), (id, "mail", 0));
        received.push((event.what.clone(), event.state()));
    }
    let none = v1::State::Unspecified;
    let done = ("became".to_owned(), v1::State::Done);
    assert_eq!(received, [("pushed".to_owned(), none), ("started".to_owned(), none), done]);
    server.doors.close();
    assert!(
        events.message().await.expect("a response").is_none(),
        "a stopping server sends nothing more"
    );
}

#[tokio::test]
async fn settings_of_a_queue_are_changed_and_seen() {
    let server = Server::start().await;
    let mut admin = admin(&server).await;
    push(&server, "mail", 2).await;
    let fair =
        v1::QueueShare { by: "payload.tenant".into(), weights: [("acme".to_owned(), 3)].into() };
    let change = v1::ChangeQueueRequest {
        queue: "mail".into(),
        keep_done_ms: Some(60_000),
        max_done: Some(7),
        any_dead: true,
        fair: Some(fair.clone()),
        ..v1::ChangeQueueRequest::default()
    };
    let changed = admin.change_queue(change).await.expect("changed").into_inner();
    let seen = admin.get_queue(queue("mail")).await.expect("a queue").into_inner();
    assert_eq!(changed, seen);
    assert_eq!((seen.name.as_str(), seen.paused, seen.counts["ready"]), ("mail", false, 2));
    assert_eq!((seen.keep_done_ms, seen.max_done, seen.max_dead), (60_000, Some(7), None));
    assert_eq!(seen.fair, Some(fair.clone()));
    let shown = server.get(BodyEncoding::Json, "/v1/queues/mail").await.body;
    assert_eq!(shown["fair"], json!({ "by": "payload.tenant", "weights": { "acme": 3 } }));
    let none =
        || v1::ChangeQueueRequest { queue: "mail".into(), ..v1::ChangeQueueRequest::default() };
    admin.pause_queue(queue("mail")).await.expect("paused");
    let changed = admin.change_queue(v1::ChangeQueueRequest { not_fair: true, ..none() }).await;
    let changed = changed.expect("changed").into_inner();
    assert_eq!((changed.fair, changed.paused, changed.max_done), (None, true, Some(7)));
    let bad = v1::QueueShare { by: "tenant".into(), ..v1::QueueShare::default() };
    let heavy = v1::QueueShare { weights: [("a".to_owned(), 0)].into(), ..fair.clone() };
    for (field, bad) in [
        ("fair.by", v1::ChangeQueueRequest { fair: Some(bad), ..none() }),
        ("fair.weights.a", v1::ChangeQueueRequest { fair: Some(heavy), ..none() }),
        ("fair", v1::ChangeQueueRequest { fair: Some(fair), not_fair: true, ..none() }),
        ("max_done", v1::ChangeQueueRequest { max_done: Some(1), any_done: true, ..none() }),
        ("max_dead", v1::ChangeQueueRequest { max_dead: Some(u64::MAX), ..none() }),
        ("queue", v1::ChangeQueueRequest::default()),
    ] {
        let refused = admin.change_queue(bad).await.expect_err(field);
        assert_eq!(
            (refused.code(), problem(&refused).field.as_str()),
            (Code::InvalidArgument, field)
        );
    }
    let kept = admin.get_queue(queue("mail")).await.expect("a queue").into_inner();
    assert_eq!((kept.fair, kept.max_done), (None, Some(7)), "a refused change changes nothing");
}

#[tokio::test]
async fn indexed_fields_of_a_queue_are_set_shown_and_removed() {
    let server = Server::start().await;
    let mut admin = admin(&server).await;
    let none =
        || v1::ChangeQueueRequest { queue: "mail".into(), ..v1::ChangeQueueRequest::default() };
    let fields = vec!["payload.to".to_owned(), "payload.\"a\"[0]".to_owned()];
    let change = v1::ChangeQueueRequest { index: fields, ..none() };
    let changed = admin.change_queue(change.clone()).await.expect("changed").into_inner();
    let names: Vec<&str> = changed.index.iter().map(|one| one.field.as_str()).collect();
    assert_eq!(names, ["payload.to", "payload.a[0]"]);
    let shown = server.get(BodyEncoding::Json, "/v1/queues/mail").await.body;
    assert_eq!(shown["index"][0]["field"], "payload.to");
    for (field, bad) in [
        ("index", v1::ChangeQueueRequest { index: vec!["label.a".to_owned()], ..none() }),
        ("index", v1::ChangeQueueRequest { index: vec!["payload.a".to_owned(); 2], ..none() }),
        ("index", v1::ChangeQueueRequest { index: vec!["payload.a".to_owned(); 5], ..none() }),
        ("index", v1::ChangeQueueRequest { not_indexed: true, ..change }),
    ] {
        let refused = admin.change_queue(bad).await.expect_err(field);
        assert_eq!(
            (refused.code(), problem(&refused).field.as_str()),
            (Code::InvalidArgument, field)
        );
    }
    let kept = admin.get_queue(queue("mail")).await.expect("a queue").into_inner();
    assert_eq!(kept.index.len(), 2, "a refused change changes nothing");
    let removed = admin.change_queue(v1::ChangeQueueRequest { not_indexed: true, ..none() }).await;
    assert_eq!(removed.expect("changed").into_inner().index, []);
}

#[tokio::test]
async fn an_operation_runs_in_the_background() {
    let server = Server::start().await;
    push(&server, "mail", 3).await;
    let mut admin = admin(&server).await;
    let ask = v1::ActRequest {
        act: v1::act_request::Act::Cancel.into(),
        q: "kind:mail".into(),
        ..v1::ActRequest::default()
    };
    let started = admin.start_operation(ask.clone()).await.expect("started").into_inner();
    let by_id = v1::OperationRef { id: started.id.clone(), wait_ms: 60_000 };
    let ended = admin.get_operation(by_id.clone()).await.expect("an operation").into_inner();
    assert_eq!((ended.state.as_str(), ended.matched, ended.changed), ("done", 3, 3));
    assert!(ended.request.contains("kind:mail") && ended.ended_at_ms.is_some(), "{ended:?}");
    let cancelled = admin.cancel_operation(by_id).await.expect("an answer").into_inner();
    assert_eq!(cancelled, ended, "it has ended");
    let listed = admin.list_operations(v1::Nothing {}).await.expect("a list").into_inner();
    assert_eq!(listed.operations, [ended]);
    let bad = v1::ActRequest { queue: "a\u{0}b".into(), ..ask };
    let status = admin.start_operation(bad).await.expect_err("refused");
    assert_eq!(problem(&status).field, "queue");
    for id in ["7", ""] {
        let missing = v1::OperationRef { id: id.to_owned(), wait_ms: 0 };
        let status = admin.get_operation(missing).await.expect_err("refused");
        assert!([Code::NotFound, Code::InvalidArgument].contains(&status.code()), "{status:?}");
    }
}
