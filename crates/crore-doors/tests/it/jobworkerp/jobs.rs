//! `JobService`: enqueueing, status and deletion.

use crore_core::machine::Outcome;
use crore_core::{JobId as Id, State};
use crore_wire::grpc::jobworkerp::data::{Empty, JobId, JobStatus, Priority};
use crore_wire::grpc::jobworkerp::service::job_restore_service_client::JobRestoreServiceClient;
use crore_wire::grpc::jobworkerp::service::job_status_service_client::JobStatusServiceClient;
use crore_wire::grpc::jobworkerp::service::{JobRequest, JobRestoreRequest, job_request};
use tonic::Code;

use super::{JobworkerpStage, SECOND, all, command, direct, job, policy, problem};
use crate::grpc::connect;

const YEAR: u64 = 31_536_000_000;

fn by_name(name: &str) -> JobRequest {
    JobRequest { worker: Some(job_request::Worker::WorkerName(name.to_owned())), ..job(0) }
}

#[tokio::test]
async fn a_job_is_enqueued_by_the_number_or_the_name_of_its_worker_and_reads_back() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(command("a")).await;
    let now = stage.now();
    let id = stage.enqueue(job(worker)).await;
    let found = stage.job(id).await.expect("it exists");
    assert_eq!(found.id, Some(JobId { value: id }));
    let data = found.data.expect("data");
    assert_eq!((data.worker_id.expect("one").value, data.arg.as_slice()), (worker, &b"/"[..]));
    assert_eq!((data.enqueue_time, data.run_after_time), (now, now));
    assert_eq!((data.grabbed_until_time, data.retried), (Some(0), 0));
    assert_eq!((data.timeout, data.priority(), data.uniq_key), (YEAR, Priority::Medium, None));
    let other = JobRequest {
        arg: vec![0xff, 0, b'\n'],
        uniq_key: Some("k".to_owned()),
        run_after_time: Some(now + 5000),
        priority: Some(Priority::High.into()),
        timeout: Some(0),
        ..by_name("a")
    };
    let data = stage.job(stage.enqueue(other).await).await.expect("it exists").data.expect("data");
    assert_eq!((data.arg.as_slice(), data.uniq_key.as_deref()), (&[0xff, 0, b'\n'][..], Some("k")));
    assert_eq!(
        (data.run_after_time, data.priority(), data.timeout),
        (now + 5000, Priority::High, 0)
    );
    let long = JobRequest { timeout: Some(u64::MAX), ..job(worker) };
    let data = stage.job(stage.enqueue(long).await).await.expect("it exists").data.expect("data");
    assert_eq!(data.timeout, 366 * 24 * 3_600_000, "the longest possible one");
}

#[tokio::test]
async fn every_invalid_job_is_refused_with_its_field_and_none_is_stored() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(command("a")).await;
    let answered = stage.create(direct("b")).await;
    let plain = job(worker);
    for (job, code, field) in [
        (JobRequest { worker: None, ..plain.clone() }, "malformed", "worker_id"),
        (by_name(""), "name-empty", "worker_name"),
        (by_name("nobody"), "malformed", "worker_name"),
        (job(99), "malformed", "worker_id"),
        (job(0), "malformed", "worker_id"),
        (job(i64::MIN), "malformed", "worker_id"),
        (job(-1), "malformed", "worker_id"),
        (JobRequest { run_after_time: Some(-1), ..plain.clone() }, "time-range", "run_after_time"),
        (
            JobRequest { run_after_time: Some(i64::MAX), ..plain.clone() },
            "time-range",
            "run_after_time",
        ),
        (JobRequest { run_after_time: Some(1), ..job(answered) }, "time-range", "run_after_time"),
        (JobRequest { priority: Some(2), ..plain.clone() }, "malformed", "priority"),
        (
            JobRequest { uniq_key: Some("x".repeat(300)), ..plain.clone() },
            "key-too-long",
            "uniq_key",
        ),
        (
            JobRequest { uniq_key: Some("a\0".to_owned()), ..plain.clone() },
            "key-control",
            "uniq_key",
        ),
    ] {
        let refused = stage.try_enqueue(job.clone()).await.expect_err(field);
        let expected = (Code::InvalidArgument, code.to_owned(), field.to_owned());
        assert_eq!(problem(&refused), expected, "{job:?}");
    }
    let large = JobRequest { arg: vec![b'x'; (1 << 20) + 1], ..plain };
    let refused = problem(&stage.try_enqueue(large).await.expect_err("too large"));
    let expected = (Code::ResourceExhausted, "payload-too-large".to_owned(), "arg".to_owned());
    assert_eq!(refused, expected);
    assert!(stage.server.engine.jobs().counts(None).await.expect("counted").is_empty());
}

