//! Jobs: lookups, lists, counts, statistics and notes.

use std::sync::Arc;

use crore_core::{Code, Invalid, Job, JobId, Name, Time};
use crore_store::jobs::JobSelector;
use crore_store::views::{
    JobCount, JobNotes, JobStatsQuery, JobStatsRow, ListPage, ListQuery, StatStep,
};

use crate::engine::{Engine, EngineInner};
use crate::error::Error;

impl Engine {
    /// Looks up a job by id or client id; `None`: it does not exist.
    pub async fn get(&self, which: impl Into<JobSelector>) -> Result<Option<Job>, Error> {
        Ok(self.inner.store.get(vec![which.into()]).await?.pop().flatten())
    }

    /// Lists one page of the jobs in a state. Ready jobs come in claim order, scheduled jobs by due time, waiting
    /// and running jobs by id, and ended jobs by end time, newest first.
    pub async fn list(&self, query: ListQuery) -> Result<ListPage, Error> {
        let max = self.inner.caps.page;
        if query.n == 0 || query.n > max {
            let message = format!("`{}` is out of range: 1 to {max}", query.n);
            return Err(Invalid::new(Code::CountRange, "n", message).into());
        }
        Ok(self.inner.store.list(query).await?)
    }
}

/// Jobs, beyond [`Engine::get`] and [`Engine::list`]; see [`Engine::jobs`].
///
/// ```
/// use crore::actions::{ActionResult, JobAction};
/// use crore::core::State;
/// use crore::{Engine, block_on};
///
/// # fn main() -> Result<(), crore::Error> {
/// let engine = Engine::memory();
/// let id = engine.push("mail", "hello").wait()?;
/// let result = block_on(engine.jobs().act(id.into(), &JobAction::Cancel))?;
/// assert_eq!(result, ActionResult::Applied(Some(State::Cancelled)));
///
/// let counts = block_on(engine.jobs().counts(None))?;
/// assert_eq!((counts[0].state, counts[0].n), (State::Cancelled, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Jobs<'a> {
    pub(crate) inner: &'a EngineInner,
    pub(crate) caller: &'a str,
}

/// The recorded caller of actions by the program that contains the engine.
pub(crate) const LIBRARY_CALLER: &str = "local";

impl<'a> Jobs<'a> {
    /// Names the caller that actions are recorded with; see [`Live::actions`](crore_core::Live). Default: `local`. At most
    /// 200 bytes of the name are recorded.
    #[must_use]
    pub const fn by(self, caller: &'a str) -> Self {
        Self { inner: self.inner, caller }
    }
}

impl Jobs<'_> {
    /// Looks up several jobs; the result has the order of the request.
    pub async fn get_all(self, which: Vec<JobSelector>) -> Result<Vec<Option<Job>>, Error> {
        Ok(self.inner.store.get(which).await?)
    }

    /// Number of jobs by queue, kind and state; of all queues if `queue` is `None`.
    pub async fn counts(self, queue: Option<Name>) -> Result<Vec<JobCount>, Error> {
        Ok(self.inner.store.counts(queue).await?)
    }

    /// A statistic over time. The series are `pushed`, `done`, `failed`, `dead` and `cancelled`.
    pub async fn stats(self, series: Name, step: StatStep) -> Result<Vec<(Time, u64)>, Error> {
        Ok(self.inner.store.stats(series, step).await?)
    }

    /// Statistics of jobs by queue and kind, over time or by series. They are written every five seconds, so the
    /// newest are missing.
    pub async fn job_stats(self, query: JobStatsQuery) -> Result<Vec<JobStatsRow>, Error> {
        Ok(self.inner.store.job_stats(query).await?)
    }

    /// The progress and log lines of a job's deliveries.
    pub async fn notes(self, id: JobId) -> Result<JobNotes, Error> {
        Ok(self.inner.store.notes(id).await?)
    }

    /// The jobs that hold these unique keys, in order; `None` for a free key.
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
