//! Checks that no fetch sleeps beside a job that it could have: not only at the end of a run, when a later
//! push may have healed a lost wake-up, but at every moment at which nothing is on its way.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Wake, Waker};

use crore::store::Store;
use crore::store::registry::{Table, Value};
use crore::store::views::Query;
use crore_core::{Job, Name, State};

use super::deadlines::at_once;

/// This many ready jobs of a queue are looked at.
const LOOK: usize = 50;

#[derive(Debug)]
pub(super) struct Sleepers {
    store: Arc<dyn Store>,
    /// Calls that were woken and have not been polled since: a wake-up may be on its way with them.
    awake: Arc<AtomicUsize>,
    fetches: Mutex<BTreeMap<u64, Wish>>,
}

/// The queues and kinds that a fetch waits for.
type Wish = (Vec<Name>, Option<Vec<Name>>);

/// The waker of a call.
#[derive(Debug)]
struct Alarm {
    waker: Mutex<Waker>,
    is_woken: AtomicBool,
    awake: Arc<AtomicUsize>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::Relaxed) {
            self.awake.fetch_add(1, Ordering::Relaxed);
        }
        self.waker.lock().expect("no panic").wake_by_ref();
    }
}

impl Alarm {
    /// The call is polled, or over.
    fn reset(&self) {
        if self.is_woken.swap(false, Ordering::Relaxed) {
            self.awake.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A call that is over when this is dropped.
struct Alarmed(Arc<Alarm>);

impl Drop for Alarmed {
    fn drop(&mut self) {
        self.0.reset();
    }
}

/// A fetch that waits while this is there.
pub(super) struct Sleeper<'a>(&'a Sleepers, u64);

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.0.fetches().remove(&self.1);
    }
}

impl Sleepers {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, awake: Arc::default(), fetches: Mutex::default() }
    }

    fn fetches(&self) -> MutexGuard<'_, BTreeMap<u64, Wish>> {
        self.fetches.lock().expect("no panic")
    }

    /// A fetch begins.
    pub(super) fn begins(&self, queues: &[Name], kinds: Option<&[Name]>) -> Sleeper<'_> {
        let mut fetches = self.fetches();
        let n = fetches.last_key_value().map_or(0, |(n, _)| n + 1);
        fetches.insert(n, (queues.to_vec(), kinds.map(<[Name]>::to_vec)));
        Sleeper(self, n)
    }

    /// A call, whose wake-ups are counted.
    pub(super) async fn watch<T>(&self, call: impl Future<Output = T>) -> T {
        let waker = Mutex::new(Waker::noop().clone());
        let (is_woken, awake) = (AtomicBool::new(false), Arc::clone(&self.awake));
        let alarm = Arc::new(Alarm { waker, is_woken, awake });
        let _over = Alarmed(Arc::clone(&alarm));
        let waker = Waker::from(Arc::clone(&alarm));
        let mut call = pin!(call);
        std::future::poll_fn(|context| {
            alarm.waker.lock().expect("no panic").clone_from(context.waker());
            alarm.reset();
            call.as_mut().poll(&mut Context::from_waker(&waker))
        })
        .await
    }

    /// Nothing is asked of the store: no fetch that sleeps could have a job.
    pub(super) fn check(&self) {
        let wishes: Vec<Wish> = self.fetches().values().cloned().collect();
        if self.awake.load(Ordering::Relaxed) > 0 || wishes.is_empty() {
            return;
        }
        let Some(paused) = self.paused() else { return };
        for (queues, kinds) in &wishes {
            for queue in queues.iter().filter(|queue| !paused.contains(queue)) {
                let wanted = |job: &&Job| {
                    let is_wanted = |kinds: &Vec<Name>| kinds.contains(&job.spec.kind);
                    job.spec.limits.is_empty() && kinds.as_ref().is_none_or(is_wanted)
                };
                let ready = self.ready(queue);
                let missed = ready.iter().find(wanted).map(|job| job.id);
                assert!(missed.is_none(), "a fetch of {queue} sleeps beside {missed:?}");
            }
        }
    }

    fn paused(&self) -> Option<Vec<Name>> {
        let entries = at_once(self.store.entries(Table::Queues, None, usize::MAX))?.into_iter();
        let paused = entries
            .filter(|entry| matches!(&entry.value, Value::Queue(settings) if settings.paused));
        Some(paused.map(|entry| entry.name).collect())
    }

    fn ready(&self, queue: &Name) -> Vec<Job> {
        let (state, queue) = (State::Ready, Some(queue.clone()));
        let query = Query { state, queue, kind: None, after: None, n: LOOK };
        at_once(self.store.list(query)).map(|page| page.jobs).unwrap_or_default()
    }
}
