//! jobworkerp, called by a real client; the test acts as the runner.

mod bad;
mod chains;
mod concurrent_updates;
mod jobs;
mod lists;
mod many;
mod renamed;
mod results;
mod tools;
mod waits;
mod workers;

use std::sync::Arc;

use crore::Engine;
use crore::fetch::Fetch;
use crore::finish::{Finish, FinishResult};
use crore::store::Memory;
use crore_core::machine::{Outcome, RetryDirective};
use crore_core::payload::Encoding;
use crore_core::{Job as Stored, Name, Payload, Span};
use crore_doors::{Options, listen};
use crore_testkit::FakeClock;
use crore_wire::grpc::jobworkerp::data::{
    Job, JobId, JobResult, JobResultData, ResponseType, RetryPolicy, RetryType, Worker, WorkerData,
    WorkerId,
};
use crore_wire::grpc::jobworkerp::service::job_result_service_client::JobResultServiceClient;
use crore_wire::grpc::jobworkerp::service::job_service_client::JobServiceClient;
use crore_wire::grpc::jobworkerp::service::worker_service_client::WorkerServiceClient;
use crore_wire::grpc::jobworkerp::service::{
    CreateJobResponse, CreateWorkerRequest, FindListByJobIdRequest, FindListRequest, JobRequest,
    ListenRequest, job_request, listen_request,
};
use crore_wire::grpc::{RpcStatus, v1};
use prost::Message;
use serde_json::{Value, json};
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::grpc::connect;
use crate::server::Server;

const SECOND: Span = Span::from_secs(1);

/// A server on a fake clock, and clients for it.
struct JobworkerpStage {
    server: Server,
    clock: Arc<FakeClock>,
    workers: WorkerServiceClient<Channel>,
    jobs: JobServiceClient<Channel>,
    results: JobResultServiceClient<Channel>,
}

impl JobworkerpStage {
    async fn start() -> Self {
        Self::with(Options::default()).await
    }

    async fn with(options: Options) -> Self {
        let clock = Arc::new(FakeClock::default());
        let store = Arc::new(Memory::new(clock.clone()));
        let engine = crore::block_on(Engine::without_thread(
            store,
            clock.clone(),
            crore::Options::default(),
        ));
        let engine = engine.expect("an engine");
        let server = Server::start_on(engine, options, listen::Options::default()).await;
        let channel = connect(&server).await;
        Self {
            server,
            clock,
            workers: WorkerServiceClient::new(channel.clone()),
            jobs: JobServiceClient::new(channel.clone()),
            results: JobResultServiceClient::new(channel),
        }
    }

    fn now(&self) -> i64 {
        self.server.engine.status().now().as_millis()
    }

    /// Advances the clock.
    async fn advance(&self, span: Span) {
        self.clock.advance(span);
        self.server.engine.upkeep().run_once().await.expect("upkeep");
    }

    /// Creates a worker, and returns its id.
    async fn create(&self, worker: CreateWorkerRequest) -> i64 {
        self.try_create(worker).await.expect("created")
    }

    async fn try_create(&self, worker: CreateWorkerRequest) -> Result<i64, Status> {
        let created = self.workers.clone().create(worker).await?.into_inner();
        Ok(created.id.expect("an id").value)
    }

    async fn worker(&self, id: i64) -> Option<WorkerData> {
        let found = self.workers.clone().find(WorkerId { value: id }).await.expect("a response");
        let worker = found.into_inner().data?;
        assert_eq!(worker.id, Some(WorkerId { value: id }));
        worker.data
    }

    async fn enqueue(&self, job: JobRequest) -> i64 {
        let created = self.try_enqueue(job).await.expect("enqueued");
        assert_eq!(created.result, None);
        created.id.expect("an id").value
    }

    async fn try_enqueue(&self, job: JobRequest) -> Result<CreateJobResponse, Status> {
        Ok(self.jobs.clone().enqueue(job).await?.into_inner())
    }

    async fn job(&self, id: i64) -> Option<Job> {
        let found = self.jobs.clone().find(JobId { value: id }).await.expect("a response");
        found.into_inner().data
    }

    async fn delete(&self, id: i64) -> bool {
        let deleted = self.jobs.clone().delete(JobId { value: id }).await;
        deleted.expect("a response").into_inner().is_success
    }

    /// All results of a job.
    async fn results_of(&self, id: i64) -> Vec<JobResult> {
        let ask = FindListByJobIdRequest { job_id: Some(JobId { value: id }) };
        all(self.results.clone().find_list_by_job_id(ask).await).await
    }

    /// Waits for the result of a job.
    async fn listen(&self, ask: ListenRequest) -> Result<JobResultData, Status> {
        let response = self.results.clone().listen(ask).await?.into_inner();
        Ok(response.data.expect("data"))
    }

