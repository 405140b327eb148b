//! The moves that only a store can make atomically, and how a record takes a change.
//!
//! Stores call these. A script that runs inside a database repeats only what has to be atomic there, and
//! takes its tables of outcomes from here.

use super::event::{Change, Next, NextLive, NextState, ResultChange};
use crate::dependency::Satisfaction;
use crate::id::{Delivery, Revision};
use crate::job::{Attempt, DEFAULT_LEASE, Job, Keep, Kept, Live, MAX_HISTORY, Seen, State};
use crate::name::Name;
use crate::time::{Span, Time};

impl Live {
    /// The record of a job that is pushed at `now`.
    pub fn pushed(now: Time, due: Time, waits: u32) -> Self {
        Self {
            state: pending(waits > 0, due, now),
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
            started_at: Time::ZERO,
            lease_until: Time::ZERO,
            ended_at: None,
            worker: None,
            why: None,
            history: Vec::new(),
            result: None,
        }
    }

    /// What there is to see of it.
    pub const fn seen(&self) -> Seen {
        let (state, delivery, revision) = (self.state, self.delivery, self.revision);
        Seen { state, delivery, revision, lease_until: None }
    }

    /// Whether it still looks as it was seen.
    pub fn is(&self, seen: &Seen) -> bool {
        let same = Seen { lease_until: seen.lease_until, ..self.seen() };
        same == *seen && seen.lease_until.is_none_or(|until| until == self.lease_until)
    }

    /// Ready → Running, under a fresh delivery. A job without a lease of its own holds a hidden one
    /// until its door says that it was handed over.
    pub fn claim(&mut self, delivery: Delivery, now: Time, lease: Option<Span>, worker: &Name) {
        self.state = State::Running;
        self.delivery = delivery;
        self.revision = self.revision.next();
        self.attempt = self.attempt.saturating_add(1);
        self.started_at = now;
        self.lease_until = now.after(lease.unwrap_or(DEFAULT_LEASE));
        self.worker = Some(worker.clone());
    }

    /// Scheduled → Ready, because it is due.
    pub const fn promote(&mut self) {
        self.state = State::Ready;
        self.revision = self.revision.next();
    }

    /// One of the things that it waits for came true.
    pub const fn release(&mut self, now: Time) {
        self.waits = self.waits.saturating_sub(1);
        self.revision = self.revision.next();
        if let State::Waiting = self.state {
            self.state = pending(self.is_held(), self.due, now);
        }
    }

    /// One of the things that it waits for can no longer come true. A job that waits is held until
    /// that is decided upon ([`super::Event::Broken`]); one that does not wait any more has one thing
    /// less to wait for, should it be retried.
    pub const fn snap(&mut self) {
        self.waits = self.waits.saturating_sub(1);
        self.broken = self.broken || matches!(self.state, State::Waiting);
        self.revision = self.revision.next();
    }

    /// Takes how a dependency now stands. Says whether it is settled; one that is open changes nothing
    /// and has to be told again.
    pub const fn settle(&mut self, dependency: Satisfaction, now: Time) -> bool {
        match dependency {
            Satisfaction::Open => return false,
            Satisfaction::Satisfied => self.release(now),
            Satisfaction::Broken => self.snap(),
        }
        true
    }

    const fn is_held(&self) -> bool {
        self.waits > 0 || self.broken
    }

    fn close(&mut self, next: &NextLive, now: Time) {
        let Some((ended, error)) = &next.ended else { return };
        self.history.truncate(MAX_HISTORY - 1);
        self.history.insert(
            0,
            Attempt {
                delivery: self.delivery,
                started_at: self.started_at,
                ended_at: now,
                worker: self.worker.clone(),
                ended: *ended,
                error: error.clone(),
            },
        );
    }
}

impl Job {
    /// Takes a change at `now`. Whether it may be taken was checked before, against
    /// [`Live::seen`].
    pub fn take(&mut self, next: &NextLive, now: Time) {
        self.live.close(next, now);
        let live = &mut self.live;
        live.state = next.state_from(live, now);
        live.due = next.due.resolve(now, live.due);
        live.broken = next.broken;
        live.ended_at = live.state.has_ended().then_some(live.ended_at.unwrap_or(now));
        (live.attempt, live.crashes) = (next.attempt, next.crashes);
        (live.stop, live.counted, live.why) = (next.stop, next.counted, next.why);
        live.revision = live.revision.next();
        match &next.result {
            ResultChange::Leave => {}
            ResultChange::Drop => live.result = None,
            ResultChange::Set(payload, keep) => {
                let (once, span) = match keep {
                    Keep::Discard => (false, Span::ZERO),
                    Keep::Once(span) => (true, *span),
                    Keep::For(span) => (false, *span),
                };
                let until = now.after(span);
                live.result = Some(Kept { payload: payload.clone(), until, once });
            }
        }
        if let Some(spec) = &next.spec {
            self.spec = std::sync::Arc::clone(spec);
        }
    }
}

impl NextLive {
    /// The state that a record which stands like this takes at `now`.
    pub fn state_from(&self, live: &Live, now: Time) -> State {
        match self.state {
            NextState::Pending => {
                let held = live.waits > 0 || self.broken;
                pending(held, self.due.resolve(now, live.due), now)
            }
            NextState::Running => State::Running,
            NextState::Done => State::Done,
            NextState::Dead => State::Dead,
            NextState::Cancelled => State::Cancelled,
        }
    }
}

impl Change {
    /// The state after this change of `job`, written at `now`; `None`: the job is removed. A store
    /// takes its own now; with another one a job that falls due in between may differ in being
    /// scheduled or ready.
    pub fn state_after(&self, job: &Job, now: Time) -> Option<State> {
        match &self.next {
            Next::Gone => None,
            Next::Live(next) => Some(next.state_from(&job.live, now)),
        }
    }
}

/// The state of a job that has not started: what it waits for first, then when it is due.
pub const fn pending(held: bool, due: Time, now: Time) -> State {
    if held {
        State::Waiting
    } else if due.as_millis() > now.as_millis() {
        State::Scheduled
    } else {
        State::Ready
    }
}
