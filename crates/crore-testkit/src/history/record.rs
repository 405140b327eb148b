//! The recorder, to which a harness writes its history.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crore_core::Time;

use super::{
    History, HistoryEvent, HistoryEventBody, NodeObservation, RecordedFault, RecordedOp,
    RecordedResponse,
};

/// Records events from any number of threads. Time is read under the lock that assigns an event's position,
/// so `t` grows with `i`.
pub struct Recorder {
    now: Box<dyn Fn() -> u64 + Send + Sync>,
    inner: Mutex<RecorderState>,
}

#[derive(Default)]
struct RecorderState {
    events: Vec<HistoryEvent>,
    next: u64,
    calls: u64,
}

/// A call that has begun. Its end is recorded by passing it back, so no call ends twice; a dropped call has
/// no end and counts as unknown.
#[derive(Debug)]
#[must_use = "a call without an end counts as unknown"]
pub struct PendingCall {
    n: u64,
    p: Arc<str>,
}

impl Recorder {
    /// An empty recorder. `now` returns monotonic time in nanoseconds, real or simulated.
    pub fn new(now: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { now: Box::new(now), inner: Mutex::default() }
    }

    /// A call begins. Record this before the call can have any effect.
    pub fn invoke(&self, p: impl Into<Arc<str>>, op: RecordedOp) -> PendingCall {
        self.begin(p.into(), None, op)
    }

    /// Like [`Recorder::invoke`], for a call to a named node.
    pub fn invoke_at(
        &self,
        p: impl Into<Arc<str>>,
        at: impl Into<Arc<str>>,
        op: RecordedOp,
    ) -> PendingCall {
        self.begin(p.into(), Some(at.into()), op)
    }

    /// A call received a response. `now` is the store's time, if the response carries it.
    pub fn ok(&self, call: PendingCall, now: Option<Time>, r: RecordedResponse) {
        self.push(call.p, HistoryEventBody::Ok { n: call.n, now, r });
    }

    /// A call certainly had no effect.
    pub fn fail(&self, call: PendingCall, why: impl Into<String>) {
        self.push(call.p, HistoryEventBody::Fail { n: call.n, why: why.into() });
    }

    /// The effect of a call is unknown.
    pub fn info(&self, call: PendingCall, why: impl Into<String>) {
        self.push(call.p, HistoryEventBody::Info { n: call.n, why: why.into() });
    }

    /// The harness injects a fault at a node.
    pub fn fault(&self, node: impl Into<Arc<str>>, fault: RecordedFault) {
        self.push(node.into(), HistoryEventBody::Fault { fault });
    }

    /// An observation about a node.
    pub fn node(&self, node: impl Into<Arc<str>>, seen: NodeObservation) {
        self.push(node.into(), HistoryEventBody::Node { node: seen });
    }

    /// A copy of the events so far.
    pub fn history(&self) -> History {
        History { events: self.inner().events.clone() }
    }

    /// Takes the events recorded so far; numbering continues.
    pub fn take(&self) -> History {
        History { events: mem::take(&mut self.inner().events) }
    }

    fn begin(&self, p: Arc<str>, at: Option<Arc<str>>, op: RecordedOp) -> PendingCall {
        let mut inner = self.inner();
        let n = inner.calls;
        inner.calls += 1;
        self.write(&mut inner, Arc::clone(&p), HistoryEventBody::Invoke { n, at, op });
        PendingCall { n, p }
    }

    fn push(&self, p: Arc<str>, what: HistoryEventBody) {
        self.write(&mut self.inner(), p, what);
    }

    fn write(&self, inner: &mut RecorderState, p: Arc<str>, what: HistoryEventBody) {
        let i = inner.next;
        inner.next += 1;
        inner.events.push(HistoryEvent { i, t: (self.now)(), p, what });
    }

    /// A panic in another thread leaves only whole events behind, so the poisoned lock is usable.
    fn inner(&self) -> MutexGuard<'_, RecorderState> {
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
                        let call = recorder.invoke(p, RecordedOp::Get { id: JobId(1) });
                        recorder.ok(call, None, RecordedResponse::Job(None));
                    }
                });
            }
        });
        let events = recorder.history().events;
        assert!(events.iter().zip(0..).all(|(event, n)| (event.i, event.t) == (n, n)));
        let mut open = std::collections::BTreeMap::new();
        for event in &events {
            match &event.what {
                HistoryEventBody::Invoke { n, .. } => assert_eq!(open.insert(n, &event.p), None),
                HistoryEventBody::Ok { n, .. } => assert_eq!(open.remove(n), Some(&event.p)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((events.len(), open.len()), (2000, 0));
    }

    #[test]
    fn taken_events_are_not_returned_again_and_numbers_continue() {
        let recorder = Recorder::new(|| 7);
        recorder.fault("n1", RecordedFault::Crash);
        assert_eq!(recorder.take().events.len(), 1);
        recorder.node("n1", NodeObservation::Opened);
        let events = recorder.take().events;
        assert_eq!((events.len(), events[0].i, events[0].t), (1, 1, 7));
    }
}
