//! Lakh's guarantees to producers and workers.

use crore::Engine;
use crore::actions::JobAction;
use crore::fetch::Fetch;
use crore::finish::Finish;
use crore_core::machine::{Outcome, RetryDirective};
use crore_core::{Encoding, Name, Span, State};
use crore_testkit::FakeClock;
use crore_wire::grpc::lakh::Job;
use crore_wire::grpc::lakh::job::ExecutionTime;
use prost_types::Timestamp;
use tokio::sync::mpsc;

use super::{
    FakeClockServer, ReceiverStream, Worker, about, becomes, job, lakh, on, seconds, send, stored,
    work,
};
use crate::server::{Server, eventually};

#[tokio::test]
async fn a_job_is_delivered_as_sent_and_done_when_its_worker_reports() {
    let server = Server::start().await;
    let mut worker = Worker::join(&server, "mail").await;
    send(&server, vec![job("one", "mail")]).await;
    assert_eq!(worker.job().await, job("one", "mail"));
    let running = stored(&server.engine, "mail", "one").await.expect("it exists");
    assert_eq!(running.live.state, State::Running);
    assert_eq!((running.spec.queue.as_str(), running.spec.kind.as_str()), ("mail", "mail"));
    assert_eq!(running.spec.payload.encoding, Encoding::Json);
    assert_eq!(&*running.spec.payload.bytes, r#"["a","ü \"b\""]"#.as_bytes());
    assert_eq!(running.spec.retry.max_attempts, Some(31));
    worker.succeeded("one").await;
    becomes(&server, "one", |job| job.live.state == State::Done).await;
}

#[tokio::test]
async fn a_job_without_an_execution_time_starts_now() {
    let server = Server::start().await;
    send(&server, vec![Job { execution_time: None, ..job("one", "mail") }]).await;
    assert_eq!(Worker::join(&server, "mail").await.job().await.id, "one");
}

#[tokio::test]
async fn jobs_wait_for_a_worker_and_are_delivered_in_order() {
    let server = Server::start().await;
    send(&server, (0..50).map(|n| job(&n.to_string(), "mail")).collect()).await;
    let mut worker = Worker::join(&server, "sms;mail").await;
    for n in 0..50 {
        assert_eq!(worker.job().await.id, n.to_string());
    }
}

#[tokio::test]
async fn delayed_and_scheduled_jobs_are_delivered_when_due_and_not_before() {
    let slow = FakeClockServer::start().await;
    let delayed = ExecutionTime::Delayed(prost_types::Duration { seconds: 1, nanos: 500_000_000 });
    let at = FakeClock::START.as_millis() / 1000 + 3;
    let scheduled = ExecutionTime::Scheduled(Timestamp { seconds: at, nanos: 1 });
    let when = |id, when| Job { execution_time: Some(when), ..job(id, "mail") };
    send(&slow.server, vec![when("at", scheduled), when("after", delayed)]).await;
    let mut worker = Worker::join(&slow.server, "mail").await;
    slow.advance(Span::from_millis(1499)).await;
    worker.expect_no_job().await;
    slow.advance(Span::from_millis(1)).await;
    assert_eq!(worker.job().await.id, "after");
    slow.advance(Span::from_millis(1500)).await;
    worker.expect_no_job().await;
    slow.advance(Span::from_millis(1)).await;
    let job = worker.job().await;
    let due = Timestamp { seconds: at, nanos: 1_000_000 };
    assert_eq!((job.id.as_str(), job.execution_time), ("at", Some(ExecutionTime::Scheduled(due))));
}

#[tokio::test]
async fn a_job_without_a_reservation_is_done_on_delivery() {
    let server = Server::start().await;
    send(&server, vec![Job { reservation_time: None, ..job("one", "mail") }]).await;
    let unread = stored(&server.engine, "mail", "one").await.expect("it exists");
    assert_eq!(unread.live.state, State::Ready, "nobody has it");
    let mut worker = Worker::join(&server, "mail").await;
    assert_eq!(worker.job().await.reservation_time, None);
    worker.failed("one").await;
    becomes(&server, "one", |job| job.live.state == State::Done).await;
    worker.failed("one").await;
    worker.expect_no_job().await;
    let done = stored(&server.engine, "mail", "one").await.expect("it is kept");
    assert_eq!((done.live.state, done.live.attempt), (State::Done, 1));
}

#[tokio::test]
async fn an_expired_reservation_costs_an_attempt_and_the_job_is_redelivered_at_once() {
    let slow = FakeClockServer::start().await;
    let mut worker = Worker::join(&slow.server, "mail").await;
    let two = prost_types::Duration { seconds: 2, nanos: 500_000_000 };
    send(&slow.server, vec![Job { reservation_time: Some(two), ..job("one", "mail") }]).await;
    assert_eq!(worker.job().await.reservation_time, Some(two));
    slow.advance(Span::from_millis(2499)).await;
    worker.expect_no_job().await;
    slow.advance(Span::from_millis(1)).await;
    assert_eq!(worker.job().await.id, "one");
    let again = stored(&slow.server.engine, "mail", "one").await.expect("it exists");
    assert_eq!((again.live.attempt, again.live.crashes), (2, 0));
}

#[tokio::test]
async fn disconnects_of_a_worker_cost_no_attempt() {
    let server = Server::start().await;
    send(&server, vec![job("one", "mail")]).await;
    for _ in 0..5 {
        assert_eq!(Worker::join(&server, "mail").await.job().await.id, "one");
        becomes(&server, "one", |job| job.live.state == State::Ready).await;
    }
    let mut worker = Worker::join(&server, "mail").await;
    worker.job().await;
    let job = stored(&server.engine, "mail", "one").await.expect("it exists");
    assert_eq!((job.live.attempt, job.live.crashes), (1, 5));
}

#[tokio::test]
async fn a_failing_job_is_retried_30_times_and_then_dead() {
    let slow = FakeClockServer::start().await;
    let mut worker = Worker::join(&slow.server, "mail").await;
    send(&slow.server, vec![job("one", "mail")]).await;
    for attempt in 1..=31u32 {
        assert_eq!(worker.job().await.id, "one");
        worker.failed("one").await;
        let failed = becomes(&slow.server, "one", |job| job.live.state != State::Running).await;
        assert_eq!(failed.live.attempt, attempt);
        if attempt == 31 {
            assert_eq!(failed.live.state, State::Dead);
            break;
        }
        assert_eq!(failed.live.state, State::Scheduled);
        let delay = failed.live.due.since(slow.server.engine.status().now());
        let n = u64::from(attempt - 1);
        let (least, most) = (n.pow(4) + 15, n.pow(4) + 15 + 29 * (n + 1));
        let seconds = delay.as_millis() / 1000;
        assert!((least..=most).contains(&seconds), "{seconds} s after attempt {attempt}");
        slow.advance(delay).await;
    }
    let dead = lakh(&slow.server).await.get_dead_jobs(()).await.expect("a response").into_inner();
    let ids: Vec<_> = dead.jobs.iter().map(|job| (job.id.as_str(), job.args.len())).collect();
    assert_eq!(ids, [("one", 2)]);
    worker.expect_no_job().await;
}

#[tokio::test]
async fn dead_jobs_are_listed_by_name_in_order_of_death() {
    let slow = FakeClockServer::start().await;
    let jobs = [("c", "sms"), ("b", "mail"), ("a", "mail"), ("live", "mail")];
    let jobs: Vec<_> = jobs.iter().map(|(id, name)| job(id, name)).collect();
    let request = about("mail;sms", futures_util::stream::iter(jobs));
    lakh(&slow.server).await.work(request).await.expect("taken");
    let mut worker = Worker::join(&slow.server, "mail;sms").await;
    for _ in 0..4 {
        worker.job().await;
    }
    for (id, name) in [("c", "sms"), ("b", "mail"), ("a", "mail")] {
        for n in 1..=31 {
            worker.report_named(name, id, 0).await;
            let engine = &slow.server.engine;
            eventually(|| async move {
                let job = stored(engine, name, id).await.expect("it exists");
                job.live.attempt == n && job.live.state != State::Running
            })
            .await;
            if n < 31 {
                let waits = stored(engine, name, id).await.expect("it exists");
                engine.jobs().act(waits.id.into(), &JobAction::Retry).await.expect("answered");
                worker.job().await;
            }
        }
        slow.clock.advance(Span::from_millis(1));
    }
    let dead = lakh(&slow.server).await.get_dead_jobs(()).await.expect("a response").into_inner();
    let ids: Vec<_> = dead.jobs.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(ids, ["b", "a", "c"]);
}

#[tokio::test]
async fn a_truncated_list_of_dead_jobs_is_newest_first_and_says_so() {
    let server = Server::start().await;
    let large = |n: usize| Job { args: vec!["x".repeat(900_000)], ..job(&n.to_string(), "mail") };
    for n in 0..6 {
        send(&server, vec![large(n)]).await;
    }
    // Jobs of other doors are not listed.
    server.engine.push("mail", "native").await.expect("pushed");
    let (queue, who) = (Name::new("queue", "mail"), Name::new("worker", "w"));
    let ask = Fetch { n: 10, ..Fetch::new(queue.expect("good"), who.expect("good")) };
    let mut taken = 0;
    while taken < 7 {
        let jobs = server.engine.fetch(ask.clone()).await.expect("fetched");
        assert!(!jobs.is_empty());
        for job in jobs {
            let (error, again) = ("no".into(), RetryDirective::Never);
            let failed = Outcome::Failed { error, detail: None, again };
            server.engine.finish(Finish::of(&job, failed)).await.expect("reported");
            taken += 1;
        }
    }
    let response = lakh(&server).await.get_dead_jobs(()).await.expect("a response");
    assert_eq!(response.metadata().get("crore-more").expect("there are more"), "true");
    let ids: Vec<_> = response.get_ref().jobs.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(ids, ["2", "3", "4", "5"]);
}

#[tokio::test]
async fn jobs_and_reports_survive_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = on(Engine::open(dir.path()).expect("opened")).await;
    let later = ExecutionTime::Delayed(seconds(3600));
    let jobs = [
        job("held", "mail"),
        job("waits", "mail"),
        Job { execution_time: Some(later), ..job("later", "mail") },
        Job { reservation_time: None, ..job("forgotten", "mail") },
    ];
    let mut worker = Worker::join(&server, "mail").await;
    send(&server, jobs[..1].to_vec()).await;
    assert_eq!(worker.job().await.id, "held");
    server.doors.close();
    let serving = server.stop();
    server.engine.stop().expect("stopped");
    drop((worker, server));
    serving.await.expect("no panic").expect("a success");

    let mut server = on(Engine::open(dir.path()).expect("opened again")).await;
    send(&server, jobs[1..].to_vec()).await;
    let serving = server.stop();
    server.engine.stop().expect("stopped");
    drop(server);
    serving.await.expect("no panic").expect("a success");

    let server = on(Engine::open(dir.path()).expect("opened a third time")).await;
    let mut worker = Worker::join(&server, "mail").await;
    assert_eq!(worker.job().await.id, "waits", "the other is still its worker's");
    assert_eq!(worker.job().await.id, "forgotten");
    worker.succeeded("held").await;
    let held = becomes(&server, "held", |job| job.live.state == State::Done).await;
    assert_eq!(held.live.attempt, 1);
    becomes(&server, "forgotten", |job| job.live.state == State::Done).await;
    becomes(&server, "later", |job| job.live.state == State::Scheduled).await;
}

