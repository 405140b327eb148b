//! Results: one for the end of a job, and one for each attempt that was retried.

use crore_core::handler::join_items;
use crore_core::machine::Outcome;
use crore_core::payload::Encoding;
use crore_core::{Payload, Span};
use crore_wire::grpc::jobworkerp::data::{
    JobId, JobResult, JobResultData, JobResultId, ResponseType, ResultStatus, WorkerId,
};
use crore_wire::grpc::jobworkerp::service::{
    CountCondition, CreateWorkerRequest, FindListByJobIdRequest, FindListByWorkerIdRequest,
    JobRequest,
};
use tonic::Code;

use super::{
    JobworkerpStage, SECOND, all, command, failure, job, listen_after, listen_for, part, policy,
    problem, stored, text,
};

async fn find(stage: &JobworkerpStage, id: i64) -> Option<JobResult> {
    let found = stage.results.clone().find(JobResultId { value: id }).await;
    found.expect("a response").into_inner().data
}

async fn list(stage: &JobworkerpStage) -> Vec<JobResult> {
    all(stage.results.clone().find_list(part(None, None)).await).await
}

async fn count(stage: &JobworkerpStage) -> i64 {
    stage.results.clone().count(CountCondition {}).await.expect("counted").into_inner().total
}

fn data(results: &[JobResult]) -> Vec<&JobResultData> {
    results.iter().map(|result| result.data.as_ref().expect("data")).collect()
}

fn number(result: &JobResult) -> i64 {
    result.id.expect("an id").value
}

#[tokio::test]
async fn a_success_is_found_with_all_its_fields() {
    let stage = JobworkerpStage::start().await;
    let worker = CreateWorkerRequest { retry_policy: policy(), ..stored("a") };
    let worker = stage.create(worker).await;
    let pushed_at = stage.now();
    let ask = JobRequest { uniq_key: Some("k".to_owned()), timeout: Some(60_000), ..job(worker) };
    let id = stage.enqueue(ask).await;
    stage.advance(SECOND).await;
    let running = stage.next().await.expect("a job");
    stage.advance(SECOND).await;
    let result = Some(join_items(&[b"one\n", b"", b"\xff"]));
    stage.report(&running, Outcome::Done { result }).await;
    let results = stage.results_of(id).await;
    let [result] = results.as_slice() else { panic!("{results:?}") };
    let found = result.data.as_ref().expect("data");
    assert_eq!(found.job_id, Some(JobId { value: id }));
    assert_eq!(found.worker_id, Some(WorkerId { value: worker }));
    assert_eq!((found.worker_name.as_str(), found.arg.as_slice()), ("a", &b"/"[..]));
    assert_eq!((found.status(), found.uniq_key.as_deref()), (ResultStatus::Success, Some("k")));
    let items = &found.output.as_ref().expect("an output").items;
    assert_eq!(items, &[b"one\n".to_vec(), Vec::new(), vec![0xff]]);
    assert_eq!((found.retried, found.max_retry, found.timeout), (0, 3, 60_000));
    assert_eq!((found.enqueue_time, found.run_after_time), (pushed_at, pushed_at));
    assert_eq!((found.start_time, found.end_time), (pushed_at + 1000, pushed_at + 2000));
    assert_eq!(found.response_type(), ResponseType::NoResult);
    assert!(found.store_success && found.store_failure);
    assert_eq!(number(result) >> 20, id, "its number leads back to its job");
    assert_eq!(find(&stage, number(result)).await.as_ref(), Some(result));
    assert_eq!((list(&stage).await, count(&stage).await), (results, 1));
}

#[tokio::test]
async fn the_policy_of_the_readme_retries_after_1_2_and_4_seconds_and_each_attempt_is_found() {
    let stage = JobworkerpStage::start().await;
    let worker = CreateWorkerRequest { retry_policy: policy(), ..stored("a") };
    let worker = stage.create(worker).await;
    let id = stage.enqueue(job(worker)).await;
    for (n, seconds) in [1, 2, 4].into_iter().enumerate() {
        stage.fail("again", &format!("attempt {n}")).await;
        let retried =
            data(&stage.results_of(id).await).iter().map(|one| one.retried).collect::<Vec<_>>();
        assert_eq!(retried, (0..=n as u32).rev().collect::<Vec<_>>());
        stage.advance(Span::from_millis(seconds * 1000 - 1)).await;
        assert_eq!(stage.next().await, None, "not before {seconds} s");
        stage.advance(Span::from_millis(1)).await;
    }
    stage.fail("again", "attempt 3").await;
    stage.advance(Span::from_secs(3600)).await;
    assert_eq!(stage.next().await, None, "no job is left");
    let results = stage.results_of(id).await;
    let found = data(&results);
    let texts: Vec<_> = found.iter().map(|result| text(result)).collect();
    assert_eq!(texts, ["attempt 3", "attempt 2", "attempt 1", "attempt 0"]);
    let statuses: Vec<_> = found.iter().map(|result| result.status()).collect();
    let again = ResultStatus::ErrorAndRetry;
    assert_eq!(statuses, [ResultStatus::MaxRetry, again, again, again]);
    let retried: Vec<_> = found.iter().map(|result| result.retried).collect();
    assert_eq!(retried, [3, 2, 1, 0]);
    assert!(found.is_sorted_by_key(|result| std::cmp::Reverse(result.end_time)));
    for result in &results {
        assert_eq!(find(&stage, number(result)).await.as_ref(), Some(result));
    }
    assert_eq!((list(&stage).await, count(&stage).await), (results, 4));
}

