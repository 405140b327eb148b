//! Copying a queue that is in use.

use std::path::Path;

use crore_store::embedded::Backup;

use crate::engine::Engine;
use crate::error::Error;

impl Engine {
    /// Copies the queue into a directory that is empty or not there: a queue that can be opened, with
    /// everything that was answered before the call, and perhaps more. Others go on with their work; the
    /// caller's thread waits until the copy is on the disk. Only an engine that was opened in a directory
    /// can do it.
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
    ///     _ => Err("who is this?"),
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
            what: "a backup".to_owned(),
            why: "only a queue in a directory of its own can be copied",
        };
        let store = self.embedded().ok_or_else(refused)?;
        Ok(store.backup(to)?)
    }
}
