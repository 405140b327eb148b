//! Bugs of the original Lakh that crore does not have.

use crore_core::{Span, State};
use crore_wire::grpc::lakh::Job;
use crore_wire::grpc::lakh::job::ExecutionTime;
use prost_types::Timestamp;
use tokio::time::{Instant, timeout};

use super::{FakeClockServer, LONG, Worker, about, becomes, job, lakh, seconds, send, stored};
use crate::server::Server;

#[tokio::test]
async fn a_due_time_in_the_past_is_now() {
    let server = Server::start().await;
    let at = |seconds, nanos| ExecutionTime::Scheduled(Timestamp { seconds, nanos });
    let times = [
        at(1, 0),
        at(0, 0),
        at(-62_135_596_800, 0),
        at(i64::MIN, i32::MIN),
        ExecutionTime::Delayed(seconds(-5)),
        ExecutionTime::Delayed(prost_types::Duration { seconds: i64::MIN, nanos: i32::MIN }),
    ];
    let jobs = times
        .iter()
        .enumerate()
        .map(|(n, at)| Job { execution_time: Some(*at), ..job(&n.to_string(), "mail") });
    send(&server, jobs.collect()).await;
    let mut worker = Worker::join(&server, "mail").await;
    for n in 0..times.len() {
        assert_eq!(worker.job().await.id, n.to_string());
    }
}

#[tokio::test]
async fn a_scheduled_job_whose_reservation_expires_is_not_lost() {
    let slow = FakeClockServer::start().await;
    let at = slow.server.engine.status().now().as_millis() / 1000 + 5;
    let at = ExecutionTime::Scheduled(Timestamp { seconds: at, nanos: 0 });
    send(&slow.server, vec![Job { execution_time: Some(at), ..job("one", "mail") }]).await;
    let mut worker = Worker::join(&slow.server, "mail").await;
    slow.advance(Span::from_secs(5)).await;
    assert_eq!(worker.job().await.id, "one");
    slow.advance(Span::from_secs(30)).await;
    assert_eq!(worker.job().await.id, "one");
}

#[tokio::test]
async fn ids_are_unique_within_a_name_only() {
    let server = Server::start().await;
    let jobs = vec![
        job("one", "mail"),
        Job { args: vec!["other".to_owned()], ..job("one", "mail") },
        job("one", "sms"),
    ];
    let jobs = about("mail;sms", futures_util::stream::iter(jobs));
    lakh(&server).await.work(jobs).await.expect("taken");
    send(&server, vec![job("one", "mail")]).await;
    let mut worker = Worker::join(&server, "mail;sms").await;
    let (first, second) = (worker.job().await, worker.job().await);
    assert_eq!((first, second), (job("one", "mail"), job("one", "sms")));
    worker.expect_no_job().await;
    worker.succeeded("one").await;
    becomes(&server, "one", |job| job.live.state == State::Done).await;
    let other = stored(&server.engine, "sms", "one").await.expect("it exists");
    assert_eq!(other.live.state, State::Running);
}

#[tokio::test]
async fn jobs_without_an_id_are_separate_jobs() {
    let server = Server::start().await;
    send(&server, vec![job("", "mail"), job("", "mail")]).await;
    let mut worker = Worker::join(&server, "mail").await;
    let (first, second) = (worker.job().await, worker.job().await);
    assert!(!first.id.is_empty() && first.id != second.id);
    worker.succeeded(&second.id).await;
    becomes(&server, &second.id, |job| job.live.state == State::Done).await;
    becomes(&server, &first.id, |job| job.live.state == State::Running).await;
}

#[tokio::test]
async fn jobs_of_a_disconnected_worker_are_redelivered_at_once() {
    let server = Server::start().await;
    let mut first = Worker::join(&server, "mail").await;
    send(&server, (0..5).map(|n| job(&n.to_string(), "mail")).collect()).await;
    for _ in 0..5 {
        first.job().await;
    }
    let mut second = Worker::join(&server, "mail").await;
    let gone = Instant::now();
    drop(first);
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(second.job().await.id);
    }
    assert!(gone.elapsed().as_secs() < 2, "{:?}", gone.elapsed());
    ids.sort();
    assert_eq!(ids, ["0", "1", "2", "3", "4"]);
}

#[tokio::test]
async fn jobs_without_a_reservation_that_a_worker_did_not_read_are_redelivered() {
    const JOBS: usize = 100;
    let server = Server::start().await;
    let large = |n: usize| Job {
        args: vec!["x".repeat(100_000)],
        reservation_time: None,
        ..job(&n.to_string(), "mail")
    };
    send(&server, (0..JOBS).map(large).collect()).await;
    // The first worker holds the jobs that its connection buffers, and reads none of them.
    let lazy = Worker::join(&server, "mail").await;
    becomes(&server, "0", |job| job.live.state == State::Done).await;
    let mut second = Worker::join(&server, "mail").await;
    let mut received = Vec::new();
    let last = timeout(LONG, async {
        while received.len() < JOBS - 60 {
            received.push(second.job().await.id);
        }
    });
    last.await.expect("unread jobs block nothing");
    drop(lazy);
    let rest = async {
        loop {
            let mut open = 0;
            for n in 0..JOBS {
                let job = stored(&server.engine, "mail", &n.to_string()).await.expect("it exists");
                open += usize::from(job.live.state != State::Done);
            }
            if open == 0 {
                break;
            }
            received.push(second.job().await.id);
        }
    };
    timeout(LONG, rest).await.expect("all are handed over");
    let before = received.len();
    received.sort();
    received.dedup();
    assert_eq!(received.len(), before, "no worker got a job twice");
}

#[tokio::test]
async fn done_and_dead_jobs_are_pruned() {
    let slow = FakeClockServer::start().await;
    let mut worker = Worker::join(&slow.server, "mail").await;
    send(&slow.server, vec![Job { reservation_time: None, ..job("one", "mail") }]).await;
    worker.job().await;
    becomes(&slow.server, "one", |job| job.live.state == State::Done).await;
    slow.advance(Span::from_secs(25 * 60 * 60)).await;
    assert_eq!(stored(&slow.server.engine, "mail", "one").await, None);
}
