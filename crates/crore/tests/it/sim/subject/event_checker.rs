//! Checks the engine's events against its store: every event, and every end that a caller waits for, is durable
//! when it is published, and a listener that keeps up misses no event.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard};

use crore::core::machine::{Change, NextRecord, NextState};
use crore::core::{Job, JobId, State};
use crore::events::{EngineEvent, EventListener, EventType, ListenerItem};
use crore::store::jobs::{Applied, Pushed, StoreWrite};

use super::InjectedBug;

/// Every so-many-th event is falsified.
const FALSIFY_EVERY: u64 = 7;

#[derive(Debug, Default)]
pub(super) struct EventChecker {
    listener: Mutex<Option<EventListener>>,
    expected: Mutex<ExpectedEvents>,
}

#[derive(Debug, Default)]
struct ExpectedEvents {
    /// Durable changes whose events are still to come, in order.
    due: VecDeque<(JobId, ExpectedEvent)>,
    /// States that the store returned for jobs; the engine may publish them after an unconfirmed change.
    read_states: HashMap<JobId, EventType>,
    /// Jobs that have ended, according to the store.
    ended: HashSet<JobId>,
    /// The number of durable changes, and of published events.
    counts: (u64, u64),
}

/// The event expected for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedEvent {
    This(EventType),
    /// One of the three waiting states; the store's clock decides which.
    Waits,
}

impl ExpectedEvent {
    fn is(self, what: EventType) -> bool {
        match self {
            Self::This(expected) => expected == what,
            Self::Waits => {
                matches!(what, EventType::Became(State::Waiting | State::Scheduled | State::Ready))
            }
        }
    }
}

impl ExpectedEvents {
    fn expect(&mut self, id: JobId, what: ExpectedEvent, bug: InjectedBug) {
        self.counts.0 += 1;
        if bug != InjectedBug::EarlyEvents || !self.counts.0.is_multiple_of(FALSIFY_EVERY) {
            self.due.push_back((id, what));
        }
    }
}

impl ExpectedEvents {
    /// Remembers a durable end of a job.
    fn note_end(&mut self, id: JobId, what: ExpectedEvent) {
        let has_ended = match what {
            ExpectedEvent::This(EventType::Became(state)) => state.has_ended(),
            ExpectedEvent::This(what) => what == EventType::Removed,
            ExpectedEvent::Waits => false,
        };
        if has_ended {
            self.ended.insert(id);
        }
    }
}

fn expected_event(change: &Change) -> Option<ExpectedEvent> {
    let NextRecord::Live(next) = &change.next else {
        return Some(ExpectedEvent::This(EventType::Removed));
    };
    let state = match next.state {
        NextState::Pending => return Some(ExpectedEvent::Waits),
        NextState::Running => return Some(ExpectedEvent::This(EventType::AskedToStop)),
        NextState::Done => State::Done,
        NextState::Dead => State::Dead,
        NextState::Cancelled => State::Cancelled,
    };
    // Otherwise its result was taken after it had ended.
    (state != change.seen.state).then_some(ExpectedEvent::This(EventType::Became(state)))
}

impl EventChecker {
    pub(super) fn listen(&self, listener: EventListener) {
        *self.listener.lock().expect("no panic") = Some(listener);
    }

    fn expected(&self) -> MutexGuard<'_, ExpectedEvents> {
        self.expected.lock().expect("no panic")
    }

    /// The store stored these jobs.
    pub(super) fn stored(&self, pushed: &[Pushed], bug: InjectedBug) {
        for one in pushed {
            if let Pushed::New(id) = one {
                self.expected().expect(*id, ExpectedEvent::This(EventType::Pushed), bug);
            }
        }
    }

    /// The store leased these jobs.
    pub(super) fn started(&self, jobs: &[Job], bug: InjectedBug) {
        for job in jobs {
            self.expected().expect(job.id, ExpectedEvent::This(EventType::Started), bug);
        }
    }

    /// The store applied this write.
    pub(super) fn written(&self, write: &StoreWrite, applied: &Applied, bug: InjectedBug) {
        let Applied::Yes(pushed) = applied else { return };
        if let StoreWrite::Job(change) = write
            && let Some(what) = expected_event(change)
        {
            let mut known = self.expected();
            known.expect(change.id, what, bug);
            known.note_end(change.id, what);
        }
        self.stored(pushed, bug);
    }

    /// The store returned a job, or that it does not exist.
    pub(super) fn job_read(&self, id: JobId, job: Option<&Job>) {
        let what = match job {
            None => EventType::Removed,
            Some(job) if job.live.stop => EventType::AskedToStop,
            Some(job) => EventType::Became(job.live.state),
        };
        let mut known = self.expected();
        known.read_states.insert(id, what);
        known.note_end(id, ExpectedEvent::This(what));
    }

    /// A caller was notified of the end of a job, which must be durable.
    pub(super) fn end_notified(&self, id: JobId) {
        let is_durable = self.expected().ended.contains(&id);
        assert!(is_durable, "a caller is notified of the end of {id}, which is not durable");
    }

    /// Reads all events. Everything that was durable before has been published by then.
    pub(super) fn check_events(&self, bug: InjectedBug) {
        let mut heard = self.listener.lock().expect("no panic");
        let Some(listener) = heard.as_mut() else { return };
        while let Some(heard) = listener.try_next() {
            match heard {
                ListenerItem::Missed(n) => panic!("a listener that keeps up has missed {n} events"),
                ListenerItem::Event(event) => self.check_event(&event, bug),
                ListenerItem::Sent(_) => {}
            }
        }
        let left = self.expected().due.pop_front();
        assert!(left.is_none(), "durable, and never published: {left:?}");
    }

    fn check_event(&self, event: &EngineEvent, bug: InjectedBug) {
        let mut known = self.expected();
        known.counts.1 += 1;
        if bug == InjectedBug::LostEvents && known.counts.1.is_multiple_of(FALSIFY_EVERY) {
            return;
        }
        let is_due =
            known.due.front().is_some_and(|(id, what)| *id == event.id && what.is(event.what));
        if is_due {
            known.due.pop_front();
        } else {
            let looked = known.read_states.get(&event.id).copied();
            assert_eq!(looked, Some(event.what), "published for {}, and not durable", event.id);
        }
    }
}
