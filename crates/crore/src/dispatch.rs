//! Who waits for jobs, and whom a wake-up goes to: one fetcher for each, who passes it on if there may
//! be more. So a thousand who wait for one queue cost nothing when one job comes.
//!
//! A wake-up says in which queue there is something new, and not of which kind: one of those who wait for
//! any kind looks, and one for each kind that somebody waits for. Those for whom it was nothing line up
//! again where they stood, and wake nobody: whoever waits longest is next.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crore_core::Name;

use crate::bug::planted;

/// What fetchers wait for: a queue, and perhaps one kind in it.
type Wish = (Name, Option<Name>);

/// Everybody who waits for jobs.
#[derive(Debug, Default)]
pub(crate) struct Dispatch(Mutex<Waiters>);

#[derive(Debug, Default)]
struct Waiters {
    by_id: BTreeMap<u64, Waiter>,
    /// By queue, then by kind: whom to wake next, first. One who waits for several things stands in
    /// several lists, and what is left of him there afterwards is passed over.
    by_queue: HashMap<Name, BTreeMap<Option<Name>, VecDeque<Place>>>,
    last: u64,
}

/// A place in a list. It counts while its waiter has not been woken since he took it.
#[derive(Debug, Clone, Copy)]
struct Place {
    id: u64,
    turn: u64,
}

#[derive(Debug)]
struct Waiter {
    /// How often he has lined up.
    turn: u64,
    is_woken: bool,
    waker: Option<Waker>,
}

/// A list is tidied when most of it is left over.
const TIDY_ABOVE: usize = 64;

impl Dispatch {
    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something new is to be had in these queues.
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

    /// Wakes everybody, because there will be nothing more.
    pub(crate) fn wake_all(&self) {
        let woken: Vec<Waker> = {
            let mut waiters = self.lock();
            waiters.by_id.values_mut().filter_map(Waiter::wake).collect()
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Lines up for what a fetch wishes.
    pub(crate) fn enter(&self, queues: &[Name], kinds: Option<&[Name]>) -> Ticket<'_> {
        let wishes = wishes(queues, kinds);
        let mut waiters = self.lock();
        waiters.last += 1;
        let id = waiters.last;
        waiters.by_id.insert(id, Waiter { turn: 0, is_woken: false, waker: None });
        drop(waiters);
        Ticket { dispatch: self, id, wishes, is_looking: AtomicBool::new(false) }
    }

    /// Whether anybody waits for jobs of this sort.
    pub(crate) fn is_waited_for(&self, queue: &Name, kind: &Name) -> bool {
        let waiters = self.lock();
        let Some(lists) = waiters.by_queue.get(queue) else { return false };
        let lists = [lists.get(&None), lists.get(&Some(kind.clone()))];
        lists.into_iter().flatten().flatten().any(|place| is_waiting(*place, &waiters.by_id))
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().by_id.len()
    }
}

fn wishes(queues: &[Name], kinds: Option<&[Name]>) -> Vec<Wish> {
    let of = |queue: &Name| match kinds {
        None => vec![(queue.clone(), None)],
        Some(kinds) => kinds.iter().map(|kind| (queue.clone(), Some(kind.clone()))).collect(),
    };
    queues.iter().flat_map(of).collect()
}

impl Waiter {
    fn wake(&mut self) -> Option<Waker> {
        self.is_woken = true;
        self.waker.take()
    }
}

impl Waiters {
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

    fn wake_one(&mut self, (queue, kind): &Wish) -> Option<Waker> {
        let list = self.by_queue.get_mut(queue)?.get_mut(kind)?;
        wake_first(list, &mut self.by_id)
    }

    fn line_up(&mut self, id: u64, wishes: &[Wish]) {
        let Some(waiter) = self.by_id.get_mut(&id) else { return };
        waiter.turn += 1;
        waiter.is_woken = false;
        let turn = waiter.turn;
        for (queue, kind) in wishes {
            let lists = self.by_queue.entry(queue.clone()).or_default();
            let list = lists.entry(kind.clone()).or_default();
            if list.len() > TIDY_ABOVE && list.len() == list.capacity() {
                list.retain(|place| is_waiting(*place, &self.by_id));
            }
            // Who looked in vain has waited longer than those who came meanwhile.
            let at = list.partition_point(|place| place.id <= id);
            list.insert(at, Place { id, turn });
        }
    }

    fn leave(&mut self, id: u64, wishes: &[Wish]) -> Option<Waiter> {
        let waiter = self.by_id.remove(&id)?;
        for (queue, kind) in wishes {
            let Some(lists) = self.by_queue.get_mut(queue) else { continue };
            let Some(list) = lists.get_mut(kind) else { continue };
            // Mostly he stands at one of the ends.
            while list.front().is_some_and(|place| !is_waiting(*place, &self.by_id)) {
                list.pop_front();
            }
            while list.back().is_some_and(|place| !is_waiting(*place, &self.by_id)) {
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

fn is_waiting(place: Place, by_id: &BTreeMap<u64, Waiter>) -> bool {
    by_id.get(&place.id).is_some_and(|waiter| waiter.turn == place.turn && !waiter.is_woken)
}

fn wake_first(list: &mut VecDeque<Place>, by_id: &mut BTreeMap<u64, Waiter>) -> Option<Waker> {
    while let Some(place) = list.pop_front() {
        if is_waiting(place, by_id) {
            // Without a waker he has not slept yet, and looks before he does.
            return by_id.get_mut(&place.id)?.wake();
        }
    }
    None
}

/// A fetcher's place. Whoever leaves with a wake-up that he did not use passes it on, also if he was
/// on the way to the store and did not hear what is there.
#[derive(Debug)]
pub(crate) struct Ticket<'a> {
    dispatch: &'a Dispatch,
    id: u64,
    wishes: Vec<Wish>,
    is_looking: AtomicBool,
}

impl Ticket<'_> {
    /// From now on a wake-up counts: whoever looks after this misses nothing.
    pub(crate) fn line_up(&self) {
        self.is_looking.store(true, Ordering::Relaxed);
        self.dispatch.lock().line_up(self.id, &self.wishes);
    }

    /// He has looked, and knows what is there.
    pub(crate) fn has_looked(&self) {
        self.is_looking.store(false, Ordering::Relaxed);
    }

    /// Waits for a wake-up.
    pub(crate) fn poll_woken(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut waiters = self.dispatch.lock();
        match waiters.by_id.get_mut(&self.id) {
            Some(waiter) if !waiter.is_woken => {
                waiter.waker = Some(context.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// He got all that he asked for, so there may be more for the next one.
    pub(crate) fn pass_on(&self) {
        if planted!("bug-23") {
            return;
        }
        let woken: Vec<Waker> = {
            let mut waiters = self.dispatch.lock();
            self.wishes.iter().filter_map(|wish| waiters.wake_one(wish)).collect()
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let waiter = self.dispatch.lock().leave(self.id, &self.wishes);
        let is_looking = self.is_looking.load(Ordering::Relaxed);
        if is_looking || waiter.is_some_and(|waiter| waiter.is_woken) {
            self.pass_on();
        }
    }
}
