//! gRPC, called by tonic's client.

mod access;
mod admin;
mod bad;
pub(crate) mod frames;
mod jobs;
mod misbehaving;
mod replay;
mod restricted;
mod revocation;
mod stream;
mod tools;
mod versions;
mod web;

use crore_wire::grpc::v1::jobs_client::JobsClient;
use crore_wire::grpc::v1::work_client::WorkClient;
use crore_wire::grpc::{RpcStatus, v1};
use prost::Message;
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use crate::server::Server;

/// A connection.
pub(crate) async fn connect(server: &Server) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address));
    endpoint.expect("an address").connect().await.expect("connected")
}

pub(crate) async fn jobs(server: &Server) -> JobsClient<Channel> {
    JobsClient::new(connect(server).await)
}

/// The problem in the details of a status.
pub(crate) fn problem(status: &Status) -> v1::Problem {
    let details = RpcStatus::decode(status.details()).expect("details");
    assert_eq!((details.code, details.message.as_str()), (status.code() as i32, status.message()));
    v1::Problem::decode(&*details.details[0].value).expect("a problem")
}

/// A job of this kind, in the queue of the same name.
fn job(kind: &str) -> v1::NewJob {
    v1::NewJob { kind: kind.to_owned(), payload: Some("{}".into()), ..v1::NewJob::default() }
}

/// Pushes jobs of one kind, and returns their ids.
pub(crate) async fn push(server: &Server, kind: &str, n: usize) -> Vec<u64> {
    let jobs_ = vec![job(kind); n];
    let ask = v1::PushRequest { jobs: jobs_, ..v1::PushRequest::default() };
    let pushed = jobs(server).await.push(ask).await.expect("pushed").into_inner();
    assert_eq!(pushed.refused, 0);
    pushed.jobs.iter().map(|job| job.id).collect()
}

/// A worker with its own stream.
pub(crate) struct Worker {
    says: mpsc::Sender<v1::WorkerSays>,
    hears: Streaming<v1::ServerSays>,
    welcome: v1::Welcome,
}

pub(crate) fn hello(queue: &str, slots: u32, incarnation: &str) -> v1::Hello {
    v1::Hello {
        queues: vec![queue.to_owned()],
        slots,
        incarnation: incarnation.to_owned(),
        ..v1::Hello::default()
    }
}

impl Worker {
    pub(crate) async fn start(server: &Server, hello: v1::Hello) -> Self {
        let mut client = WorkClient::new(connect(server).await);
        let (says, to_say) = mpsc::channel(16);
        let first = v1::WorkerSays { hello: Some(hello), ..v1::WorkerSays::default() };
        says.send(first).await.expect("sent");
        let hears = client.stream(WorkerMessages(to_say)).await.expect("a stream").into_inner();
        let mut worker = Self { says, hears, welcome: v1::Welcome::default() };
        worker.welcome = worker.next_message().await.welcome.expect("welcome comes first");
        worker
    }

    pub(crate) async fn next_message(&mut self) -> v1::ServerSays {
        self.hears.message().await.expect("a message").expect("the stream continues")
    }

    /// The next message with jobs.
    pub(crate) async fn jobs(&mut self) -> Vec<v1::Delivered> {
        loop {
            let said = self.next_message().await;
            if !said.jobs.is_empty() {
                return said.jobs;
            }
        }
    }

    async fn done(&mut self, jobs: &[v1::Delivered]) -> Vec<v1::Finished> {
        let report = |job: &v1::Delivered| v1::Report {
            id: job.id,
            delivery: job.delivery,
            outcome: Some(v1::report::Outcome::Done(v1::Done::default())),
            ..v1::Report::default()
        };
        self.finish(jobs.iter().map(report).collect()).await
    }

    async fn finish(&mut self, reports: Vec<v1::Report>) -> Vec<v1::Finished> {
        let n = reports.len();
        let says = v1::WorkerSays { finish: reports, ..v1::WorkerSays::default() };
        self.says.send(says).await.expect("sent");
        let mut finished = Vec::new();
        while finished.len() < n {
            finished.extend(self.next_message().await.finished);
        }
        finished
    }
}

/// The messages of a worker, as a stream.
struct WorkerMessages(mpsc::Receiver<v1::WorkerSays>);

impl futures_util::Stream for WorkerMessages {
    type Item = v1::WorkerSays;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<v1::WorkerSays>> {
        self.0.poll_recv(context)
    }
}
