//! Lists of very many jobs: they come in the store's order, and cost no more than what is read.

use crore_core::{Batch, NewJob, Payload, Spec};
use crore_wire::grpc::jobworkerp::data::{Job, JobResult, WorkerId};
use crore_wire::grpc::jobworkerp::service::{
    CountCondition, FindListByWorkerIdRequest, JobRequest,
};

use super::{JobworkerpStage, SECOND, all, job, name, part, stored};

/// More than are sorted.
const MANY: usize = 10_500;

/// Pushes many waiting jobs of a worker.
async fn push_many(stage: &JobworkerpStage, kind: &str) {
    let spec = Spec::new(name("default"), name(kind), Payload::json("1"));
    let some: Vec<NewJob> = vec![spec.into(); 500];
    for _ in 0..MANY / some.len() {
        stage.server.engine.push_all(Batch::from(some.clone())).await.expect("pushed");
    }
}

fn of_worker(worker: i64, limit: i32, offset: i64) -> FindListByWorkerIdRequest {
    let (limit, offset) = (Some(limit), Some(offset));
    FindListByWorkerIdRequest { worker_id: Some(WorkerId { value: worker }), limit, offset }
}

fn ids(jobs: &[Job]) -> Vec<i64> {
    jobs.iter().map(|job| job.id.expect("an id").value).collect()
}

fn job_ids(results: &[JobResult]) -> Vec<i64> {
    let id = |one: &JobResult| one.data.as_ref().expect("data").job_id.expect("an id").value;
    results.iter().map(id).collect()
}

#[tokio::test]
async fn very_many_jobs_are_listed_in_run_order() {
    let stage = JobworkerpStage::start().await;
    let (one, two) = (stage.create(stored("one")).await, stage.create(stored("two")).await);
    let other = stage.enqueue(job(two)).await;
    let later = Some(stage.now() + 60_000);
    let latest = stage.enqueue(JobRequest { run_after_time: later, ..job(one) }).await;
    push_many(&stage, "one").await;
    let running = stage.next().await.expect("one runs");
    assert_eq!(running.id.0.cast_signed(), other);
    let list = async |limit, offset| {
        ids(&all(stage.jobs.clone().find_list(part(Some(limit), Some(offset))).await).await)
    };
    let first = latest + 1;
    assert_eq!(list(3, 0).await, [other, first, first + 1]);
    assert_eq!(list(2, 250).await, [first + 249, first + 250]);
    let last = MANY as i64;
    assert_eq!(list(10, last).await, [first + last - 1, latest], "jobs that are not due come last");
    let by_worker = async |worker, limit, offset| {
        let ask = of_worker(worker, limit, offset);
        ids(&all(stage.jobs.clone().find_list_by_worker_id(ask).await).await)
    };
    assert_eq!(by_worker(one, 1, 5).await, [first + 5]);
    assert_eq!(by_worker(two, 9, 0).await, [other]);
    assert_eq!(list(i32::MAX, 0).await.len(), MANY + 2);
    let count = stage.jobs.clone().count(CountCondition {}).await.expect("counted");
    assert_eq!(count.into_inner().total, last + 2);
}

#[tokio::test]
async fn results_among_very_many_jobs_are_listed_by_end_newest_first() {
    let stage = JobworkerpStage::start().await;
    let (one, two) = (stage.create(stored("one")).await, stage.create(stored("two")).await);
    let mut ran = Vec::new();
    for n in 0..250 {
        ran.push(stage.enqueue(job(if n % 2 == 0 { one } else { two })).await);
        match n % 5 {
            0 => stage.fail("other", "no").await,
            _ => stage.run(b"well").await,
        };
        stage.advance(SECOND).await;
    }
    push_many(&stage, "one").await;
    ran.reverse();
    let list = async |limit, offset| {
        job_ids(&all(stage.results.clone().find_list(part(limit, offset)).await).await)
    };
    assert_eq!(list(None, None).await, ran);
    assert_eq!(list(Some(120), Some(100)).await, ran[100..220]);
    let ask = of_worker(two, 2, 1);
    let found = all(stage.results.clone().find_list_by_worker_id(ask).await).await;
    assert_eq!(job_ids(&found), [ran[2], ran[4]]);
    let count = stage.results.clone().count(CountCondition {}).await.expect("counted");
    assert_eq!(count.into_inner().total, 250);
}
