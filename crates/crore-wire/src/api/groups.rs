//! Groups: sets of jobs that other jobs can wait for. Created by a push.

use crore_core::{GroupId, group};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Id;
use crate::units::Moment;

/// Which groups to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GroupsQuery {
    /// Cursor: `next` of the previous page.
    pub cursor: Option<Id>,
    /// Page size, 1 to 1000. Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

/// A page of groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Groups {
    /// The groups, newest first.
    pub groups: Vec<ListedGroup>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next: Option<Id>,
}

/// A group in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListedGroup {
    /// The group.
    #[serde(flatten)]
    pub group: Group,
    /// When its counters last changed.
    pub changed_at: Moment,
}

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
