//! A client of the built server: it defines handlers and pushes jobs.

use std::time::{Duration, Instant};

use crore_client::{Client, Job, JobId};
use crore_wire::grpc::v1;
use crore_wire::grpc::v1::admin_client::AdminClient;
use serde_json::Value;
use tonic::transport::{Channel, Endpoint};

use crore_bench::server::BenchServer;
use crore_bench::server::measurement::PAYLOAD_BYTES;

/// Maximum number of jobs per push.
const BATCH: usize = 1000;
/// Timeout of a wait for a job.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct RunnersClient {
    pub(crate) client: Client,
    admin: AdminClient<Channel>,
}

impl RunnersClient {
    pub(crate) async fn connect(server: &BenchServer) -> Self {
        let client = Client::connect(format!("http://{}", server.address)).await.unwrap();
        Self { client, admin: AdminClient::new(connect(server).await) }
    }

    pub(crate) async fn set_handler(&self, kind: &str, handler: &Value) {
        let handler = v1::Handler { kind: kind.to_owned(), handler: handler.to_string() };
        self.admin.clone().set_handler(handler).await.unwrap();
    }

    /// Pushes jobs into a paused queue and resumes it; the time from then until the last job has ended.
    pub(crate) async fn run_all(&self, kind: &str, queue: &str, n: usize) -> Duration {
        let of = || v1::QueueRef { queue: queue.to_owned() };
        let done = self.done_jobs(kind, of()).await;
        self.admin.clone().pause_queue(of()).await.unwrap();
        let mut last = JobId(0);
        for start in (0..n).step_by(BATCH) {
            let jobs = (start..n.min(start + BATCH)).map(|_| job(kind, queue));
            last = self.client.push_all(jobs).await.unwrap().pop().unwrap();
        }
        let start = Instant::now();
        self.admin.clone().resume_queue(of()).await.unwrap();
        // Jobs that run concurrently with the last one may end after it.
        self.wait_until_done(last).await;
        while self.done_jobs(kind, of()).await < done + n as u64 {}
        start.elapsed()
    }

    /// Waits until a job is done.
    pub(crate) async fn wait_until_done(&self, job: JobId) {
        loop {
            let ended = self.client.wait(job, WAIT_TIMEOUT).await.unwrap();
            if ended.ended {
                assert_eq!(ended.state(), v1::State::Done, "{ended:?}");
                return;
            }
        }
    }

    /// Number of done jobs; panics if a job has ended in another way.
    async fn done_jobs(&self, kind: &str, queue: v1::QueueRef) -> u64 {
        let counted = self.admin.clone().counts(queue).await.unwrap().into_inner().counts;
        let mut done = 0;
        for count in counted.into_iter().filter(|count| count.kind == kind) {
            assert_ne!(count.state(), v1::State::Dead, "{count:?}");
            if count.state() == v1::State::Done {
                done += count.n;
            }
        }
        done
    }
}

pub(crate) async fn connect(server: &BenchServer) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    endpoint.tcp_nodelay(true).connect().await.unwrap()
}

pub(crate) fn job(kind: &str, queue: &str) -> Job {
    Job::new(kind).queue(queue).bytes(vec![b'x'; PAYLOAD_BYTES])
}
