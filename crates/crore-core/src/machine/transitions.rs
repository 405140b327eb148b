//! Transitions that only a store can make atomically, and the application of a change to a record.
//!
//! Stores call these. A script that runs inside a database repeats only what must be atomic there, and
//! takes its lookup tables from here.

use super::event::{
    Change, EventWaitChange, NewManualAction, NextLive, NextRecord, NextState, ResultChange,
};
use crate::dependency::Satisfaction;
use crate::event::{AwaitedEvent, EventWait, ReceivedEvent};
use crate::id::{Delivery, Revision};
use crate::job::{
    Attempt, DEFAULT_LEASE, DeliveryEnd, Job, Live, MAX_HISTORY, ManualAction, ResultRetention,
    Seen, State, StoredResult,
};
use crate::name::Name;
use crate::time::{Span, Time};

impl Live {
    /// The record of a job pushed at `now`.
    pub fn pushed(now: Time, due: Time, waits: u32) -> Self {
        Self {
            state: pending_state(waits > 0, due, now),
            stop: false,
            counted: false,
            broken: false,
            waits,
            delivery: Delivery::NONE,
            revision: Revision::default(),
            attempt: 0,
            crashes: 0,
            pushed_at: now,
            due,
            deadline: None,
            event: None,
            started_at: Time::ZERO,
            lease_until: Time::ZERO,
            ended_at: None,
            worker: None,
            why: None,
            history: Vec::new(),
            actions: Box::default(),
            result: None,
        }
    }

    /// The record of a job pushed at `now` that waits for an event, or has received the kept one.
    pub fn await_event(&mut self, awaited: &AwaitedEvent, kept: Option<ReceivedEvent>, now: Time) {
        let until = awaited.timeout.map(|timeout| now.after(timeout));
        let wait = kept.map_or(EventWait::Open { until }, EventWait::Received);
        self.event = Some(Box::new(wait));
        self.state = pending_state(self.is_held(), self.due, now);
    }

    /// The event has reached the job: the first one counts. A job that does not wait, such as a cancelled one, has
    /// the event if it is retried.
    pub fn release(&mut self, event: ReceivedEvent, now: Time) {
        if !self.waits_for_event() {
            return;
        }
        self.event = Some(Box::new(EventWait::Received(event)));
        self.revision = self.revision.next();
        if self.state == State::Waiting {
            self.state = pending_state(self.is_held(), self.due, now);
        }
    }

    /// Whether the job has not received the event that it waits for.
    pub fn waits_for_event(&self) -> bool {
        self.event.as_ref().is_some_and(|wait| wait.is_open())
    }

    /// The current version, for a guarded write.
    pub const fn seen(&self) -> Seen {
        let (state, delivery, revision) = (self.state, self.delivery, self.revision);
        Seen { state, delivery, revision, lease_until: None }
    }

    /// Whether the record still matches `seen`.
    pub fn matches(&self, seen: &Seen) -> bool {
        let same = Seen { lease_until: seen.lease_until, ..self.seen() };
        same == *seen && seen.lease_until.is_none_or(|until| until == self.lease_until)
    }

    /// Whether a report has counted since the job was last handed over. A delivery that was returned unfinished is
    /// not a hand-over.
    pub fn is_reported(&self) -> bool {
        let mut ends = self.history.iter().map(|attempt| attempt.ended);
        let last = ends.find(|ended| *ended != DeliveryEnd::Interrupted);
        last.is_some_and(|ended| !matches!(ended, DeliveryEnd::Lapsed | DeliveryEnd::TimedOut))
    }

    /// Ready → Running, with a new delivery. A fire-and-forget job holds an internal default lease until its
    /// door confirms the delivery.
    pub fn claim(&mut self, delivery: Delivery, now: Time, lease: Option<Span>, worker: &Name) {
        self.state = State::Running;
        self.delivery = delivery;
        self.revision = self.revision.next();
        self.attempt = self.attempt.saturating_add(1);
        self.started_at = now;
        self.deadline = None;
        self.lease_until = now.after(lease.unwrap_or(DEFAULT_LEASE));
        self.worker = Some(worker.clone());
    }

    /// Whether the deadline for the first start is over at `now`: it is over at its instant. Such a job must not be
    /// claimed.
    pub fn is_expired(&self, now: Time) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Scheduled → Ready.
    pub const fn promote(&mut self) {
        self.state = State::Ready;
        self.revision = self.revision.next();
    }

    /// One dependency is satisfied.
    pub fn satisfy_dependency(&mut self, now: Time) {
        self.waits = self.waits.saturating_sub(1);
        self.revision = self.revision.next();
        if self.state == State::Waiting {
            self.state = pending_state(self.is_held(), self.due, now);
        }
    }

    /// One dependency is broken. A waiting job stays held until [`super::JobEvent::Broken`] is decided; a job
    /// that no longer waits has one dependency less if it is retried.
    pub const fn break_dependency(&mut self) {
        self.waits = self.waits.saturating_sub(1);
        self.broken = self.broken || matches!(self.state, State::Waiting);
        self.revision = self.revision.next();
    }

