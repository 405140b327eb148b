//! The current workers, read for each call; nothing is cached.

use crore::handlers::{HandlersByKind, StoredHandler};
use crore_api::Api;
use crore_core::handler::{self, HANDLER_LABEL};
use crore_core::{Handler, Job, Name};
use crore_wire::grpc::jobworkerp::data::WorkerId;
use tonic::Status;

use super::built_in;
use crate::Doors;
use crate::grpc::failed;

/// The id of the built-in worker.
pub(super) const BUILT_IN_WORKER: i64 = -1;

/// Maximum number of attempts when a worker changes concurrently.
pub(super) const MAX_TRIES: usize = 8;
/// The error after the last attempt.
pub(super) const BUSY: &str = "too many concurrent changes: try again";

/// All workers.
#[derive(Debug, Clone)]
pub(super) struct WorkerDirectory(HandlersByKind, Api);

/// The worker of a job, which may have been deleted.
#[derive(Debug, Clone)]
pub(super) struct JobWorker<'a> {
    pub(super) id: i64,
    pub(super) name: &'a Name,
    pub(super) handler: Option<&'a Handler>,
}

impl WorkerDirectory {
    pub(super) async fn load(doors: &Doors) -> Result<Self, Status> {
        let handlers = doors.engine().handlers().list().await.map_err(failed)?;
        Ok(Self(handlers, doors.api().clone()))
    }

    /// The argument of a job, with masked fields.
    pub(super) fn masked_argument(&self, job: &Job) -> Vec<u8> {
        self.1.masked(&job.spec.payload).bytes.to_vec()
    }

    /// All workers, with the built-in one.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Name, &StoredHandler)> {
        self.0.iter()
    }

    /// Created workers, newest first.
    pub(super) fn created(&self) -> Vec<(&Name, &StoredHandler)> {
        let is_created =
            |(_, stored): &(&Name, &StoredHandler)| stored.handler.id != handler::BUILT_IN_ID;
        let mut created: Vec<_> = self.all().filter(is_created).collect();
        created.sort_by_key(|(_, stored)| std::cmp::Reverse(stored.handler.id));
        created
    }

    pub(super) fn by_id(&self, id: i64) -> Option<(&Name, &StoredHandler)> {
        self.all().find(|(_, stored)| self::id(&stored.handler) == id)
    }

    pub(super) fn by_name(&self, name: &str) -> Option<(&Name, &StoredHandler)> {
        self.all().find(|(kind, _)| kind.as_str() == name)
    }

    pub(super) fn has(&self, kind: &Name) -> bool {
        self.0.contains_key(kind)
    }

    /// The worker of a kind, or the one that formerly had this name.
    pub(super) fn of_kind(&self, kind: &Name) -> Option<(&Name, &StoredHandler)> {
        let former = || self.all().find(|(_, stored)| stored.handler.formerly.contains(kind));
        self.0.get_key_value(kind).or_else(former)
    }

    /// Whether jobs of this kind may belong to the worker with this id. A deleted worker may have had any kind.
    pub(super) fn may_own_kind(&self, id: i64, kind: &Name) -> bool {
        match self.by_id(id) {
            Some((name, stored)) => name == kind || stored.handler.formerly.contains(kind),
            None => true,
        }
    }

    /// The worker of a job; `None`: it never had one.
    pub(super) fn worker_of<'a>(&'a self, job: &'a Job) -> Option<JobWorker<'a>> {
        let label = job.spec.labels.get(HANDLER_LABEL).and_then(|text| text.parse().ok());
        let found = match label {
            // By id: the worker may have been renamed.
            Some(number) => self.all().find(|(_, stored)| stored.handler.id == number),
            None => self.of_kind(&job.spec.kind),
        };
        match (found, label) {
            (Some((name, stored)), _) => {
                let handler = Some(&*stored.handler);
                Some(JobWorker { id: id(&stored.handler), name, handler })
            }
            (None, Some(number)) => {
                Some(JobWorker { id: signed_id(number), name: &job.spec.kind, handler: None })
            }
            (None, None) => None,
        }
    }
}

/// The id of a worker.
pub(super) fn id(handler: &Handler) -> i64 {
    signed_id(handler.id)
}

pub(super) fn worker_id(value: i64) -> Option<WorkerId> {
    Some(WorkerId { value })
}

fn signed_id(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(BUILT_IN_WORKER)
}

/// Whether the name is reserved for the built-in worker.
pub(super) fn is_reserved(name: &str) -> bool {
    name == built_in::NAME
}
