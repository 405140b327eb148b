//! `Work`: jobs, until their producer is done.

use std::pin::Pin;
use std::sync::Arc;

use crore::push::Taken;
use crore_api::telemetry::inherit;
use crore_core::{Batch, Invalid, NewJob};
use crore_wire::grpc::lakh::Job;
use futures_util::stream::{FuturesOrdered, StreamExt};
use tonic::{Status, Streaming};

use super::names::Names;
use super::translate::{in_its_words, read};
use crate::Doors;
use crate::grpc::{failed, invalid};

/// How many batches of one stream may be on their way to the disk.
const MOST_UNDER_WAY: usize = 16;

/// One call.
pub(super) struct Work {
    pub(super) doors: Doors,
    pub(super) names: Names,
    /// The trace context of the call.
    pub(super) context: Option<Arc<str>>,
}

type Pushing = Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>;

impl Work {
    /// Takes jobs as they come, all that are there in one batch, and says when the last is on the disk. What
    /// came before something went wrong is kept.
    pub(super) async fn take(self, comes: Streaming<Job>) -> Result<(), Status> {
        let mut comes = comes.ready_chunks(self.doors.engine().status().caps().batch_jobs.max(1));
        let mut closing = std::pin::pin!(self.doors.closing());
        let mut under_way = FuturesOrdered::<Pushing>::new();
        let mut ends = Ok(());
        while ends.is_ok() {
            tokio::select! {
                biased;
                Some(pushed) = under_way.next() => ends = pushed,
                came = comes.next(), if under_way.len() < MOST_UNDER_WAY => match came {
                    Some(came) => ends = self.read(came, &mut under_way),
                    None => break,
                },
                () = &mut closing => ends = Err(failed(crore::Error::Stopping)),
            }
        }
        while let Some(pushed) = under_way.next().await {
            ends = ends.and(pushed);
        }
        ends
    }

    /// Reads what came, and has it pushed in as few batches as it fits into.
    fn read(
        &self,
        came: Vec<Result<Job, Status>>,
        under_way: &mut FuturesOrdered<Pushing>,
    ) -> Result<(), Status> {
        let most = self.doors.engine().status().caps().batch_bytes;
        let (mut jobs, mut bytes) = (Vec::with_capacity(came.len()), 0);
        let mut ends = Ok(());
        for job in came {
            match job.and_then(|job| self.read_one(job)) {
                Ok(None) => {}
                Ok(Some(job)) => {
                    let size = job.spec.payload.bytes.len();
                    if bytes + size > most && !jobs.is_empty() {
                        under_way.push_back(self.push(std::mem::take(&mut jobs)));
                        bytes = 0;
                    }
                    bytes += size;
                    jobs.push(job);
                }
                Err(status) => {
                    ends = Err(status);
                    break;
                }
            }
        }
        if !jobs.is_empty() {
            under_way.push_back(self.push(jobs));
        }
        ends
    }

    /// A job in our words; `None`: its producer did not say that it would send such a job.
    fn read_one(&self, job: Job) -> Result<Option<NewJob>, Status> {
        if !self.names.have(&job.name) {
            tracing::warn!(id = ?job.id, name = ?job.name, "a job whose name is not among its call's is dropped");
            return Ok(None);
        }
        let id = job.id.clone();
        let read = read(job, self.doors.engine().status().caps());
        let mut job = read.map_err(|bad| refused(&id, bad))?;
        inherit(&mut job.spec, self.context.as_ref());
        Ok(Some(job))
    }

    fn push(&self, jobs: Vec<NewJob>) -> Pushing {
        let engine = self.doors.engine().clone();
        Box::pin(async move {
            let id =
                |job: &NewJob| job.spec.client_id.as_ref().map(|client| Arc::clone(&client.id));
            let ids: Vec<_> = jobs.iter().map(id).collect();
            let pushed = engine.push_all(Batch::from(jobs)).await.map_err(failed)?;
            for (taken, id) in pushed.jobs.into_iter().zip(ids) {
                let id = id.as_deref().unwrap_or_default();
                match taken {
                    Taken::New(_) => {}
                    Taken::Duplicate(first) => {
                        tracing::info!(?id, job = %first, "a job was sent again, and is there once");
                    }
                    Taken::Invalid(bad) => return Err(refused(id, in_its_words(bad))),
                    // It waits for nothing.
                    Taken::Broken(_) | Taken::BrokenBy(_) => {}
                }
            }
            Ok(())
        })
    }
}

/// A job that breaks a rule ends its call.
fn refused(id: &str, bad: Invalid) -> Status {
    let message = format!("job `{}`: {}", crore_core::code::excerpt(id), bad.message);
    invalid(Invalid { message, ..bad })
}
