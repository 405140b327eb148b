//! Waits for jobs to end, without polling, and reads their results.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crore_core::handler::PRIVATE_RESULT_LABEL;
use crore_core::machine::{Change, JobEvent, NextRecord, decide};
use crore_core::{Job, JobId, Payload, Span, State};
use crore_store::jobs::JobSelector;

use crate::change::ChangeResult;
use crate::engine::{Engine, EngineInner};
use crate::error::Error;

/// How a job ended.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedJob {
    /// The job.
    pub id: JobId,
    /// Its final state; `None`: it was removed.
    pub state: Option<State>,
    /// Its result, or the details of its failure, if stored and not taken before.
    pub result: Option<Payload>,
    /// The error of its last delivery, if that failed.
    pub error: Option<Arc<str>>,
}

impl EndedJob {
    pub(crate) fn of(job: &Job, change: &Change, state: Option<State>) -> Self {
        let error = match &change.next {
            NextRecord::Live(next) => next.ended.as_ref().and_then(|(_, error)| error.clone()),
            NextRecord::Gone => None,
        };
        Self { id: job.id, state, result: None, error }
    }

    pub(crate) const fn gone(id: JobId) -> Self {
        Self { id, state: None, result: None, error: None }
    }

    pub(crate) fn now(job: &Job) -> Self {
        let error = job.live.history.first().and_then(|attempt| attempt.error.clone());
        Self { id: job.id, state: Some(job.live.state), result: None, error }
    }
}

/// All callers that wait for a job to end.
#[derive(Debug, Default)]
pub(crate) struct EndWaiters(Mutex<EndWaiterTable>);

#[derive(Debug, Default)]
struct EndWaiterTable {
    by_job: BTreeMap<JobId, Vec<EndWaiter>>,
    last_id: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct EndWaiter {
    id: u64,
    ended: Option<EndedJob>,
    waker: Option<Waker>,
}

impl EndWaiters {
    fn lock(&self) -> MutexGuard<'_, EndWaiterTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies the callers that wait for a job. `ended` is only called if there are any.
    pub(crate) fn notify(&self, job: JobId, ended: impl FnOnce() -> EndedJob) {
        let woken: Vec<Waker> = {
            let mut waiters = self.lock();
            let Some(list) = waiters.by_job.get_mut(&job) else { return };
            let ended = ended();
            list.iter_mut()
                .filter_map(|waiter| {
                    waiter.ended = Some(ended.clone());
                    waiter.waker.take()
                })
                .collect()
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Whether a caller waits for this job.
    pub(crate) fn is_waited_for(&self, job: JobId) -> bool {
        self.lock().by_job.contains_key(&job)
    }

    /// Ends all waits with [`Error::Stopping`].
    pub(crate) fn close(&self) {
        let mut waiters = self.lock();
        waiters.is_closed = true;
        let all = waiters.by_job.values_mut().flatten();
        let woken: Vec<Waker> = all.filter_map(|waiter| waiter.waker.take()).collect();
        drop(waiters);
        woken.into_iter().for_each(Waker::wake);
    }

    fn register(&self, job: JobId) -> EndWait<'_> {
        let mut waiters = self.lock();
        waiters.last_id += 1;
        let id = waiters.last_id;
        waiters.by_job.entry(job).or_default().push(EndWaiter { id, ended: None, waker: None });
        EndWait { waiters: self, job, id }
    }
}

/// The registration of a waiting caller.
#[derive(Debug)]
struct EndWait<'a> {
    waiters: &'a EndWaiters,
    job: JobId,
    id: u64,
}

impl EndWait<'_> {
    fn poll(&self, context: &mut Context<'_>) -> Poll<Result<EndedJob, Error>> {
        let mut waiters = self.waiters.lock();
        if waiters.is_closed {
            return Poll::Ready(Err(Error::Stopping));
        }
        let list = waiters.by_job.get_mut(&self.job);
        let Some(waiter) = list.and_then(|list| list.iter_mut().find(|one| one.id == self.id))
        else {
            return Poll::Ready(Err(Error::Stopping));
        };
        match waiter.ended.take() {
            Some(ended) => Poll::Ready(Ok(ended)),
            None => {
                waiter.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl EndWait<'_> {
    /// The end of the job, if it has been notified.
    fn take_end(&self) -> Option<EndedJob> {
        let mut waiters = self.waiters.lock();
        let list = waiters.by_job.get_mut(&self.job)?;
        list.iter_mut().find(|one| one.id == self.id)?.ended.take()
    }
}

impl Drop for EndWait<'_> {
    fn drop(&mut self) {
        let mut waiters = self.waiters.lock();
        if let Some(list) = waiters.by_job.get_mut(&self.job) {
            list.retain(|waiter| waiter.id != self.id);
            if list.is_empty() {
                waiters.by_job.remove(&self.job);
            }
        }
    }
}

impl Engine {
    /// Waits until a job has ended and returns its result, or `None` at the timeout. A result that can be read once
    /// goes to the first caller.
    ///
    /// ```
    /// use std::thread;
    /// use std::time::Duration;
    ///
    /// use crore::core::Span;
    /// use crore::{Engine, block_on};
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// let id = engine.push("sum", vec![1, 2, 3]).keep_result(Duration::from_secs(60)).wait()?;
    /// let ended = thread::scope(|scope| {
    ///     scope.spawn(|| {
    ///         engine.pop_blocking("sum", |work| {
    ///             Ok::<_, String>(vec![work.payload().iter().sum::<u8>()])
    ///         })
    ///     });
    ///     block_on(engine.wait(id, Span::from_secs(10)))
    /// })?;
    /// let result = ended.and_then(|ended| ended.result).expect("in time, and kept");
    /// assert_eq!(*result.bytes, [6]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait(&self, id: JobId, timeout: Span) -> Result<Option<EndedJob>, Error> {
        let Some(ended) = self.inner.wait_for_end(id, timeout).await? else { return Ok(None) };
        let result = self.inner.take_result(id, ResultReader::Anyone).await?;
        Ok(Some(EndedJob { result, ..ended }))
    }
}

/// Results in two steps: wait, then take; see [`Engine::results`].
///
/// ```
/// use std::time::Duration;
///
/// use crore::core::{Span, State};
/// use crore::{Engine, block_on};
///
/// # fn main() -> Result<(), crore::Error> {
/// let engine = Engine::memory();
/// let id = engine.push("sum", vec![1, 2]).keep_result(Duration::from_secs(60)).wait()?;
/// engine.pop_blocking("sum", |work| Ok::<_, String>(vec![work.payload().iter().sum::<u8>()]))?;
///
/// let ended = block_on(engine.results().wait_for_end(id, Span::from_secs(10)))?.expect("in time");
/// assert_eq!((ended.state, ended.result), (Some(State::Done), None));
/// let result = block_on(engine.results().take(id))?.expect("it is kept");
/// assert_eq!(*result.bytes, [3]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Results<'a> {
    pub(crate) inner: &'a EngineInner,
}

