//! Sent events, the jobs that wait for them, and the jobs that have received one.
//!
//! An event is for the waiting jobs with smaller ids, because both take their ids from one sequence. A job that waits
//! for a name is therefore *owed* an event exactly if an event of that name has a larger id. The record of an event
//! stays while it is kept, owed, or held by a job that may still run.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::event::ReceivedEvent;
use crore_core::{EventId, EventWait, Job, JobId, KeptEvent, Name, Payload, State, Time};

use super::side::SideKey;
use crate::bug::planted;

/// Maximum number of jobs with a time-out that are skipped in one call because they are owed an event.
const MAX_SKIPPED: usize = 10_000;

/// A stored event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredEvent {
    pub(crate) name: Name,
    pub(crate) payload: Payload,
    pub(crate) sent_at: Time,
    /// Until when it is the kept event of its name; `None`: it is not.
    pub(crate) until: Option<Time>,
}

/// The relation of a job to events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobWait {
    /// It has not received the event of this name.
    Open {
        name: Name,
        /// When a decision about the time-out is needed.
        until: Option<Time>,
        /// Whether its state is waiting.
        waits: bool,
    },
    /// It has received this event, and may still run.
    Holds(EventId),
}

impl JobWait {
    pub(super) fn of(job: &Job) -> Option<Self> {
        match job.live.event.as_deref()? {
            EventWait::Open { .. } => {
                let name = job.spec.wait_for.as_ref()?.name.clone();
                let waits = job.live.state == State::Waiting;
                Some(Self::Open { name, until: job.event_timeout(), waits })
            }
            EventWait::Received(_) => job.held_event().map(Self::Holds),
            EventWait::TimedOut => None,
        }
    }
}

/// The jobs that wait for one name.
#[derive(Debug, Default)]
struct AwaitedName {
    /// The newest event of the name since the first of these jobs began to wait.
    newest: EventId,
    /// Jobs that have not received an event.
    open: BTreeSet<JobId>,
    /// How many of these are in the state waiting.
    waiting: usize,
}

#[derive(Debug, Default)]
pub(super) struct EventTable {
    events: BTreeMap<EventId, StoredEvent>,
    /// Number of jobs that hold an event.
    holders: BTreeMap<EventId, usize>,
    /// The kept event of each name.
    kept: BTreeMap<Name, EventId>,
    /// Names that jobs wait for.
    awaited: BTreeMap<Name, AwaitedName>,
    jobs: BTreeMap<JobId, JobWait>,
    /// Time-outs of waiting jobs.
    timeouts: BTreeSet<(Time, JobId)>,
    /// Kept events by the end of their retention.
    expiries: BTreeSet<(Time, EventId)>,
    /// Events that may be owed to jobs.
    owed: BTreeSet<EventId>,
    /// Total size of the payloads.
    pub(super) bytes: usize,
    pub(super) touched: Vec<SideKey>,
}

impl EventTable {
    pub(super) fn stored(&self, id: EventId) -> Option<&StoredEvent> {
        self.events.get(&id)
    }

    pub(super) fn wait_of(&self, job: JobId) -> Option<&JobWait> {
        self.jobs.get(&job)
    }

