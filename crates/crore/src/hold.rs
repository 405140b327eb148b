//! Deliveries whose leases the engine renews by itself, because their work runs in this process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crore_core::job::DEFAULT_LEASE;
use crore_core::{Delivery, Job, JobId, Span, Time};
use crore_store::jobs::{Renew, Renewed};

use crate::deliveries::Deliveries;
use crate::engine::Inner;
use crate::error::Error;
use crate::timers::NEVER;
use crate::upkeep::Duty;

/// All deliveries that are held.
#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<BTreeMap<(JobId, Delivery), Hold>>);

#[derive(Debug, Clone, Copy)]
struct Hold {
    renew_at: Time,
    every: Span,
    stop: bool,
}

impl Holds {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(JobId, Delivery), Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A delivery that is held: its lease does not end while this is there.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    inner: &'a Inner,
    key: (JobId, Delivery),
}

impl Held<'_> {
    /// Whether the job was asked to stop.
    pub(crate) fn is_asked_to_stop(&self) -> bool {
        self.inner.holds.lock().get(&self.key).is_some_and(|hold| hold.stop)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.inner.holds.lock().remove(&self.key);
    }
}

impl Inner {
    /// Renews a delivery's lease until what this gives is dropped.
    pub(crate) fn hold(&self, job: &Job) -> Held<'_> {
        let every = Deliveries::renew_every(job.spec.lease.unwrap_or(DEFAULT_LEASE));
        let key = (job.id, job.live.delivery);
        let renew_at = self.now().after(every);
        self.holds.lock().insert(key, Hold { renew_at, every, stop: job.live.stop });
        self.want(Duty::Renew, renew_at);
        Held { inner: self, key }
    }

    /// Renews the leases whose time has come; gives when the next one's has.
    pub(crate) async fn renew_once(&self) -> Result<Time, Error> {
        let now = self.now();
        let due: Vec<Renew> = {
            let mut holds = self.holds.lock();
            let due = holds.iter_mut().filter(|(_, hold)| hold.renew_at <= now);
            let renew = |((id, delivery), hold): (&(JobId, Delivery), &mut Hold)| {
                hold.renew_at = now.after(hold.every);
                Renew { id: *id, delivery: *delivery, span: None }
            };
            due.map(renew).collect()
        };
        if !due.is_empty() {
            // Should the store not answer, the next renewal is tried in its time.
            self.want(Duty::Renew, self.next_renewal());
            let renewed = self.store.renew(due.clone()).await?;
            self.watch(&renewed);
            let mut holds = self.holds.lock();
            for (lease, renewed) in due.iter().zip(renewed) {
                if let Some(hold) = holds.get_mut(&(lease.id, lease.delivery)) {
                    // A delivery that is not ours any more had better stop too.
                    hold.stop |= !matches!(renewed, Renewed::Until { stop: false, .. });
                }
            }
        }
        Ok(self.next_renewal())
    }

    fn next_renewal(&self) -> Time {
        self.holds.lock().values().map(|hold| hold.renew_at).min().unwrap_or(NEVER)
    }
}