impl Results<'_> {
    /// Waits until a job has ended, without taking its result; `None` at the timeout. For callers whose future may
    /// be dropped: a dropped [`Engine::wait`] can lose a result that can be read once, so wait with this method and
    /// then [take](Self::take) the result.
    pub async fn wait_for_end(self, id: JobId, timeout: Span) -> Result<Option<EndedJob>, Error> {
        self.inner.wait_for_end(id, timeout).await
    }

    /// Takes the result of a job, if it has ended and has one. A result that can be read once is removed. A result
    /// that is for the caller of its push ([`PRIVATE_RESULT_LABEL`]) is not returned.
    pub async fn take(self, id: JobId) -> Result<Option<Payload>, Error> {
        self.inner.take_result(id, ResultReader::Anyone).await
    }

    /// Takes the result of a job for the caller that has pushed it, also one that is only for that caller.
    pub async fn take_private(self, id: JobId) -> Result<Option<Payload>, Error> {
        self.inner.take_result(id, ResultReader::Pusher).await
    }

    /// The number of callers that wait for a job to end.
    pub fn waiting(self) -> usize {
        self.inner.end_waiters.lock().by_job.values().map(Vec::len).sum()
    }
}

/// The caller that takes a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResultReader {
    /// The caller that has pushed the job.
    Pusher,
    Anyone,
}

impl EngineInner {
    async fn wait_for_end(&self, id: JobId, timeout: Span) -> Result<Option<EndedJob>, Error> {
        let mut sleep = pin!(self.timers.sleep(timeout));
        let registration = self.end_waiters.register(id);
        // From here on, the end of the job is notified, so the lookup below misses nothing.
        let job = self.store.get(vec![id.into()]).await?.pop().flatten();
        let Some(job) = job else {
            // The job may have ended and been removed since.
            let end = registration
                .take_end()
                .ok_or_else(|| Error::NotFound { what: format!("job {id}") });
            return end.map(Some);
        };
        if job.live.state.has_ended() {
            return Ok(Some(EndedJob::now(&job)));
        }
        poll_fn(|context| {
            if let Poll::Ready(ended) = registration.poll(context) {
                return Poll::Ready(ended.map(Some));
            }
            sleep.as_mut().poll(context).map(|()| Ok(None))
        })
        .await
    }

    async fn take_result(&self, id: JobId, reader: ResultReader) -> Result<Option<Payload>, Error> {
        let Some(job) = self.store.get(vec![id.into()]).await?.pop().flatten() else {
            return Ok(None);
        };
        if reader == ResultReader::Anyone && job.spec.labels.contains_key(PRIVATE_RESULT_LABEL) {
            return Ok(None);
        }
        let Some(kept) = job.result_at(self.now()) else { return Ok(None) };
        if !kept.once {
            return Ok(Some(kept.payload.clone()));
        }
        let taken = self.change(vec![(JobSelector::Id(id), JobEvent::TakeResult)], decide).await?;
        let is_ours = matches!(taken.first(), Some(ChangeResult::Applied { .. }));
        Ok(is_ours.then(|| kept.payload.clone()))
    }
}
