//! `crore.v1.Work/Stream`: workers with a stream.

use std::sync::Arc;
use std::time::Duration;

use crore::Engine;
use crore::store::Memory;
use crore_core::{JobId, Span, State};
use crore_doors::{Options, listen};
use crore_testkit::FakeClock;
use crore_wire::grpc::v1;
use crore_wire::grpc::v1::work_client::WorkClient;
use futures_util::StreamExt;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::Code;

use super::{Worker, connect, hello, push};
use crate::server::Server;

const A_SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn jobs_are_delivered_and_reports_acknowledged() {
    let server = Server::start().await;
    let mut worker = Worker::start(&server, hello("mail", 10, "one")).await;
    let ids = push(&server, "mail", 3).await;
    let mut jobs = worker.jobs().await;
    while jobs.len() < 3 {
        jobs.extend(worker.jobs().await);
    }
    assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), ids);
    assert!(jobs.iter().all(|job| job.attempt == 1 && job.kind == "mail"));
    let finished = worker.done(&jobs).await;
    assert!(finished.iter().all(|one| one.verdict() == v1::Verdict::Finished));
    let again = worker.done(&jobs[..1]).await;
    assert_eq!(again[0].verdict(), v1::Verdict::Stale);
    let job = server.engine.get(JobId(ids[0])).await.expect("seen").expect("kept");
    assert_eq!(job.live.state, State::Done);
}

#[tokio::test]
async fn no_worker_gets_more_jobs_than_its_slots() {
    let server = Server::start().await;
    push(&server, "mail", 50).await;
    let mut worker = Worker::start(&server, hello("mail", 7, "one")).await;
    let mut held = worker.jobs().await;
    let mut done = 0;
    while done < 50 {
        assert!(held.len() <= 7, "{} at once", held.len());
        let first = held.remove(0);
        let report = v1::Report {
            id: first.id,
            delivery: first.delivery,
            outcome: Some(v1::report::Outcome::Done(v1::Done::default())),
            ..v1::Report::default()
        };
        let says = v1::WorkerSays { finish: vec![report], ..v1::WorkerSays::default() };
        worker.says.send(says).await.expect("sent");
        done += 1;
        while held.is_empty() && done < 50 {
            held.extend(worker.next_message().await.jobs);
        }
    }
}

#[tokio::test]
async fn jobs_of_a_closed_stream_are_redelivered_and_cost_no_attempt() {
    let server = Server::start().await;
    let mut first = Worker::start(&server, hello("mail", 1, "one")).await;
    let id = push(&server, "mail", 1).await[0];
    let job = first.jobs().await.remove(0);
    let closed = Instant::now();
    drop(first);
    let mut second = Worker::start(&server, hello("mail", 1, "two")).await;
    let again = timeout(A_SECOND, second.jobs()).await.expect("within a second").remove(0);
    assert!(closed.elapsed() < A_SECOND, "{:?}", closed.elapsed());
    assert_eq!((again.id, again.attempt), (id, 1), "at no cost in attempts");
    assert!(again.delivery > job.delivery);
    let stored = server.engine.get(JobId(id)).await.expect("seen").expect("it exists");
    assert_eq!(stored.live.crashes, 1);
}

#[tokio::test]
async fn a_worker_that_reconnects_in_time_keeps_its_jobs() {
    let server = Server::start().await;
    let mut first = Worker::start(&server, hello("mail", 2, "one")).await;
    push(&server, "mail", 2).await;
    let mut jobs = first.jobs().await;
    while jobs.len() < 2 {
        jobs.extend(first.jobs().await);
    }
    drop(first);
    let held = v1::Held { id: jobs[0].id, delivery: jobs[0].delivery };
    let back = v1::Hello { held: vec![held], ..hello("mail", 2, "one") };
    let mut worker = Worker::start(&server, back).await;
    assert_eq!(worker.welcome.kept, [held]);
    // The delivery that it did not name is handed out again.
    let other = worker.jobs().await.remove(0);
    assert_eq!(other.id, jobs[1].id);
    let finished = worker.done(&jobs[..1]).await;
    assert_eq!(finished[0].verdict(), v1::Verdict::Finished);
}

