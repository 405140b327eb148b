//! Automatic renewal of leases, for jobs that run in this process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crore_core::job::DEFAULT_LEASE;
use crore_core::{Delivery, Job, JobId, Span, Time};
use crore_store::jobs::{Renew, Renewed};

use crate::deliveries::Deliveries;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::timers::NEVER;
use crate::upkeep::Duty;

/// The deliveries whose leases are renewed.
#[derive(Debug, Default)]
pub(crate) struct AutoRenewedLeases(Mutex<BTreeMap<(JobId, Delivery), AutoRenewedLease>>);

#[derive(Debug, Clone, Copy)]
struct AutoRenewedLease {
    renew_at: Time,
    every: Span,
    stop: bool,
}

impl AutoRenewedLeases {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(JobId, Delivery), AutoRenewedLease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the lease of a delivery renewed until it is dropped.
#[derive(Debug)]
pub(crate) struct LeaseGuard<'a> {
    inner: &'a EngineInner,
    key: (JobId, Delivery),
}

impl LeaseGuard<'_> {
    /// Whether the job was asked to stop, or its lease was lost.
    pub(crate) fn is_asked_to_stop(&self) -> bool {
        self.inner.renewed_leases.lock().get(&self.key).is_some_and(|hold| hold.stop)
    }
}

impl Drop for LeaseGuard<'_> {
    fn drop(&mut self) {
        self.inner.renewed_leases.lock().remove(&self.key);
    }
}

impl EngineInner {
    /// Renews a delivery's lease until the guard is dropped.
    pub(crate) fn hold_lease(&self, job: &Job) -> LeaseGuard<'_> {
        let every = Deliveries::renew_every(job.spec.lease.unwrap_or(DEFAULT_LEASE));
        let key = (job.id, job.live.delivery);
        let renew_at = self.now().after(every);
        self.renewed_leases
            .lock()
            .insert(key, AutoRenewedLease { renew_at, every, stop: job.live.stop });
        self.plan_duty(Duty::Renew, renew_at);
        LeaseGuard { inner: self, key }
    }

    /// Renews the leases that are due; returns when the next one is.
    pub(crate) async fn renew_once(&self) -> Result<Time, Error> {
        let now = self.now();
        let due: Vec<Renew> = {
            let mut holds = self.renewed_leases.lock();
            let due = holds.iter_mut().filter(|(_, hold)| hold.renew_at <= now);
            let renew = |((id, delivery), hold): (&(JobId, Delivery), &mut AutoRenewedLease)| {
                hold.renew_at = now.after(hold.every);
                Renew { id: *id, delivery: *delivery, span: None }
            };
            due.map(renew).collect()
        };
        if !due.is_empty() {
            // If the store does not answer, the next renewal still happens on time.
            self.plan_duty(Duty::Renew, self.next_renewal());
            let renewed = self.store.renew(due.clone()).await?;
            self.plan_expiry_check(&renewed);
            let mut holds = self.renewed_leases.lock();
            for (lease, renewed) in due.iter().zip(renewed) {
                if let Some(hold) = holds.get_mut(&(lease.id, lease.delivery)) {
                    // A delivery whose lease was lost should stop too.
                    hold.stop |= !matches!(renewed, Renewed::Until { stop: false, .. });
                }
            }
        }
        Ok(self.next_renewal())
    }

    fn next_renewal(&self) -> Time {
        self.renewed_leases.lock().values().map(|hold| hold.renew_at).min().unwrap_or(NEVER)
    }
}
