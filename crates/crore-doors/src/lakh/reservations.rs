//! The leases of a worker that has joined, by the names under which it knows its jobs.

use std::collections::HashMap;
use std::sync::Arc;

use crore_core::job::DEFAULT_LEASE;
use crore_core::{Job, JobId};
use crore_wire::worker::Held;
use tokio::time::Instant;

use super::translate::id;
use crate::worker_session::LeaseTable;

/// A job as its worker names it: by its name and its id.
pub(super) type Key = (Arc<str>, Arc<str>);

/// The terms of a lease that is not renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reservation {
    key: Key,
    is_reserved: bool,
    is_sent: bool,
    until: Instant,
}

impl Reservation {
    fn of(job: &Job, now: Instant) -> Self {
        Self {
            key: key(job),
            is_reserved: job.spec.lease.is_some(),
            is_sent: false,
            until: now + job.spec.lease.unwrap_or(DEFAULT_LEASE).into(),
        }
    }

    /// Whether its worker is to report; a job without a reservation is done when it is handed over.
    pub(super) const fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// Whether it was given to the connection.
    pub(super) const fn is_sent(&self) -> bool {
        self.is_sent
    }

    /// Whether the job is another worker's.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }
}

/// How a worker names a job.
pub(super) fn key(job: &Job) -> Key {
    (job.spec.queue.as_str().into(), id(job))
}

/// From this number on, leases that are over are looked for and removed.
const TIDY_FROM: usize = 64;

/// The leases of a worker that has joined.
#[derive(Debug)]
pub(super) struct Reservations {
    leases: LeaseTable<Reservation>,
    names: HashMap<Key, JobId>,
    tidy_at: usize,
    is_reporting: bool,
}

impl Default for Reservations {
    fn default() -> Self {
        let (leases, names) = (LeaseTable::default(), HashMap::new());
        Self { leases, names, tidy_at: TIDY_FROM, is_reporting: false }
    }
}

impl Reservations {
    /// Whether no report is expected, and none is on its way to the disk.
    pub(super) fn is_settled(&self) -> bool {
        self.leases.is_empty() && !self.is_reporting
    }

    /// Reports begin or end to be on their way to the disk.
    pub(super) fn set_reporting(&mut self, is_reporting: bool) {
        self.is_reporting = is_reporting;
    }

    /// Adds a job that was fetched.
    pub(super) fn take(&mut self, job: &Job, now: Instant) {
        if self.leases.len() >= self.tidy_at {
            self.tidy(now);
        }
        let (held, terms) = (held(job), Reservation::of(job, now));
        // Another job of the same name can no longer be reported.
        if let Some(other) =
            self.names.insert(terms.key.clone(), held.id).filter(|id| *id != held.id)
        {
            self.leases.release_job(other);
        }
        let key = terms.key.clone();
        if let Some((_, former)) = self.leases.insert(held, terms)
            && former.key != key
        {
            self.names.remove(&former.key);
        }
    }

    /// Removes leases that are over: nobody reported them, and they are others' now.
    fn tidy(&mut self, now: Instant) {
        let over = self.leases.iter().filter(|(_, terms)| terms.is_over(now));
        let over: Vec<_> = over.map(|(held, terms)| (held, terms.key.clone())).collect();
        over.iter().for_each(|(held, key)| self.release(key, *held));
        self.tidy_at = (self.leases.len() * 2).max(TIDY_FROM);
    }

    /// Marks a job as sent; `None`: it is another worker's by now, and is not to be sent.
    pub(super) fn send(&mut self, job: &Job, now: Instant) -> Option<Reservation> {
        let key = key(job);
        let id = *self.names.get(&key)?;
        let (current, terms) = self.leases.get_mut(id)?;
        if current.delivery != job.live.delivery || terms.is_over(now) {
            self.release(&key, current);
            return None;
        }
        terms.is_sent = true;
        Some(terms.clone())
    }

    /// The delivery that a worker means by a name.
    pub(super) fn get(&mut self, key: &Key) -> Option<(Held, Reservation)> {
        let (held, terms) = self.leases.get_mut(*self.names.get(key)?)?;
        Some((held, terms.clone()))
    }

    /// Removes a delivery, if it is the one that the name means.
    pub(super) fn release(&mut self, key: &Key, held: Held) {
        if self.leases.release(held).is_some() {
            self.names.remove(key);
        }
    }

    /// Removes all leases, and returns them.
    pub(super) fn clear(&mut self) -> Vec<(Held, Reservation)> {
        self.names.clear();
        std::mem::take(&mut self.leases).into_leases().collect()
    }
}

const fn held(job: &Job) -> Held {
    Held { id: job.id, delivery: job.live.delivery }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crore_core::job::{Live, Spec};
    use crore_core::{Delivery, Name, Payload, Time};

    use super::*;

    fn job(id: u64, delivery: u64) -> Job {
        let name = Name::new("queue", "mail").expect("a name");
        let spec = Spec::new(name.clone(), name, Payload::json("1"));
        let live = Live::pushed(Time::ZERO, Time::ZERO, 0);
        let mut job = Job { id: JobId(id), spec: Arc::new(spec), live };
        job.live.delivery = Delivery(delivery);
        job
    }

    #[test]
    fn a_job_that_comes_again_is_known_by_its_latest_delivery() {
        let (mut all, now) = (Reservations::default(), Instant::now());
        all.take(&job(1, 1), now);
        all.take(&job(1, 2), now);
        assert_eq!(all.send(&job(1, 2), now).map(|terms| terms.is_sent()), Some(true));
        let (held, _) = all.get(&key(&job(1, 2))).expect("known");
        assert_eq!(held.delivery, Delivery(2));
        all.release(&key(&job(1, 2)), held);
        assert!(all.is_settled() && all.names.is_empty());
    }

    #[test]
    fn what_is_over_is_neither_sent_nor_kept() {
        let (mut all, now) = (Reservations::default(), Instant::now());
        for n in 1..=TIDY_FROM as u64 {
            all.take(&job(n, n), now);
        }
        let later = now + Duration::from_secs(3600);
        assert_eq!(all.send(&job(1, 1), later), None);
        all.take(&job(1000, 1000), later);
        all.take(&job(1001, 1001), later);
        assert_eq!((all.leases.len(), all.names.len()), (2, 2));
    }
}
