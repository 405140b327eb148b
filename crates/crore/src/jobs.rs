//! Jobs: lookups, lists, counts, statistics and notes.

use std::sync::Arc;

use crore_core::{Code, Invalid, Job, JobId, Name, Time};
use crore_store::jobs::Which;
use crore_store::views::{Count, JobNotes, Page, Query, Step};

use crate::engine::{Engine, Inner};
use crate::error::Error;

impl Engine {
    /// A job, if it is there.
    pub async fn get(&self, which: impl Into<Which>) -> Result<Option<Job>, Error> {
        Ok(self.inner.store.get(vec![which.into()]).await?.pop().flatten())
    }

    /// A page of jobs in one state.
    pub async fn list(&self, query: Query) -> Result<Page, Error> {
        let most = self.inner.caps.page;
        if query.n == 0 || query.n > most {
            let message = format!("`{}` lies outside 1 to {most}", query.n);
            return Err(Invalid::new(Code::CountRange, "n", message).into());
        }
        Ok(self.inner.store.list(query).await?)
    }
}

/// Jobs, beyond [`Engine::get`] and [`Engine::list`]; see [`Engine::jobs`].
///
/// ```
/// use crore::act::{Act, Acted};
/// use crore::core::State;
/// use crore::{Engine, block_on};
///
/// # fn main() -> Result<(), crore::Error> {
/// let engine = Engine::memory();
/// let id = engine.push("mail", "hello").wait()?;
/// let acted = block_on(engine.jobs().act(id.into(), &Act::Cancel))?;
/// assert_eq!(acted, Acted::Yes(Some(State::Cancelled)));
///
/// let counts = block_on(engine.jobs().counts(None))?;
/// assert_eq!((counts[0].state, counts[0].n), (State::Cancelled, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Jobs<'a> {
    pub(crate) inner: &'a Inner,
}

impl Jobs<'_> {
    /// Jobs, in the order asked for.
    pub async fn get_all(self, which: Vec<Which>) -> Result<Vec<Option<Job>>, Error> {
        Ok(self.inner.store.get(which).await?)
    }

    /// How many jobs there are, by queue, kind and state.
    pub async fn counts(self, queue: Option<Name>) -> Result<Vec<Count>, Error> {
        Ok(self.inner.store.counts(queue).await?)
    }

    /// A statistic over time: `pushed`, `done`, `failed`, `dead`, `cancelled`.
    pub async fn stats(self, series: Name, step: Step) -> Result<Vec<(Time, u64)>, Error> {
        Ok(self.inner.store.stats(series, step).await?)
    }

    /// Progress and log lines of the deliveries of a job.
    pub async fn notes(self, id: JobId) -> Result<JobNotes, Error> {
        Ok(self.inner.store.notes(id).await?)
    }

    /// Which jobs hold these unique keys, in order; `None` for a key that is free.
    ///
    /// ```
    /// use crore::Engine;
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// let id = engine.push("mail", "hello").unique("once").wait()?;
    /// let holders = crore::block_on(engine.jobs().holders(&["once".into(), "other".into()]))?;
    /// assert_eq!(holders, [Some(id), None]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn holders(self, keys: &[Arc<str>]) -> Result<Vec<Option<JobId>>, Error> {
        Ok(self.inner.store.holders(keys.to_vec()).await?)
    }
}