#[tokio::test]
async fn the_class_of_a_failure_is_its_status() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(stored("a")).await;
    for (class, status) in [
        ("again", ResultStatus::MaxRetry),
        ("fatal", ResultStatus::FatalError),
        ("aborted", ResultStatus::Abort),
        ("stopped", ResultStatus::Abort),
        ("other", ResultStatus::OtherError),
        ("strange", ResultStatus::OtherError),
    ] {
        let id = stage.enqueue(job(worker)).await;
        stage.fail(class, "it broke").await;
        let results = stage.results_of(id).await;
        assert_eq!(
            data(&results).iter().map(|one| (one.status(), text(one))).collect::<Vec<_>>(),
            [(status, "it broke".to_owned())]
        );
    }
}

#[tokio::test]
async fn a_timeout_has_the_exact_error_text() {
    let stage = JobworkerpStage::start().await;
    // The runner may report the timeout first; before the timeout, the same text is an ordinary error.
    for (millis, words) in [(1200, r#"timeout error: "timeout: 1200ms""#), (9000, "timed out")] {
        let quick = stage.create(stored(&format!("quick {millis}"))).await;
        let ask = JobRequest { timeout: Some(millis), ..job(quick) };
        let id = stage.enqueue(ask).await;
        let running = stage.next().await.expect("a job");
        stage.clock.advance(Span::from_millis(1200));
        stage.report(&running, failure("again", "timed out")).await;
        assert_eq!(text(data(&stage.results_of(id).await)[0]), words);
    }
    let worker = CreateWorkerRequest { retry_policy: policy(), ..stored("a") };
    let worker = stage.create(worker).await;
    let id = stage.enqueue(JobRequest { timeout: Some(1000), ..job(worker) }).await;
    stage.next().await.expect("a job");
    stage.advance(Span::from_millis(999)).await;
    assert!(stage.results_of(id).await.is_empty());
    stage.advance(Span::from_millis(1)).await;
    let results = stage.results_of(id).await;
    let found = data(&results);
    assert_eq!(text(found[0]), r#"timeout error: "timeout: 1000ms""#);
    assert_eq!(found[0].status(), ResultStatus::ErrorAndRetry);
    let single = stage.create(stored("b")).await;
    let id = stage.enqueue(JobRequest { timeout: Some(1500), ..job(single) }).await;
    stage.next().await.expect("a job");
    stage.advance(Span::from_millis(1500)).await;
    let results = stage.results_of(id).await;
    let found = data(&results);
    assert_eq!(text(found[0]), r#"timeout error: "timeout: 1500ms""#);
    assert_eq!((found.len(), found[0].status()), (1, ResultStatus::MaxRetry));
}

#[tokio::test]
async fn only_results_that_the_worker_stores_are_found() {
    let stage = JobworkerpStage::start().await;
    for (n, (success, failure)) in
        [(false, false), (true, false), (false, true)].into_iter().enumerate()
    {
        let worker = CreateWorkerRequest {
            store_success: Some(success),
            store_failure: Some(failure),
            retry_policy: policy(),
            ..command(&n.to_string())
        };
        let worker = stage.create(worker).await;
        let id = stage.enqueue(job(worker)).await;
        stage.fail("again", "once").await;
        stage.advance(SECOND).await;
        stage.run(b"well").await;
        let found = stage.results_of(id).await;
        let statuses: Vec<_> = data(&found).iter().map(|result| result.status()).collect();
        let expected = match (success, failure) {
            (true, _) => vec![ResultStatus::Success],
            (_, true) => vec![ResultStatus::ErrorAndRetry],
            _ => Vec::new(),
        };
        assert_eq!(statuses, expected);
    }
    assert_eq!((count(&stage).await, list(&stage).await.len()), (2, 2));
}

#[tokio::test]
async fn a_stopped_job_is_listed_as_aborted_and_one_that_never_ran_is_not() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(stored("a")).await;
    let never = stage.enqueue(job(worker)).await;
    assert!(stage.delete(never).await);
    assert!(stage.results_of(never).await.is_empty());
    let id = stage.enqueue(job(worker)).await;
    let running = stage.next().await.expect("a job");
    stage.advance(SECOND).await;
    assert!(stage.delete(id).await);
    stage.report(&running, failure("stopped", "killed")).await;
    let results = stage.results_of(id).await;
    let found = data(&results);
    assert_eq!((found[0].status(), text(found[0]).as_str()), (ResultStatus::Abort, "killed"));
    let id = stage.enqueue(job(worker)).await;
    let running = stage.next().await.expect("a job");
    assert!(stage.delete(id).await);
    stage.report(&running, Outcome::Interrupted).await;
    let results = stage.results_of(id).await;
    let found = data(&results);
    assert_eq!((found[0].status(), found[0].retried), (ResultStatus::Abort, 0));
    assert_eq!(text(found[0]), "the job was stopped");
}

#[tokio::test]
async fn a_worker_crash_costs_no_attempt_and_leaves_no_result() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(CreateWorkerRequest { retry_policy: policy(), ..stored("a") }).await;
    let id = stage.enqueue(job(worker)).await;
    stage.next().await.expect("a job");
    stage.advance(Span::from_secs(31)).await;
    assert!(stage.results_of(id).await.is_empty());
    stage.run(b"well").await;
    let results = stage.results_of(id).await;
    let found = data(&results);
    assert_eq!((found.len(), found[0].status(), found[0].retried), (1, ResultStatus::Success, 0));
}

#[tokio::test]
async fn results_outlive_their_worker_and_follow_it_when_it_is_renamed() {
    let stage = JobworkerpStage::start().await;
    let gone = stage.create(stored("gone")).await;
    let id = stage.enqueue(job(gone)).await;
    stage.run(b"well").await;
    stage.workers.clone().delete(WorkerId { value: gone }).await.expect("deleted");
    let renamed = stage.create(stored("old")).await;
    let other = stage.enqueue(job(renamed)).await;
    stage.run(b"too").await;
    let mut data = stage.worker(renamed).await.expect("it exists");
    data.name = "new".to_owned();
    let update = super::Worker { id: Some(WorkerId { value: renamed }), data: Some(data) };
    stage.workers.clone().update(update).await.expect("renamed");
    let seen: Vec<_> = list(&stage)
        .await
        .iter()
        .map(|result| {
            let data = result.data.clone().expect("data");
            let id = |id: Option<i64>| id.expect("an id");
            let (job, worker) = (data.job_id.map(|id| id.value), data.worker_id.map(|id| id.value));
            (id(job), id(worker), data.worker_name, data.output.expect("an output").items)
        })
        .collect();
    assert_eq!(
        seen,
        [
            (other, renamed, "new".to_owned(), vec![b"too".to_vec()]),
            (id, gone, "gone".to_owned(), vec![b"well".to_vec()]),
        ]
    );
    let result = &stage.results_of(id).await[0];
    assert_eq!(find(&stage, number(result)).await.as_ref(), Some(result));
    let ask = FindListByWorkerIdRequest {
        worker_id: Some(WorkerId { value: gone }),
        ..FindListByWorkerIdRequest::default()
    };
    let found = all(stage.results.clone().find_list_by_worker_id(ask).await).await;
    assert_eq!(found.as_slice(), std::slice::from_ref(result));
}

#[tokio::test]
async fn a_delete_removes_the_results_of_an_ended_job() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(CreateWorkerRequest { retry_policy: policy(), ..stored("a") }).await;
    let id = stage.enqueue(job(worker)).await;
    stage.fail("again", "once").await;
    let delete = async |value| {
        let deleted = stage.results.clone().delete(JobResultId { value }).await;
        deleted.expect("a response").into_inner().is_success
    };
    let attempt = number(&stage.results_of(id).await[0]);
    assert!(!delete(attempt).await, "it continues");
    stage.advance(SECOND).await;
    stage.run(b"well").await;
    let last = number(&stage.results_of(id).await[0]);
    assert!(delete(last).await);
    assert!(!delete(last).await && !delete(attempt).await);
    for value in [0, -1, 1, i64::MAX, i64::MIN] {
        assert!(!delete(value).await);
        assert_eq!(find(&stage, value).await, None);
    }
    assert_eq!(count(&stage).await, 0);
}