#[tokio::test]
async fn a_producer_gets_its_response_at_the_end_and_its_jobs_run_before() {
    let server = Server::start().await;
    let (says, to_say) = mpsc::channel(1);
    let mut client = lakh(&server).await;
    let call =
        tokio::spawn(async move { client.work(about("mail", ReceiverStream(to_say))).await });
    let mut worker = Worker::join(&server, "mail").await;
    says.send(job("one", "mail")).await.expect("sent");
    assert_eq!(worker.job().await.id, "one");
    assert!(!call.is_finished());
    drop(says);
    call.await.expect("no panic").expect("taken");
}

#[tokio::test]
async fn jobs_sent_before_a_producer_disconnects_are_stored() {
    let server = Server::start().await;
    let (says, to_say) = mpsc::channel(1);
    let mut client = lakh(&server).await;
    let call =
        tokio::spawn(async move { client.work(about("mail", ReceiverStream(to_say))).await });
    says.send(job("one", "mail")).await.expect("sent");
    becomes(&server, "one", |job| job.live.state == State::Ready).await;
    call.abort();
    assert!(call.await.expect_err("it is gone").is_cancelled());
    send(&server, vec![job("two", "mail")]).await;
    becomes(&server, "one", |job| job.live.state == State::Ready).await;
}

