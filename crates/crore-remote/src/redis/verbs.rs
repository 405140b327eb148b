//! The verbs of the seam.

use crore_core::group::Group;
use crore_core::{Batch, GroupId, Job, JobId, Name};
use crore_store::jobs::{Applied, Claim, Claimed, Pushes, Renew, Renewed, Write};
use crore_store::registry::{Define, Defined, Entry, Table};
use crore_store::{Answer, Committed, Jobs, Registry};

use super::Redis;

impl Jobs for Redis {
    fn push(&self, batch: Batch) -> Answer<'_, Committed<Pushes>> {
        Box::pin(self.push_batch(batch))
    }

    fn claim(&self, ask: Claim) -> Answer<'_, Claimed> {
        Box::pin(self.claim_jobs(ask))
    }

    fn renew(&self, leases: Vec<Renew>) -> Answer<'_, Vec<Renewed>> {
        Box::pin(self.renew_all(leases))
    }

    fn apply(&self, writes: Vec<Write>) -> Answer<'_, Committed<Vec<Applied>>> {
        Box::pin(async move { self.apply_all(writes).await.map(Committed::synced) })
    }

    fn get(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<Job>>> {
        Box::pin(self.get_all(ids))
    }
}

impl Registry for Redis {
    fn define(&self, definitions: Vec<Define>) -> Answer<'_, Committed<Vec<Defined>>> {
        Box::pin(self.define_all(definitions))
    }

    fn entries(&self, table: Table, after: Option<Name>, n: usize) -> Answer<'_, Vec<Entry>> {
        Box::pin(self.read_entries(table, after, n))
    }

    fn group(&self, id: GroupId) -> Answer<'_, Option<Group>> {
        Box::pin(self.read_group(id))
    }
}
