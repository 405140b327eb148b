//! Waiting for results, `DIRECT` and `LISTEN_AFTER`: none is missed.

use std::time::Duration;

use crore::fetch::Fetch;
use crore_core::machine::Outcome;
use crore_core::{JobId as Id, Payload, Span};
use crore_wire::grpc::jobworkerp::data::{JobId, ResultStatus};
use crore_wire::grpc::jobworkerp::service::{
    CountCondition, CreateWorkerRequest, JobRequest, ListenRequest, listen_request,
};
use http::Version;
use tokio::time::timeout;
use tonic::Code;

use super::{
    JobworkerpStage, SECOND, command, direct, failure, job, listen_after, listen_for, name, policy,
    problem, stored, text,
};
use crate::grpc::frames::{RawConnection, framed, request};
use crate::server::eventually;

/// Longer than any expected wait.
const LONG: Duration = Duration::from_secs(10);

/// The next job, as soon as one is pushed.
async fn next_pushed(stage: &JobworkerpStage) -> crore_core::Job {
    let waits = Fetch::new(name("default"), name("runner"));
    let fetch = Fetch { handled: Some(Vec::new()), wait: Span::from_secs(3600), ..waits };
    stage.server.engine.fetch(fetch).await.expect("fetched").pop().expect("a job")
}

#[tokio::test]
async fn enqueue_for_a_direct_worker_returns_the_result() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(direct("a")).await;
    let enqueue = stage.try_enqueue(job(worker));
    let run = async {
        let job = next_pushed(&stage).await;
        let result = Some(Payload::json("\"well\""));
        stage.report(&job, Outcome::Done { result }).await;
        job.id
    };
    let (answer, id) = timeout(LONG, async { tokio::join!(enqueue, run) }).await.expect("in time");
    let answer = answer.expect("answered");
    assert_eq!(answer.id.map(|id| id.value as u64), Some(id.0));
    let data = answer.result.expect("a result").data.expect("data");
    assert_eq!((data.status(), data.job_id), (ResultStatus::Success, answer.id));
    assert_eq!(data.output.expect("an output").items, [b"\"well\"".to_vec()]);
}

#[tokio::test]
async fn a_direct_result_that_is_not_stored_is_for_its_caller_alone() {
    let stage = JobworkerpStage::start().await;
    for (is_stored, name) in [(false, "a"), (true, "b")] {
        let flags = (Some(is_stored), Some(is_stored));
        let worker =
            CreateWorkerRequest { store_success: flags.0, store_failure: flags.1, ..direct(name) };
        let worker = stage.create(worker).await;
        let enqueue = stage.try_enqueue(job(worker));
        let run = async {
            let job = next_pushed(&stage).await;
            stage.report(&job, Outcome::Done { result: Some(Payload::json("1")) }).await;
            // Another caller asks first.
            stage.server.engine.results().take(job.id).await.expect("asked")
        };
        let (answer, other) =
            timeout(LONG, async { tokio::join!(enqueue, run) }).await.expect("in time");
        let answer = answer.expect("answered");
        let data = answer.result.expect("a result").data.expect("data");
        assert_eq!(data.output.expect("an output").items, [b"1".to_vec()]);
        assert_eq!(other.is_some(), is_stored, "{name}");
        let id = Id(answer.id.expect("an id").value as u64);
        let later = stage.server.engine.get(id).await.expect("asked").expect("it is there");
        assert_eq!(later.live.result.is_some(), is_stored, "{name}");
    }
}

#[tokio::test]
async fn a_direct_job_that_ends_while_the_server_drains_is_answered() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(direct("a")).await;
    let enqueue = stage.try_enqueue(job(worker));
    let run = async {
        let job = next_pushed(&stage).await;
        eventually(|| async { stage.server.engine.results().waiting() == 1 }).await;
        stage.server.doors.close();
        // The caller still waits.
        assert_eq!(stage.server.engine.results().waiting(), 1);
        stage.report(&job, Outcome::Done { result: None }).await;
    };
    let (answer, ()) = timeout(LONG, async { tokio::join!(enqueue, run) }).await.expect("in time");
    let data = answer.expect("answered").result.expect("a result").data.expect("data");
    assert_eq!(data.status(), ResultStatus::Success);
}

