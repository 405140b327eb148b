//! `Work`: a stream of jobs from a producer.

use std::pin::Pin;
use std::sync::Arc;

use crore::push::PushResult;
use crore_api::telemetry::inherit;
use crore_api::{AdmittedCall, Grant};
use crore_core::{Batch, Invalid, NewJob};
use crore_wire::grpc::lakh::Job;
use futures_util::stream::{FuturesOrdered, StreamExt};
use tonic::{Status, Streaming};

use super::names::JobNames;
use super::translate::{from_lakh, with_lakh_fields};
use crate::Doors;
use crate::grpc::{failed, invalid};

/// Maximum number of batches of one stream being written.
const MAX_IN_FLIGHT: usize = 16;

/// One call.
pub(super) struct WorkCall {
    pub(super) doors: Doors,
    pub(super) grant: Grant,
    pub(super) names: JobNames,
    /// The trace context of the call.
    pub(super) context: Option<Arc<str>>,
    /// The call to which the bytes of jobs are charged until they are durable.
    pub(super) call: Option<Arc<AdmittedCall>>,
}

type PushFuture = Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>;

impl WorkCall {
    /// Pushes jobs as they arrive, all that are ready in one batch, and returns when the last is durable. Jobs
    /// received before an error are stored.
    pub(super) async fn run(self, jobs: Streaming<Job>) -> Result<(), Status> {
        let mut jobs = jobs.ready_chunks(self.doors.engine().status().caps().batch_jobs.max(1));
        let mut closing = std::pin::pin!(self.doors.closing());
        let mut in_flight = FuturesOrdered::<PushFuture>::new();
        let mut result = Ok(());
        while result.is_ok() {
            tokio::select! {
                biased;
                Some(pushed) = in_flight.next() => result = pushed,
                received = jobs.next(), if in_flight.len() < MAX_IN_FLIGHT => match received {
                    Some(received) => result = self.read(received, &mut in_flight),
                    None => break,
                },
                () = &mut closing => result = Err(failed(crore::Error::Stopping)),
            }
        }
        while let Some(pushed) = in_flight.next().await {
            result = result.and(pushed);
        }
        result
    }

    /// Reads jobs, and pushes them in as few batches as they fit into.
    fn read(
        &self,
        received: Vec<Result<Job, Status>>,
        in_flight: &mut FuturesOrdered<PushFuture>,
    ) -> Result<(), Status> {
        let max_bytes = self.doors.engine().status().caps().batch_bytes;
        let (mut jobs, mut bytes) = (Vec::with_capacity(received.len()), 0);
        let mut result = Ok(());
        for job in received {
            match job.and_then(|job| self.read_one(job)) {
                Ok(None) => {}
                Ok(Some(job)) => {
                    let size = job.spec.payload.bytes.len();
                    if bytes + size > max_bytes && !jobs.is_empty() {
                        in_flight.push_back(self.push(std::mem::take(&mut jobs), bytes)?);
                        bytes = 0;
                    }
                    bytes += size;
                    jobs.push(job);
                }
                Err(status) => {
                    result = Err(status);
                    break;
                }
            }
        }
        if !jobs.is_empty() {
            in_flight.push_back(self.push(jobs, bytes)?);
        }
        result
    }

    /// Converts a job to the core type; `None`: its name is not in `job_names`.
    fn read_one(&self, job: Job) -> Result<Option<NewJob>, Status> {
        if !self.names.contains(&job.name) {
            tracing::warn!(id = ?job.id, name = ?job.name, "job dropped: its name is not in `job_names`");
            return Ok(None);
        }
        let id = job.id.clone();
        let read = from_lakh(job, self.doors.engine().status().caps());
        let mut job = read.map_err(|bad| refused(&id, bad))?;
        inherit(&mut job.spec, self.context.as_ref());
        Ok(Some(job))
    }

    fn push(&self, jobs: Vec<NewJob>, bytes: usize) -> Result<PushFuture, Status> {
        let mut meter = self.call.as_ref().map(|call| call.meter());
        meter.as_mut().map_or(Ok(()), |meter| meter.set(bytes))?;
        let (api, grant) = (self.doors.api().clone(), self.grant.clone());
        Ok(Box::pin(async move {
            let _meter = meter;
            let id =
                |job: &NewJob| job.spec.client_id.as_ref().map(|client| Arc::clone(&client.id));
            let ids: Vec<_> = jobs.iter().map(id).collect();
            let pushed = api.push(&grant, Batch::from(jobs), None).await.map_err(failed)?;
            for (result, id) in pushed.jobs.into_iter().zip(ids) {
                let id = id.as_deref().unwrap_or_default();
                match result {
                    PushResult::New(_) => {}
                    PushResult::Duplicate(first) => {
                        tracing::info!(?id, job = %first, "duplicate job ignored");
                    }
                    PushResult::Invalid(bad) => return Err(refused(id, with_lakh_fields(bad))),
                    // Jobs of this door have no dependencies and no group.
                    PushResult::Broken(_) | PushResult::Sealed(_) | PushResult::BrokenBy(_) => {}
                }
            }
            Ok(())
        }))
    }
}

/// An invalid job ends its call.
fn refused(id: &str, bad: Invalid) -> Status {
    let message = format!("job `{}`: {}", crore_core::code::excerpt(id), bad.message);
    invalid(Invalid { message, ..bad })
}
