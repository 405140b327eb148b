//! Follow-ups: next workers, periodic runs, and Slack.

use crore_core::handler::join_items;
use crore_core::machine::Outcome;
use crore_core::{Encoding, JobId, Span};
use crore_doors::jobworkerp;
use crore_wire::grpc::jobworkerp::data::{
    JobResult, JobResultData, Priority, ResultOutput, Worker, WorkerId,
};
use crore_wire::grpc::jobworkerp::service::{CreateWorkerRequest, JobRequest};
use prost::Message;
use serde_json::{Value, json};
use tonic::Code;

use super::workers::with_slack;
use super::{JobworkerpStage, SECOND, all, command, failure, job, name, part};

fn before(name: &str, next: &[i64]) -> CreateWorkerRequest {
    let next_workers = next.iter().map(|value| WorkerId { value: *value }).collect();
    CreateWorkerRequest { next_workers, ..command(name) }
}

#[tokio::test]
async fn each_output_item_becomes_a_job_of_each_next_worker() {
    let stage = JobworkerpStage::start().await;
    let (one, two) = (stage.create(command("one")).await, stage.create(command("two")).await);
    let first = stage.create(before("first", &[one, two, 99])).await;
    let (priority, timeout) = (Some(Priority::High.into()), Some(7000));
    let ask = JobRequest { priority, timeout, ..job(first) };
    stage.enqueue(ask).await;
    let running = stage.next().await.expect("a job");
    let result = Some(join_items(&[b"x", b"", b"y"]));
    stage.report(&running, Outcome::Done { result }).await;
    let jobs = all(stage.jobs.clone().find_list(part(None, None)).await).await;
    let seen: Vec<_> = jobs
        .into_iter()
        .rev()
        .map(|job| {
            let data = job.data.expect("data");
            assert_eq!(data.timeout, 7000);
            (data.worker_id.expect("one").value, data.arg.clone(), data.priority())
        })
        .collect();
    let high = Priority::High;
    assert_eq!(
        seen,
        [
            (one, b"x".to_vec(), high),
            (one, b"y".to_vec(), high),
            (two, b"x".to_vec(), high),
            (two, b"y".to_vec(), high),
        ]
    );
    let data = stage.worker(first).await.expect("it exists");
    let next: Vec<_> = data.next_workers.iter().map(|id| id.value).collect();
    assert_eq!(next, [one, two, 99]);
}

#[tokio::test]
async fn nothing_follows_a_failure() {
    let stage = JobworkerpStage::start().await;
    let next = stage.create(command("next")).await;
    let first = stage.create(before("first", &[next])).await;
    stage.enqueue(job(first)).await;
    stage.fail("other", "no").await;
    assert_eq!(stage.next().await, None);
}

#[tokio::test]
async fn a_chain_by_number_survives_renaming_and_late_creation_of_its_workers() {
    let stage = JobworkerpStage::start().await;
    // The next worker does not exist yet.
    let first = stage.create(before("first", &[2])).await;
    let second = stage.create(command("second")).await;
    assert_eq!((first, second), (1, 2));
    let follows = async || {
        stage.enqueue(job(first)).await;
        stage.run(b"x").await;
        let next = stage.next().await;
        if let Some(job) = &next {
            stage.report(job, Outcome::Done { result: None }).await;
        }
        next.map(|job| job.spec.kind.to_string())
    };
    assert_eq!(follows().await.as_deref(), Some("second"));
    let mut data = stage.worker(second).await.expect("it exists");
    data.name = "renamed".to_owned();
    let update = Worker { id: Some(WorkerId { value: second }), data: Some(data) };
    stage.workers.clone().update(update).await.expect("renamed");
    assert_eq!(follows().await.as_deref(), Some("renamed"));
    stage.workers.clone().delete(WorkerId { value: second }).await.expect("deleted");
    assert_eq!(follows().await, None, "dropped callers are left out");
    // A new worker of the same name is a different worker.
    assert_eq!(stage.create(command("renamed")).await, 3);
    assert_eq!(follows().await, None);
    let data = stage.worker(first).await.expect("it exists");
    assert_eq!(data.next_workers, [WorkerId { value: second }]);
}

