//! jobworkerp: a worker defines how jobs are run, and jobs are enqueued for a worker.
//!
//! | service (`jobworkerp.service`) | |
//! |---|---|
//! | `WorkerService` | workers, stored as handlers: the name is the kind, the channel the queue |
//! | `JobService` | jobs that have not ended; `Enqueue` waits for the result of a `DIRECT` worker |
//! | `JobStatusService` | their status |
//! | `JobRestoreService` | always empty: no job is lost, so there is nothing to restore |
//! | `JobResultService` | results, also of failed attempts; `Listen` waits for one |
//!
//! A result is not a record of its own: it is read from its job while the job is retained. Its id is the job's
//! id shifted by 20 bits, plus 20 bits derived from the delivery (`result_rows`).

mod built_in;
mod enqueue;
pub mod env;
mod job;
mod links;
mod list;
mod operation;
mod options;
mod policy;
mod result;
mod result_rows;
mod status;
mod stored_fields;
mod translate;
mod wait;
mod worker;
mod workers;

use std::pin::Pin;

use crore_api::audit::AuditDetails;
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

/// Implements all five services.
#[derive(Debug, Clone)]
pub(crate) struct JobworkerpService(Doors);

type JobworkerpReply<T> = Result<Response<T>, Status>;
/// A response stream.
type JobworkerpStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A response with an entry for the audit log: the path alone does not name the resource.
fn with_audit_entry<T>(what: String, answer: T) -> Response<T> {
    let mut response = Response::new(answer);
    response.extensions_mut().insert(AuditDetails(what));
    response
}

/// The services of jobworkerp.
pub(crate) struct Services {
    pub(crate) worker: WorkerServiceServer<JobworkerpService>,
    pub(crate) job: JobServiceServer<JobworkerpService>,
    pub(crate) status: JobStatusServiceServer<JobworkerpService>,
    pub(crate) restore: JobRestoreServiceServer<JobworkerpService>,
    pub(crate) result: JobResultServiceServer<JobworkerpService>,
}

impl Services {
    /// `max_bytes` is the maximum message size.
    pub(crate) fn new(doors: &Doors, max_bytes: usize) -> Self {
        let service = || JobworkerpService(doors.clone());
        Self {
            worker: WorkerServiceServer::new(service()).max_decoding_message_size(max_bytes),
            job: JobServiceServer::new(service()).max_decoding_message_size(max_bytes),
            status: JobStatusServiceServer::new(service()).max_decoding_message_size(max_bytes),
            restore: JobRestoreServiceServer::new(service()).max_decoding_message_size(max_bytes),
            result: JobResultServiceServer::new(service()).max_decoding_message_size(max_bytes),
        }
    }
}
