//! Runners that are made once and run many jobs, one at a time: the pool of a handler.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crore_core::Name;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::context::Context;
use crate::runner::{Failure, Runner};

/// How long runners are kept that no job needs: their handler may have been changed or removed.
const IDLE: Duration = Duration::from_secs(5 * 60);

/// The pools of all handlers that have one.
#[derive(Debug, Default)]
pub(crate) struct Pools(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    pools: HashMap<Name, Arc<Pool>>,
    /// Drops what is idle, as long as there are pools.
    sweeper: Option<JoinHandle<()>>,
}

impl Pools {
    /// The pool of this revision of a handler. An earlier one is dropped: its runners are as soon as
    /// they are free. For a revision that is itself over there is none.
    pub(crate) fn of(
        self: &Arc<Self>,
        kind: &Name,
        revision: u64,
        size: NonZeroUsize,
    ) -> Option<Arc<Pool>> {
        let mut kept = lock(&self.0);
        if let Some(pool) = kept.pools.get(kind) {
            if pool.revision > revision {
                return None;
            }
            if (pool.revision, pool.size) == (revision, size) {
                return Some(Arc::clone(pool));
            }
        }
        let pool = Arc::new(Pool::new(revision, size));
        kept.pools.insert(kind.clone(), Arc::clone(&pool));
        if kept.sweeper.as_ref().is_none_or(JoinHandle::is_finished) {
            kept.sweeper = Some(tokio::spawn(sweep(Arc::downgrade(self))));
        }
        Some(pool)
    }

    /// Drops what is idle; gives how long nothing else will be, or nothing if no pool is left.
    fn drop_idle(&self) -> Option<Duration> {
        let mut kept = lock(&self.0);
        let idle: Vec<_> = kept.pools.extract_if(|_, pool| pool.time_left().is_zero()).collect();
        let next = kept.pools.values().map(Pool::time_left).min();
        if next.is_none() {
            kept.sweeper = None;
        }
        drop(kept);
        drop(idle);
        next
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(sweeper) = &self.sweeper {
            sweeper.abort();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "what is not used sends no signal")]
async fn sweep(pools: Weak<Pools>) {
    let mut next = Some(IDLE);
    while let Some(wait) = next {
        sleep(wait).await;
        next = pools.upgrade().and_then(|pools| pools.drop_idle());
    }
}

/// At most so many runners of one revision of a handler, made when they are needed.
#[derive(Debug)]
pub(crate) struct Pool {
    revision: u64,
    size: NonZeroUsize,
    free: Mutex<Vec<Box<dyn Runner>>>,
    places: Arc<Semaphore>,
    /// When a job last had a place.
    used: Mutex<Instant>,
}

/// A place in a pool: with the runner that was free, or for one that is made now.
#[derive(Debug)]
pub(crate) struct Place {
    pool: Arc<Pool>,
    pub(crate) free: Option<Box<dyn Runner>>,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    fn new(revision: u64, size: NonZeroUsize) -> Self {
        let places = Arc::new(Semaphore::new(size.get()));
        let used = Mutex::new(Instant::now());
        Self { revision, size, free: Mutex::default(), places, used }
    }

    /// How long it is still kept. One that a job has, or waits for, is in use.
    fn time_left(self: &Arc<Self>) -> Duration {
        if Arc::strong_count(self) > 1 {
            return IDLE;
        }
        IDLE.saturating_sub(lock(&self.used).elapsed())
    }

    /// Waits for a place, in the order of asking, until the run is to stop.
    pub(crate) async fn place(self: Arc<Self>, context: &Context) -> Result<Place, Failure> {
        let permit = tokio::select! {
            biased;
            () = context.stopped() => return Err(Failure::stopped()),
            permit = Arc::clone(&self.places).acquire_owned() => permit,
        };
        let permit = permit.expect("the places of a pool are never closed");
        let free = lock(&self.free).pop();
        Ok(Place { pool: self, free, _permit: permit })
    }
}

impl Place {
    /// Gives a runner back that can run another job. One that is not given back is thrown away, and
    /// another is made in its place.
    pub(crate) fn give_back(self, runner: Box<dyn Runner>) {
        lock(&self.pool.free).push(runner);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *lock(&self.pool.used) = Instant::now();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
