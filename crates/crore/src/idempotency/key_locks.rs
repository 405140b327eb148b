//! Fair async locks by name: callers under the same name run one after the other, in the order of arrival.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The queues of callers, by name. A name in no use takes no memory.
#[derive(Debug, Default)]
pub(super) struct KeyLocks(Mutex<KeyLockQueues>);

#[derive(Debug, Default)]
struct KeyLockQueues {
    last_ticket: u64,
    by_name: HashMap<Arc<str>, VecDeque<KeyLockWaiter>>,
}

/// The first caller of a queue holds the lock; the others wait.
#[derive(Debug)]
struct KeyLockWaiter {
    ticket: u64,
    waker: Option<Waker>,
}

/// A position in a queue, released on drop. The caller at the front holds the lock.
#[derive(Debug)]
pub(super) struct KeyLockGuard<'a> {
    locks: &'a KeyLocks,
    name: Arc<str>,
    ticket: u64,
}

impl KeyLocks {
    /// Waits until all earlier callers under this name are done. The lock is released when the guard is dropped.
    pub(super) async fn acquire(&self, name: &Arc<str>) -> KeyLockGuard<'_> {
        let guard = self.enqueue(name);
        poll_fn(|context| guard.poll(context)).await;
        guard
    }

    fn enqueue(&self, name: &Arc<str>) -> KeyLockGuard<'_> {
        let mut queues = self.lock();
        queues.last_ticket += 1;
        let ticket = queues.last_ticket;
        let queue = queues.by_name.entry(Arc::clone(name)).or_default();
        queue.push_back(KeyLockWaiter { ticket, waker: None });
        KeyLockGuard { locks: self, name: Arc::clone(name), ticket }
    }

    fn lock(&self) -> MutexGuard<'_, KeyLockQueues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyLockGuard<'_> {
    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut queues = self.locks.lock();
        let Some(queue) = queues.by_name.get_mut(&self.name) else { return Poll::Ready(()) };
        match queue.iter_mut().position(|waiter| waiter.ticket == self.ticket) {
            None | Some(0) => Poll::Ready(()),
            Some(position) => {
                queue[position].waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for KeyLockGuard<'_> {
    fn drop(&mut self) {
        let mut queues = self.locks.lock();
        let Some(queue) = queues.by_name.get_mut(&self.name) else { return };
        queue.retain(|waiter| waiter.ticket != self.ticket);
        let next = queue.front_mut().and_then(|waiter| waiter.waker.take());
        if queue.is_empty() {
            queues.by_name.remove(&self.name);
        }
        drop(queues);
        if let Some(next) = next {
            next.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[test]
    fn callers_with_the_same_name_are_serialized() {
        let (locks, name) = (KeyLocks::default(), Arc::from("k"));
        let mut context = Context::from_waker(Waker::noop());
        let mut first = pin!(locks.acquire(&name));
        let Poll::Ready(first) = first.as_mut().poll(&mut context) else { panic!("it is free") };
        let mut second = pin!(locks.acquire(&name));
        assert!(second.as_mut().poll(&mut context).is_pending());
        let other = Arc::from("other");
        assert!(pin!(locks.acquire(&other)).as_mut().poll(&mut context).is_ready());
        drop(first);
        assert!(second.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn a_dropped_caller_is_skipped() {
        let (locks, name) = (KeyLocks::default(), Arc::from("k"));
        let mut context = Context::from_waker(Waker::noop());
        let first = locks.enqueue(&name);
        let mut third = {
            let second = locks.enqueue(&name);
            let third = Box::pin(locks.acquire(&name));
            assert!(second.poll(&context).is_pending());
            third
        };
        assert!(third.as_mut().poll(&mut context).is_pending());
        drop(first);
        let Poll::Ready(third) = third.as_mut().poll(&mut context) else { panic!("it is next") };
        drop(third);
        assert!(locks.lock().by_name.is_empty(), "an unused name takes no space");
    }
}