#[tokio::test]
async fn the_retries_of_a_direct_job_happen_while_its_caller_waits() {
    let stage = JobworkerpStage::start().await;
    let worker = CreateWorkerRequest { retry_policy: policy(), ..direct("a") };
    let worker = stage.create(worker).await;
    let enqueue = stage.try_enqueue(JobRequest { timeout: Some(60_000), ..job(worker) });
    let run = async {
        for seconds in [1, 2, 4] {
            let job = next_pushed(&stage).await;
            stage.report(&job, failure("again", "busy")).await;
            stage.advance(Span::from_secs(seconds)).await;
        }
        let job = next_pushed(&stage).await;
        stage.report(&job, failure("again", "still busy")).await;
    };
    let (answer, ()) = timeout(LONG, async { tokio::join!(enqueue, run) }).await.expect("in time");
    let data = answer.expect("answered").result.expect("a result").data.expect("data");
    assert_eq!((data.status(), data.retried), (ResultStatus::MaxRetry, 3));
    assert_eq!(text(&data), "still busy");
}

#[tokio::test]
async fn a_direct_job_that_times_out_returns_deadline_exceeded() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(direct("a")).await;
    // Also shorter than a second.
    for millis in [900, 2500] {
        let (mut jobs, ask) =
            (stage.jobs.clone(), JobRequest { timeout: Some(millis), ..job(worker) });
        let enqueue = tokio::spawn(async move { jobs.enqueue(ask).await });
        eventually(|| async {
            stage.advance(Span::from_millis(100)).await;
            enqueue.is_finished()
        })
        .await;
        let refused = enqueue.await.expect("it ran").expect_err("too late");
        let told = (Code::DeadlineExceeded, "not-yet".to_owned(), "timeout".to_owned());
        assert_eq!(problem(&refused), told);
        assert!(refused.message().contains(&format!("{millis}ms")), "{}", refused.message());
    }
    let count = stage.jobs.clone().count(CountCondition {}).await.expect("counted");
    assert_eq!(count.into_inner().total, 2, "the jobs go on");
}

#[tokio::test]
async fn the_deadline_of_the_call_counts_too() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(listen_after("a")).await;
    let id = stage.enqueue(job(worker)).await;
    let mut line = RawConnection::open(&stage.server, Version::HTTP_2).await;
    let headers =
        [("content-type", "application/grpc"), ("te", "trailers"), ("grpc-timeout", "50m")];
    let path = "/jobworkerp.service.JobResultService/Listen";
    let ask = framed(&listen_for(id, worker));
    let heard = line.send(request(&stage.server, "POST", path, &headers, ask));
    let heard = timeout(LONG, heard).await.expect("in time");
    assert_eq!(heard.grpc(), Some(Code::DeadlineExceeded as i32), "{heard:?}");
    // An existing result is returned, however short the timeout.
    stage.run(b"well").await;
    let listened = stage.listen(ListenRequest { timeout: Some(1), ..listen_for(id, worker) }).await;
    assert_eq!(listened.expect("it exists").status(), ResultStatus::Success);
}

#[tokio::test]
async fn any_number_of_listeners_get_the_result_before_and_after_the_end() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(listen_after("a")).await;
    let id = stage.enqueue(job(worker)).await;
    let listening: Vec<_> = (0..20)
        .map(|n| {
            let mut results = stage.results.clone();
            let named = listen_request::Worker::WorkerName("a".to_owned());
            let plain = listen_for(id, worker);
            let by_name = ListenRequest { worker: Some(named), ..plain.clone() };
            let ask = if n % 2 == 0 { plain } else { by_name };
            tokio::spawn(async move { results.listen(ask).await })
        })
        .collect();
    stage.run(b"well").await;
    for listener in listening {
        let heard = timeout(LONG, listener).await.expect("in time").expect("it ran");
        let data = heard.expect("received").into_inner().data.expect("data");
        assert_eq!(data.output.expect("an output").items, [b"well".to_vec()]);
    }
    for _ in 0..2 {
        let again = stage.listen(listen_for(id, worker)).await.expect("received");
        assert_eq!(again.status(), ResultStatus::Success);
    }
}

#[tokio::test]
async fn no_result_is_missed_between_check_and_wait() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(listen_after("a")).await;
    // Listener and report start at the same time, many times.
    for _ in 0..200 {
        let id = stage.enqueue(job(worker)).await;
        let running = stage.next().await.expect("a job");
        assert_eq!(running.id, Id(id as u64));
        let listen = stage.listen(listen_for(id, worker));
        let report = stage.report(&running, Outcome::Done { result: None });
        let both = async { tokio::join!(listen, report) };
        let (heard, ()) = timeout(LONG, both).await.expect("not missed");
        assert_eq!(heard.expect("received").status(), ResultStatus::Success);
    }
}