#[tokio::test]
async fn a_second_stream_of_the_same_incarnation_replaces_the_first() {
    let server = Server::start().await;
    let mut first = Worker::start(&server, hello("mail", 1, "one")).await;
    push(&server, "mail", 1).await;
    let job = first.jobs().await.remove(0);
    let held = v1::Held { id: job.id, delivery: job.delivery };
    let back = v1::Hello { held: vec![held], ..hello("mail", 1, "one") };
    let mut second = Worker::start(&server, back).await;
    let status = first.hears.message().await.expect_err("it is over");
    assert_eq!(status.code(), Code::Aborted);
    drop(first);
    let finished = second.done(&[job]).await;
    assert_eq!(finished[0].verdict(), v1::Verdict::Finished);
}

#[tokio::test]
async fn a_worker_is_notified_of_a_cancel_at_once() {
    let server = Server::start().await;
    let mut worker = Worker::start(&server, hello("mail", 1, "one")).await;
    let id = push(&server, "mail", 1).await[0];
    let job = worker.jobs().await.remove(0);
    let cancel = crore::actions::JobAction::Cancel;
    server.engine.jobs().act(JobId(id).into(), &cancel).await.expect("a response");
    let message = timeout(A_SECOND, worker.next_message()).await.expect("at once");
    assert_eq!(message.stop, [v1::Held { id, delivery: job.delivery }]);
}

#[tokio::test]
async fn leases_live_as_long_as_the_stream() {
    let server = Server::start().await;
    let mut worker = Worker::start(&server, hello("mail", 1, "one")).await;
    let short = v1::NewJob { lease_ms: Some(1000), ..super::job("mail") };
    let ask = v1::PushRequest { jobs: vec![short], ..v1::PushRequest::default() };
    super::jobs(&server).await.push(ask).await.expect("pushed");
    let job = worker.jobs().await.remove(0);
    let end = Instant::now() + 2 * A_SECOND;
    while let Ok(message) = timeout_at(end, worker.next_message()).await {
        assert_eq!(message, v1::ServerSays::default(), "it has no effect");
    }
    let finished = worker.done(&[job]).await;
    assert_eq!(finished[0].verdict(), v1::Verdict::Finished);
}

#[tokio::test]
async fn leases_that_a_worker_resumes_live_as_long_as_its_stream() {
    let server = Server::start().await;
    let short = v1::NewJob { lease_ms: Some(1000), ..super::job("mail") };
    let ask = v1::PushRequest { jobs: vec![short], ..v1::PushRequest::default() };
    super::jobs(&server).await.push(ask).await.expect("pushed");
    let ask = v1::FetchRequest {
        queues: vec!["mail".into()],
        n: 1,
        worker: "one".into(),
        ..v1::FetchRequest::default()
    };
    let mut work = WorkClient::new(connect(&server).await);
    let job = work.fetch(ask).await.expect("fetched").into_inner().jobs.remove(0);
    let held = v1::Held { id: job.id, delivery: job.delivery };
    let with_it = v1::Hello { held: vec![held], ..hello("mail", 1, "one") };
    let mut worker = Worker::start(&server, with_it).await;
    assert_eq!(worker.welcome.kept, [held]);
    let end = Instant::now() + 2 * A_SECOND;
    while let Ok(message) = timeout_at(end, worker.next_message()).await {
        assert_eq!(message, v1::ServerSays::default(), "it has no effect");
    }
    let finished = worker.done(&[job]).await;
    assert_eq!(finished[0].verdict(), v1::Verdict::Finished);
}

#[tokio::test]
async fn a_worker_that_gets_a_redelivery_is_notified_that_the_first_is_lost() {
    let clock = Arc::new(FakeClock::default());
    let store = Arc::new(Memory::new(clock.clone()));
    let engine =
        crore::block_on(Engine::without_thread(store, clock.clone(), crore::Options::default()))
            .expect("an engine");
    let server = Server::start_on(engine, Options::default(), listen::Options::default()).await;
    let mut worker = Worker::start(&server, hello("mail", 2, "one")).await;
    push(&server, "mail", 1).await;
    let first = worker.jobs().await.remove(0);
    clock.advance(Span::from_secs(60));
    server.engine.upkeep().run_once().await.expect("upkeep runs");
    let (mut lost, mut again) = (Vec::new(), Vec::new());
    while lost.is_empty() || again.is_empty() {
        let message =
            timeout(5 * A_SECOND, worker.next_message()).await.expect("both are reported");
        lost.extend(message.lost);
        again.extend(message.jobs);
    }
    assert_eq!(lost, [v1::Held { id: first.id, delivery: first.delivery }]);
    assert!(again.len() == 1 && again[0].id == first.id && again[0].delivery > first.delivery);
}

