//! Groups: sets of jobs that other jobs can wait for. Created by a push.

use crore_core::{GroupId, group};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Id;

/// A group, with its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// The id.
    pub id: Id,
    /// Number of members.
    pub size: u64,
    /// Number of members that have ended at least once.
    pub ran: u64,
    /// Number of members that are done.
    pub succeeded: u64,
    /// Whether the group is sealed: it then ends when all of its members have ended.
    pub sealed: bool,
    /// Whether a member was removed without success, so that the group can no longer succeed.
    pub lost: bool,
}

impl Group {
    /// Converts from the core type.
    pub fn of(id: GroupId, group: &group::Group) -> Self {
        let group::Group { size, ran, succeeded, sealed, lost, .. } = *group;
        Self { id: id.into(), size, ran, succeeded, sealed, lost }
    }
}
