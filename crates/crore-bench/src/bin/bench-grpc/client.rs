//! Pushes without the client library, and the queue of all parts.

use std::net::SocketAddr;

use crore_bench::server::bare_worker::BareWorker;
use crore_bench::server::measurement::PAYLOAD_BYTES;
use crore_wire::grpc::v1;
use crore_wire::grpc::v1::jobs_client::JobsClient;
use tonic::transport::Channel;

pub(crate) const QUEUE: &str = "work";
const SLOTS: u32 = 100;

/// A worker of the queue. The bare server answers its hello like any message.
pub(crate) async fn start_worker(address: SocketAddr, name: &str) -> BareWorker {
    BareWorker::start(address, name, vec![QUEUE.to_owned()], SLOTS).await
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