#[tokio::test]
async fn a_draining_server_reports_it_and_accepts_reports() {
    let server = Server::start().await;
    let mut worker = Worker::start(&server, hello("mail", 2, "one")).await;
    push(&server, "mail", 1).await;
    let jobs = worker.jobs().await;
    server.doors.close();
    assert!(worker.next_message().await.drain);
    let finished = worker.done(&jobs).await;
    assert_eq!(finished[0].verdict(), v1::Verdict::Finished);
}

#[tokio::test]
async fn an_invalid_hello_is_refused_with_its_field() {
    let server = Server::start().await;
    let good = || hello("mail", 1, "one");
    for (field, bad) in [
        ("hello.slots", v1::Hello { slots: 0, ..good() }),
        ("hello.slots", v1::Hello { slots: 1 << 31, ..good() }),
        ("hello.incarnation", v1::Hello { incarnation: String::new(), ..good() }),
        ("hello.incarnation", v1::Hello { incarnation: "x".repeat(65), ..good() }),
        ("hello.queues[0]", v1::Hello { queues: vec![String::new()], ..good() }),
        ("hello.name", v1::Hello { name: "a\u{0}b".into(), ..good() }),
        ("hello.versions.k", v1::Hello { versions: [("k".into(), "v1".into())].into(), ..good() }),
    ] {
        let mut client = WorkClient::new(connect(&server).await);
        let says = v1::WorkerSays { hello: Some(bad), ..v1::WorkerSays::default() };
        let stream = futures_util::stream::iter([says]);
        let mut responses = client.stream(stream).await.expect("a stream").into_inner();
        let status = responses.message().await.expect_err("refused");
        assert_eq!(status.code(), Code::InvalidArgument, "{field}");
        assert!(status.message().starts_with(field), "{}", status.message());
    }
}

#[tokio::test]
async fn reports_about_jobs_not_held_are_stale_and_the_stream_stays_open() {
    let server = Server::start().await;
    let mut first = Worker::start(&server, hello("mail", 1, "one")).await;
    push(&server, "mail", 1).await;
    let job = first.jobs().await.remove(0);
    let mut second = Worker::start(&server, hello("other", 1, "two")).await;
    let finished = second.done(std::slice::from_ref(&job)).await;
    assert_eq!(finished[0].verdict(), v1::Verdict::Stale);
    let bad = v1::Report { id: job.id, delivery: job.delivery, ..v1::Report::default() };
    let finished = first.finish(vec![bad]).await;
    assert_eq!(finished[0].verdict(), v1::Verdict::Refused);
    assert_eq!(finished[0].problem.as_ref().map(|why| why.field.as_str()), Some("outcome"));
    // The worker still holds the job.
    let finished = first.done(&[job]).await;
    assert_eq!(finished[0].verdict(), v1::Verdict::Finished);
}

#[tokio::test]
async fn reports_are_acknowledged_in_order_also_stale_ones() {
    let server = Server::start().await;
    let mut worker = Worker::start(&server, hello("mail", 3, "one")).await;
    push(&server, "mail", 3).await;
    let mut jobs = worker.jobs().await;
    while jobs.len() < 3 {
        jobs.extend(worker.jobs().await);
    }
    let unknown = v1::Delivered { delivery: 7, ..jobs[0].clone() };
    let reported = [&jobs[0], &unknown, &jobs[1], &jobs[0], &jobs[2], &unknown];
    let finished = worker.done(&reported.map(v1::Delivered::clone)).await;
    let answered: Vec<_> = finished.iter().map(|one| (one.id, one.delivery)).collect();
    assert_eq!(answered, reported.map(|job| (job.id, job.delivery)));
    let verdicts: Vec<_> = finished.iter().map(v1::Finished::verdict).collect();
    let (yes, no) = (v1::Verdict::Finished, v1::Verdict::Stale);
    assert_eq!(verdicts, [yes, no, yes, no, yes, no]);
    // Also across messages.
    let again = [vec![unknown.clone()], vec![jobs[1].clone(), unknown]];
    for jobs in again {
        let finished = worker.done(&jobs).await;
        assert!(finished.iter().all(|one| one.verdict() == no), "{finished:?}");
    }
}