#[tokio::test]
async fn larger_priorities_run_first_and_a_due_time_in_the_past_is_now() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(command("a")).await;
    let mut ids = Vec::new();
    for priority in [Priority::Low, Priority::Medium, Priority::High] {
        let priority = Some(priority.into());
        let run_after_time = Some(3000);
        ids.push(stage.enqueue(JobRequest { priority, run_after_time, ..job(worker) }).await);
    }
    for id in ids.into_iter().rev() {
        let next = stage.run(b"").await;
        assert_eq!(next.id, Id(id as u64));
    }
    let later = stage.now() + 1500;
    stage.enqueue(JobRequest { run_after_time: Some(later), ..job(worker) }).await;
    stage.advance(SECOND).await;
    assert_eq!(stage.next().await, None);
    stage.advance(SECOND).await;
    assert!(stage.next().await.is_some());
}

#[tokio::test]
async fn a_key_is_held_until_its_job_has_ended_and_the_refusal_names_the_job() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(command("a")).await;
    let other = stage.create(command("b")).await;
    let keyed = |worker| JobRequest { uniq_key: Some("k".to_owned()), ..job(worker) };
    let first = stage.enqueue(keyed(worker)).await;
    for worker in [worker, other] {
        let refused = stage.try_enqueue(keyed(worker)).await.expect_err("twice");
        let expected = (Code::AlreadyExists, "refused".to_owned(), "uniq_key".to_owned());
        assert_eq!(problem(&refused), expected);
        assert!(refused.message().ends_with(&format!("job {first}")), "{}", refused.message());
    }
    stage.fail("other", "no").await;
    let second = stage.enqueue(keyed(worker)).await;
    assert!(second > first);
    assert!(stage.delete(second).await);
    stage.enqueue(keyed(worker)).await;
    // An empty key counts as absent.
    let empty = || JobRequest { uniq_key: Some(String::new()), ..job(worker) };
    stage.enqueue(empty()).await;
    stage.enqueue(empty()).await;
}

#[tokio::test]
async fn a_job_is_pending_then_running_and_not_listed_after_its_end() {
    let stage = JobworkerpStage::start().await;
    let mut statuses = JobStatusServiceClient::new(connect(&stage.server).await);
    let worker =
        stage.create(super::CreateWorkerRequest { retry_policy: policy(), ..command("a") }).await;
    let id = stage.enqueue(job(worker)).await;
    let mut status = async || {
        let found =
            statuses.find(JobId { value: id }).await.expect("a response").into_inner().status;
        let all = all(statuses.find_all(Empty {}).await).await;
        let in_list = all.iter().find(|one| one.id == Some(JobId { value: id }));
        assert_eq!(in_list.map(|one| one.status), found);
        found.and_then(|status| JobStatus::try_from(status).ok())
    };
    assert_eq!(status().await, Some(JobStatus::Pending));
    let running = stage.next().await.expect("a job");
    assert_eq!(status().await, Some(JobStatus::Running));
    let data = stage.job(id).await.expect("it exists").data.expect("data");
    assert_eq!(data.grabbed_until_time, Some(running.live.lease_until.as_millis()));
    stage.report(&running, super::failure("again", "busy")).await;
    assert_eq!(status().await, Some(JobStatus::Pending), "it is retried");
    let data = stage.job(id).await.expect("it exists").data.expect("data");
    assert_eq!((data.retried, data.run_after_time), (1, stage.now() + 1000));
    stage.advance(SECOND).await;
    stage.run(b"").await;
    assert_eq!(status().await, None);
    assert_eq!(stage.job(id).await, None);
    for id in [0, -1, i64::MIN, i64::MAX] {
        assert_eq!(stage.job(id).await, None);
        assert!(!stage.delete(id).await);
    }
}

#[tokio::test]
async fn a_delete_removes_a_waiting_job_and_asks_a_running_one_to_stop() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(command("a")).await;
    let waiting = stage.enqueue(job(worker)).await;
    assert!(stage.delete(waiting).await);
    assert_eq!((stage.job(waiting).await, stage.next().await), (None, None));
    assert!(!stage.delete(waiting).await, "it has ended");
    let id = stage.enqueue(job(worker)).await;
    let running = stage.next().await.expect("a job");
    assert!(stage.delete(id).await);
    assert!(stage.delete(id).await, "it was requested before");
    let asked = stage.server.engine.get(running.id).await.expect("a response").expect("it exists");
    assert!(asked.live.stop && asked.live.state == State::Running);
    stage.report(&running, Outcome::Cancel).await;
    assert_eq!(stage.job(id).await, None);
}

#[tokio::test]
async fn restore_with_nothing_to_restore_succeeds() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(command("a")).await;
    stage.enqueue(job(worker)).await;
    let mut restore = JobRestoreServiceClient::new(connect(&stage.server).await);
    let ask = JobRestoreRequest { include_grabbed: Some(true), limit: Some(1) };
    assert!(restore.restore(ask).await.expect("a response").into_inner().is_success);
    assert!(all(restore.find_all(ask).await).await.is_empty());
}
