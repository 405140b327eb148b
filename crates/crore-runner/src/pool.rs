//! Pools of runners: each handler with a pool reuses its runners, one job at a time per runner.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crore_core::Name;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::context::RunContext;
use crate::runner::{RunFailure, Runner};

/// Idle time after which a pool is dropped: its handler may have been changed or removed.
const IDLE: Duration = Duration::from_secs(5 * 60);

/// The pools of all handlers that have one.
#[derive(Debug, Default)]
pub(crate) struct Pools(Mutex<PoolTable>);

#[derive(Debug, Default)]
struct PoolTable {
    pools: HashMap<Name, Arc<Pool>>,
    /// Drops idle pools; runs while there are pools.
    sweeper: Option<JoinHandle<()>>,
}

impl Pools {
    /// The pool of this revision of a handler. It replaces the pool of an earlier revision, whose
    /// runners are dropped once they are free. None if a later revision has a pool already.
    pub(crate) fn pool_for(
        self: &Arc<Self>,
        kind: &Name,
        revision: u64,
        size: NonZeroUsize,
    ) -> Option<Arc<Pool>> {
        let mut table = lock(&self.0);
        if let Some(pool) = table.pools.get(kind) {
            if pool.revision > revision {
                return None;
            }
            if (pool.revision, pool.size) == (revision, size) {
                return Some(Arc::clone(pool));
            }
        }
        let pool = Arc::new(Pool::new(revision, size));
        table.pools.insert(kind.clone(), Arc::clone(&pool));
        if table.sweeper.as_ref().is_none_or(JoinHandle::is_finished) {
            table.sweeper = Some(tokio::spawn(sweep(Arc::downgrade(self))));
        }
        Some(pool)
    }

    /// Drops idle pools. Returns the time until the next one can expire; none if no pool is left.
    fn drop_idle(&self) -> Option<Duration> {
        let mut table = lock(&self.0);
        let idle: Vec<_> = table.pools.extract_if(|_, pool| pool.time_left().is_zero()).collect();
        let next = table.pools.values().map(Pool::time_left).min();
        if next.is_none() {
            table.sweeper = None;
        }
        drop(table);
        drop(idle);
        next
    }
}

impl Drop for PoolTable {
    fn drop(&mut self) {
        if let Some(sweeper) = &self.sweeper {
            sweeper.abort();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "idleness sends no event that could be awaited")]
async fn sweep(pools: Weak<Pools>) {
    let mut next = Some(IDLE);
    while let Some(wait) = next {
        sleep(wait).await;
        next = pools.upgrade().and_then(|pools| pools.drop_idle());
    }
}

/// Up to `size` runners of one revision of a handler, made on demand.
#[derive(Debug)]
pub(crate) struct Pool {
    revision: u64,
    size: NonZeroUsize,
    free: Mutex<Vec<Box<dyn Runner>>>,
    slots: Arc<Semaphore>,
    /// When a job last left the pool.
    last_used: Mutex<Instant>,
}

/// A slot in a pool, with a free runner if there is one; otherwise the job makes one.
#[derive(Debug)]
pub(crate) struct PoolSlot {
    pool: Arc<Pool>,
    pub(crate) free: Option<Box<dyn Runner>>,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    fn new(revision: u64, size: NonZeroUsize) -> Self {
        let slots = Arc::new(Semaphore::new(size.get()));
        let last_used = Mutex::new(Instant::now());
        Self { revision, size, free: Mutex::default(), slots, last_used }
    }

    /// Time until this pool expires. A pool that a job uses or waits for does not expire.
    fn time_left(self: &Arc<Self>) -> Duration {
        if Arc::strong_count(self) > 1 {
            return IDLE;
        }
        IDLE.saturating_sub(lock(&self.last_used).elapsed())
    }

    /// Waits for a slot, first come first served, until the run must stop.
    pub(crate) async fn acquire(
        self: Arc<Self>,
        context: &RunContext,
    ) -> Result<PoolSlot, RunFailure> {
        let permit = tokio::select! {
            biased;
            () = context.stopped() => return Err(RunFailure::stopped()),
            permit = Arc::clone(&self.slots).acquire_owned() => permit,
        };
        let permit = permit.expect("the semaphore of a pool is never closed");
        let free = lock(&self.free).pop();
        Ok(PoolSlot { pool: self, free, _permit: permit })
    }
}

impl PoolSlot {
    /// Returns a runner that can run another job. A runner that is not returned is dropped, and the
    /// next job makes a new one.
    pub(crate) fn give_back(self, runner: Box<dyn Runner>) {
        lock(&self.pool.free).push(runner);
    }
}

impl Drop for PoolSlot {
    fn drop(&mut self) {
        *lock(&self.pool.last_used) = Instant::now();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
