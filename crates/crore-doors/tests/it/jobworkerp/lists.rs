//! Lists of jobs and results: newest first, paged, and by worker.

use crore_core::{Payload, Spec};
use crore_wire::grpc::jobworkerp::data::{Job, JobResult, WorkerId};
use crore_wire::grpc::jobworkerp::service::{
    CountCondition, FindListByWorkerIdRequest, JobRequest,
};
use tonic::Code;

use super::{JobworkerpStage, all, job, name, part, problem, stored};

fn of_worker(worker: i64, limit: Option<i32>, offset: Option<i64>) -> FindListByWorkerIdRequest {
    FindListByWorkerIdRequest { worker_id: Some(WorkerId { value: worker }), limit, offset }
}

fn ids(jobs: &[Job]) -> Vec<i64> {
    jobs.iter().map(|job| job.id.expect("an id").value).collect()
}

fn job_ids(results: &[JobResult]) -> Vec<i64> {
    results
        .iter()
        .map(|one| one.data.as_ref().expect("data").job_id.expect("an id").value)
        .collect()
}

#[tokio::test]
async fn jobs_are_listed_newest_first_in_any_state_and_only_those_of_workers() {
    let stage = JobworkerpStage::start().await;
    let (one, two) = (stage.create(stored("one")).await, stage.create(stored("two")).await);
    let mut pushed = Vec::new();
    for n in 0..250 {
        let worker = if n % 2 == 0 { one } else { two };
        let later = (n % 3 == 0).then_some(stage.now() + 60_000);
        let ask = JobRequest { run_after_time: later, ..job(worker) };
        pushed.push(stage.enqueue(ask).await);
    }
    let strange = Spec::new(name("default"), name("strange"), Payload::json("1"));
    let strange = crore_core::Batch::from(crore_core::NewJob::from(strange));
    stage.server.engine.push_all(strange).await.expect("pushed");
    stage.next().await.expect("one runs");
    pushed.reverse();
    let list = async |limit, offset| {
        ids(&all(stage.jobs.clone().find_list(part(limit, offset)).await).await)
    };
    assert_eq!(list(None, None).await, pushed);
    assert_eq!(list(Some(3), None).await, pushed[..3]);
    assert_eq!(list(Some(120), Some(100)).await, pushed[100..220]);
    assert_eq!(list(None, Some(249)).await, pushed[249..]);
    let count = stage.jobs.clone().count(CountCondition {}).await.expect("counted");
    assert_eq!(count.into_inner().total, 250);
    let by_worker = async |worker, limit, offset| {
        let ask = of_worker(worker, limit, offset);
        ids(&all(stage.jobs.clone().find_list_by_worker_id(ask).await).await)
    };
    let ones: Vec<_> = pushed.iter().skip(1).step_by(2).copied().collect();
    assert_eq!(by_worker(one, None, None).await, ones);
    assert_eq!(by_worker(one, Some(2), Some(110)).await, ones[110..112]);
    assert_eq!(by_worker(99, None, None).await, [0_i64; 0]);
}

#[tokio::test]
async fn results_are_listed_by_worker_and_paged() {
    let stage = JobworkerpStage::start().await;
    let (one, two) = (stage.create(stored("one")).await, stage.create(stored("two")).await);
    let mut ran = Vec::new();
    for n in 0..6 {
        ran.push(stage.enqueue(job(if n % 2 == 0 { one } else { two })).await);
        stage.run(b"well").await;
    }
    ran.reverse();
    let list = async |limit, offset| {
        job_ids(&all(stage.results.clone().find_list(part(limit, offset)).await).await)
    };
    assert_eq!(list(None, None).await, ran);
    assert_eq!(list(Some(2), Some(3)).await, ran[3..5]);
    let ask = of_worker(two, Some(2), Some(1));
    let found = all(stage.results.clone().find_list_by_worker_id(ask).await).await;
    assert_eq!(job_ids(&found), [ran[2], ran[4]]);
}

#[tokio::test]
async fn a_list_without_a_worker_or_with_a_negative_number_is_refused() {
    let stage = JobworkerpStage::start().await;
    let nobody = FindListByWorkerIdRequest { worker_id: None, limit: None, offset: None };
    for (ask, field) in [
        (nobody, "worker_id"),
        (of_worker(1, Some(-1), None), "limit"),
        (of_worker(1, None, Some(-1)), "offset"),
    ] {
        let jobs = stage.jobs.clone().find_list_by_worker_id(ask).await;
        let results = stage.results.clone().find_list_by_worker_id(ask).await;
        for refused in [jobs.expect_err(field), results.expect_err(field)] {
            let (code, _, named) = problem(&refused);
            assert_eq!((code, named.as_str()), (Code::InvalidArgument, field));
        }
    }
}
