//! Groups of jobs.

use crore_core::GroupId;
use crore_wire::api::groups::Group;

use crate::{Api, Fault};

impl Api {
    /// The counts of a group.
    pub async fn get_group(&self, id: GroupId) -> Result<Group, Fault> {
        let group = self.engine().groups().get(id).await?;
        let group = group.ok_or_else(|| Fault::missing(format!("group {id}")))?;
        Ok(Group::of(id, &group))
    }

    /// Seals a group; sealing it again has no effect.
    pub async fn seal_group(&self, id: GroupId) -> Result<Group, Fault> {
        self.engine().groups().seal(id).await?;
        self.get_group(id).await
    }
}
