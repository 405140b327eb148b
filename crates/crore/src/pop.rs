//! Pop: run one job here, and have it done when its closure says so.

use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{any::Any, future::poll_fn, ops::Deref};

use crore_core::machine::{Again, Outcome};
use crore_core::{Delivery, Invalid, Job, JobId, Name, Payload};

use crate::block::block_on;
use crate::engine::Engine;
use crate::error::Error;
use crate::fetch::Fetch;
use crate::finish::Finish;
use crate::hold::Held;
use crate::upkeep::AGAIN_AFTER;

/// How often a report is said again, once a second, before its caller is told that it was not heard.
const TRIES: usize = 10;

/// A job in the hand of whoever runs it here. Its lease is renewed as long as it runs.
#[derive(Debug)]
pub struct Work<'a> {
    engine: &'a Engine,
    job: &'a Job,
    held: &'a Held<'a>,
}

impl Work<'_> {
    /// What it is to be done with.
    pub fn payload(&self) -> &[u8] {
        &self.job.spec.payload.bytes
    }

    /// Which attempt this is, from 1.
    pub const fn attempt(&self) -> u32 {
        self.job.live.attempt
    }

    /// Whether somebody asked it to stop, or it is another's by now.
    pub fn is_asked_to_stop(&self) -> bool {
        self.held.is_asked_to_stop()
    }

    /// Says how far it is.
    pub async fn progress(&self, percent: u8, text: &str) -> Result<(), Error> {
        self.engine.inner.progress(self.delivery(), percent, text).await.map(drop)
    }

    /// Adds a line to what it says.
    pub async fn line(&self, text: &str) -> Result<(), Error> {
        self.engine.inner.line(self.delivery(), text).await.map(drop)
    }

    fn delivery(&self) -> (JobId, Delivery) {
        (self.job.id, self.job.live.delivery)
    }
}

impl Deref for Work<'_> {
    type Target = Job;

    fn deref(&self) -> &Job {
        self.job
    }
}

/// What a closure may give: nothing, or a result to keep.
pub trait Gives {
    /// The result, as it is kept. An error makes the run fail.
    fn payload(&self) -> Result<Option<Payload>, Invalid>;
}

impl Gives for () {
    fn payload(&self) -> Result<Option<Payload>, Invalid> {
        Ok(None)
    }
}

impl Gives for Payload {
    fn payload(&self) -> Result<Option<Payload>, Invalid> {
        Ok(Some(self.clone()))
    }
}

impl Gives for Vec<u8> {
    fn payload(&self) -> Result<Option<Payload>, Invalid> {
        Ok(Some(Payload::new(crore_core::Encoding::Bytes, self.clone())))
    }
}

impl Engine {
    /// Runs the next job of a queue. When the closure returns `Ok` the job is done; when it returns
    /// `Err`, or panics, the job is tried again as its retry policy says. `None`: there is none now.
    /// A result that cannot be kept counts as a failure, and is the error that this gives.
    ///
    /// One slow closure holds nobody up: neither other queues nor other jobs of this one.
    ///
    /// ```
    /// use crore::{Engine, block_on};
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// engine.push("mail", "hello").wait()?;
    ///
    /// // It fails, stays in the queue, and counts its attempts.
    /// let ran = engine.pop_blocking("mail", |_| Err::<(), _>("the mail server is asleep"))?;
    /// assert_eq!(ran, Some(Err("the mail server is asleep")));
    ///
    /// let attempt = block_on(engine.pop("mail", async |work| {
    ///     assert_eq!(work.attempt(), 2);
    ///     Ok::<(), String>(())
    /// }))?;
    /// assert_eq!(attempt, Some(Ok(())));
    ///
    /// // An empty queue is an answer.
    /// assert_eq!(engine.pop_blocking("mail", |_| Ok::<(), String>(()))?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn pop<T: Gives, E: Display>(
        &self,
        queue: &str,
        run: impl AsyncFnOnce(&Work<'_>) -> Result<T, E>,
    ) -> Result<Option<Result<T, E>>, Error> {
        let ask = ask(queue)?;
        match self.fetch(ask).await?.pop() {
            Some(job) => self.run(&job, run).await.map(Some),
            None => Ok(None),
        }
    }

    /// The same, for programs without an async runtime.
    pub fn pop_blocking<T: Gives, E: Display>(
        &self,
        queue: &str,
        run: impl FnOnce(&Work<'_>) -> Result<T, E>,
    ) -> Result<Option<Result<T, E>>, Error> {
        block_on(self.pop(queue, async |work: &Work<'_>| run(work)))
    }

    /// Runs a job that was fetched, and reports how it went.
    pub(crate) async fn run<T: Gives, E: Display>(
        &self,
        job: &Job,
        run: impl AsyncFnOnce(&Work<'_>) -> Result<T, E>,
    ) -> Result<Result<T, E>, Error> {
        let held = self.inner.hold(job);
        let work = Work { engine: self, job, held: &held };
        let ran = caught(run(&work)).await;
        let outcome = match &ran {
            Ok(Ok(given)) => self.given(given),
            Ok(Err(error)) => Ok(failed(&error.to_string())),
            Err(panicked) => Ok(failed(&said(&**panicked))),
        };
        let (outcome, invalid) = match outcome {
            Ok(outcome) => (outcome, None),
            Err(invalid) => (failed(&invalid.to_string()), Some(invalid)),
        };
        let reported = self.report(job, outcome).await;
        drop(held);
        match (ran, invalid) {
            (Ok(_), Some(invalid)) => reported.and(Err(invalid.into())),
            (Ok(given), None) => reported.map(|()| given),
            (Err(panicked), _) => panic::resume_unwind(panicked),
        }
    }

    /// Reports, and says it again if the store cannot be reached: the work is done, and its lease is
    /// held meanwhile.
    async fn report(&self, job: &Job, outcome: Outcome) -> Result<(), Error> {
        for _ in 0..TRIES {
            match self.finish(Finish::of(job, outcome.clone())).await {
                Err(Error::Store(crore_store::Error::Unavailable(_))) => {
                    self.inner.timers.sleep(AGAIN_AFTER).await;
                }
                reported => return reported.map(drop),
            }
        }
        self.finish(Finish::of(job, outcome)).await.map(drop)
    }

    /// What a closure gave, if it can be kept.
    fn given(&self, given: &impl Gives) -> Result<Outcome, Invalid> {
        let (result, caps) = (given.payload()?, &self.inner.caps);
        if let Some(payload) = &result {
            payload.check("result", caps.result_bytes, caps.depth)?;
        }
        Ok(Outcome::Done { result })
    }
}

fn ask(queue: &str) -> Result<Fetch, Invalid> {
    Ok(Fetch::new(Name::new("queue", queue)?, Name::new("worker", "library")?))
}

fn failed(error: &str) -> Outcome {
    Outcome::Failed { error: Arc::from(error), detail: None, again: Again::ByPolicy }
}

/// What a future gives, or what it panicked with.
async fn caught<T>(future: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut future = pin!(future);
    poll_fn(move |context: &mut Context<'_>| {
        let polled = panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(given)) => Poll::Ready(Ok(given)),
            Err(panicked) => Poll::Ready(Err(panicked)),
        }
    })
    .await
}

/// What a panic said.
fn said(panicked: &(dyn Any + Send)) -> String {
    let text = panicked.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panicked.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("without a word"))
}
