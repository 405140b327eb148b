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
mod held;
mod join;
mod names;
mod reports;
mod translate;
mod work;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::middleware::from_fn_with_state;
use crore_core::Name;
use crore_wire::grpc::lakh::lakh_server::{Lakh, LakhServer};
use crore_wire::grpc::lakh::{DeadJobs, Job, JobResult};
use tonic::{Request, Response, Status, Streaming};

use self::join::Joined;
use self::names::Names;
use crate::grpc::{admit, invalid};
use crate::http::Gate;
use crate::telemetry::Context;
use crate::{Doors, Scope};

/// Every call, with the scope that it needs.
#[rustfmt::skip]
const CALLS: &[(&str, Scope)] = &[
    ("/lakh.Lakh/Work",        Scope::Push),
    ("/lakh.Lakh/Join",        Scope::Work),
    ("/lakh.Lakh/GetDeadJobs", Scope::Read),
];

/// The calls of Lakh.
pub(crate) fn router(doors: &Doors) -> Router {
    let most = usize::try_from(doors.options().max_body.0).unwrap_or(usize::MAX);
    let lakh = LakhServer::new(Service(doors.clone())).max_decoding_message_size(most);
    let add = |router: Router, (path, scope): &(&str, Scope)| {
        let gate = Gate { doors: doors.clone(), scope: *scope };
        let route = Router::new().route_service(path, lakh.clone());
        router.merge(route.route_layer(from_fn_with_state(gate, admit)))
    };
    CALLS.iter().fold(Router::new(), add)
}

#[derive(Debug, Clone)]
struct Service(Doors);

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
        taken.map_err(|error| Status::internal(error.to_string()))??;
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

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn every_call_of_the_service_is_in_the_table() {
        let set = prost_types::FileDescriptorSet::decode(crore_wire::grpc::DESCRIPTORS);
        let files = set.expect("good descriptors").file;
        let file = files.iter().find(|file| file.package() == "lakh").expect("its file");
        let calls = file.service.iter().flat_map(|service| &service.method);
        let calls: Vec<_> = calls.map(|call| format!("/lakh.Lakh/{}", call.name())).collect();
        let table: Vec<_> = CALLS.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(table, calls);
    }
}
