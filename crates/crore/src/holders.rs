//! Who holds a unique key.

use std::sync::Arc;

use crore_core::job::Needs;
use crore_core::push::{After, AfterRef};
use crore_core::unique::{Hold, Unique};
use crore_core::{Batch, JobId, Name, NewJob, Payload, Span, Spec};
use crore_store::jobs::Pushed;

use crate::engine::Engine;
use crate::error::Error;

/// A number that no job gets.
const NOBODY: JobId = JobId(i64::MAX as u64);

impl Engine {
    /// Which jobs hold these unique keys, in order; `None` for a key that is free. Nothing is stored.
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
        if self.inner.is_quiet() {
            return Err(Error::Stopping);
        }
        let name = Name::new("kind", "nothing")?;
        let jobs = keys.iter().map(|key| question(&name, key)).collect();
        let batch = Batch { groups: Vec::new(), jobs };
        let answers = self.inner.store.push(batch).await?.into_inner().jobs;
        let holder = |pushed| match pushed {
            Pushed::Duplicate(id) => Some(id),
            Pushed::New(_) | Pushed::Broken(_) | Pushed::BrokenBy(_) => None,
        };
        Ok(answers.into_iter().map(holder).collect())
    }
}

/// A job that is never stored: a store looks at its key first, and then for a job that is not there.
fn question(name: &Name, key: &Arc<str>) -> NewJob {
    let mut spec = Spec::new(name.clone(), name.clone(), Payload::json("null"));
    let window = Some(Span::from_secs(1));
    spec.unique = Some(Unique { key: Arc::clone(key), hold: Hold::Window, window });
    let after = After { on: AfterRef::Job(NOBODY), needs: Needs::Success };
    NewJob { after: vec![after], ..spec.into() }
}
