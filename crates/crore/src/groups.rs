//! Groups of jobs.

use crore_core::GroupId;
use crore_core::group::Group;
use crore_store::jobs::{Applied, Write};

use crate::doubt::Doubt;
use crate::engine::Inner;
use crate::error::Error;

/// Groups of jobs; see [`Engine::groups`](crate::Engine::groups).
#[derive(Debug, Clone, Copy)]
pub struct Groups<'a> {
    pub(crate) inner: &'a Inner,
}

impl Groups<'_> {
    /// A group's counts, if it is there.
    pub async fn get(self, id: GroupId) -> Result<Option<Group>, Error> {
        Ok(self.inner.store.group(id).await?)
    }

    /// Seals a group: from then on it ends when its members have ended. `false`: it was sealed before, or is
    /// not there.
    pub async fn seal(self, id: GroupId) -> Result<bool, Error> {
        // Also if it is not known whether it took effect.
        let _released = Doubt::new(|| self.inner.released());
        let applied = self.inner.store.apply(vec![Write::Seal(id)]).await?.into_inner();
        Ok(matches!(applied.first(), Some(Applied::Yes(_))))
    }
}
