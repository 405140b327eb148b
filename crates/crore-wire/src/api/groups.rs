//! Groups: jobs that belong together. They are made by a push.

use crore_core::{GroupId, group};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Id;

/// A group's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// The group.
    pub id: Id,
    /// Its members.
    pub size: u64,
    /// Members that have ended at least once.
    pub ran: u64,
    /// Members that are done.
    pub succeeded: u64,
    /// Whether it is complete, so that it ends when its members have.
    pub sealed: bool,
    /// Whether a member is gone that never succeeded, so that not all can.
    pub lost: bool,
}

impl Group {
    /// A group, as it is shown.
    pub fn of(id: GroupId, group: &group::Group) -> Self {
        let group::Group { size, ran, succeeded, sealed, lost, .. } = *group;
        Self { id: id.into(), size, ran, succeeded, sealed, lost }
    }
}
