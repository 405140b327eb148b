//! What happened, for whoever listens: told only after it is durable, in the order in which the engine
//! hears of it. A job that is fetched by another thread as soon as it is pushed may be heard to start
//! before its push is.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crore_core::{JobId, Name, State, Time};

/// How many events a listener may be behind; older ones are lost to him, and he is told how many.
const BEHIND: usize = 4096;

/// Something that happened to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The job.
    pub id: JobId,
    /// Its queue.
    pub queue: Name,
    /// Its kind.
    pub kind: Name,
    /// What happened.
    pub what: Happened,
    /// When, by the engine's clock.
    pub at: Time,
}

/// What happened to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// It was pushed.
    Pushed,
    /// It was handed to a worker.
    Started,
    /// Its state was changed to this one.
    Became(State),
    /// It was asked to stop.
    AskedToStop,
    /// It was removed.
    Removed,
}

/// What a listener hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// An event.
    Event(Event),
    /// So many events were lost, because he was too slow.
    Missed(u64),
}

/// All who listen.
#[derive(Debug, Default)]
pub(crate) struct Events {
    listeners: AtomicUsize,
    is_closed: AtomicBool,
    boxes: Mutex<Vec<Arc<Mutex<Inbox>>>>,
}

#[derive(Debug, Default)]
struct Inbox {
    events: VecDeque<Event>,
    missed: u64,
    is_closed: bool,
    waker: Option<Waker>,
}

fn open(inbox: &Mutex<Inbox>) -> MutexGuard<'_, Inbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Events {
    /// Whether anybody listens: if not, nothing needs to be said.
    pub(crate) fn is_heard(&self) -> bool {
        self.listeners.load(Ordering::Acquire) > 0
    }

    pub(crate) fn tell(&self, events: &[Event]) {
        self.each(|inbox| {
            inbox.events.extend(events.iter().cloned());
            while inbox.events.len() > BEHIND {
                inbox.events.pop_front();
                inbox.missed += 1;
            }
        });
    }

    /// Puts something into every inbox, and wakes whoever waits for it: afterwards, since whoever is
    /// woken may leave at once.
    fn each(&self, put: impl Fn(&mut Inbox)) {
        let put = |inbox: &Arc<Mutex<Inbox>>| {
            let mut inbox = open(inbox);
            put(&mut inbox);
            inbox.waker.take()
        };
        let woken: Vec<Waker> = self.boxes().iter().filter_map(put).collect();
        woken.into_iter().for_each(Waker::wake);
    }

    fn boxes(&self) -> MutexGuard<'_, Vec<Arc<Mutex<Inbox>>>> {
        self.boxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn listen(self: &Arc<Self>) -> Listener {
        let mut boxes = self.boxes();
        let is_closed = self.is_closed.load(Ordering::Acquire);
        let inbox = Arc::new(Mutex::new(Inbox { is_closed, ..Inbox::default() }));
        boxes.push(Arc::clone(&inbox));
        self.listeners.fetch_add(1, Ordering::AcqRel);
        Listener { events: Arc::clone(self), inbox }
    }

    /// There will be no more.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.each(|inbox| inbox.is_closed = true);
    }
}

/// Hears what happens, from when it was made on.
#[derive(Debug)]
pub struct Listener {
    events: Arc<Events>,
    inbox: Arc<Mutex<Inbox>>,
}

impl Listener {
    /// The next event, when there is one; `None`: the engine has stopped.
    pub async fn next(&mut self) -> Option<Heard> {
        std::future::poll_fn(|context| {
            let mut inbox = open(&self.inbox);
            if inbox.missed > 0 {
                return Poll::Ready(Some(Heard::Missed(std::mem::take(&mut inbox.missed))));
            }
            if let Some(event) = inbox.events.pop_front() {
                return Poll::Ready(Some(Heard::Event(event)));
            }
            if inbox.is_closed {
                return Poll::Ready(None);
            }
            inbox.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// The next event, if there is one already.
    pub fn try_next(&mut self) -> Option<Heard> {
        let mut inbox = open(&self.inbox);
        if inbox.missed > 0 {
            return Some(Heard::Missed(std::mem::take(&mut inbox.missed)));
        }
        inbox.events.pop_front().map(Heard::Event)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut boxes = self.events.boxes();
        boxes.retain(|inbox| !Arc::ptr_eq(inbox, &self.inbox));
        self.events.listeners.fetch_sub(1, Ordering::AcqRel);
    }
}
