//! Waiting for a commit to be as durable as the store makes things.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::Error;
use crate::bug::planted;

/// How far the log is durable, and who waits for it to be.
#[derive(Debug, Default)]
pub(crate) struct Durable {
    /// The newest commit that may be answered.
    answered: AtomicU64,
    /// The newest commit that is on the disk for sure.
    synced: AtomicU64,
    poisoned: AtomicBool,
    /// What it was poisoned by, first.
    why: OnceLock<String>,
    waiters: Mutex<Vec<(u64, Waker)>>,
}

impl Durable {
    /// Starts with everything up to a commit.
    pub(crate) fn up_to(commit: u64) -> Self {
        let (answered, synced) = (AtomicU64::new(commit), AtomicU64::new(commit));
        Self { answered, synced, ..Self::default() }
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
        self.answered.load(Ordering::Acquire) >= commit
    }

    /// All up to a commit may be answered.
    pub(crate) fn publish(&self, commit: u64) {
        self.answered.fetch_max(commit, Ordering::AcqRel);
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        let mut woken: Vec<Waker> =
            waiters.extract_if(.., |(no, _)| *no <= commit).map(|(_, waker)| waker).collect();
        drop(waiters);
        if planted!("bug-38") && woken.len() > 1 {
            woken.pop();
        }
        woken.into_iter().for_each(Waker::wake);
    }

    /// Nothing more will become durable, for this reason; the first one counts.
    pub(crate) fn poison(&self, why: &str) {
        self.why.get_or_init(|| why.to_owned());
        self.poisoned.store(true, Ordering::Release);
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        let woken = std::mem::take(&mut *waiters);
        drop(waiters);
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Comes when nothing more will become durable, with the reason.
    pub(crate) async fn poisoned(&self) -> String {
        // That one is never made, so there is only one end to this.
        let _ = self.wait(u64::MAX).await;
        self.why.get().cloned().unwrap_or_default()
    }

    /// Waits until a commit may be answered.
    pub(crate) const fn wait(&self, commit: u64) -> Wait<'_> {
        Wait { durable: self, commit }
    }
}

/// See [`Durable::wait`].
#[derive(Debug)]
pub(crate) struct Wait<'a> {
    durable: &'a Durable,
    commit: u64,
}

impl Wait<'_> {
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

impl Future for Wait<'_> {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(ready) = self.ready() {
            return Poll::Ready(ready);
        }
        let mut waiters = self.durable.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        // What was published before the lock was taken did not see this waiter.
        if let Some(ready) = self.ready() {
            return Poll::Ready(ready);
        }
        waiters.push((self.commit, context.waker().clone()));
        Poll::Pending
    }
}
