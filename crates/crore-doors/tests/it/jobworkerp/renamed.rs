//! A renamed worker runs the jobs that were enqueued before.

use crore_wire::grpc::jobworkerp::data::{JobStatus, Worker, WorkerId};
use crore_wire::grpc::jobworkerp::service::job_status_service_client::JobStatusServiceClient;
use crore_wire::grpc::jobworkerp::service::{CreateWorkerRequest, FindListByWorkerIdRequest};

use super::{JobworkerpStage, SECOND, all, command, job, part, stored};
use crate::grpc::connect;

async fn rename(stage: &JobworkerpStage, id: i64, name: &str) {
    let mut data = stage.worker(id).await.expect("it exists");
    data.name = name.to_owned();
    let update = Worker { id: Some(WorkerId { value: id }), data: Some(data) };
    assert!(
        stage.workers.clone().update(update).await.expect("a response").into_inner().is_success
    );
}

fn of_worker(id: i64) -> FindListByWorkerIdRequest {
    FindListByWorkerIdRequest { worker_id: Some(WorkerId { value: id }), ..Default::default() }
}

#[tokio::test]
async fn jobs_that_wait_for_a_worker_are_run_by_it_under_any_name() {
    let stage = JobworkerpStage::start().await;
    let next = stage.create(stored("next")).await;
    let next_workers = vec![WorkerId { value: next }];
    let id = stage.create(CreateWorkerRequest { next_workers, ..stored("old") }).await;
    let waits = stage.enqueue(job(id)).await;
    rename(&stage, id, "new").await;
    rename(&stage, id, "newer").await;
    let data = stage.job(waits).await.expect("it exists").data.expect("data");
    assert_eq!(data.worker_id, Some(WorkerId { value: id }));
    assert_eq!(all(stage.jobs.clone().find_list(part(None, None)).await).await.len(), 1);
    let its = all(stage.jobs.clone().find_list_by_worker_id(of_worker(id)).await).await;
    assert_eq!(its.len(), 1);
    let mut states = JobStatusServiceClient::new(connect(&stage.server).await);
    let found = states.find(crore_wire::grpc::jobworkerp::data::JobId { value: waits }).await;
    assert_eq!(found.expect("a response").into_inner().status, Some(JobStatus::Pending.into()));
    stage.run(b"out").await;
    let results = all(stage.results.clone().find_list_by_worker_id(of_worker(id)).await).await;
    let [result] = &results[..] else { panic!("{results:?}") };
    assert_eq!(result.data.as_ref().expect("data").worker_name, "newer");
    let follows = stage.next().await.expect("the follow-up is stored");
    assert_eq!((follows.spec.kind.as_str(), &*follows.spec.payload.bytes), ("next", &b"out"[..]));
}

#[tokio::test]
async fn a_reused_name_does_not_take_over_jobs() {
    let stage = JobworkerpStage::start().await;
    let first = stage.create(stored("a")).await;
    let waits = stage.enqueue(job(first)).await;
    rename(&stage, first, "b").await;
    let second =
        stage.create(CreateWorkerRequest { operation: "date".into(), ..stored("a") }).await;
    let other = stage.enqueue(job(second)).await;
    for (id, program, worker) in [(waits, "ls", first), (other, "date", second)] {
        let taken = stage.next().await.expect("a job");
        assert_eq!(taken.id.0.cast_signed(), id);
        let (_, known) = stage.server.engine.handlers().of_job(&taken).expect("it has a handler");
        assert_eq!(known.handler.settings["program"], program);
        let data = stage.job(id).await.expect("it runs").data.expect("data");
        assert_eq!(data.worker_id, Some(WorkerId { value: worker }));
    }
}

#[tokio::test]
async fn a_periodic_job_continues_under_the_new_name() {
    let stage = JobworkerpStage::start().await;
    let periodic_interval = Some(2000);
    let id = stage.create(CreateWorkerRequest { periodic_interval, ..command("old") }).await;
    stage.enqueue(job(id)).await;
    rename(&stage, id, "new").await;
    stage.create(command("old")).await;
    for kind in ["old", "new", "new"] {
        assert_eq!(stage.run(b"").await.spec.kind.as_str(), kind);
        stage.advance(SECOND.times(2)).await;
    }
}
