//! Reports: which count, and which are ignored.

use std::sync::atomic::{AtomicU64, Ordering};

use crore_core::{Name, Span, State};
use crore_wire::grpc::lakh::lakh_client::LakhClient;
use crore_wire::grpc::lakh::{Job, JobStatus};
use crore_wire::grpc::v1;
use tokio::time::timeout;

use super::{A_MOMENT, FakeClockServer, Worker, about, becomes, job, lakh, send, stored};
use crate::grpc::connect;
use crate::server::{Server, eventually};

#[tokio::test]
async fn the_first_report_wins() {
    let server = Server::start().await;
    let mut worker = Worker::join(&server, "mail").await;
    send(&server, vec![job("one", "mail")]).await;
    worker.job().await;
    worker.succeeded("one").await;
    worker.failed("one").await;
    becomes(&server, "one", |job| job.live.state == State::Done).await;
    worker.expect_no_job().await;
    let done = stored(&server.engine, "mail", "one").await.expect("it is kept");
    assert_eq!(done.live.state, State::Done);
}

#[tokio::test]
async fn a_success_after_a_failure_is_ignored_until_the_job_is_handed_over_again() {
    let slow = FakeClockServer::start().await;
    let mut worker = Worker::join(&slow.server, "mail;mark").await;
    send(&slow.server, vec![job("one", "mail")]).await;
    worker.job().await;
    worker.failed("one").await;
    becomes(&slow.server, "one", |job| job.live.state == State::Scheduled).await;
    let other = Worker::join(&slow.server, "mail;mark").await;
    for from in [&worker, &other] {
        report_changes_nothing(&slow.server, from, JobStatus::Succeeded).await;
    }
    slow.advance(Span::from_secs(3600)).await;
    becomes(&slow.server, "one", |job| job.live.state == State::Running).await;
    other.succeeded("one").await;
    becomes(&slow.server, "one", |job| job.live.state == State::Done).await;
}

#[tokio::test]
async fn of_two_workers_that_have_a_job_the_first_to_report_decides() {
    let slow = FakeClockServer::start().await;
    let mut first = Worker::join(&slow.server, "mail;mark").await;
    send(&slow.server, vec![job("one", "mail")]).await;
    first.job().await;
    let mut second = Worker::join(&slow.server, "mail;mark").await;
    eventually(|| async { slow.server.engine.deliveries().waiting() == 2 }).await;
    slow.advance(Span::from_secs(30)).await;
    tokio::select! {
        job = first.job() => assert_eq!(job.id, "one"),
        job = second.job() => assert_eq!(job.id, "one"),
    }
    first.failed("one").await;
    becomes(&slow.server, "one", |job| job.live.state == State::Scheduled).await;
    report_changes_nothing(&slow.server, &second, JobStatus::Succeeded).await;
}

#[tokio::test]
async fn after_an_expired_reservation_the_first_report_decides() {
    for (first, then) in [(JobStatus::Succeeded, State::Done), (JobStatus::Failed, State::Ready)] {
        let slow = FakeClockServer::start().await;
        let mut worker = Worker::join(&slow.server, "mail;mark").await;
        send(&slow.server, vec![job("one", "mail")]).await;
        worker.job().await;
        // Nobody takes the job again.
        let queue = Name::new("queue", "mail").expect("a name");
        slow.server.engine.queues().pause(queue).await.expect("paused");
        slow.advance(Span::from_secs(30)).await;
        becomes(&slow.server, "one", |job| job.live.state == State::Ready).await;
        let before = stored(&slow.server.engine, "mail", "one").await.expect("it exists");
        worker.report("one", first as i32).await;
        becomes(&slow.server, "one", |job| job.live.revision > before.live.revision).await;
        for other in [JobStatus::Succeeded, JobStatus::Failed] {
            report_changes_nothing(&slow.server, &worker, other).await;
        }
        becomes(&slow.server, "one", |job| job.live.state == then).await;
    }
}

