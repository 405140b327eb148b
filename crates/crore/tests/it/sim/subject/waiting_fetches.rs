//! Checks that no fetch waits while a job for it is ready: not only at the end of a run, when a later push may have
//! hidden a lost wake-up, but whenever no call is in flight.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Wake, Waker};

use crore::fetch::Fetch;
use crore::store::Store;
use crore::store::registry::{RegistryTable, RegistryValue};
use crore::store::views::ListQuery;
use crore_core::{Job, Name, State};

use super::deadlines::at_once;

/// This many ready jobs of a queue are checked.
const MAX_JOBS_CHECKED: usize = 50;

#[derive(Debug)]
pub(super) struct WaitingFetches {
    store: Arc<dyn Store>,
    /// Calls that were woken and not polled since: they may carry a wake-up.
    awake: Arc<AtomicUsize>,
    fetches: Mutex<BTreeMap<u64, Fetch>>,
}

/// The waker of a call.
#[derive(Debug)]
struct TrackingWaker {
    waker: Mutex<Waker>,
    is_woken: AtomicBool,
    awake: Arc<AtomicUsize>,
}

impl Wake for TrackingWaker {
    fn wake(self: Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::Relaxed) {
            self.awake.fetch_add(1, Ordering::Relaxed);
        }
        self.waker.lock().expect("no panic").wake_by_ref();
    }
}

impl TrackingWaker {
    /// Marks the call as polled or ended.
    fn reset(&self) {
        if self.is_woken.swap(false, Ordering::Relaxed) {
            self.awake.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Ends a call on drop.
struct TrackedCall(Arc<TrackingWaker>);

impl Drop for TrackedCall {
    fn drop(&mut self) {
        self.0.reset();
    }
}

/// Registers a waiting fetch until it is dropped.
pub(super) struct WaitingFetchGuard<'a>(&'a WaitingFetches, u64);

impl Drop for WaitingFetchGuard<'_> {
    fn drop(&mut self) {
        self.0.fetches().remove(&self.1);
    }
}

impl WaitingFetches {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, awake: Arc::default(), fetches: Mutex::default() }
    }

    fn fetches(&self) -> MutexGuard<'_, BTreeMap<u64, Fetch>> {
        self.fetches.lock().expect("no panic")
    }

    /// Registers a fetch.
    pub(super) fn register(&self, fetch: &Fetch) -> WaitingFetchGuard<'_> {
        let mut fetches = self.fetches();
        let n = fetches.last_key_value().map_or(0, |(n, _)| n + 1);
        fetches.insert(n, fetch.clone());
        WaitingFetchGuard(self, n)
    }

    /// Runs a call and tracks its wake-ups.
    pub(super) async fn track<T>(&self, call: impl Future<Output = T>) -> T {
        let waker = Mutex::new(Waker::noop().clone());
        let (is_woken, awake) = (AtomicBool::new(false), Arc::clone(&self.awake));
        let alarm = Arc::new(TrackingWaker { waker, is_woken, awake });
        let _over = TrackedCall(Arc::clone(&alarm));
        let waker = Waker::from(Arc::clone(&alarm));
        let mut call = pin!(call);
        std::future::poll_fn(|context| {
            alarm.waker.lock().expect("no panic").clone_from(context.waker());
            alarm.reset();
            call.as_mut().poll(&mut Context::from_waker(&waker))
        })
        .await
    }

    /// Checks the waiting fetches, while no call is in flight.
    pub(super) fn check(&self) {
        let wishes: Vec<Fetch> = self.fetches().values().cloned().collect();
        if self.awake.load(Ordering::Relaxed) > 0 || wishes.is_empty() {
            return;
        }
        let Some(paused) = self.paused() else { return };
        for Fetch { queues, kinds, versions, .. } in &wishes {
            for queue in queues.iter().filter(|queue| !paused.contains(queue)) {
                let wanted = |job: &&Job| {
                    let is_wanted = |kinds: &Vec<Name>| kinds.contains(&job.spec.kind);
                    // A job past its deadline is ready until upkeep has decided.
                    let may_start = job.spec.limits.is_empty() && job.live.deadline.is_none();
                    may_start
                        && kinds.as_ref().is_none_or(is_wanted)
                        && versions.satisfy(&job.spec.kind, job.spec.worker_version.as_deref())
                };
                let ready = self.ready(queue);
                let missed = ready.iter().find(wanted).map(|job| job.id);
                assert!(missed.is_none(), "a fetch of {queue} waits although {missed:?} is ready");
            }
        }
    }

    fn paused(&self) -> Option<Vec<Name>> {
        let entries =
            at_once(self.store.entries(RegistryTable::Queues, None, usize::MAX))?.into_iter();
        let paused = entries.filter(
            |entry| matches!(&entry.value, RegistryValue::Queue(settings) if settings.paused),
        );
        Some(paused.map(|entry| entry.name).collect())
    }

    fn ready(&self, queue: &Name) -> Vec<Job> {
        let (state, queue) = (State::Ready, Some(queue.clone()));
        let query =
            ListQuery { state, queue, kind: None, key: None, after: None, n: MAX_JOBS_CHECKED };
        at_once(self.store.list(query)).map(|page| page.jobs).unwrap_or_default()
    }
}
