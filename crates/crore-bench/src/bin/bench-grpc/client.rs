//! Connections, and the worker's end of a stream, without the client library.

use std::net::SocketAddr;

use crore_wire::grpc::v1;
use crore_wire::grpc::v1::jobs_client::JobsClient;
use crore_wire::grpc::v1::work_client::WorkClient;
use futures_util::stream::unfold;
use tokio::sync::mpsc;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

use crore_bench::server::measurement::PAYLOAD_BYTES;

pub(crate) const QUEUE: &str = "work";

pub(crate) async fn connect(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.tcp_nodelay(true).connect().await.unwrap()
}

/// Pushes one job.
pub(crate) async fn push_one(jobs: &mut JobsClient<Channel>) {
    let pushed = jobs.push(push_request()).await.unwrap().into_inner();
    assert!(pushed.jobs.len() == 1 && pushed.refused == 0, "{pushed:?}");
}

fn push_request() -> v1::PushRequest {
    let payload = Some(vec![b'x'; PAYLOAD_BYTES].into());
    let (kind, encoding) = (QUEUE.to_owned(), v1::Encoding::Bytes.into());
    let job = v1::NewJob { kind, payload, encoding, ..v1::NewJob::default() };
    v1::PushRequest { jobs: vec![job], ..v1::PushRequest::default() }
}

/// A worker's end of a stream.
pub(crate) struct BareWorker {
    sender: mpsc::Sender<v1::WorkerSays>,
    receiver: Streaming<v1::ServerSays>,
}

impl BareWorker {
    /// Sends a hello; the bare server answers it like any message.
    pub(crate) async fn start(address: SocketAddr, name: &str) -> Self {
        let (sender, outgoing) = mpsc::channel(16);
        let hello = v1::Hello {
            queues: vec![QUEUE.to_owned()],
            slots: 100,
            incarnation: name.to_owned(),
            name: name.to_owned(),
            ..v1::Hello::default()
        };
        let hello = v1::WorkerSays { hello: Some(hello), ..v1::WorkerSays::default() };
        sender.send(hello).await.unwrap();
        let outgoing =
            unfold(outgoing, async |mut outgoing| Some((outgoing.recv().await?, outgoing)));
        let mut work = WorkClient::new(connect(address).await);
        let receiver = work.stream(outgoing).await.unwrap().into_inner();
        let mut worker = Self { sender, receiver };
        worker.receive().await;
        worker
    }

    pub(crate) async fn send(&self, message: v1::WorkerSays) {
        self.sender.send(message).await.unwrap();
    }

    pub(crate) async fn receive(&mut self) -> v1::ServerSays {
        self.receiver.message().await.unwrap().expect("the stream goes on")
    }
}
