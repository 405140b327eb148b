//! Events for listeners: changes of jobs, and named events that programs sent. An event is published after it is durable, in the order in which the engine learns of
//! it. If another thread fetches a job as soon as it is stored, its start may be published before its push.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crore_core::{JobId, Name, State, Time};

/// Maximum events buffered per listener. Older ones are dropped and counted.
const MAX_BEHIND: usize = 4096;

/// An event of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineEvent {
    /// The job.
    pub id: JobId,
    /// Its queue.
    pub queue: Name,
    /// Its kind.
    pub kind: Name,
    /// The type of the event.
    pub what: EventType,
    /// The time of the event, by the engine's clock.
    pub at: Time,
}

/// Types of job events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// The job was pushed.
    Pushed,
    /// The job was handed to a worker.
    Started,
    /// The state of the job changed to this one.
    Became(State),
    /// The job was asked to stop.
    AskedToStop,
    /// The job was removed.
    Removed,
}

/// A named event that a program sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentEvent {
    /// The name.
    pub name: Name,
    /// When it was sent, by the store's clock.
    pub at: Time,
}

/// An item received by a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenerItem {
    /// An event of a job.
    Event(EngineEvent),
    /// A named event was sent.
    Sent(SentEvent),
    /// The listener was too slow, and this many events were dropped.
    Missed(u64),
}

/// The event bus: one inbox per listener.
#[derive(Debug, Default)]
pub(crate) struct EventBus {
    listeners: AtomicUsize,
    is_closed: AtomicBool,
    inboxes: Mutex<Vec<Arc<Mutex<Inbox>>>>,
}

#[derive(Debug, Default)]
struct Inbox {
    items: VecDeque<ListenerItem>,
    missed: u64,
    is_closed: bool,
    waker: Option<Waker>,
}

fn lock_inbox(inbox: &Mutex<Inbox>) -> MutexGuard<'_, Inbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EventBus {
    /// Whether there is a listener. If not, no events need to be built.
    pub(crate) fn has_listeners(&self) -> bool {
        self.listeners.load(Ordering::Acquire) > 0
    }

    pub(crate) fn publish(&self, events: &[EngineEvent]) {
        self.publish_items(|| events.iter().cloned().map(ListenerItem::Event));
    }

    pub(crate) fn publish_sent(&self, event: &SentEvent) {
        if self.has_listeners() {
            self.publish_items(|| std::iter::once(ListenerItem::Sent(event.clone())));
        }
    }

    fn publish_items<I: Iterator<Item = ListenerItem>>(&self, items: impl Fn() -> I) {
        self.update_inboxes(|inbox| {
            inbox.items.extend(items());
            while inbox.items.len() > MAX_BEHIND {
                inbox.items.pop_front();
                inbox.missed += 1;
            }
        });
    }

    /// Updates every inbox, then wakes the listeners. Not under the lock: a woken task may drop its listener at
    /// once.
    fn update_inboxes(&self, update: impl Fn(&mut Inbox)) {
        let update = |inbox: &Arc<Mutex<Inbox>>| {
            let mut inbox = lock_inbox(inbox);
            update(&mut inbox);
            inbox.waker.take()
        };
        let woken: Vec<Waker> = self.inboxes().iter().filter_map(update).collect();
        woken.into_iter().for_each(Waker::wake);
    }

    fn inboxes(&self) -> MutexGuard<'_, Vec<Arc<Mutex<Inbox>>>> {
        self.inboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn listen(self: &Arc<Self>) -> EventListener {
        let mut boxes = self.inboxes();
        let is_closed = self.is_closed.load(Ordering::Acquire);
        let inbox = Arc::new(Mutex::new(Inbox { is_closed, ..Inbox::default() }));
        boxes.push(Arc::clone(&inbox));
        self.listeners.fetch_add(1, Ordering::AcqRel);
        EventListener { events: Arc::clone(self), inbox }
    }

    /// Ends all listeners, now and in the future.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.update_inboxes(|inbox| inbox.is_closed = true);
    }
}

/// Receives the events of all jobs and all sent events, starting when it was created.
#[derive(Debug)]
pub struct EventListener {
    events: Arc<EventBus>,
    inbox: Arc<Mutex<Inbox>>,
}

impl EventListener {
    /// Waits for the next event; `None`: the engine has stopped.
    pub async fn next(&mut self) -> Option<ListenerItem> {
        std::future::poll_fn(|context| {
            let mut inbox = lock_inbox(&self.inbox);
            if inbox.missed > 0 {
                return Poll::Ready(Some(ListenerItem::Missed(std::mem::take(&mut inbox.missed))));
            }
            if let Some(item) = inbox.items.pop_front() {
                return Poll::Ready(Some(item));
            }
            if inbox.is_closed {
                return Poll::Ready(None);
            }
            inbox.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// The next event, if one is buffered.
    pub fn try_next(&mut self) -> Option<ListenerItem> {
        let mut inbox = lock_inbox(&self.inbox);
        if inbox.missed > 0 {
            return Some(ListenerItem::Missed(std::mem::take(&mut inbox.missed)));
        }
        inbox.items.pop_front()
    }
}

impl Drop for EventListener {
    fn drop(&mut self) {
        let mut boxes = self.events.inboxes();
        boxes.retain(|inbox| !Arc::ptr_eq(inbox, &self.inbox));
        self.events.listeners.fetch_sub(1, Ordering::AcqRel);
    }
}
