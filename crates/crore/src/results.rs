//! Waiting for a job to end, without polling.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crore_core::machine::{Change, Event, Next, decide};
use crore_core::{Job, JobId, Payload, Span, State};
use crore_store::jobs::Which;

use crate::change::Decided;
use crate::engine::{Engine, Inner};
use crate::error::Error;

/// How a job ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// The job.
    pub id: JobId,
    /// Its state; `None`: it is gone.
    pub state: Option<State>,
    /// What it gave, or the details of its failure, if that is kept and nobody took it before.
    pub result: Option<Payload>,
    /// What its last delivery said, if that did not go well.
    pub error: Option<Arc<str>>,
}

impl Ended {
    pub(crate) fn of(job: &Job, change: &Change, state: Option<State>) -> Self {
        let error = match &change.next {
            Next::Live(next) => next.ended.as_ref().and_then(|(_, error)| error.clone()),
            Next::Gone => None,
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

/// All who wait for a job to end.
#[derive(Debug, Default)]
pub(crate) struct EndWaiters(Mutex<Waiters>);

#[derive(Debug, Default)]
struct Waiters {
    by_job: BTreeMap<JobId, Vec<Waiter>>,
    last: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    ended: Option<Ended>,
    waker: Option<Waker>,
}

impl EndWaiters {
    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job has ended; what is to be said is only made if anybody waits for it.
    pub(crate) fn tell(&self, job: JobId, ended: impl FnOnce() -> Ended) {
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

    /// Whether anybody waits for a job.
    pub(crate) fn is_waited_for(&self, job: JobId) -> bool {
        self.lock().by_job.contains_key(&job)
    }

    /// Nobody will be told anything any more.
    pub(crate) fn close(&self) {
        let mut waiters = self.lock();
        waiters.is_closed = true;
        let all = waiters.by_job.values_mut().flatten();
        let woken: Vec<Waker> = all.filter_map(|waiter| waiter.waker.take()).collect();
        drop(waiters);
        woken.into_iter().for_each(Waker::wake);
    }

    fn enter(&self, job: JobId) -> Place<'_> {
        let mut waiters = self.lock();
        waiters.last += 1;
        let id = waiters.last;
        waiters.by_job.entry(job).or_default().push(Waiter { id, ended: None, waker: None });
        Place { waiters: self, job, id }
    }
}

/// Somebody waits for a job.
#[derive(Debug)]
struct Place<'a> {
    waiters: &'a EndWaiters,
    job: JobId,
    id: u64,
}

impl Place<'_> {
    fn poll(&self, context: &mut Context<'_>) -> Poll<Result<Ended, Error>> {
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

impl Place<'_> {
    /// What was told, if anything was.
    fn told(&self) -> Option<Ended> {
        let mut waiters = self.waiters.lock();
        let list = waiters.by_job.get_mut(&self.job)?;
        list.iter_mut().find(|one| one.id == self.id)?.ended.take()
    }
}

impl Drop for Place<'_> {
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
    /// Waits until a job has ended, at most so long; `None`: it has not. The first who waits for a
    /// result that can be read once takes it.
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
    pub async fn wait(&self, id: JobId, at_most: Span) -> Result<Option<Ended>, Error> {
        let Some(ended) = self.inner.ended(id, at_most).await? else { return Ok(None) };
        let result = self.inner.take_result(id).await?;
        Ok(Some(Ended { result, ..ended }))
    }
}

/// Results, in two steps; see [`Engine::results`].
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
/// let ended = block_on(engine.results().ended(id, Span::from_secs(10)))?.expect("in time");
/// assert_eq!((ended.state, ended.result), (Some(State::Done), None));
/// let result = block_on(engine.results().take(id))?.expect("it is kept");
/// assert_eq!(*result.bytes, [3]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Results<'a> {
    pub(crate) inner: &'a Inner,
}

impl Results<'_> {
    /// Waits until a job has ended, at most so long, and leaves its result where it is; `None`: it has
    /// not. A caller that may be dropped while it waits calls this and [takes the result](Self::take)
    /// afterwards: an [`Engine::wait`] that is dropped while it takes a result that can be read once has
    /// lost it.
    pub async fn ended(self, id: JobId, at_most: Span) -> Result<Option<Ended>, Error> {
        self.inner.ended(id, at_most).await
    }

    /// The result of a job, if it has ended and there is one; one that can be read once is taken away.
    pub async fn take(self, id: JobId) -> Result<Option<Payload>, Error> {
        self.inner.take_result(id).await
    }

    /// How many callers wait for a job to end.
    pub fn waiting(self) -> usize {
        self.inner.end_waiters.lock().by_job.values().map(Vec::len).sum()
    }
}

impl Inner {
    async fn ended(&self, id: JobId, at_most: Span) -> Result<Option<Ended>, Error> {
        let mut sleep = pin!(self.timers.sleep(at_most));
        let place = self.end_waiters.enter(id);
        // Whoever ends it from here on tells this place.
        let job = self.store.get(vec![id.into()]).await?.pop().flatten();
        let Some(job) = job else {
            // It may have ended and gone since.
            let told = place.told().ok_or_else(|| Error::NotFound { what: format!("job {id}") });
            return told.map(Some);
        };
        if job.live.state.has_ended() {
            return Ok(Some(Ended::now(&job)));
        }
        poll_fn(|context| {
            if let Poll::Ready(ended) = place.poll(context) {
                return Poll::Ready(ended.map(Some));
            }
            sleep.as_mut().poll(context).map(|()| Ok(None))
        })
        .await
    }

    async fn take_result(&self, id: JobId) -> Result<Option<Payload>, Error> {
        let Some(job) = self.store.get(vec![id.into()]).await?.pop().flatten() else {
            return Ok(None);
        };
        let Some(kept) = job.result_at(self.now()) else { return Ok(None) };
        if !kept.once {
            return Ok(Some(kept.payload.clone()));
        }
        let taken = self.change(vec![(Which::Id(id), Event::TakeResult)], decide).await?;
        let is_ours = matches!(taken.first(), Some(Decided::Yes { .. }));
        Ok(is_ours.then(|| kept.payload.clone()))
    }
}
