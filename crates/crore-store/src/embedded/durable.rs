//! Waiting for a commit to reach the configured durability.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::Error;
use crate::bug::planted;

/// Progress of durability, and the callers waiting for it.
#[derive(Debug, Default)]
pub(crate) struct DurabilityTracker {
    /// The newest commit that may be acknowledged.
    acknowledged: AtomicU64,
    /// The newest commit known to be synced.
    synced: AtomicU64,
    poisoned: AtomicBool,
    /// The first reason for poisoning.
    why: OnceLock<String>,
    waiters: Mutex<Vec<(u64, Waker)>>,
}

impl DurabilityTracker {
    /// Starts with everything up to `commit` durable.
    pub(crate) fn up_to(commit: u64) -> Self {
        let (acknowledged, synced) = (AtomicU64::new(commit), AtomicU64::new(commit));
        Self { acknowledged, synced, ..Self::default() }
    }

    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    pub(crate) fn note_synced(&self, commit: u64) {
        self.synced.fetch_max(commit, Ordering::AcqRel);
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    pub(crate) fn has(&self, commit: u64) -> bool {
        self.acknowledged.load(Ordering::Acquire) >= commit
    }

    /// Acknowledges all commits up to this one.
    pub(crate) fn publish(&self, commit: u64) {
        self.acknowledged.fetch_max(commit, Ordering::AcqRel);
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        let mut woken: Vec<Waker> = waiters
            .extract_if(.., |(awaited, _)| *awaited <= commit)
            .map(|(_, waker)| waker)
            .collect();
        drop(waiters);
        if planted!("bug-38") && woken.len() > 1 {
            woken.pop();
        }
        woken.into_iter().for_each(Waker::wake);
    }

    /// Poisons the store: nothing more becomes durable. Only the first reason is kept.
    pub(crate) fn poison(&self, why: &str) {
        self.why.get_or_init(|| why.to_owned());
        self.poisoned.store(true, Ordering::Release);
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        let woken = std::mem::take(&mut *waiters);
        drop(waiters);
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Resolves with the reason when the store is poisoned.
    pub(crate) async fn poisoned(&self) -> String {
        // This commit never exists, so the wait ends only by poisoning.
        let _ = self.wait(u64::MAX).await;
        self.why.get().cloned().unwrap_or_default()
    }

    /// Resolves when the commit may be acknowledged.
    pub(crate) const fn wait(&self, commit: u64) -> CommitFuture<'_> {
        CommitFuture { durable: self, commit }
    }
}

/// Future of [`DurabilityTracker::wait`].
#[derive(Debug)]
pub(crate) struct CommitFuture<'a> {
    durable: &'a DurabilityTracker,
    commit: u64,
}

impl CommitFuture<'_> {
    fn ready(&self) -> Option<Result<(), Error>> {
        if self.durable.has(self.commit) {
            Some(Ok(()))
        } else if self.durable.is_poisoned() {
            Some(Err(Error::Poisoned))
        } else {
            None
        }
    }
}

impl Future for CommitFuture<'_> {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(ready) = self.ready() {
            return Poll::Ready(ready);
        }
        let mut waiters = self.durable.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        // Checked again under the lock: a concurrent publish may have missed this waiter.
        if let Some(ready) = self.ready() {
            return Poll::Ready(ready);
        }
        waiters.push((self.commit, context.waker().clone()));
        Poll::Pending
    }
}
