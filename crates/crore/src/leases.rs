//! Leases: renewal by remote workers, and early expiry.

use crore_core::job::DEFAULT_LEASE;
use crore_core::machine::{JobEvent, decide};
use crore_core::{Delivery, JobId, Span};
use crore_store::jobs::{JobSelector, Renew, Renewed};

use crate::bug::planted;
use crate::deliveries::Deliveries;
use crate::engine::{Engine, EngineInner};
use crate::error::Error;
use crate::timers::NEVER;
use crate::upkeep::Duty;

impl Engine {
    /// Renews leases, each for its span from now. Each answer has the new end of the lease and whether the job was
    /// asked to stop. [`Renewed::Stale`] means that the lease was lost: the worker should abandon the job.
    pub async fn renew(&self, leases: Vec<Renew>) -> Result<Vec<Renewed>, Error> {
        let longest = self.inner.caps.max_lease;
        let cap = |lease: Renew| Renew { span: lease.span.map(|span| span.min(longest)), ..lease };
        let leases = leases.into_iter().map(cap).collect();
        let renewed = self.inner.store.renew(leases).await;
        let mut renewed = renewed.map_err(|error| self.inner.map_stopping(error.into()))?;
        if planted!("bug-24") {
            let until = self.inner.now().after(DEFAULT_LEASE);
            let stale = renewed.iter_mut().filter(|one| **one == Renewed::Stale);
            stale.for_each(|one| *one = Renewed::Until { until, stop: false });
        }
        self.inner.plan_expiry_check(&renewed);
        Ok(renewed)
    }
}

impl Deliveries<'_> {
    /// Expires the leases of deliveries whose workers are gone, so that other workers get the jobs now. This costs
    /// no attempt, but counts as a crash. Deliveries that were reported meanwhile are not affected.
    pub async fn lapse(self, held: Vec<(JobId, Delivery)>) -> Result<(), Error> {
        let vanished = |(id, delivery)| (JobSelector::Id(id), JobEvent::WorkerLost(delivery));
        self.inner.change(held.into_iter().map(vanished).collect(), decide).await?;
        Ok(())
    }

    /// Renewal interval for a lease of this length: one lost renewal does no harm.
    pub const fn renew_every(lease: Span) -> Span {
        Span::from_millis(lease.as_millis() / 3)
    }
}

impl EngineInner {
    /// Plans the check for expiry of renewed leases. Upkeep may be expiring leases at this moment, and plan its
    /// next check without these.
    pub(crate) fn plan_expiry_check(&self, renewed: &[Renewed]) {
        let until = |one: &Renewed| match one {
            Renewed::Until { until, .. } => Some(*until),
            Renewed::Stale => None,
        };
        self.plan_duty(Duty::ExpireLeases, renewed.iter().filter_map(until).min().unwrap_or(NEVER));
    }
}
