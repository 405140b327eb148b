//! Groups of jobs.

use crore::store::views::GroupRow;
use crore_core::{Code, GroupId, Invalid};
use crore_wire::api::groups::{Group, Groups, GroupsQuery, ListedGroup};
use crore_wire::units::Moment;

use super::errors::page_size;
use crate::{Api, Fault, Grant, Scope};

/// Default size of a page, and its maximum.
const DEFAULT_PAGE: usize = 100;
const MAX_PAGE: usize = 1000;

impl Api {
    /// A page of groups, newest first. A restricted caller sees those that it has created; a page may then be short,
    /// and have a successor.
    pub async fn list_groups(&self, grant: &Grant, which: GroupsQuery) -> Result<Groups, Fault> {
        let n = page_size(which.limit, DEFAULT_PAGE, MAX_PAGE)?;
        let rows = self.engine().groups().list(which.cursor.map(Into::into), n).await?;
        let next = rows.last().filter(|_| rows.len() == n).map(|row| row.id.into());
        let sees = |row: &&GroupRow| grant.only().is_none() || row.group.maker == grant.owner();
        let shown = |row: &GroupRow| ListedGroup {
            group: Group::of(row.id, &row.group),
            changed_at: Moment(row.changed_at),
        };
        Ok(Groups { groups: rows.iter().filter(sees).map(shown).collect(), next })
    }

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
