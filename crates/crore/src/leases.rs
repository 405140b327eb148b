//! Leases: whoever still works on a job says so in time.

use crore_core::job::DEFAULT_LEASE;
use crore_core::machine::{Event, decide};
use crore_core::{Delivery, JobId, Span};
use crore_store::jobs::{Renew, Renewed, Which};

use crate::bug::planted;
use crate::deliveries::Deliveries;
use crate::engine::{Engine, Inner};
use crate::error::Error;
use crate::timers::NEVER;
use crate::upkeep::Duty;

impl Engine {
    /// Extends leases, each from now on. The answers say until when, and whose job was asked to stop;
    /// `Stale` means that the job is another's by now, and its worker should let it be.
    pub async fn renew(&self, leases: Vec<Renew>) -> Result<Vec<Renewed>, Error> {
        let longest = self.inner.caps.max_lease;
        let cap = |lease: Renew| Renew { span: lease.span.map(|span| span.min(longest)), ..lease };
        let leases = leases.into_iter().map(cap).collect();
        let renewed = self.inner.store.renew(leases).await;
        let mut renewed = renewed.map_err(|error| self.inner.blame(error.into()))?;
        if planted!("bug-24") {
            let until = self.inner.now().after(DEFAULT_LEASE);
            let stale = renewed.iter_mut().filter(|one| **one == Renewed::Stale);
            stale.for_each(|one| *one = Renewed::Until { until, stop: false });
        }
        self.inner.watch(&renewed);
        Ok(renewed)
    }
}

impl Deliveries<'_> {
    /// Ends the leases of deliveries whose workers are gone: their jobs are given to others now, at no cost
    /// in attempts, and a crash is counted for each. One that was reported meanwhile is left alone.
    pub async fn lapse(self, held: Vec<(JobId, Delivery)>) -> Result<(), Error> {
        let vanished = |(id, delivery)| (Which::Id(id), Event::Vanished(delivery));
        self.inner.change(held.into_iter().map(vanished).collect(), decide).await?;
        Ok(())
    }

    /// How often a lease of this length is renewed, so that one lost renewal does no harm.
    pub const fn renew_every(lease: Span) -> Span {
        Span::from_millis(lease.as_millis() / 3)
    }
}

impl Inner {
    /// Sees to it that the ends of leases are noticed: they may have been renewed while upkeep was
    /// about to take them back, and looked only at the others.
    pub(crate) fn watch(&self, renewed: &[Renewed]) {
        let until = |one: &Renewed| match one {
            Renewed::Until { until, .. } => Some(*until),
            Renewed::Stale => None,
        };
        self.want(Duty::Rescue, renewed.iter().filter_map(until).min().unwrap_or(NEVER));
    }
}