    /// Fetches the next job of the default channel.
    async fn next(&self) -> Option<Stored> {
        self.next_in("default").await
    }

    async fn next_in(&self, channel: &str) -> Option<Stored> {
        let fetch =
            Fetch { handled: Some(Vec::new()), ..Fetch::new(name(channel), name("runner")) };
        self.server.engine.fetch(fetch).await.expect("fetched").pop()
    }

    /// Runs the next job with this result.
    async fn run(&self, result: &[u8]) -> Stored {
        let job = self.next().await.expect("a job");
        let result = Some(Payload::new(Encoding::Bytes, result.to_vec()));
        self.report(&job, Outcome::Done { result }).await;
        job
    }

    /// Runs the next job, which fails.
    async fn fail(&self, class: &str, error: &str) -> Stored {
        let job = self.next().await.expect("a job");
        self.report(&job, failure(class, error)).await;
        job
    }

    async fn report(&self, job: &Stored, outcome: Outcome) {
        let finished = self.server.engine.finish(Finish::of(job, outcome)).await;
        assert!(matches!(finished, Ok(FinishResult::Accepted { .. })), "{finished:?}");
    }
}

/// A failure, as a runner reports it.
fn failure(class: &str, error: &str) -> Outcome {
    let detail = Some(Payload::json(&json!({ "class": class }).to_string()));
    let again = if class == "again" { RetryDirective::ByPolicy } else { RetryDirective::Never };
    Outcome::Failed { error: error.into(), detail, again }
}

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

/// A worker that runs a command.
fn command(name: &str) -> CreateWorkerRequest {
    CreateWorkerRequest {
        name: name.to_owned(),
        operation: "ls".to_owned(),
        ..CreateWorkerRequest::default()
    }
}

/// A worker whose results are stored.
fn stored(name: &str) -> CreateWorkerRequest {
    let yes = Some(true);
    CreateWorkerRequest { store_success: yes, store_failure: yes, ..command(name) }
}

/// A worker with response type `LISTEN_AFTER`.
fn listen_after(name: &str) -> CreateWorkerRequest {
    let response_type = Some(ResponseType::ListenAfter.into());
    CreateWorkerRequest { response_type, ..command(name) }
}

/// A worker with response type `DIRECT`.
fn direct(name: &str) -> CreateWorkerRequest {
    let response_type = Some(ResponseType::Direct.into());
    CreateWorkerRequest { response_type, ..command(name) }
}

/// The README's policy: retries after 1, 2 and 4 seconds.
fn policy() -> Option<RetryPolicy> {
    Some(RetryPolicy {
        r#type: RetryType::Exponential.into(),
        interval: 1000,
        max_interval: 60_000,
        max_retry: 3,
        basis: 2.0,
    })
}

/// A job for this worker.
fn job(worker: i64) -> JobRequest {
    JobRequest {
        worker: Some(job_request::Worker::WorkerId(WorkerId { value: worker })),
        arg: b"/".to_vec(),
        ..JobRequest::default()
    }
}

fn listen_for(job: i64, worker: i64) -> ListenRequest {
    ListenRequest {
        job_id: Some(JobId { value: job }),
        worker: Some(listen_request::Worker::WorkerId(WorkerId { value: worker })),
        timeout: None,
    }
}

/// All messages of a stream.
async fn all<T>(answer: Result<tonic::Response<Streaming<T>>, Status>) -> Vec<T> {
    let mut stream = answer.expect("a stream").into_inner();
    let mut all = Vec::new();
    while let Some(one) = stream.message().await.expect("the stream continues") {
        all.push(one);
    }
    all
}

const fn part(limit: Option<i32>, offset: Option<i64>) -> FindListRequest {
    FindListRequest { limit, offset }
}

/// gRPC code, crore code and field of a refusal; checks that the message names the field.
#[track_caller]
fn problem(status: &Status) -> (Code, String, String) {
    let details = RpcStatus::decode(status.details()).expect("details");
    let problem = v1::Problem::decode(&*details.details[0].value).expect("a problem");
    assert!(status.message().starts_with(&problem.field), "{}", status.message());
    (status.code(), problem.code, problem.field)
}

/// The error text of a failed result.
#[track_caller]
fn text(result: &JobResultData) -> String {
    let items = &result.output.as_ref().expect("an output").items;
    assert_eq!(items.len(), 1, "{items:?}");
    String::from_utf8(items[0].clone()).expect("UTF-8")
}

/// The ids of workers.
fn numbers(workers: &[Worker]) -> Vec<i64> {
    workers.iter().map(|worker| worker.id.expect("an id").value).collect()
}

/// Settings, as an object.
fn object(value: &Value) -> serde_json::Map<String, Value> {
    value.as_object().expect("an object").clone()
}