#[tokio::test]
async fn equal_workers_get_equal_shares() {
    let server = Server::start().await;
    let shares = (0..4).map(|n| {
        let address = &server;
        async move {
            let mut worker = Worker::start(address, hello("mail", 5, &format!("w{n}"))).await;
            let mut n = 0;
            while let Ok(jobs) = timeout(A_SECOND, worker.jobs()).await {
                n += jobs.len();
                worker
                    .says
                    .send(v1::WorkerSays {
                        finish: jobs
                            .iter()
                            .map(|job| v1::Report {
                                id: job.id,
                                delivery: job.delivery,
                                outcome: Some(v1::report::Outcome::Done(v1::Done::default())),
                                ..v1::Report::default()
                            })
                            .collect(),
                        ..v1::WorkerSays::default()
                    })
                    .await
                    .expect("sent");
            }
            n
        }
    });
    let pushing = async {
        while server.engine.deliveries().waiting() < 4 {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            push(&server, "mail", 20).await;
        }
    };
    let (shares, ()) = tokio::join!(futures_util::future::join_all(shares), pushing);
    assert_eq!(shares.iter().sum::<usize>(), 2000);
    assert!(shares.iter().all(|share| (300..700).contains(share)), "{shares:?}");
}

#[tokio::test]
async fn a_stream_outlives_the_maximum_age_and_new_calls_use_a_new_connection() {
    let max_age = Span::from_millis(100);
    let listening = listen::Options { max_age, ..listen::Options::default() };
    let server = Server::start_with(Options::default(), listening).await;
    let mut worker = Worker::start(&server, hello("mail", 1, "one")).await;
    // Asked to close at the first maximum age, overdue at the second.
    let end = Instant::now() + 5 * Duration::from_millis(100);
    while let Ok(message) = timeout_at(end, worker.next_message()).await {
        assert_eq!(message, v1::ServerSays::default(), "the worker is not notified");
    }
    push(&server, "mail", 1).await;
    let jobs = worker.jobs().await;
    assert_eq!(worker.done(&jobs).await[0].verdict(), v1::Verdict::Finished);
}

#[tokio::test]
async fn a_flood_of_notes_does_not_delay_later_messages() {
    let server = Server::start().await;
    let hello = v1::WorkerSays { hello: Some(hello("mail", 1, "one")), ..Default::default() };
    let note = v1::Note { id: 7, delivery: 7, text: "on my way".to_owned(), ..Default::default() };
    let note = v1::WorkerSays { notes: vec![note], ..Default::default() };
    let outcome = Some(v1::report::Outcome::Done(v1::Done::default()));
    let report = v1::Report { id: 7, delivery: 7, outcome, ..Default::default() };
    let last = v1::WorkerSays { finish: vec![report], ..Default::default() };
    // All at once, more than may be in flight, and then no input that would wake the session.
    let messages = std::iter::once(hello).chain(std::iter::repeat_n(note, 500)).chain([last]);
    let messages = futures_util::stream::iter(messages).chain(futures_util::stream::pending());
    let mut work = WorkClient::new(connect(&server).await);
    let mut responses = work.stream(messages).await.expect("a stream").into_inner();
    let answered = async {
        loop {
            let message =
                responses.message().await.expect("a message").expect("the stream continues");
            if let Some(finished) = message.finished.first() {
                return finished.verdict();
            }
        }
    };
    let verdict = timeout(5 * A_SECOND, answered).await.expect("the stream is read to its end");
    assert_eq!(verdict, v1::Verdict::Stale);
}
