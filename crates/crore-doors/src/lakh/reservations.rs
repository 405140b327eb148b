//! Leases of a joined worker, indexed by the names that it uses for its jobs.

use std::collections::HashMap;
use std::sync::Arc;

use crore_core::job::DEFAULT_LEASE;
use crore_core::{Job, JobId, Name};
use crore_wire::worker::DeliveryRef;
use tokio::time::Instant;

use super::translate::id;
use crate::worker_session::LeaseTable;

/// A job as its worker names it: name and id.
pub(super) type JobKey = (Arc<str>, Arc<str>);

/// Terms of a lease. Lakh workers do not renew their leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reservation {
    key: JobKey,
    is_reserved: bool,
    is_sent: bool,
    until: Instant,
}

impl Reservation {
    fn of(job: &Job, name: &Name, now: Instant) -> Self {
        Self {
            key: key(job, name),
            is_reserved: job.spec.lease.is_some(),
            is_sent: false,
            until: now + job.spec.lease.unwrap_or(DEFAULT_LEASE).into(),
        }
    }

    /// Whether a report is expected; a job without a reservation is done when it is handed over.
    pub(super) const fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// Whether the job was passed to the connection for sending.
    pub(super) const fn is_sent(&self) -> bool {
        self.is_sent
    }

    /// Whether the lease has expired; then another worker may have the job.
    pub(super) fn has_expired(&self, now: Instant) -> bool {
        self.until <= now
    }
}

/// The name and id by which a worker knows a job.
pub(super) fn key(job: &Job, name: &Name) -> JobKey {
    (name.as_str().into(), id(job))
}

/// Number of leases at which expired ones are removed for the first time.
const CLEANUP_FROM: usize = 64;

/// Leases of a joined worker.
#[derive(Debug)]
pub(super) struct Reservations {
    leases: LeaseTable<Reservation>,
    names: HashMap<JobKey, JobId>,
    cleanup_at: usize,
    is_reporting: bool,
}

impl Default for Reservations {
    fn default() -> Self {
        let (leases, names) = (LeaseTable::default(), HashMap::new());
        Self { leases, names, cleanup_at: CLEANUP_FROM, is_reporting: false }
    }
}

impl Reservations {
    /// Whether no report is expected, and none is being written.
    pub(super) fn is_settled(&self) -> bool {
        self.leases.is_empty() && !self.is_reporting
    }

    /// Sets whether reports are being written.
    pub(super) fn set_reporting(&mut self, is_reporting: bool) {
        self.is_reporting = is_reporting;
    }

    /// Adds a fetched job, which the worker knows by this name.
    pub(super) fn add(&mut self, job: &Job, name: &Name, now: Instant) {
        if self.leases.len() >= self.cleanup_at {
            self.remove_expired(now);
        }
        let (held, terms) = (held(job), Reservation::of(job, name, now));
        // The previous job with this key can no longer be reported.
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

    /// Removes expired leases: their jobs were not reported, and other workers may have them.
    fn remove_expired(&mut self, now: Instant) {
        let expired = self.leases.iter().filter(|(_, terms)| terms.has_expired(now));
        let expired: Vec<_> = expired.map(|(held, terms)| (held, terms.key.clone())).collect();
        expired.iter().for_each(|(held, key)| self.release(key, *held));
        self.cleanup_at = (self.leases.len() * 2).max(CLEANUP_FROM);
    }

    /// Marks a job as sent; `None`: its lease has expired or was replaced, and it must not be sent.
    pub(super) fn mark_sent(
        &mut self,
        job: &Job,
        name: &Name,
        now: Instant,
    ) -> Option<Reservation> {
        let key = key(job, name);
        let id = *self.names.get(&key)?;
        let (current, terms) = self.leases.get_mut(id)?;
        if current.delivery != job.live.delivery || terms.has_expired(now) {
            self.release(&key, current);
            return None;
        }
        terms.is_sent = true;
        Some(terms.clone())
    }

    /// The delivery that a worker means by a name.
    pub(super) fn get(&mut self, key: &JobKey) -> Option<(DeliveryRef, Reservation)> {
        let (held, terms) = self.leases.get_mut(*self.names.get(key)?)?;
        Some((held, terms.clone()))
    }

    /// Removes a delivery, if the worker holds it.
    pub(super) fn release(&mut self, key: &JobKey, held: DeliveryRef) {
        if self.leases.release(held).is_some() {
            self.names.remove(key);
        }
    }

    /// Removes all leases, and returns them.
    pub(super) fn clear(&mut self) -> Vec<(DeliveryRef, Reservation)> {
        self.names.clear();
        std::mem::take(&mut self.leases).into_leases().collect()
    }
}

const fn held(job: &Job) -> DeliveryRef {
    DeliveryRef { id: job.id, delivery: job.live.delivery }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crore_core::job::{Live, Spec};
    use crore_core::{Delivery, Payload, Time};

    use super::*;

    fn name() -> Name {
        Name::new("queue", "mail").expect("a name")
    }

    fn job(id: u64, delivery: u64) -> Job {
        let name = name();
        let spec = Spec::new(name.clone(), name, Payload::json("1"));
        let live = Live::pushed(Time::ZERO, Time::ZERO, 0);
        let mut job = Job { id: JobId(id), spec: Arc::new(spec), live };
        job.live.delivery = Delivery(delivery);
        job
    }

    #[test]
    fn a_redelivered_job_is_found_by_its_latest_delivery() {
        let (mut all, now) = (Reservations::default(), Instant::now());
        all.add(&job(1, 1), &name(), now);
        all.add(&job(1, 2), &name(), now);
        let sent = all.mark_sent(&job(1, 2), &name(), now);
        assert_eq!(sent.map(|terms| terms.is_sent()), Some(true));
        let (held, _) = all.get(&key(&job(1, 2), &name())).expect("known");
        assert_eq!(held.delivery, Delivery(2));
        all.release(&key(&job(1, 2), &name()), held);
        assert!(all.is_settled() && all.names.is_empty());
    }

    #[test]
    fn expired_leases_are_neither_sent_nor_kept() {
        let (mut all, now) = (Reservations::default(), Instant::now());
        for n in 1..=CLEANUP_FROM as u64 {
            all.add(&job(n, n), &name(), now);
        }
        let later = now + Duration::from_secs(3600);
        assert_eq!(all.mark_sent(&job(1, 1), &name(), later), None);
        all.add(&job(1000, 1000), &name(), later);
        all.add(&job(1001, 1001), &name(), later);
        assert_eq!((all.leases.len(), all.names.len()), (2, 2));
    }
}
