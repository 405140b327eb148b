//! A worker: jobs of some queues run here, several at a time, until it is told to stop.

use std::fmt::Display;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::thread;

use crore_core::{Invalid, Job, Name, Span};
use crore_store::jobs::Order;

use crate::block::block_on;
use crate::doubt::Doubt;
use crate::engine::Engine;
use crate::error::Error;
use crate::fetch::Fetch;
use crate::pop::{Gives, Work};
use crate::upkeep::AGAIN_AFTER;

/// How long a fetch waits before it looks whether the worker is to stop; a stop wakes it anyway.
const WAIT: Span = Span::from_secs(60);

/// A worker about to run.
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
#[must_use = "a worker does nothing before it is run"]
pub struct Worker<'a> {
    engine: &'a Engine,
    queues: Result<Vec<Name>, Invalid>,
    parallel: usize,
    order: Order,
    stop: Stop,
}

/// Tells a worker to stop: it takes nothing new, finishes what it has, and returns.
#[derive(Debug, Clone)]
pub struct Stop {
    engine: Engine,
    is_stopped: Arc<AtomicBool>,
}

impl Stop {
    /// Stops the worker. To stop it twice does nothing.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.engine.inner.dispatch.wake_all();
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire) || self.engine.inner.is_quiet()
    }
}

impl Engine {
    /// A worker of some queues.
    pub fn worker<'a>(&'a self, queues: impl IntoIterator<Item = &'a str>) -> Worker<'a> {
        let queues = queues.into_iter().map(|queue| Name::new("queues", queue)).collect();
        let stop = Stop { engine: self.clone(), is_stopped: Arc::default() };
        Worker { engine: self, queues, parallel: 1, order: Order::Merged, stop }
    }
}

impl Worker<'_> {
    /// How many jobs run at once; one unless told otherwise.
    pub fn parallel(mut self, n: usize) -> Self {
        self.parallel = n.max(1);
        self
    }

    /// The first queue as long as it has any, then the second, and so on; otherwise they are merged.
    pub fn strict(mut self) -> Self {
        self.order = Order::Strict;
        self
    }

    /// What stops it.
    pub fn stopper(&self) -> Stop {
        self.stop.clone()
    }

    /// Runs jobs until it is stopped; gives how many. All of them run inside this future, so one that
    /// blocks its thread blocks the others: see [`run_blocking`](Self::run_blocking) for such work.
    pub async fn run<T: Gives, E: Display>(
        self,
        run: impl AsyncFn(&Work<'_>) -> Result<T, E>,
    ) -> Result<u64, Error> {
        let ask = self.ask()?;
        let ran = AtomicU64::new(0);
        let one = || async {
            while let Some(job) = self.next(&ask).await? {
                let ended = self.engine.run(&job, async |work: &Work<'_>| run(work).await);
                is_reported(ended.await)?;
                ran.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<(), Error>(())
        };
        all((0..self.parallel).map(|_| one())).await?;
        Ok(ran.into_inner())
    }

    /// Runs jobs on threads of its own until it is stopped; gives how many.
    pub fn run_blocking<T: Gives, E: Display>(
        self,
        run: impl Fn(&Work<'_>) -> Result<T, E> + Sync,
    ) -> Result<u64, Error> {
        let ask = self.ask()?;
        let ran = AtomicU64::new(0);
        let one = || -> Result<(), Error> {
            // Who ends before he is told to takes the others along.
            let _all = Doubt::new(|| self.stop.stop());
            while let Some(job) = block_on(self.next(&ask))? {
                let ended = self.engine.run(&job, async |work: &Work<'_>| run(work));
                is_reported(block_on(ended))?;
                ran.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..self.parallel).map(|_| scope.spawn(one)).collect();
            threads.into_iter().try_for_each(|thread| match thread.join() {
                Ok(ended) => ended,
                Err(panicked) => std::panic::resume_unwind(panicked),
            })
        })?;
        Ok(ran.into_inner())
    }

    fn ask(&self) -> Result<Fetch, Error> {
        let (queues, order) = (self.queues.clone()?, self.order);
        let worker = Name::new("worker", "library")?;
        Ok(Fetch { queues, kinds: None, handled: None, n: 1, order, worker, wait: WAIT })
    }

    /// The next job; `None`: the worker is to stop.
    async fn next(&self, ask: &Fetch) -> Result<Option<Job>, Error> {
        while !self.stop.is_stopped() {
            let inner = &self.engine.inner;
            match inner.fetch_until(ask, || self.stop.is_stopped(), pending()).await {
                Ok(mut jobs) => {
                    if let Some(job) = jobs.pop() {
                        return Ok(Some(job));
                    }
                }
                Err(Error::Store(crore_store::Error::Unavailable(_))) => {
                    inner.timers.sleep(AGAIN_AFTER).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Whether the worker can go on: how a run went stands at its job, also if what it gave could not be
/// kept.
fn is_reported<T>(ended: Result<T, Error>) -> Result<(), Error> {
    match ended {
        Ok(_) | Err(Error::Invalid(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// All of these, side by side; the first error ends it.
async fn all<F: Future<Output = Result<(), Error>>>(
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
