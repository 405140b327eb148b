//! Wait lists of fetches. A wake-up goes to one waiting fetch, which passes it on if there may be more jobs; a
//! thousand fetches waiting for one queue therefore cost nothing when one job arrives.
//!
//! A wake-up names a queue, not a kind: it wakes one fetch that waits for any kind, one for each kind that some
//! fetch waits for, and one for each version of a kind. A fetch that finds no job then keeps its position, ordered by
//! arrival, and wakes no other.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crore_core::version::Version;
use crore_core::{Name, Spec};

use crate::bug::planted;
use crate::fetch::Fetch;

/// A queue, and the jobs in it that a fetch waits for.
type WaitTarget = (Name, AwaitedJobs);

/// Jobs of a queue that a fetch waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum AwaitedJobs {
    /// Jobs of any kind that require no version.
    Any,
    /// Jobs of a kind that require no version.
    Kind(Name),
    /// Jobs of a kind that require a version which this one satisfies.
    Version(Name, Version),
}

/// All waiting fetches.
#[derive(Debug, Default)]
pub(crate) struct FetchWaitList(Mutex<FetchWaiters>);

#[derive(Debug, Default)]
struct FetchWaiters {
    by_id: BTreeMap<u64, FetchWaiter>,
    /// By queue, then by kind, in the order in which they are woken. A fetch that waits for several targets is in
    /// several lists; its outdated entries are skipped.
    by_queue: HashMap<Name, BTreeMap<AwaitedJobs, VecDeque<WaitListEntry>>>,
    last_id: u64,
}

/// An entry in a wait list. It is outdated once its fetch has been woken or has been enqueued again.
#[derive(Debug, Clone, Copy)]
struct WaitListEntry {
    id: u64,
    enqueued: u64,
}

#[derive(Debug)]
struct FetchWaiter {
    /// How often the fetch has been enqueued.
    enqueued: u64,
    is_woken: bool,
    waker: Option<Waker>,
}

/// Above this length, outdated entries are removed before a list grows.
const COMPACT_ABOVE: usize = 64;