/// Asserts the state of the job `one` after a report of it by a worker. The reports of a stream are applied in order,
/// so this one is applied when that about the job `mark` is.
async fn report_changes_nothing(server: &Server, worker: &Worker, status: JobStatus) {
    static MARKS: AtomicU64 = AtomicU64::new(0);
    let before = stored(&server.engine, "mail", "one").await.expect("it is kept");
    let mark = MARKS.fetch_add(1, Ordering::Relaxed).to_string();
    let jobs = futures_util::stream::iter(vec![job(&mark, "mark")]);
    lakh(server).await.work(about("mark", jobs)).await.expect("taken");
    let in_state = async |state| {
        eventually(|| async {
            stored(&server.engine, "mark", &mark).await.is_some_and(|job| job.live.state == state)
        })
        .await;
    };
    in_state(State::Running).await;
    worker.report("one", status as i32).await;
    worker.report_named("mark", &mark, JobStatus::Succeeded as i32).await;
    in_state(State::Done).await;
    let after = stored(&server.engine, "mail", "one").await.expect("it is kept");
    assert_eq!(before, after);
}

#[tokio::test]
async fn a_late_success_ends_a_job_that_another_worker_has() {
    let slow = FakeClockServer::start().await;
    let mut first = Worker::join(&slow.server, "mail").await;
    send(&slow.server, vec![job("one", "mail")]).await;
    first.job().await;
    let mut second = Worker::join(&slow.server, "mail").await;
    eventually(|| async { slow.server.engine.deliveries().waiting() == 2 }).await;
    slow.advance(Span::from_secs(30)).await;
    tokio::select! {
        job = first.job() => assert_eq!(job.id, "one"),
        job = second.job() => assert_eq!(job.id, "one"),
    }
    first.succeeded("one").await;
    becomes(&slow.server, "one", |job| job.live.state == State::Done).await;
    second.failed("one").await;
    second.expect_no_job().await;
    let done = stored(&slow.server.engine, "mail", "one").await.expect("it is kept");
    assert_eq!((done.live.state, done.live.attempt), (State::Done, 2));
}

#[tokio::test]
async fn a_worker_that_rejoins_may_report_its_jobs() {
    let server = Server::start().await;
    send(&server, vec![job("one", "mail")]).await;
    let mut worker = Worker::join(&server, "mail").await;
    worker.job().await;
    drop(worker);
    becomes(&server, "one", |job| job.live.state == State::Ready).await;
    let worker = Worker::join(&server, "sms;mail").await;
    worker.succeeded("one").await;
    becomes(&server, "one", |job| job.live.state == State::Done).await;
}

#[tokio::test]
async fn reports_sent_before_a_disconnect_count() {
    let server = Server::start().await;
    let ids: Vec<_> = (0..10).map(|n| n.to_string()).collect();
    send(&server, ids.iter().map(|id| job(id, "mail")).collect()).await;
    let mut worker = Worker::join(&server, "mail").await;
    for _ in &ids {
        worker.job().await;
    }
    for id in &ids {
        worker.succeeded(id).await;
    }
    let Worker { says, hears } = worker;
    drop(says);
    // Reports that the connection has accepted are on their way.
    tokio::task::yield_now().await;
    for id in &ids[..5] {
        becomes(&server, id, |job| job.live.state == State::Done).await;
    }
    drop(hears);
}

#[tokio::test]
async fn reports_of_a_worker_that_does_not_read_count_and_block_no_other() {
    let server = Server::start().await;
    let large = |id: &str| Job { args: vec!["x".repeat(900_000)], ..job(id, "mail") };
    let mut lazy = Worker::join(&server, "mail").await;
    send(&server, vec![job("first", "mail")]).await;
    lazy.job().await;
    // More than its connection buffers, so that it does not ask for more.
    for n in 0..30 {
        send(&server, vec![large(&n.to_string())]).await;
    }
    lazy.succeeded("first").await;
    becomes(&server, "first", |job| job.live.state == State::Done).await;
    let mut other = Worker::join(&server, "mail").await;
    for _ in 0..15 {
        other.job().await;
    }
    while timeout(A_MOMENT, other.hears.message()).await.is_ok() {}
    for n in 30..35 {
        send(&server, vec![job(&n.to_string(), "mail")]).await;
    }
    // At most one of them is fetched for the worker that does not read; the others come.
    for _ in 0..4 {
        other.job().await;
    }
}

