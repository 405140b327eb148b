//! Workers as they are now: never what they were a while ago, and "there is none" is not remembered.

use crore::handlers::{All, Known};
use crore_core::handler::{BUILT_IN, HANDLER};
use crore_core::{Handler, Job, Name};
use crore_wire::grpc::jobworkerp::data::WorkerId;
use tonic::Status;

use super::built_in;
use crate::Doors;
use crate::grpc::failed;

/// The number of the built-in worker.
pub(super) const BUILT_IN_ID: i64 = -1;

/// How often workers are looked at anew before whoever is faster is left alone.
pub(super) const TRIES: usize = 8;
/// What is said then.
pub(super) const BUSY: &str = "somebody else changes the same again and again: try again";

/// All workers.
#[derive(Debug, Clone)]
pub(super) struct Workers(All);

/// Whose job one is, also if its worker is gone.
#[derive(Debug, Clone)]
pub(super) struct Whose<'a> {
    pub(super) id: i64,
    pub(super) name: &'a Name,
    pub(super) handler: Option<&'a Handler>,
}

impl Workers {
    pub(super) async fn now(doors: &Doors) -> Result<Self, Status> {
        Ok(Self(doors.engine().handlers().list().await.map_err(failed)?))
    }

    /// All of them, the built-in one included.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Name, &Known)> {
        self.0.iter()
    }

    /// Those that somebody has created, newest first.
    pub(super) fn created(&self) -> Vec<(&Name, &Known)> {
        let is_created = |(_, known): &(&Name, &Known)| known.handler.id != BUILT_IN;
        let mut created: Vec<_> = self.all().filter(is_created).collect();
        created.sort_by_key(|(_, known)| std::cmp::Reverse(known.handler.id));
        created
    }

    pub(super) fn by_id(&self, id: i64) -> Option<(&Name, &Known)> {
        self.all().find(|(_, known)| self::id(&known.handler) == id)
    }

    pub(super) fn by_name(&self, name: &str) -> Option<(&Name, &Known)> {
        self.all().find(|(kind, _)| kind.as_str() == name)
    }

    pub(super) fn has(&self, kind: &Name) -> bool {
        self.0.contains_key(kind)
    }

    /// The worker of a kind, or the one that was called so before.
    pub(super) fn of_kind(&self, kind: &Name) -> Option<(&Name, &Known)> {
        let former = || self.all().find(|(_, known)| known.handler.formerly.contains(kind));
        self.0.get_key_value(kind).or_else(former)
    }

    /// Whether jobs of a kind may be those of the worker of this number, whose own would be of these kinds; one that
    /// is gone had a kind that no other has now, or one that another has.
    pub(super) fn may_be(&self, id: i64, kind: &Name) -> bool {
        match self.by_id(id) {
            Some((name, known)) => name == kind || known.handler.formerly.contains(kind),
            None => true,
        }
    }

    /// Whose job this is; `None`: no worker's, and never was.
    pub(super) fn whose<'a>(&'a self, job: &'a Job) -> Option<Whose<'a>> {
        let label = job.spec.labels.get(HANDLER).and_then(|text| text.parse().ok());
        let found = match label {
            // By its number, for it may have another name now.
            Some(number) => self.all().find(|(_, known)| known.handler.id == number),
            None => self.of_kind(&job.spec.kind),
        };
        match (found, label) {
            (Some((name, known)), _) => {
                let handler = Some(&*known.handler);
                Some(Whose { id: id(&known.handler), name, handler })
            }
            (None, Some(number)) => {
                Some(Whose { id: said(number), name: &job.spec.kind, handler: None })
            }
            (None, None) => None,
        }
    }
}

/// The number of a worker, as it is said.
pub(super) fn id(handler: &Handler) -> i64 {
    said(handler.id)
}

pub(super) fn worker_id(value: i64) -> Option<WorkerId> {
    Some(WorkerId { value })
}

fn said(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(BUILT_IN_ID)
}

/// Whether a worker may not be called so.
pub(super) fn is_reserved(name: &str) -> bool {
    name == built_in::NAME
}
