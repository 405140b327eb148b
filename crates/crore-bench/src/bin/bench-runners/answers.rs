//! The delay between the end of a job and its answer by jobworkerp's calls: for the caller that enqueued it for a
//! `DIRECT` worker, and for a caller that listens. One job at a time.
//!
//! The server records the end of a job when it is reported, in whole milliseconds; the figures therefore include the
//! sync of the end, and up to a millisecond of truncation.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crore_wire::grpc::jobworkerp::data::{JobResultData, ResponseType, ResultStatus, WorkerId};
use crore_wire::grpc::jobworkerp::service::job_result_service_client::JobResultServiceClient;
use crore_wire::grpc::jobworkerp::service::job_service_client::JobServiceClient;
use crore_wire::grpc::jobworkerp::service::worker_service_client::WorkerServiceClient;
use crore_wire::grpc::jobworkerp::service::{
    CreateWorkerRequest, JobRequest, ListenRequest, job_request, listen_request,
};
use tokio::runtime::Builder;
use tonic::transport::Channel;

use crate::client::connect;
use crore_bench::report::{Goal, ReportRow, RunValues};
use crore_bench::server::BenchServer;
use crore_bench::server::fsync::FsyncProbe;
use crore_bench::server::measurement::{ServerBench, quantile_micros};

const P99: f64 = 0.99;
/// Maximum delay of the answer, in milliseconds.
const MAX_MILLIS: f64 = 5.0;
/// Duration of a job, in seconds: long enough for the listener to be connected before it ends.
const SLEEPS: &[u8] = b"0.02";

pub(crate) fn measure(bench: &mut ServerBench) {
    let server = BenchServer::crore_with(
        &bench.work_dir,
        &["--allow-runner", "command", "--channel", "default=1"],
    );
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(take_turns(bench, &server));
}

async fn take_turns(bench: &mut ServerBench, server: &BenchServer) {
    let door = JobworkerpClient::connect(server).await;
    let direct = door.create("direct", ResponseType::Direct).await;
    let listened = door.create("heard", ResponseType::ListenAfter).await;
    let file = FsyncProbe::new(&bench.work_dir.fresh("synced"));
    let n = bench.scale.pickups / 10;
    let mut delays = [RunValues::default(), RunValues::default()];
    for run in 1..=bench.scale.runs {
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for nth in 0..n {
            times[0].push(door.direct(direct).await);
            times[1].push(door.listen(listened).await);
            times[2].push(file.sync(nth));
        }
        let figures = times.each_ref().map(|times| quantile_micros(times, P99) / 1000.0);
        for (delays, figure) in delays.iter_mut().zip(figures) {
            delays.0.push(figure);
        }
        let figures_text = ["DIRECT", "Listen", "fdatasync"].iter().zip(&times).zip(figures);
        let figures_text: Vec<_> = figures_text
            .map(|((name, times), p99)| {
                format!("{name} p50 {:.2}, p99 {p99:.2} ms", quantile_micros(times, 0.5) / 1000.0)
            })
            .collect();
        let line = format!("answers {run}: {}", figures_text.join("; "));
        bench.work_dir.progress(&line);
        bench.report.notes.push(line);
    }
    let allowed = RunValues(vec![MAX_MILLIS; bench.scale.runs]);
    for (call, delays) in ["DIRECT", "Listen"].iter().zip(&delays) {
        bench.report.rows.push(ReportRow::compared(
            (format!("from a job's end to {call}'s answer, p99"), "ms"),
            delays,
            ("budget", &allowed),
            Goal::AtMost(1.0),
        ));
    }
    let note =
        "answers: each includes the sync of the end, and up to 1 ms of truncation of its time";
    bench.report.notes.push(note.to_owned());
}

/// A client of jobworkerp's calls.
struct JobworkerpClient {
    workers: WorkerServiceClient<Channel>,
    jobs: JobServiceClient<Channel>,
    results: JobResultServiceClient<Channel>,
}

impl JobworkerpClient {
    async fn connect(server: &BenchServer) -> Self {
        let channel = connect(server).await;
        Self {
            workers: WorkerServiceClient::new(channel.clone()),
            jobs: JobServiceClient::new(channel.clone()),
            results: JobResultServiceClient::new(channel),
        }
    }

    async fn create(&self, name: &str, response: ResponseType) -> WorkerId {
        let worker = CreateWorkerRequest {
            name: name.to_owned(),
            operation: "sleep".to_owned(),
            response_type: Some(response.into()),
            ..CreateWorkerRequest::default()
        };
        self.workers.clone().create(worker).await.unwrap().into_inner().id.unwrap()
    }

    /// Enqueues a job whose response is its result.
    async fn direct(&self, worker: WorkerId) -> Duration {
        let response = self.jobs.clone().enqueue(job(worker)).await.unwrap();
        since_end(&response.into_inner().result.unwrap().data.unwrap())
    }

    /// Enqueues a job and listens for its result.
    async fn listen(&self, worker: WorkerId) -> Duration {
        let job_id = self.jobs.clone().enqueue(job(worker)).await.unwrap().into_inner().id;
        let worker = Some(listen_request::Worker::WorkerId(worker));
        let listen = ListenRequest { job_id, worker, timeout: None };
        let response = self.results.clone().listen(listen).await.unwrap();
        since_end(&response.into_inner().data.unwrap())
    }
}

fn job(worker: WorkerId) -> JobRequest {
    let worker = Some(job_request::Worker::WorkerId(worker));
    JobRequest { worker, arg: SLEEPS.to_vec(), ..JobRequest::default() }
}

/// Time since the job ended.
fn since_end(result: &JobResultData) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    assert_eq!(result.status(), ResultStatus::Success, "{result:?}");
    now.saturating_sub(Duration::from_millis(result.end_time.try_into().unwrap()))
}
