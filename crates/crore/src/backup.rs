//! Online backup of a store in a directory.

use std::path::Path;

use crore_store::embedded::Backup;

use crate::engine::Engine;
use crate::error::Error;

impl Engine {
    /// Copies the store into a directory that is empty or does not exist. The copy is a store that can be opened, and
    /// has everything that was acknowledged before the call, possibly more. Other callers continue; the calling
    /// thread blocks until the copy is on the disk. Only an engine that was [opened](Engine::open) in a directory
    /// supports this.
    ///
    /// ```
    /// use crore::Engine;
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// let engine = Engine::open(dir.path().join("jobs"))?;
    /// engine.push("mail", "hello").wait()?;
    /// engine.backup(&dir.path().join("copy"))?;
    ///
    /// let copy = Engine::open(dir.path().join("copy"))?;
    /// let ran = copy.pop_blocking("mail", |work| match work.payload() {
    ///     b"hello" => Ok(()),
    ///     _ => Err("unexpected payload"),
    /// });
    /// assert_eq!(ran?, Some(Ok(())));
    /// # Ok(())
    /// # }
    /// ```
    pub fn backup(&self, to: &Path) -> Result<Backup, Error> {
        if self.inner.is_stopping() {
            return Err(Error::Stopping);
        }
        let refused = || Error::Refused {
            what: "backup".to_owned(),
            why: "only a queue that was opened in a directory can be backed up",
        };
        let store = self.embedded().ok_or_else(refused)?;
        Ok(store.backup(to)?)
    }
}