#[tokio::test]
async fn invalid_reports_are_ignored_and_the_stream_stays_open() {
    let server = Server::start().await;
    let mut worker = Worker::join(&server, "mail").await;
    send(&server, vec![job("one", "mail")]).await;
    worker.job().await;
    worker.report("one", 2).await;
    worker.report("one", i32::MIN).await;
    worker.report_named("sms", "one", 1).await;
    worker.report_named("", "one", 1).await;
    worker.report_named("mail ", "one", 1).await;
    worker.succeeded("another").await;
    worker.succeeded("").await;
    worker.succeeded(&"x".repeat(100_000)).await;
    worker.succeeded("o\0ne").await;
    worker.expect_no_job().await;
    let running = stored(&server.engine, "mail", "one").await.expect("it exists");
    assert_eq!(running.live.state, State::Running);
    worker.succeeded("one").await;
    becomes(&server, "one", |job| job.live.state == State::Done).await;
}

#[tokio::test]
async fn a_report_of_an_undelivered_job_is_ignored() {
    let server = Server::start().await;
    let worker = Worker::join(&server, "").await;
    send(&server, vec![job("one", "mail")]).await;
    worker.report_named("mail", "one", 1).await;
    let worker = Worker::join(&server, "nobody;mail").await;
    worker.report_named("nobody", "one", 1).await;
    becomes(&server, "one", |job| job.live.state == State::Running).await;
}

#[tokio::test]
async fn a_worker_that_reports_nothing_more_is_still_given_jobs() {
    let server = Server::start().await;
    let mut worker = Worker::join(&server, "mail").await;
    worker.says = tokio::sync::mpsc::channel(1).0;
    worker.expect_no_job().await;
    send(&server, vec![job("one", "mail")]).await;
    assert_eq!(worker.job().await.id, "one");
}

#[tokio::test]
async fn jobs_of_other_doors_are_given_to_a_worker_and_reported_by_it() {
    let server = Server::start().await;
    let native = |payload: &'static str| v1::NewJob {
        kind: "mail".to_owned(),
        payload: Some(payload.into()),
        ..v1::NewJob::default()
    };
    let jobs = vec![native(r#"["a", 1, {"b": null}]"#), native(r#"{"to": "ada"}"#)];
    let ask = v1::PushRequest { jobs, ..v1::PushRequest::default() };
    let mut client = v1::jobs_client::JobsClient::new(connect(&server).await);
    let pushed = client.push(ask).await.expect("pushed").into_inner();
    let mut worker = Worker::join(&server, "mail").await;
    let (list, other) = (worker.job().await, worker.job().await);
    assert_eq!(list.args, ["a", "1", r#"{"b":null}"#]);
    assert_eq!((list.name.as_str(), other.args), ("mail", vec![r#"{"to": "ada"}"#.to_owned()]));
    assert_eq!(list.id, format!("crore:{}", pushed.jobs[0].id));
    worker.succeeded(&list.id).await;
    let id = crore_core::JobId(pushed.jobs[0].id);
    eventually(|| async {
        let job = server.engine.get(id).await.expect("seen").expect("it exists");
        job.live.state == State::Done
    })
    .await;
}

#[tokio::test]
async fn two_connections_are_not_needed_to_work_and_to_join() {
    let server = Server::start().await;
    let channel = connect(&server).await;
    let mut client = LakhClient::new(channel);
    let (_says, to_say) = tokio::sync::mpsc::channel(1);
    let joined = client.join(about("mail", super::ReceiverStream(to_say))).await.expect("joined");
    let jobs = futures_util::stream::iter(vec![job("one", "mail")]);
    client.work(about("mail", jobs)).await.expect("taken");
    let came = joined.into_inner().message().await.expect("good").expect("a job");
    assert_eq!(came.id, "one");
    assert!(
        lakh(&server)
            .await
            .get_dead_jobs(())
            .await
            .expect("a response")
            .into_inner()
            .jobs
            .is_empty()
    );
}
