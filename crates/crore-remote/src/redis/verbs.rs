//! The verbs of the seam.

use std::sync::Arc;

use crore_core::group::Group;
use crore_core::{Batch, GroupId, Job, JobId, Name};
use crore_store::jobs::{Applied, Claim, Claimed, Pushes, Renew, Renewed, Which, Write};
use crore_store::registry::{Define, Defined, Entry, Table};
use crore_store::{Answer, Committed, Error, Jobs, Registry};

use super::Redis;

/// An answer to a write: it is there when the scripts have run, and as durable as Redis makes it.
fn committed<'a, T>(
    answer: impl Future<Output = Result<T, Error>> + Send + 'a,
) -> Answer<'a, Committed<T>> {
    #[expect(clippy::disallowed_methods, reason = "this is a store, and its scripts have run")]
    Box::pin(async move { answer.await.map(Committed::synced) })
}

impl Jobs for Redis {
    fn push(&self, batch: Batch) -> Answer<'_, Committed<Pushes>> {
        committed(self.push_batch(batch))
    }

    fn claim(&self, ask: Claim) -> Answer<'_, Claimed> {
        Box::pin(self.claim_jobs(ask))
    }

    fn renew(&self, leases: Vec<Renew>) -> Answer<'_, Vec<Renewed>> {
        Box::pin(self.renew_all(leases))
    }

    fn apply(&self, writes: Vec<Write>) -> Answer<'_, Committed<Vec<Applied>>> {
        committed(self.apply_all(writes))
    }

    fn get(&self, which: Vec<Which>) -> Answer<'_, Vec<Option<Job>>> {
        Box::pin(self.get_all(which))
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> Answer<'_, Vec<Option<JobId>>> {
        Box::pin(self.holders_of(keys))
    }
}

impl Registry for Redis {
    fn define(&self, definitions: Vec<Define>) -> Answer<'_, Committed<Vec<Defined>>> {
        committed(self.define_all(definitions))
    }

    fn entries(&self, table: Table, after: Option<Name>, n: usize) -> Answer<'_, Vec<Entry>> {
        Box::pin(self.read_entries(table, after, n))
    }

    fn group(&self, id: GroupId) -> Answer<'_, Option<Group>> {
        Box::pin(self.read_group(id))
    }
}