    /// Number of events and of jobs that wait for one or hold one.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.events.len(), self.jobs.len())
    }

    /// The kept event of a name.
    pub(super) fn kept(&self, name: &Name, now: Time) -> Option<(EventId, &StoredEvent)> {
        let id = *self.kept.get(name)?;
        let event = self.events.get(&id)?;
        event.until.is_some_and(|until| now < until).then_some((id, event))
    }

    /// The kept event of a name, as a new job receives it.
    pub(super) fn receivable(&self, name: &Name, now: Time) -> Option<ReceivedEvent> {
        let (id, event) = self.kept(name, now)?;
        if planted!("bug-48") && event.sent_at < now {
            return None;
        }
        Some(ReceivedEvent { id, sent_at: event.sent_at, payload: None })
    }

    /// Up to `n` kept events by name.
    pub(super) fn list(&self, after: Option<&Name>, n: usize, now: Time) -> Vec<KeptEvent> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let names = self.kept.range::<Name, _>((from, std::ops::Bound::Unbounded));
        names.filter_map(|(name, _)| self.kept_event(name, now)).take(n).collect()
    }

    pub(super) fn kept_event(&self, name: &Name, now: Time) -> Option<KeptEvent> {
        let (id, event) = self.kept(name, now)?;
        let StoredEvent { name, payload, sent_at, until } = event.clone();
        Some(KeptEvent { id, name, payload, sent_at, until: until? })
    }

    /// Adds the payload of the event that a job has received.
    pub(super) fn attach(&self, job: &mut Job) {
        let Some(id) = job.held_event() else { return };
        let payload = self.events.get(&id).map(|event| event.payload.clone());
        if let Some(EventWait::Received(received)) = job.live.event.as_deref_mut() {
            received.payload = payload;
        }
    }

    /// Number of events and bytes if an event of this name and size is stored.
    pub(super) fn size_with(&self, name: &Name, bytes: usize) -> (usize, usize) {
        let kept = self.kept.get(name).copied();
        let replaced = kept.filter(|id| !self.is_needed(*id)).and_then(|id| self.events.get(&id));
        let freed = replaced.map_or(0, |event| event.payload.bytes.len());
        (self.events.len() + 1 - usize::from(replaced.is_some()), self.bytes - freed + bytes)
    }

    /// Stores a new event in place of the kept one; returns how many jobs waited for it.
    pub(super) fn send(&mut self, id: EventId, event: StoredEvent) -> usize {
        if let Some(kept) = self.kept.get(&event.name) {
            self.end_retention(*kept);
        }
        self.touched.push(SideKey::Event(id));
        let waiting = self.owe(id, &event.name);
        self.add(id, event);
        self.drop_unneeded(id);
        waiting
    }

    /// Owes an event to the jobs that waited for its name when it was sent; returns how many. Events come in the order
    /// of their ids.
    fn owe(&mut self, id: EventId, name: &Name) -> usize {
        let Some(awaited) = self.awaited.get_mut(name) else { return 0 };
        let before = std::mem::replace(&mut awaited.newest, id);
        // Jobs that are owed an earlier event do not wait for this one.
        let later = awaited.open.range(JobId(before.0)..JobId(id.0));
        let Some(first) = later.clone().next() else { return 0 };
        self.owed.insert(id);
        if awaited.open.first() == Some(first) {
            return awaited.waiting;
        }
        later.filter(|job| is_waiting(self.jobs.get(job))).count()
    }

    /// Adds an event, also one of a store that is being opened.
    pub(super) fn add(&mut self, id: EventId, event: StoredEvent) {
        self.bytes += event.payload.bytes.len();
        if let Some(until) = event.until {
            self.kept.insert(event.name.clone(), id);
            self.expiries.insert((until, id));
        }
        self.events.insert(id, event);
    }

    /// After all records of a store that is being opened: finds the events that are owed, and drops what only a
    /// repaired store can contain.
    pub(super) fn finish_restore(&mut self) {
        let names = self.events.iter().map(|(id, event)| (*id, event.name.clone()));
        for (id, name) in names.collect::<Vec<_>>() {
            self.owe(id, &name);
            self.drop_unneeded(id);
        }
    }

    /// Ends the retention of a kept event.
    pub(super) fn end_retention(&mut self, id: EventId) {
        let Some(event) = self.events.get_mut(&id) else { return };
        let Some(until) = event.until.take() else { return };
        self.expiries.remove(&(until, id));
        if self.kept.get(&event.name) == Some(&id) {
            self.kept.remove(&event.name);
        }
        self.touched.push(SideKey::Event(id));
        self.drop_unneeded(id);
    }

    /// Sets what a job has to do with events.
    pub(super) fn set(&mut self, job: JobId, wait: Option<JobWait>) {
        if !(planted!("bug-47") && matches!(wait, Some(JobWait::Holds(_)))) {
            self.touched.push(SideKey::EventWait(job));
        }
        let newest = match (self.jobs.get(&job), &wait) {
            // A job that still waits is still owed what it was owed.
            (Some(JobWait::Open { name, .. }), Some(JobWait::Open { .. })) => {
                self.awaited.get(name).map(|awaited| (name.clone(), awaited.newest))
            }
            _ => None,
        };
        self.forget(job);
        if let Some(wait) = wait {
            self.set_restored(job, wait);
        }
        if let Some((name, newest)) = newest
            && let Some(awaited) = self.awaited.get_mut(&name)
        {
            awaited.newest = newest;
        }
    }

    /// Forgets a removed job.
    pub(super) fn remove_job(&mut self, job: JobId) {
        if self.jobs.contains_key(&job) {
            self.set(job, None);
        }
    }

    pub(super) fn set_restored(&mut self, job: JobId, wait: JobWait) {
        match &wait {
            JobWait::Open { name, until, waits } => {
                let awaited = self.awaited.entry(name.clone()).or_default();
                awaited.open.insert(job);
                awaited.waiting += usize::from(*waits);
                self.timeouts.extend(until.map(|until| (until, job)));
            }
            JobWait::Holds(event) => *self.holders.entry(*event).or_default() += 1,
        }
        self.jobs.insert(job, wait);
    }

    fn forget(&mut self, job: JobId) {
        match self.jobs.remove(&job) {
            None => {}
            Some(JobWait::Open { name, until, waits }) => {
                if let Some(until) = until {
                    self.timeouts.remove(&(until, job));
                }
                let Some(awaited) = self.awaited.get_mut(&name) else { return };
                awaited.open.remove(&job);
                awaited.waiting -= usize::from(waits);
                if awaited.open.is_empty() {
                    self.awaited.remove(&name);
                }
            }
            Some(JobWait::Holds(event)) => {
                if let Some(holders) = self.holders.get_mut(&event) {
                    *holders -= 1;
                    if *holders == 0 {
                        self.holders.remove(&event);
                    }
                }
                self.drop_unneeded(event);
            }
        }
    }

    /// The next job that is owed an event, and the event. Forgets events that are not owed any more.
    pub(super) fn next_owed(&mut self) -> Option<(JobId, EventId, Time)> {
        while let Some(id) = self.owed.first().copied() {
            if let Some(event) = self.events.get(&id)
                && let Some(awaited) = self.awaited.get(&event.name)
                && let Some(job) = awaited.open.first()
                && (job.0 < id.0 || planted!("bug-56"))
            {
                return Some((*job, id, event.sent_at));
            }
            self.owed.remove(&id);
            self.drop_unneeded(id);
        }
        None
    }

    /// Up to `n` jobs whose wait is over and that are not owed an event, and the next time-out after them.
    pub(super) fn timed_out(&self, n: usize, now: Time) -> (Vec<JobId>, Option<Time>) {
        let (mut over, mut skipped) = (Vec::new(), 0);
        for (at, job) in &self.timeouts {
            if self.is_owed(*job) && skipped < MAX_SKIPPED {
                skipped += 1;
            } else if *at > now || over.len() == n || skipped == MAX_SKIPPED {
                return (over, Some(*at));
            } else {
                over.push(*job);
            }
        }
        (over, None)
    }

    fn is_owed(&self, job: JobId) -> bool {
        match self.jobs.get(&job) {
            Some(JobWait::Open { name, .. }) => {
                self.awaited.get(name).is_some_and(|awaited| job.0 < awaited.newest.0)
            }
            _ => false,
        }
    }

    /// Ends the retention of up to `n` events whose time is over, and returns how many.
    pub(super) fn prune(&mut self, n: usize, now: Time) -> usize {
        let mut ended = 0;
        while ended < n
            && let Some((until, id)) = self.expiries.first().copied()
            && until <= now
        {
            if planted!("bug-49") {
                self.holders.remove(&id);
            }
            self.end_retention(id);
            ended += 1;
        }
        ended
    }

    /// Whether a job is owed the event or holds it.
    fn is_needed(&self, id: EventId) -> bool {
        self.owed.contains(&id) || self.holders.contains_key(&id)
    }

    fn drop_unneeded(&mut self, id: EventId) {
        let is_kept = self.events.get(&id).is_none_or(|event| event.until.is_some());
        if is_kept || self.is_needed(id) {
            return;
        }
        if let Some(event) = self.events.remove(&id) {
            self.bytes -= event.payload.bytes.len();
            self.touched.push(SideKey::Event(id));
        }
    }
}

fn is_waiting(wait: Option<&JobWait>) -> bool {
    matches!(wait, Some(JobWait::Open { waits: true, .. }))
}
