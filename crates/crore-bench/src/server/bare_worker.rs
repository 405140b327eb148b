//! The worker's end of a stream, without the client library.

use std::net::SocketAddr;

use crore_wire::grpc::v1;
use crore_wire::grpc::v1::work_client::WorkClient;
use futures_util::stream::unfold;
use tokio::sync::mpsc;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

/// A connection of its own.
pub async fn connect(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.tcp_nodelay(true).connect().await.unwrap()
}

/// A worker's end of a stream.
#[derive(Debug)]
pub struct BareWorker {
    sender: mpsc::Sender<v1::WorkerSays>,
    receiver: Streaming<v1::ServerSays>,
}

impl BareWorker {
    /// Sends a hello, and waits for the first message of the server.
    pub async fn start(address: SocketAddr, name: &str, queues: Vec<String>, slots: u32) -> Self {
        let (sender, outgoing) = mpsc::channel(16);
        let hello = v1::Hello {
            queues,
            slots,
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

    pub async fn send(&self, message: v1::WorkerSays) {
        self.sender.send(message).await.unwrap();
    }

    pub async fn receive(&mut self) -> v1::ServerSays {
        self.receiver.message().await.unwrap().expect("the stream goes on")
    }
}
