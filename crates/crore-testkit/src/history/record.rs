//! The recorder: where a harness writes its history.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crore_core::Time;

use super::{Answer, Event, Fault, History, Node, Op, What};

/// Writes down what happens, from any number of threads. Time is read under the lock that gives an
/// event its place, so `t` grows with `i`.
pub struct Recorder {
    now: Box<dyn Fn() -> u64 + Send + Sync>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    events: Vec<Event>,
    next: u64,
    calls: u64,
}

/// A call that has begun. Passing it back with its end is the only way to record one, so no call
/// ends twice; one that is dropped has no end, and counts as unknown.
#[derive(Debug)]
#[must_use = "a call without an end counts as unknown"]
pub struct Pending {
    n: u64,
    p: Arc<str>,
}

impl Recorder {
    /// A recorder without events. `now` gives its time in nanoseconds and never goes back: monotonic
    /// time, or a simulation's own.
    pub fn new(now: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { now: Box::new(now), inner: Mutex::default() }
    }

    /// A caller is about to ask: to be recorded before the call can have any effect.
    pub fn invoke(&self, p: impl Into<Arc<str>>, op: Op) -> Pending {
        self.begin(p.into(), None, op)
    }

    /// The same, where there are several nodes and this one is asked.
    pub fn invoke_at(&self, p: impl Into<Arc<str>>, at: impl Into<Arc<str>>, op: Op) -> Pending {
        self.begin(p.into(), Some(at.into()), op)
    }

    /// A call was answered. `now` is the store's time, if the answer says it.
    pub fn ok(&self, call: Pending, now: Option<Time>, r: Answer) {
        self.push(call.p, What::Ok { n: call.n, now, r });
    }

    /// A call certainly had no effect.
    pub fn fail(&self, call: Pending, why: impl Into<String>) {
        self.push(call.p, What::Fail { n: call.n, why: why.into() });
    }

    /// Nobody knows what became of a call.
    pub fn info(&self, call: Pending, why: impl Into<String>) {
        self.push(call.p, What::Info { n: call.n, why: why.into() });
    }

    /// The harness breaks something of a node.
    pub fn fault(&self, node: impl Into<Arc<str>>, fault: Fault) {
        self.push(node.into(), What::Fault { fault });
    }

    /// Something was seen of a node.
    pub fn node(&self, node: impl Into<Arc<str>>, seen: Node) {
        self.push(node.into(), What::Node { node: seen });
    }

    /// What was recorded so far, as a copy.
    pub fn history(&self) -> History {
        History { events: self.inner().events.clone() }
    }

    /// What was recorded so far; the recorder goes on with the numbers, and without these events.
    pub fn take(&self) -> History {
        History { events: mem::take(&mut self.inner().events) }
    }

    fn begin(&self, p: Arc<str>, at: Option<Arc<str>>, op: Op) -> Pending {
        let mut inner = self.inner();
        let n = inner.calls;
        inner.calls += 1;
        self.write(&mut inner, Arc::clone(&p), What::Invoke { n, at, op });
        Pending { n, p }
    }

    fn push(&self, p: Arc<str>, what: What) {
        self.write(&mut self.inner(), p, what);
    }

    fn write(&self, inner: &mut Inner, p: Arc<str>, what: What) {
        let i = inner.next;
        inner.next += 1;
        inner.events.push(Event { i, t: (self.now)(), p, what });
    }

    /// A panic of another thread leaves whole events behind, and its history is wanted all the more.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner();
        f.debug_struct("Recorder").field("events", &inner.events.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crore_core::JobId;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    #[test]
    fn events_of_many_threads_are_in_one_order_with_time() {
        let time = AtomicU64::new(0);
        let recorder = Recorder::new(move || time.fetch_add(1, Ordering::Relaxed));
        thread::scope(|scope| {
            for p in ["a", "b", "c", "d"] {
                let recorder = &recorder;
                scope.spawn(move || {
                    for _ in 0..250 {
                        let call = recorder.invoke(p, Op::Get { id: JobId(1) });
                        recorder.ok(call, None, Answer::Job(None));
                    }
                });
            }
        });
        let events = recorder.history().events;
        assert!(events.iter().zip(0..).all(|(event, n)| (event.i, event.t) == (n, n)));
        let mut open = std::collections::BTreeMap::new();
        for event in &events {
            match &event.what {
                What::Invoke { n, .. } => assert_eq!(open.insert(n, &event.p), None),
                What::Ok { n, .. } => assert_eq!(open.remove(n), Some(&event.p)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((events.len(), open.len()), (2000, 0));
    }

    #[test]
    fn what_was_taken_is_not_given_again_and_numbers_go_on() {
        let recorder = Recorder::new(|| 7);
        recorder.fault("n1", Fault::Crash);
        assert_eq!(recorder.take().events.len(), 1);
        recorder.node("n1", Node::Opened);
        let events = recorder.take().events;
        assert_eq!((events.len(), events[0].i, events[0].t), (1, 1, 7));
    }
}
