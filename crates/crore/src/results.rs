//! Waiting for a job to end, without polling.

use std::collections::HashMap;
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

    fn now(job: &Job) -> Self {
        let error = job.live.history.first().and_then(|attempt| attempt.error.clone());
        Self { id: job.id, state: Some(job.live.state), result: None, error }
    }
}

/// All who wait for a job to end.
#[derive(Debug, Default)]
pub(crate) struct Results(Mutex<Waiters>);

#[derive(Debug, Default)]
struct Waiters {
    by_job: HashMap<JobId, Vec<Waiter>>,
    last: u64,
    is_closed: bool,
}

/// What a waiter is told.
#[derive(Debug, Clone)]
enum Told {
    /// The job has ended so.
    Ended(Ended),
    /// It may have: nobody heard what became of it.
    Look,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    told: Option<Told>,
    waker: Option<Waker>,
}

impl Results {
    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job has ended; what is to be said is only made if anybody waits for it.
    pub(crate) fn tell(&self, job: JobId, ended: impl FnOnce() -> Ended) {
        self.wake(job, || Told::Ended(ended()));
    }

    /// A job may have ended; whoever waits for it looks by himself.
    pub(crate) fn look_again(&self, job: JobId) {
        self.wake(job, || Told::Look);
    }

    fn wake(&self, job: JobId, told: impl FnOnce() -> Told) {
        let woken: Vec<Waker> = {
            let mut waiters = self.lock();
            let Some(list) = waiters.by_job.get_mut(&job) else { return };
            let told = told();
            list.iter_mut()
                .filter_map(|waiter| {
                    waiter.told = Some(told.clone());
                    waiter.waker.take()
                })
                .collect()
        };
        woken.into_iter().for_each(Waker::wake);
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
        waiters.by_job.entry(job).or_default().push(Waiter { id, told: None, waker: None });
        Place { results: self, job, id }
    }
}

/// Somebody waits for a job.
#[derive(Debug)]
struct Place<'a> {
    results: &'a Results,
    job: JobId,
    id: u64,
}

impl Place<'_> {
    fn poll(&self, context: &mut Context<'_>) -> Poll<Result<Told, Error>> {
        let mut waiters = self.results.lock();
        if waiters.is_closed {
            return Poll::Ready(Err(Error::Stopping));
        }
        let list = waiters.by_job.get_mut(&self.job);
        let Some(waiter) = list.and_then(|list| list.iter_mut().find(|one| one.id == self.id))
        else {
            return Poll::Ready(Err(Error::Stopping));
        };
        match waiter.told.take() {
            Some(told) => Poll::Ready(Ok(told)),
            None => {
                waiter.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiters = self.results.lock();
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
    pub async fn wait(&self, id: JobId, at_most: Span) -> Result<Option<Ended>, Error> {
        self.inner.wait(id, at_most).await
    }
}

impl Inner {
    async fn wait(&self, id: JobId, at_most: Span) -> Result<Option<Ended>, Error> {
        let ends_at = self.now().after(at_most);
        let place = self.results.enter(id);
        // Whoever ends it from here on tells this place.
        let mut was_there = false;
        let ended = loop {
            let job = self.store.get(vec![id.into()]).await?.pop().flatten();
            match job {
                Some(job) if job.live.state.has_ended() => break Ended::now(&job),
                Some(_) => was_there = true,
                None if was_there => break Ended { id, state: None, result: None, error: None },
                None => return Err(Error::NotFound { what: format!("job {id}") }),
            }
            let mut sleep = pin!(self.timers.sleep_until(ends_at));
            let told = poll_fn(|context| {
                if let Poll::Ready(told) = place.poll(context) {
                    return Poll::Ready(Some(told));
                }
                sleep.as_mut().poll(context).map(|()| None)
            });
            match told.await {
                Some(Ok(Told::Ended(ended))) => break ended,
                Some(Ok(Told::Look)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(None),
            }
        };
        let result = self.read_result(id).await?;
        Ok(Some(Ended { result, ..ended }))
    }

    /// The result of a job, if there is one; one that can be read once is taken away.
    async fn read_result(&self, id: JobId) -> Result<Option<Payload>, Error> {
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