impl FetchWaitList {
    fn lock(&self) -> MutexGuard<'_, FetchWaiters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes fetches that wait for these queues.
    pub(crate) fn wake(&self, queues: &[Name]) {
        let woken: Vec<Waker> = {
            let mut waiters = self.lock();
            if waiters.by_id.is_empty() {
                return;
            }
            queues.iter().flat_map(|queue| waiters.wake_queue(queue)).collect()
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Wakes all fetches, to re-check whether they should stop.
    pub(crate) fn wake_all(&self) {
        let woken: Vec<Waker> = {
            let mut waiters = self.lock();
            waiters.by_id.values_mut().filter_map(FetchWaiter::wake).collect()
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Registers a fetch. It is not enqueued yet.
    pub(crate) fn register(&self, fetch: &Fetch) -> WaitingFetch<'_> {
        let targets = targets(fetch);
        let mut waiters = self.lock();
        waiters.last_id += 1;
        let id = waiters.last_id;
        waiters.by_id.insert(id, FetchWaiter { enqueued: 0, is_woken: false, waker: None });
        drop(waiters);
        WaitingFetch { wait_list: self, id, targets, is_claiming: AtomicBool::new(false) }
    }

    /// Whether a fetch waits for jobs like this one.
    pub(crate) fn is_waited_for(&self, spec: &Spec) -> bool {
        let waiters = self.lock();
        let Some(lists) = waiters.by_queue.get(&spec.queue) else { return false };
        let is_meant = |jobs: &AwaitedJobs| match (jobs, &spec.worker_version) {
            (AwaitedJobs::Any, None) => true,
            (AwaitedJobs::Kind(kind), None) => *kind == spec.kind,
            (AwaitedJobs::Version(kind, version), Some(required)) => {
                *kind == spec.kind && required.is_satisfied_by(*version)
            }
            _ => false,
        };
        let lists = lists.iter().filter(|(jobs, _)| is_meant(jobs));
        lists.flat_map(|(_, list)| list).any(|entry| is_waiting(*entry, &waiters.by_id))
    }

    /// Whether a fetch waits for jobs of this queue.
    pub(crate) fn is_queue_waited_for(&self, queue: &Name) -> bool {
        let waiters = self.lock();
        let lists = waiters.by_queue.get(queue).into_iter().flatten();
        lists.flat_map(|(_, list)| list).any(|entry| is_waiting(*entry, &waiters.by_id))
    }

    /// The number of waiting fetches.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().by_id.len()
    }
}

fn targets(fetch: &Fetch) -> Vec<WaitTarget> {
    let mut jobs: Vec<AwaitedJobs> = match &fetch.kinds {
        None => vec![AwaitedJobs::Any],
        Some(kinds) => kinds.iter().cloned().map(AwaitedJobs::Kind).collect(),
    };
    let version = |(kind, version): (&Name, Version)| {
        (!planted!("bug-35")).then(|| AwaitedJobs::Version(kind.clone(), version))
    };
    jobs.extend(fetch.versions.among(fetch.kinds.as_deref()).into_iter().filter_map(version));
    let of_queues = fetch.queues.iter();
    let of_queues =
        of_queues.flat_map(|queue| jobs.iter().map(move |jobs| (queue.clone(), jobs.clone())));
    let also = fetch.also.iter().flat_map(|(queue, kind)| {
        let version = fetch.versions.of(kind).and_then(|number| version((kind, number)));
        let jobs = [Some(AwaitedJobs::Kind(kind.clone())), version];
        jobs.into_iter().flatten().map(move |jobs| (queue.clone(), jobs))
    });
    of_queues.chain(also).collect()
}

impl FetchWaiter {
    fn wake(&mut self) -> Option<Waker> {
        self.is_woken = true;
        self.waker.take()
    }
}

impl FetchWaiters {
    fn wake_queue(&mut self, queue: &Name) -> Vec<Waker> {
        let Self { by_id, by_queue, .. } = self;
        let Some(lists) = by_queue.get_mut(queue) else { return Vec::new() };
        let woken = lists.values_mut().filter_map(|list| wake_first(list, by_id)).collect();
        lists.retain(|_, list| !list.is_empty());
        if lists.is_empty() {
            by_queue.remove(queue);
        }
        woken
    }

    fn wake_one(&mut self, (queue, kind): &WaitTarget) -> Option<Waker> {
        let list = self.by_queue.get_mut(queue)?.get_mut(kind)?;
        wake_first(list, &mut self.by_id)
    }

    fn enqueue(&mut self, id: u64, targets: &[WaitTarget]) {
        let Some(waiter) = self.by_id.get_mut(&id) else { return };
        waiter.enqueued += 1;
        waiter.is_woken = false;
        let enqueued = waiter.enqueued;
        for (queue, kind) in targets {
            let lists = self.by_queue.entry(queue.clone()).or_default();
            let list = lists.entry(kind.clone()).or_default();
            if list.len() > COMPACT_ABOVE && list.len() == list.capacity() {
                list.retain(|entry| is_waiting(*entry, &self.by_id));
            }
            // A fetch that found nothing has waited longer than those that came after it.
            let at = list.partition_point(|entry| entry.id <= id);
            list.insert(at, WaitListEntry { id, enqueued });
        }
    }

    fn deregister(&mut self, id: u64, targets: &[WaitTarget]) -> Option<FetchWaiter> {
        let waiter = self.by_id.remove(&id)?;
        for (queue, kind) in targets {
            let Some(lists) = self.by_queue.get_mut(queue) else { continue };
            let Some(list) = lists.get_mut(kind) else { continue };
            // Usually the fetch is at one of the ends.
            while list.front().is_some_and(|entry| !is_waiting(*entry, &self.by_id)) {
                list.pop_front();
            }
            while list.back().is_some_and(|entry| !is_waiting(*entry, &self.by_id)) {
                list.pop_back();
            }
            if list.is_empty() {
                lists.remove(kind);
            }
            if lists.is_empty() {
                self.by_queue.remove(queue);
            }
        }
        Some(waiter)
    }
}

fn is_waiting(entry: WaitListEntry, by_id: &BTreeMap<u64, FetchWaiter>) -> bool {
    by_id.get(&entry.id).is_some_and(|waiter| waiter.enqueued == entry.enqueued && !waiter.is_woken)
}

fn wake_first(
    list: &mut VecDeque<WaitListEntry>,
    by_id: &mut BTreeMap<u64, FetchWaiter>,
) -> Option<Waker> {
    while let Some(entry) = list.pop_front() {
        if is_waiting(entry, by_id) {
            // Without a waker it has not been polled since, and polling checks `is_woken`.
            return by_id.get_mut(&entry.id)?.wake();
        }
    }
    None
}

/// The registration of a waiting fetch. If it is dropped with an unused wake-up, or during a claim whose response it
/// did not receive, it passes the wake-up on.
#[derive(Debug)]
pub(crate) struct WaitingFetch<'a> {
    wait_list: &'a FetchWaitList,
    id: u64,
    targets: Vec<WaitTarget>,
    is_claiming: AtomicBool,
}

impl WaitingFetch<'_> {
    /// Enqueues the fetch. A job that arrives after this call wakes it, so a claim made afterwards misses nothing.
    pub(crate) fn enqueue(&self) {
        self.is_claiming.store(true, Ordering::Relaxed);
        self.wait_list.lock().enqueue(self.id, &self.targets);
    }

    /// The claim was answered.
    pub(crate) fn claim_answered(&self) {
        self.is_claiming.store(false, Ordering::Relaxed);
    }

    /// Waits for a wake-up.
    pub(crate) fn poll_woken(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut waiters = self.wait_list.lock();
        match waiters.by_id.get_mut(&self.id) {
            Some(waiter) if !waiter.is_woken => {
                waiter.waker = Some(context.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Wakes the next fetches: this one got all it asked for, so there may be more jobs.
    pub(crate) fn wake_next(&self) {
        if planted!("bug-23") {
            return;
        }
        let woken: Vec<Waker> = {
            let mut waiters = self.wait_list.lock();
            self.targets.iter().filter_map(|target| waiters.wake_one(target)).collect()
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Drop for WaitingFetch<'_> {
    fn drop(&mut self) {
        let waiter = self.wait_list.lock().deregister(self.id, &self.targets);
        let is_claiming = self.is_claiming.load(Ordering::Relaxed);
        if is_claiming || waiter.is_some_and(|waiter| waiter.is_woken) {
            self.wake_next();
        }
    }
}
