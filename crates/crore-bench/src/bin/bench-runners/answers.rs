//! How long after a job's end somebody has the answer who waits for it by jobworkerp's calls: who enqueued it for a
//! `DIRECT` worker, and who listens. One job at a time.
//!
//! A job's end is when the server was told of it, in whole milliseconds, so the sync of the end is in these figures,
//! and up to a millisecond that was cut off.

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
use crore_bench::report::{Goal, Row, Runs};
use crore_bench::server::Server;
use crore_bench::server::fsync::FsyncProbe;
use crore_bench::server::measurement::{Bench, within};

const LATE: f64 = 0.99;
/// How late the answer may be, in milliseconds.
const ALLOWED: f64 = 5.0;
/// How long a job sleeps, in seconds: somebody listens before it has ended.
const SLEEPS: &[u8] = b"0.02";

pub(crate) fn measure(bench: &mut Bench) {
    let server = Server::crore_with(
        &bench.work_dir,
        &["--allow-runner", "command", "--channel", "default=1"],
    );
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(take_turns(bench, &server));
}

async fn take_turns(bench: &mut Bench, server: &Server) {
    let door = Door::connect(server).await;
    let direct = door.create("direct", ResponseType::Direct).await;
    let heard = door.create("heard", ResponseType::ListenAfter).await;
    let file = FsyncProbe::new(&bench.work_dir.fresh("synced"));
    let n = bench.scale.pickups / 10;
    let mut late = [Runs::default(), Runs::default()];
    for run in 1..=bench.scale.runs {
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for nth in 0..n {
            times[0].push(door.direct(direct).await);
            times[1].push(door.listen(heard).await);
            times[2].push(file.sync(nth));
        }
        let figures = times.each_ref().map(|times| within(times, LATE) / 1000.0);
        for (late, figure) in late.iter_mut().zip(figures) {
            late.0.push(figure);
        }
        let shown = ["DIRECT", "Listen", "fdatasync"].iter().zip(&times).zip(figures);
        let shown: Vec<_> = shown
            .map(|((name, times), p99)| {
                format!("{name} p50 {:.2}, p99 {p99:.2} ms", within(times, 0.5) / 1000.0)
            })
            .collect();
        let said = format!("answers {run}: {}", shown.join("; "));
        bench.work_dir.progress(&said);
        bench.report.notes.push(said);
    }
    let allowed = Runs(vec![ALLOWED; bench.scale.runs]);
    for (who, late) in ["DIRECT", "Listen"].iter().zip(&late) {
        bench.report.rows.push(Row::beside(
            (format!("from a job's end to {who}'s answer, p99"), "ms"),
            late,
            ("what is allowed", &allowed),
            Goal::AtMost(1.0),
        ));
    }
    let cut =
        "answers: the sync of the end is in them, and up to 1 ms that is cut off from its time";
    bench.report.notes.push(cut.to_owned());
}

/// jobworkerp's calls.
struct Door {
    workers: WorkerServiceClient<Channel>,
    jobs: JobServiceClient<Channel>,
    results: JobResultServiceClient<Channel>,
}

impl Door {
    async fn connect(server: &Server) -> Self {
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

    /// Enqueues a job whose answer is its result.
    async fn direct(&self, worker: WorkerId) -> Duration {
        let answer = self.jobs.clone().enqueue(job(worker)).await.unwrap();
        since_end(&answer.into_inner().result.unwrap().data.unwrap())
    }

    /// Enqueues a job and listens for its result.
    async fn listen(&self, worker: WorkerId) -> Duration {
        let job_id = self.jobs.clone().enqueue(job(worker)).await.unwrap().into_inner().id;
        let worker = Some(listen_request::Worker::WorkerId(worker));
        let listen = ListenRequest { job_id, worker, timeout: None };
        let heard = self.results.clone().listen(listen).await.unwrap();
        since_end(&heard.into_inner().data.unwrap())
    }
}

fn job(worker: WorkerId) -> JobRequest {
    let worker = Some(job_request::Worker::WorkerId(worker));
    JobRequest { worker, arg: SLEEPS.to_vec(), ..JobRequest::default() }
}

/// The answer is here now; how long ago the job ended.
fn since_end(result: &JobResultData) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    assert_eq!(result.status(), ResultStatus::Success, "{result:?}");
    now.saturating_sub(Duration::from_millis(result.end_time.try_into().unwrap()))
}
