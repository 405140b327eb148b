//! Groups of jobs.

use crore_core::{Code, GroupId, Invalid};
use crore_wire::api::groups::Group;

use crate::{Api, Fault, Grant, Scope};

impl Api {
    /// The counts of a group. A restricted caller sees those that it has created.
    pub async fn get_group(&self, grant: &Grant, id: GroupId) -> Result<Group, Fault> {
        let group = self.engine().groups().get(id).await?;
        let group = group.ok_or_else(|| Fault::missing(format!("group {id}")))?;
        if grant.only().is_some() && group.maker != grant.owner() {
            return Err(foreign_group(id).into());
        }
        Ok(Group::of(id, &group))
    }

    /// Seals a group; sealing it again has no effect.
    pub async fn seal_group(&self, grant: &Grant, id: GroupId) -> Result<Group, Fault> {
        self.check_group(grant, id).await?;
        self.engine().groups().seal(id).await?;
        let group = self.engine().groups().get(id).await?;
        let group = group.ok_or_else(|| Fault::missing(format!("group {id}")))?;
        Ok(Group::of(id, &group))
    }

    /// Refuses to seal or join a group that another token has created, except with the scope `operate`. Groups belong
    /// to no queue, so a restricted caller may only use its own. A missing group is left to the call.
    pub(super) async fn check_group(&self, grant: &Grant, id: GroupId) -> Result<(), crore::Error> {
        if grant.has(Scope::Operate) && grant.only().is_none() {
            return Ok(());
        }
        match self.engine().groups().get(id).await? {
            Some(group) if group.maker != grant.owner() => Err(foreign_group(id).into()),
            _ => Ok(()),
        }
    }
}

fn foreign_group(id: GroupId) -> Invalid {
    let why = format!(
        "group {id} was created by another caller; this needs a token of the same name, or one with the scope \
         `operate` and without a restriction"
    );
    Invalid::new(Code::ScopeMissing, "group", why)
}
