//! Pop: runs one job in this process, and reports its outcome from the closure's result.

use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{any::Any, future::poll_fn, ops::Deref};

use crore_core::machine::{Outcome, RetryDirective};
use crore_core::{Delivery, Invalid, Job, JobId, Name, Payload};

use crate::block::block_on;
use crate::engine::Engine;
use crate::error::Error;
use crate::fetch::Fetch;
use crate::finish::Finish;
use crate::renewed_leases::LeaseGuard;
use crate::upkeep::RETRY_AFTER;

/// Retries of a report, one per second, while the store is unavailable.
const MAX_REPORT_RETRIES: usize = 10;

/// A job that is running in this process. Its lease is renewed while it runs; its fields are available by deref to
/// [`Job`].
#[derive(Debug)]
pub struct Work<'a> {
    engine: &'a Engine,
    job: &'a Job,
    lease: &'a LeaseGuard<'a>,
}

impl Work<'_> {
    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.job.spec.payload.bytes
    }

    /// The number of this attempt, starting at 1.
    pub const fn attempt(&self) -> u32 {
        self.job.live.attempt
    }

    /// Whether the job should stop: it was cancelled, or its lease was lost.
    pub fn is_asked_to_stop(&self) -> bool {
        self.lease.is_asked_to_stop()
    }

    /// Records the progress of the run.
    pub async fn progress(&self, percent: u8, text: &str) -> Result<(), Error> {
        self.engine.inner.progress(self.delivery(), percent, text).await.map(drop)
    }

    /// Adds a line to the log of the run.
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

/// Success value of a closure that runs a job: nothing, or a result to store.
pub trait JobOutput {
    /// The result to store, if any. An error makes the run fail.
    fn payload(&self) -> Result<Option<Payload>, Invalid>;
}

impl JobOutput for () {
    fn payload(&self) -> Result<Option<Payload>, Invalid> {
        Ok(None)
    }
}

impl JobOutput for Payload {
    fn payload(&self) -> Result<Option<Payload>, Invalid> {
        Ok(Some(self.clone()))
    }
}

impl JobOutput for Vec<u8> {
    fn payload(&self) -> Result<Option<Payload>, Invalid> {
        Ok(Some(Payload::new(crore_core::Encoding::Bytes, self.clone())))
    }
}

impl Engine {
    /// Runs the next job of a queue. If the closure returns `Ok`, the job is done; if it returns `Err` or panics,
    /// the job is retried according to its retry policy. A panic is resumed after the report. Returns `None` if no
    /// job is ready. A result that is malformed or exceeds the caps makes the run fail, with an error.
    ///
    /// A slow closure blocks neither other queues nor other jobs of this one.
    ///
    /// ```
    /// use crore::{Engine, block_on};
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// engine.push("mail", "hello").wait()?;
    ///
    /// // The run fails: the job stays in the queue, and the attempt counts.
    /// let ran = engine.pop_blocking("mail", |_| Err::<(), _>("the mail server is asleep"))?;
    /// assert_eq!(ran, Some(Err("the mail server is asleep")));
    ///
    /// let attempt = block_on(engine.pop("mail", async |work| {
    ///     assert_eq!(work.attempt(), 2);
    ///     Ok::<(), String>(())
    /// }))?;
    /// assert_eq!(attempt, Some(Ok(())));
    ///
    /// // An empty queue gives `None`.
    /// assert_eq!(engine.pop_blocking("mail", |_| Ok::<(), String>(()))?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn pop<T: JobOutput, E: Display>(
        &self,
        queue: &str,
        run: impl AsyncFnOnce(&Work<'_>) -> Result<T, E>,
    ) -> Result<Option<Result<T, E>>, Error> {
        let fetch = fetch_one_of(queue)?;
        match self.fetch(fetch).await?.pop() {
            Some(job) => self.run(&job, run).await.map(Some),
            None => Ok(None),
        }
    }

    /// Like [`pop`](Self::pop), for programs without an async runtime.
    pub fn pop_blocking<T: JobOutput, E: Display>(
        &self,
        queue: &str,
        run: impl FnOnce(&Work<'_>) -> Result<T, E>,
    ) -> Result<Option<Result<T, E>>, Error> {
        block_on(self.pop(queue, async |work: &Work<'_>| run(work)))
    }

    /// Runs a fetched job and reports its outcome.
    pub(crate) async fn run<T: JobOutput, E: Display>(
        &self,
        job: &Job,
        run: impl AsyncFnOnce(&Work<'_>) -> Result<T, E>,
    ) -> Result<Result<T, E>, Error> {
        let held = self.inner.hold_lease(job);
        let work = Work { engine: self, job, lease: &held };
        let ran = catch_panic(run(&work)).await;
        let outcome = match &ran {
            Ok(Ok(output)) => self.done_outcome(output),
            Ok(Err(error)) => Ok(failed(&error.to_string())),
            Err(panic_payload) => Ok(failed(&panic_message(&**panic_payload))),
        };
        let (outcome, invalid) = match outcome {
            Ok(outcome) => (outcome, None),
            Err(invalid) => (failed(&invalid.to_string()), Some(invalid)),
        };
        let reported = self.report(job, outcome).await;
        drop(held);
        match (ran, invalid) {
            (Ok(_), Some(invalid)) => reported.and(Err(invalid.into())),
            (Ok(output), None) => reported.map(|()| output),
            (Err(panic_payload), _) => panic::resume_unwind(panic_payload),
        }
    }

    /// Reports an outcome, and retries while the store is unavailable. The lease is renewed meanwhile.
    async fn report(&self, job: &Job, outcome: Outcome) -> Result<(), Error> {
        for _ in 0..MAX_REPORT_RETRIES {
            match self.finish(Finish::of(job, outcome.clone())).await {
                Err(Error::Store(crore_store::Error::Unavailable(_))) => {
                    self.inner.timers.sleep(RETRY_AFTER).await;
                }
                reported => return reported.map(drop),
            }
        }
        self.finish(Finish::of(job, outcome)).await.map(drop)
    }

    /// The outcome of a successful closure, if its result can be stored.
    fn done_outcome(&self, output: &impl JobOutput) -> Result<Outcome, Invalid> {
        let (result, caps) = (output.payload()?, &self.inner.caps);
        if let Some(payload) = &result {
            payload.check("result", caps.result_bytes, caps.depth)?;
        }
        Ok(Outcome::Done { result })
    }
}

fn fetch_one_of(queue: &str) -> Result<Fetch, Invalid> {
    Ok(Fetch::new(Name::new("queue", queue)?, Name::new("worker", "library")?))
}

fn failed(error: &str) -> Outcome {
    Outcome::Failed { error: Arc::from(error), detail: None, again: RetryDirective::ByPolicy }
}

/// Awaits a future; `Err` is the payload of a panic.
async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut future = pin!(future);
    poll_fn(move |context: &mut Context<'_>| {
        let polled = panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic_payload) => Poll::Ready(Err(panic_payload)),
        }
    })
    .await
}

/// The message of a panic.
fn panic_message(panic_payload: &(dyn Any + Send)) -> String {
    let text = panic_payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic_payload.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("no message"))
}
