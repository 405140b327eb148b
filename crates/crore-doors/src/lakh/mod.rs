//! Lakh: producers send jobs, workers join for the names that they know, and say how each job went.
//!
//! | call | takes | gives |
//! |---|---|---|
//! | `/lakh.Lakh/Work` | a stream of jobs | nothing, when all are on the disk |
//! | `/lakh.Lakh/Join` | a stream of reports | a stream of jobs |
//! | `/lakh.Lakh/GetDeadJobs` | nothing | the jobs that are dead |
//!
//! The metadata `job_names` says which jobs a producer will send and which a worker wants. A job waits in the
//! queue that is named after it. Its reservation is its lease, which nobody renews; without one it is done when
//! it is handed over. Whichever report comes first counts, from whichever worker: the wire has no word for a
//! delivery.

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
use crore_api::telemetry::Context;
use crore_core::Name;
use crore_wire::grpc::lakh::lakh_server::{Lakh, LakhServer};
use crore_wire::grpc::lakh::{DeadJobs, Job, JobResult};
use tonic::{Request, Response, Status, Streaming};

use self::join::Joined;
use self::names::Names;
use crate::Doors;
use crate::grpc::{failed, invalid};

/// The calls of Lakh, which take messages of at most so many bytes.
pub(crate) fn service(doors: &Doors, most: usize) -> LakhServer<Service> {
    LakhServer::new(Service(doors.clone())).max_decoding_message_size(most)
}

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Service(Doors);

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Lakh for Service {
    async fn work(&self, request: Request<Streaming<Job>>) -> Answer<()> {
        let names = Names::of(request.metadata())?;
        let context = request.extensions().get::<Context>();
        let context = context.map(|context| Arc::<str>::from(context.to_string()));
        let work = work::Work { doors: self.0.clone(), names, context };
        // What has arrived is taken also if the producer goes away.
        let taken = tokio::spawn(work.take(request.into_inner())).await;
        taken.map_err(|_| failed(crore::Error::Stopping))??;
        Ok(Response::new(()))
    }

    type JoinStream = Joined;

    async fn join(&self, request: Request<Streaming<JobResult>>) -> Answer<Joined> {
        let names = Names::of(request.metadata())?;
        let worker = worker(request.extensions().get()).map_err(invalid)?;
        let joined = Joined::new(self.0.clone(), names, worker, request.into_inner());
        Ok(Response::new(joined.map_err(invalid)?))
    }

    async fn get_dead_jobs(&self, _: Request<()>) -> Answer<DeadJobs> {
        dead::all(&self.0).await
    }
}

/// A worker has no name of its own; it goes by the address that it calls from.
fn worker(peer: Option<&ConnectInfo<SocketAddr>>) -> Result<Name, crore_core::Invalid> {
    match peer {
        Some(ConnectInfo(peer)) => Name::new("worker", &format!("lakh {peer}")),
        None => Name::new("worker", "lakh"),
    }
}
