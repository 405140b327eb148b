//! Groups of jobs.

use crore_core::GroupId;
use crore_core::group::Group;
use crore_store::jobs::{Applied, StoreWrite};
use crore_store::views::GroupRow;

use crate::drop_guard::DropGuard;
use crate::engine::EngineInner;
use crate::error::Error;

/// Groups of jobs; see [`Engine::groups`](crate::Engine::groups).
#[derive(Debug, Clone, Copy)]
pub struct Groups<'a> {
    pub(crate) inner: &'a EngineInner,
}

impl Groups<'_> {
    /// The counts of a group; `None`: it does not exist.
    pub async fn get(self, id: GroupId) -> Result<Option<Group>, Error> {
        Ok(self.inner.store.group(id).await?)
    }

    /// Up to `n` groups with ids below `before`, or the newest ones, in descending order of ids.
    pub async fn list(self, before: Option<GroupId>, n: usize) -> Result<Vec<GroupRow>, Error> {
        Ok(self.inner.store.groups(before, n).await?)
    }

    /// Seals a group: no members can be added, and it ends when all its members have ended. `false`: it was sealed
    /// before or does not exist.
    pub async fn seal(self, id: GroupId) -> Result<bool, Error> {
        // Also on error: the seal may have taken effect.
        let _released = DropGuard::new(|| self.inner.plan_promotion_of_released());
        let applied = self.inner.store.apply(vec![StoreWrite::Seal(id)]).await?.into_inner();
        Ok(matches!(applied.first(), Some(Applied::Yes(_))))
    }
}