#[tokio::test]
async fn a_result_that_is_not_stored_can_be_listened_to_but_not_found() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(listen_after("a")).await;
    let id = stage.enqueue(job(worker)).await;
    stage.run(b"well").await;
    let result = stage.results.clone().listen(listen_for(id, worker)).await.expect("received");
    assert_eq!(find(&stage, number(&result.into_inner())).await, None);
    assert!(stage.results_of(id).await.is_empty());
    let ask = FindListByJobIdRequest { job_id: None };
    let refused = stage.results.clone().find_list_by_job_id(ask).await;
    let refused = problem(&refused.expect_err("an id is required"));
    assert_eq!(refused, (Code::InvalidArgument, "malformed".to_owned(), "job_id".to_owned()));
}

#[tokio::test]
async fn an_empty_output_is_one_item_and_a_missing_output_is_none() {
    let stage = JobworkerpStage::start().await;
    let worker = stage.create(stored("a")).await;
    let empty = Payload::new(Encoding::Text, Vec::<u8>::new());
    for (result, items) in [(Some(empty), vec![Vec::<u8>::new()]), (None, Vec::new())] {
        let id = stage.enqueue(job(worker)).await;
        let running = stage.next().await.expect("a job");
        stage.report(&running, Outcome::Done { result }).await;
        let results = stage.results_of(id).await;
        assert_eq!(data(&results)[0].output.as_ref().expect("an output").items, items);
    }
}
