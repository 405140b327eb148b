//! Which jobs hold unique keys.

use std::sync::Arc;

use crore_core::JobId;

use crate::engine::Engine;
use crate::error::Error;

impl Engine {
    /// Which jobs hold these unique keys, in order; `None` for a key that is free.
    ///
    /// ```
    /// use crore::Engine;
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// let id = engine.push("mail", "hello").unique("once").wait()?;
    /// let holders = crore::block_on(engine.holders(&["once".into(), "other".into()]))?;
    /// assert_eq!(holders, [Some(id), None]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn holders(&self, keys: &[Arc<str>]) -> Result<Vec<Option<JobId>>, Error> {
        Ok(self.inner.store.holders(keys.to_vec()).await?)
    }
}