#[tokio::test]
async fn a_few_jobs_are_shared_by_the_waiting_workers() {
    let server = Server::start().await;
    let mut workers = [Worker::join(&server, "mail").await, Worker::join(&server, "mail").await];
    eventually(|| async { server.engine.deliveries().waiting() == 2 }).await;
    for n in 0..20 {
        send(&server, vec![job(&n.to_string(), "mail")]).await;
    }
    let [one, other] = &mut workers;
    let (mut ones, mut others) = (0, 0);
    for _ in 0..20 {
        tokio::select! {
            _ = one.job() => ones += 1,
            _ = other.job() => others += 1,
        }
    }
    assert!(ones >= 5 && others >= 5, "{ones} and {others}");
}

#[tokio::test]
async fn shutdown_accepts_the_last_reports_and_then_ends_streams() {
    let mut server = Server::start().await;
    let (mut idle, mut busy) =
        (Worker::join(&server, "sms").await, Worker::join(&server, "mail").await);
    send(&server, vec![job("one", "mail")]).await;
    busy.job().await;
    server.doors.close();
    assert_eq!(idle.hears.message().await.expect("a success"), None);
    busy.expect_no_job().await;
    let status = work(&server, vec![job("two", "mail")]).await.expect_err("it ends");
    assert_eq!(status.code(), tonic::Code::Unavailable);
    busy.succeeded("one").await;
    assert_eq!(busy.hears.message().await.expect("a success"), None);
    becomes(&server, "one", |job| job.live.state == State::Done).await;
    drop((idle, busy));
    server.stop().await.expect("no panic").expect("a success");
}