    /// Applies the status of a dependency. Returns whether it is settled; an open dependency changes
    /// nothing and must be reported again later.
    pub fn settle(&mut self, dependency: Satisfaction, now: Time) -> bool {
        match dependency {
            Satisfaction::Open => return false,
            Satisfaction::Satisfied => self.satisfy_dependency(now),
            Satisfaction::Broken => self.break_dependency(),
        }
        true
    }

    fn is_held(&self) -> bool {
        self.waits > 0 || self.broken || self.waits_for_event()
    }

    fn push_history(&mut self, next: &NextLive, now: Time) {
        let Some((ended, error)) = &next.ended else { return };
        self.history.truncate(MAX_HISTORY - 1);
        // Most jobs have one delivery, and a vector would begin with room for four.
        self.history.reserve_exact(1);
        self.history.insert(
            0,
            Attempt {
                delivery: self.delivery,
                started_at: self.started_at,
                ended_at: now,
                worker: self.worker.clone(),
                ended: *ended,
                error: error.clone(),
                details: next.details.clone(),
            },
        );
    }
}

impl Live {
    fn push_action(&mut self, next: &NextLive, now: Time) {
        let Some(new) = &next.action else { return };
        let NewManualAction { action, by, detail } = (**new).clone();
        let newest = ManualAction { at: now, action, by, detail };
        let older = std::mem::take(&mut self.actions).into_iter().take(MAX_HISTORY - 1);
        self.actions = std::iter::once(newest).chain(older).collect();
    }
}

impl Job {
    /// Applies a change at `now`. The caller has checked it with [`Live::matches`].
    pub fn apply(&mut self, next: &NextLive, now: Time) {
        self.live.push_history(next, now);
        self.live.push_action(next, now);
        let live = &mut self.live;
        live.state = next.state_from(live, now);
        live.due = next.due.resolve(now, live.due);
        live.broken = next.broken;
        if next.drops_deadline {
            live.deadline = None;
        }
        if let Some(wait) = live.event.as_mut().filter(|wait| wait.is_open()) {
            match next.event {
                EventWaitChange::Leave => {}
                EventWaitChange::Restart => {
                    let timeout = self.spec.wait_for.as_ref().and_then(|awaited| awaited.timeout);
                    **wait = EventWait::Open { until: timeout.map(|timeout| now.after(timeout)) };
                }
                EventWaitChange::TimeOut => **wait = EventWait::TimedOut,
            }
        }
        if let (State::Done, Some(EventWait::Received(event))) =
            (live.state, live.event.as_deref_mut())
        {
            event.payload = None;
        }
        live.ended_at = live.state.has_ended().then_some(live.ended_at.unwrap_or(now));
        (live.attempt, live.crashes) = (next.attempt, next.crashes);
        (live.stop, live.counted, live.why) = (next.stop, next.counted, next.why);
        live.revision = live.revision.next();
        match &next.result {
            ResultChange::Leave => {}
            ResultChange::Drop => live.result = None,
            ResultChange::Set(payload, keep) => {
                let (once, span) = match keep {
                    ResultRetention::Discard => (false, Span::ZERO),
                    ResultRetention::Once(span) => (true, *span),
                    ResultRetention::For(span) => (false, *span),
                };
                let until = now.after(span);
                let payload = payload.clone();
                live.result = Some(Box::new(StoredResult { payload, until, once }));
            }
        }
        if let Some(spec) = &next.spec {
            self.spec = std::sync::Arc::clone(spec);
        }
    }
}

impl NextLive {
    /// The state that the change gives to `live` at `now`.
    pub fn state_from(&self, live: &Live, now: Time) -> State {
        match self.state {
            NextState::Pending => {
                let waits = live.waits_for_event() && self.event != EventWaitChange::TimeOut;
                let held = live.waits > 0 || self.broken || waits;
                pending_state(held, self.due.resolve(now, live.due), now)
            }
            NextState::Running => State::Running,
            NextState::Done => State::Done,
            NextState::Dead => State::Dead,
            NextState::Cancelled => State::Cancelled,
        }
    }
}

impl Change {
    /// The state of `job` after this change, written at `now`; `None` if the job is removed. A store uses its
    /// own clock; with another `now` the result may differ between scheduled and ready.
    pub fn state_after(&self, job: &Job, now: Time) -> Option<State> {
        match &self.next {
            NextRecord::Gone => None,
            NextRecord::Live(next) => Some(next.state_from(&job.live, now)),
        }
    }
}

/// The state of a job that has not started: dependencies and its event first, then the due time.
pub const fn pending_state(held: bool, due: Time, now: Time) -> State {
    if held {
        State::Waiting
    } else if due.as_millis() > now.as_millis() {
        State::Scheduled
    } else {
        State::Ready
    }
}