#[tokio::test]
async fn a_periodic_job_keeps_its_phase_and_its_arguments() {
    let stage = JobworkerpStage::start().await;
    let worker = CreateWorkerRequest { periodic_interval: Some(3000), ..command("a") };
    let worker = stage.create(worker).await;
    // As in the README: whole intervals after the first second of 1970.
    let ask = JobRequest {
        run_after_time: Some(1000),
        uniq_key: Some("k".to_owned()),
        priority: Some(Priority::Low.into()),
        timeout: Some(5000),
        ..job(worker)
    };
    let mut id = stage.enqueue(ask).await;
    for turn in 0..4 {
        // A run that takes longer than an interval skips the missed ones.
        let running = stage.next().await.expect("a job");
        stage.advance(Span::from_millis(if turn == 2 { 4000 } else { 100 })).await;
        let outcome = match turn {
            1 => failure("other", "no"),
            _ => Outcome::Done { result: None },
        };
        stage.report(&running, outcome).await;
        let jobs = all(stage.jobs.clone().find_list(part(None, None)).await).await;
        assert_eq!(jobs.len(), 1);
        let next = jobs[0].id.expect("an id").value;
        assert_ne!(next, id, "each has a number of its own");
        let data = jobs[0].data.clone().expect("data");
        assert_eq!(data.run_after_time / 1000 % 3, 1, "{}", data.run_after_time);
        assert_eq!(data.run_after_time % 1000, 0);
        assert!(data.run_after_time > stage.now() && data.run_after_time <= stage.now() + 3000);
        assert_eq!(
            (data.uniq_key.as_deref(), data.priority(), data.timeout),
            (Some("k"), Priority::Low, 5000)
        );
        stage.advance(Span::from_millis((data.run_after_time - stage.now()) as u64)).await;
        id = next;
    }
    assert!(stage.delete(id).await);
    stage.advance(Span::from_secs(60)).await;
    assert_eq!(stage.next().await, None, "a delete ends it");
}

#[tokio::test]
async fn a_periodic_job_without_a_time_runs_whole_intervals_after_it_was_enqueued() {
    let stage = JobworkerpStage::start().await;
    let worker = CreateWorkerRequest { periodic_interval: Some(2000), ..command("a") };
    let worker = stage.create(worker).await;
    let begun = stage.now();
    stage.enqueue(job(worker)).await;
    stage.advance(SECOND).await;
    for turn in 1..4 {
        stage.run(b"").await;
        let jobs = all(stage.jobs.clone().find_list(part(None, None)).await).await;
        let data = jobs[0].data.clone().expect("data");
        assert_eq!(data.run_after_time, begun + turn * 2000);
        stage.advance(Span::from_millis((data.run_after_time - stage.now()) as u64)).await;
    }
}

#[tokio::test]
async fn a_result_that_is_enqueued_for_the_built_in_worker_is_a_notification() {
    let stage = JobworkerpStage::with(with_slack(false, false)).await;
    jobworkerp::prepare(&stage.server.doors).await.expect("prepared");
    let data = JobResultData {
        worker_name: "mail".to_owned(),
        output: Some(ResultOutput { items: vec![b"sent".to_vec()] }),
        ..JobResultData::default()
    };
    let arg = JobResult { id: None, data: Some(data) }.encode_to_vec();
    let answer = stage.try_enqueue(JobRequest { arg, ..job(-1) }).await.expect("enqueued");
    let id = JobId(answer.id.expect("an id").value as u64);
    let pushed = stage.server.engine.get(id).await.expect("asked").expect("it is there");
    let summary: Value = serde_json::from_slice(&pushed.spec.payload.bytes).expect("JSON");
    let expected = json!({"job": "", "kind": "mail", "state": "done", "output": "sent"});
    assert_eq!((pushed.spec.payload.encoding, summary), (Encoding::Json, expected));
    let refused = stage.try_enqueue(JobRequest { arg: b"sent".to_vec(), ..job(-1) }).await;
    assert_eq!(refused.expect_err("not a result").code(), Code::InvalidArgument);
}

#[tokio::test]
async fn slack_is_notified_of_success_and_failure() {
    let stage = JobworkerpStage::with(with_slack(true, true)).await;
    jobworkerp::prepare(&stage.server.doors).await.expect("prepared");
    let worker = stage.create(before("a", &[-1])).await;
    for is_good in [true, false] {
        let id = stage.enqueue(job(worker)).await;
        let running = match is_good {
            true => stage.run(b"well").await,
            false => stage.fail("other", "it broke").await,
        };
        assert_eq!(running.id.0, id as u64);
        let told = stage.next().await.expect("a job");
        assert_eq!(told.spec.kind, name("__SLACK_NOTIFICATION_WORKER__"));
        let summary: Value = serde_json::from_slice(&told.spec.payload.bytes).expect("JSON");
        assert_eq!((&summary["job"], &summary["kind"]), (&json!(id.to_string()), &json!("a")));
        match is_good {
            true => assert_eq!(summary["output"], "well"),
            false => assert_eq!(summary["error"], "it broke"),
        }
        stage.report(&told, Outcome::Done { result: None }).await;
    }
}
