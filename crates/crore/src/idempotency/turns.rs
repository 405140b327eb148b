//! Turns: callers under one name go one after the other, in the order in which they came.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The queues of callers, by name. A name that nobody uses takes no room.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<Queues>);

#[derive(Debug, Default)]
struct Queues {
    last_ticket: u64,
    by_name: HashMap<Arc<str>, VecDeque<Waiter>>,
}

/// The first of a queue has the turn; the others wait.
#[derive(Debug)]
struct Waiter {
    ticket: u64,
    waker: Option<Waker>,
}

/// A place in a queue, given up when it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    name: Arc<str>,
    ticket: u64,
}

impl Turns {
    /// Waits until all who asked for this name before are done. The turn ends when it is dropped.
    pub(super) async fn take(&self, name: &Arc<str>) -> Turn<'_> {
        let turn = self.queue(name);
        poll_fn(|context| turn.poll(context)).await;
        turn
    }

    fn queue(&self, name: &Arc<str>) -> Turn<'_> {
        let mut queues = self.lock();
        queues.last_ticket += 1;
        let ticket = queues.last_ticket;
        let queue = queues.by_name.entry(Arc::clone(name)).or_default();
        queue.push_back(Waiter { ticket, waker: None });
        Turn { turns: self, name: Arc::clone(name), ticket }
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut queues = self.turns.lock();
        let Some(queue) = queues.by_name.get_mut(&self.name) else { return Poll::Ready(()) };
        match queue.iter_mut().position(|waiter| waiter.ticket == self.ticket) {
            None | Some(0) => Poll::Ready(()),
            Some(place) => {
                queue[place].waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queues = self.turns.lock();
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
    fn callers_under_one_name_go_one_after_the_other() {
        let (turns, name) = (Turns::default(), Arc::from("k"));
        let mut context = Context::from_waker(Waker::noop());
        let mut first = pin!(turns.take(&name));
        let Poll::Ready(first) = first.as_mut().poll(&mut context) else { panic!("it is free") };
        let mut second = pin!(turns.take(&name));
        assert!(second.as_mut().poll(&mut context).is_pending());
        let other = Arc::from("other");
        assert!(pin!(turns.take(&other)).as_mut().poll(&mut context).is_ready());
        drop(first);
        assert!(second.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn a_caller_that_leaves_lets_the_next_one_by() {
        let (turns, name) = (Turns::default(), Arc::from("k"));
        let mut context = Context::from_waker(Waker::noop());
        let first = turns.queue(&name);
        let mut third = {
            let second = turns.queue(&name);
            let third = Box::pin(turns.take(&name));
            assert!(second.poll(&context).is_pending());
            third
        };
        assert!(third.as_mut().poll(&mut context).is_pending());
        drop(first);
        let Poll::Ready(third) = third.as_mut().poll(&mut context) else { panic!("it is next") };
        drop(third);
        assert!(turns.lock().by_name.is_empty(), "a name that nobody uses takes no room");
    }
}
