//! Lakh: producers send jobs; workers join for job names and report the outcome of each job.
//!
//! | call | request | response |
//! |---|---|---|
//! | `/lakh.Lakh/Work` | a stream of jobs | an empty message, when all jobs are durable |
//! | `/lakh.Lakh/Join` | a stream of reports | a stream of jobs |
//! | `/lakh.Lakh/GetDeadJobs` | nothing | the dead jobs |
//!
//! The metadata `job_names` lists the names of the jobs that a producer sends, or that a worker takes. A job waits in
//! the queue named after it. Its reservation is its lease, which is not renewed; a job without one is done when it is
//! handed over. Of the reports between two deliveries of a job the first counts, from any worker, because the protocol
//! cannot name a delivery.

mod dead;
mod join;
mod names;
mod reports;
mod reservations;
mod translate;
mod work;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::ConnectInfo;
use crore_api::AdmittedCall;
use crore_api::telemetry::TraceContext;
use crore_core::Name;
use crore_wire::grpc::lakh::lakh_server::{Lakh, LakhServer};
use crore_wire::grpc::lakh::{DeadJobs, Job, JobResult};
use tonic::{Request, Response, Status, Streaming};

use self::join::JoinedStream;
use self::names::JobNames;
use crate::Doors;
use crate::grpc::{failed, grant, invalid};

/// The Lakh service; `max_bytes` is the maximum message size.
pub(crate) fn service(doors: &Doors, max_bytes: usize) -> LakhServer<LakhService> {
    LakhServer::new(LakhService(doors.clone())).max_decoding_message_size(max_bytes)
}

#[derive(Debug, Clone)]
pub(crate) struct LakhService(Doors);

type LakhReply<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Lakh for LakhService {
    async fn work(&self, request: Request<Streaming<Job>>) -> LakhReply<()> {
        let names = JobNames::of(request.metadata())?;
        let grant = grant(&request)?;
        let context = request.extensions().get::<TraceContext>();
        let context = context.map(|context| Arc::<str>::from(context.to_string()));
        let call = AdmittedCall::of(request.extensions()).cloned();
        let work = work::WorkCall { doors: self.0.clone(), grant, names, context, call };
        // Received jobs are stored even if the producer disconnects.
        let pushed = tokio::spawn(work.run(request.into_inner())).await;
        pushed.map_err(|_| failed(crore::Error::Stopping))??;
        Ok(Response::new(()))
    }

    type JoinStream = JoinedStream;

    async fn join(&self, request: Request<Streaming<JobResult>>) -> LakhReply<JoinedStream> {
        let names = JobNames::of(request.metadata())?;
        let worker = worker(request.extensions().get()).map_err(invalid)?;
        let caller = (self.0.clone(), grant(&request)?);
        let joined = JoinedStream::new(caller, names, worker, request.into_inner());
        Ok(Response::new(joined.map_err(invalid)?))
    }

    async fn get_dead_jobs(&self, request: Request<()>) -> LakhReply<DeadJobs> {
        dead::dead_jobs(&self.0, &grant(&request)?).await
    }
}

/// A worker has no name of its own; it is named after its address.
fn worker(peer: Option<&ConnectInfo<SocketAddr>>) -> Result<Name, crore_core::Invalid> {
    match peer {
        Some(ConnectInfo(peer)) => Name::new("worker", &format!("lakh {peer}")),
        None => Name::new("worker", "lakh"),
    }
}
