//! A worker: runs jobs of some queues in this process, several at a time, until it is stopped.

use std::fmt::Display;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::thread;

use crore_core::version::KindVersions;
use crore_core::{Invalid, Job, Name, Span};
use crore_store::jobs::QueueOrder;

use crate::block::block_on;
use crate::drop_guard::DropGuard;
use crate::engine::Engine;
use crate::error::Error;
use crate::fetch::Fetch;
use crate::pop::{JobOutput, Work};
use crate::upkeep::RETRY_AFTER;

/// Timeout of one fetch. A stop wakes it earlier.
const FETCH_TIMEOUT: Span = Span::from_secs(60);

/// A worker, configured and not yet running.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use crore::Engine;
///
/// # fn main() -> Result<(), crore::Error> {
/// let engine = Engine::memory();
/// for n in 0..10 {
///     engine.push(if n % 2 == 0 { "even" } else { "odd" }, vec![n]).wait()?;
/// }
/// let worker = engine.worker(["even", "odd"]).parallel(4);
/// let (stop, sum, seen) = (worker.stopper(), AtomicU64::new(0), AtomicU64::new(0));
/// let ran = worker.run_blocking(|work| {
///     sum.fetch_add(work.payload()[0].into(), Ordering::Relaxed);
///     if seen.fetch_add(1, Ordering::Relaxed) == 9 {
///         // It finishes what it has, and returns.
///         stop.stop();
///     }
///     Ok::<(), String>(())
/// })?;
/// assert_eq!((ran, sum.into_inner()), (10, 45));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a worker does nothing until it is run"]
pub struct Worker<'a> {
    engine: &'a Engine,
    queues: Result<Vec<Name>, Invalid>,
    versions: Result<KindVersions, Invalid>,
    parallel: usize,
    order: QueueOrder,
    stop: WorkerStopper,
}

/// Stops a worker: it takes no new jobs, finishes those it has, and returns.
#[derive(Debug, Clone)]
pub struct WorkerStopper {
    engine: Engine,
    is_stopped: Arc<AtomicBool>,
}

impl WorkerStopper {
    /// Stops the worker. A second call does nothing.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.engine.inner.wait_list.wake_all();
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire) || self.engine.inner.is_quiesced()
    }
}

impl Engine {
    /// Configures a worker for these queues.
    pub fn worker<'a>(&'a self, queues: impl IntoIterator<Item = &'a str>) -> Worker<'a> {
        let queues = queues.into_iter().map(|queue| Name::new("queues", queue)).collect();
        let stop = WorkerStopper { engine: self.clone(), is_stopped: Arc::default() };
        let (versions, order) = (Ok(KindVersions::default()), QueueOrder::Merged);
        Worker { engine: self, queues, versions, parallel: 1, order, stop }
    }
}

impl Worker<'_> {
    /// Sets how many jobs run concurrently. Default: 1.
    pub fn parallel(mut self, n: usize) -> Self {
        self.parallel = n.max(1);
        self
    }

    /// Names the version of each kind that the worker runs, as in `[("mail", "2.3.1")]`. Without it, the worker gets no
    /// jobs that [require a version](crate::Push::worker_version).
    pub fn versions<'k>(mut self, versions: impl IntoIterator<Item = (&'k str, &'k str)>) -> Self {
        self.versions = KindVersions::parse(versions);
        self
    }

    /// Serves the queues in strict order: a queue is served only while those before it are empty. By default jobs
    /// of all queues are merged by priority and due time.
    pub fn strict(mut self) -> Self {
        self.order = QueueOrder::Strict;
        self
    }

    /// A handle that stops the worker.
    pub fn stopper(&self) -> WorkerStopper {
        self.stop.clone()
    }

    /// Runs jobs until the worker is stopped, and returns how many it ran. All jobs run inside this future, so one
    /// that blocks its thread blocks the others: use [`run_blocking`](Self::run_blocking) for blocking work.
    pub async fn run<T: JobOutput, E: Display>(
        self,
        run: impl AsyncFn(&Work<'_>) -> Result<T, E>,
    ) -> Result<u64, Error> {
        let request = self.fetch_request()?;
        let _versions = self.engine.inner.connect_versions(&request);
        let ran = AtomicU64::new(0);
        let run_jobs = || async {
            while let Some(job) = self.next(&request).await? {
                let ended = self.engine.run(&job, async |work: &Work<'_>| run(work).await);
                ignore_invalid_result(ended.await)?;
                ran.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<(), Error>(())
        };
        join_all((0..self.parallel).map(|_| run_jobs())).await?;
        Ok(ran.into_inner())
    }

    /// Runs jobs on threads of its own until the worker is stopped, and returns how many it ran.
    pub fn run_blocking<T: JobOutput, E: Display>(
        self,
        run: impl Fn(&Work<'_>) -> Result<T, E> + Sync,
    ) -> Result<u64, Error> {
        let request = self.fetch_request()?;
        let _versions = self.engine.inner.connect_versions(&request);
        let ran = AtomicU64::new(0);
        let run_jobs = || -> Result<(), Error> {
            // A thread that ends early, by an error or a panic, stops the others.
            let _all = DropGuard::new(|| self.stop.stop());
            while let Some(job) = block_on(self.next(&request))? {
                let ended = self.engine.run(&job, async |work: &Work<'_>| run(work));
                ignore_invalid_result(block_on(ended))?;
                ran.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..self.parallel).map(|_| scope.spawn(run_jobs)).collect();
            threads.into_iter().try_for_each(|thread| match thread.join() {
                Ok(ended) => ended,
                Err(panicked) => std::panic::resume_unwind(panicked),
            })
        })?;
        Ok(ran.into_inner())
    }

    fn fetch_request(&self) -> Result<Fetch, Error> {
        let (queues, order) = (self.queues.clone()?, self.order);
        let worker = Name::new("worker", "library")?;
        Ok(Fetch {
            queues,
            kinds: None,
            versions: self.versions.clone()?,
            also: Vec::new(),
            handled: None,
            n: 1,
            order,
            worker,
            wait: FETCH_TIMEOUT,
            within: None,
        })
    }

    /// The next job; `None`: the worker was stopped.
    async fn next(&self, request: &Fetch) -> Result<Option<Job>, Error> {
        while !self.stop.is_stopped() {
            let inner = &self.engine.inner;
            match inner.fetch_until(request, || self.stop.is_stopped(), pending()).await {
                Ok(mut jobs) => {
                    if let Some(job) = jobs.pop() {
                        return Ok(Some(job));
                    }
                }
                Err(Error::Store(crore_store::Error::Unavailable(_))) => {
                    inner.timers.sleep(RETRY_AFTER).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Lets the worker continue after an invalid result: the failure is recorded with the job.
fn ignore_invalid_result<T>(ended: Result<T, Error>) -> Result<(), Error> {
    match ended {
        Ok(_) | Err(Error::Invalid(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Runs futures concurrently; the first error ends them all.
async fn join_all<F: Future<Output = Result<(), Error>>>(
    futures: impl Iterator<Item = F>,
) -> Result<(), Error> {
    let mut open: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    poll_fn(move |context| {
        let mut error = None;
        open.retain_mut(|future| match future.as_mut().poll(context) {
            Poll::Pending => true,
            Poll::Ready(Ok(())) => false,
            Poll::Ready(Err(first)) => {
                error.get_or_insert(first);
                false
            }
        });
        match error {
            Some(error) => Poll::Ready(Err(error)),
            None if open.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
}