#[tokio::test]
async fn listeners_get_the_end_of_a_job_and_not_retried_attempts() {
    let stage = JobworkerpStage::start().await;
    let worker =
        stage.create(CreateWorkerRequest { retry_policy: policy(), ..listen_after("a") }).await;
    let id = stage.enqueue(job(worker)).await;
    let listen = stage.listen(ListenRequest { timeout: Some(0), ..listen_for(id, worker) });
    let run = async {
        let job = next_pushed(&stage).await;
        stage.report(&job, failure("again", "busy")).await;
        stage.advance(SECOND).await;
        let job = next_pushed(&stage).await;
        stage.report(&job, failure("fatal", "no such program")).await;
    };
    let (heard, ()) = timeout(LONG, async { tokio::join!(listen, run) }).await.expect("in time");
    let heard = heard.expect("received");
    assert_eq!((heard.status(), heard.retried), (ResultStatus::FatalError, 1));
    assert_eq!(text(&heard), "no such program");
}

#[tokio::test]
async fn a_listener_is_notified_of_a_deleted_job() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(listen_after("a")).await;
    let id = stage.enqueue(job(worker)).await;
    let listen = stage.listen(listen_for(id, worker));
    let delete = async { assert!(stage.delete(id).await) };
    let (heard, ()) = timeout(LONG, async { tokio::join!(listen, delete) }).await.expect("in time");
    let heard = heard.expect("received");
    assert_eq!(heard.status(), ResultStatus::Abort);
    assert_eq!(text(&heard), "the job was deleted before it ran");
}

#[tokio::test]
async fn every_invalid_listener_is_refused_with_its_field() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(listen_after("a")).await;
    let quiet = stage.create(stored("b")).await;
    let id = stage.enqueue(job(worker)).await;
    let good = listen_for(id, worker);
    let named = |name: &str| Some(listen_request::Worker::WorkerName(name.to_owned()));
    for (ask, field) in [
        (ListenRequest { job_id: None, ..good.clone() }, "job_id"),
        (ListenRequest { worker: None, ..good.clone() }, "worker_id"),
        (ListenRequest { worker: named(""), ..good.clone() }, "worker_name"),
        (ListenRequest { worker: named("nobody"), ..good.clone() }, "worker_name"),
        (listen_for(id, 99), "worker_id"),
        (listen_for(id, quiet), "response_type"),
    ] {
        let (code, _, named) = problem(&stage.listen(ask).await.expect_err(field));
        assert_eq!((code, named.as_str()), (Code::InvalidArgument, field));
    }
    for job in [99, 0, -1, i64::MAX] {
        let ask = ListenRequest { job_id: Some(JobId { value: job }), ..good.clone() };
        assert_eq!(stage.listen(ask).await.expect_err("none").code(), Code::NotFound);
    }
    let late = stage.listen(ListenRequest { timeout: Some(500), ..good });
    let passes = async {
        eventually(|| async {
            stage.advance(SECOND).await;
            stage.now() > crore_testkit::FakeClock::START.as_millis() + 20_000
        })
        .await;
    };
    let (refused, ()) = tokio::join!(late, passes);
    assert_eq!(refused.expect_err("too late").code(), Code::DeadlineExceeded);
}

#[tokio::test]
async fn waiting_calls_are_unavailable_when_the_doors_close() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(listen_after("a")).await;
    let done = stage.enqueue(job(worker)).await;
    stage.run(b"well").await;
    let id = stage.enqueue(job(worker)).await;
    let listen = stage.listen(listen_for(id, worker));
    let close = async {
        tokio::task::yield_now().await;
        stage.server.doors.close();
    };
    let (refused, ()) =
        timeout(LONG, async { tokio::join!(listen, close) }).await.expect("in time");
    assert_eq!(refused.expect_err("the doors are closing").code(), Code::Unavailable);
    let heard = stage.listen(listen_for(done, worker)).await;
    assert_eq!(heard.expect("it exists").status(), ResultStatus::Success);
}

#[tokio::test]
async fn enqueue_for_a_worker_without_results_returns_at_once() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(command("a")).await;
    let answer = timeout(LONG, stage.try_enqueue(job(worker))).await.expect("at once");
    assert_eq!(answer.expect("answered").result, None);
}
