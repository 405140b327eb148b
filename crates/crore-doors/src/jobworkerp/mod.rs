//! jobworkerp: workers say how jobs are run, and jobs are enqueued for a worker.
//!
//! | service (`jobworkerp.service`) | |
//! |---|---|
//! | `WorkerService` | workers, which are handlers: the name is the kind, the channel the queue |
//! | `JobService` | jobs that have not ended; `Enqueue` waits for the result if the worker says so |
//! | `JobStatusService` | where they stand |
//! | `JobRestoreService` | nothing is ever forgotten, so there is nothing to restore |
//! | `JobResultService` | what came out, also of attempts that failed; `Listen` waits for it |
//!
//! A result is no record of its own: it is read from its job, as long as that is kept. Its number is the number of the
//! job, shifted by 20 bits, with 20 bits that are made from the number of the delivery (`rows`).

mod built_in;
mod enqueue;
pub mod env;
mod job;
mod kept;
mod links;
mod list;
mod operation;
mod options;
mod policy;
mod result;
mod rows;
mod status;
mod translate;
mod wait;
mod worker;
mod workers;

use std::pin::Pin;

use crore_api::audit::About;
use crore_wire::grpc::jobworkerp::service::job_restore_service_server::JobRestoreServiceServer;
use crore_wire::grpc::jobworkerp::service::job_result_service_server::JobResultServiceServer;
use crore_wire::grpc::jobworkerp::service::job_service_server::JobServiceServer;
use crore_wire::grpc::jobworkerp::service::job_status_service_server::JobStatusServiceServer;
use crore_wire::grpc::jobworkerp::service::worker_service_server::WorkerServiceServer;
use futures_util::Stream;
use tonic::{Response, Status};

use crate::Doors;

pub use built_in::prepare;
pub use options::Options;

/// All services.
#[derive(Debug, Clone)]
pub(crate) struct Service(Doors);

type Answer<T> = Result<Response<T>, Status>;
/// Answers, one after the other.
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// An answer whose path alone says too little for the audit log.
fn about<T>(what: String, answer: T) -> Response<T> {
    let mut response = Response::new(answer);
    response.extensions_mut().insert(About(what));
    response
}

/// The calls of jobworkerp, which take messages of at most so many bytes.
pub(crate) struct Services {
    pub(crate) worker: WorkerServiceServer<Service>,
    pub(crate) job: JobServiceServer<Service>,
    pub(crate) status: JobStatusServiceServer<Service>,
    pub(crate) restore: JobRestoreServiceServer<Service>,
    pub(crate) result: JobResultServiceServer<Service>,
}

impl Services {
    pub(crate) fn new(doors: &Doors, most: usize) -> Self {
        let service = || Service(doors.clone());
        Self {
            worker: WorkerServiceServer::new(service()).max_decoding_message_size(most),
            job: JobServiceServer::new(service()).max_decoding_message_size(most),
            status: JobStatusServiceServer::new(service()).max_decoding_message_size(most),
            restore: JobRestoreServiceServer::new(service()).max_decoding_message_size(most),
            result: JobResultServiceServer::new(service()).max_decoding_message_size(most),
        }
    }
}
