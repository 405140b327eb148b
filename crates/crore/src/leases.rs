//! Leases: whoever still works on a job says so in time.

use crore_core::Span;
use crore_store::jobs::{Renew, Renewed};

use crate::engine::Engine;
use crate::error::Error;

impl Engine {
    /// Extends leases, each from now on. The answers say until when, and whose job was asked to stop;
    /// `Stale` means that the job is another's by now, and its worker should let it be.
    pub async fn renew(&self, leases: Vec<Renew>) -> Result<Vec<Renewed>, Error> {
        let longest = self.inner.caps.max_lease;
        let cap = |lease: Renew| Renew { span: lease.span.map(|span| span.min(longest)), ..lease };
        let leases = leases.into_iter().map(cap).collect();
        Ok(self.inner.store.renew(leases).await?)
    }

    /// How often a lease of this length is renewed, so that one lost renewal does no harm.
    pub const fn renew_every(lease: Span) -> Span {
        Span::from_millis(lease.as_millis() / 3)
    }
}
