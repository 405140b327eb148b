//! The store traits.

use std::sync::Arc;

use crore_core::group::Group;
use crore_core::{Batch, GroupId, Job, JobId, Name};
use crore_store::jobs::{
    Applied, Claim, Claimed, JobSelector, PushedBatch, Renew, Renewed, StoreWrite,
};
use crore_store::registry::{Define, Defined, RegistryEntry, RegistryTable};
use crore_store::{Committed, Error, Jobs, Registry, StoreFuture};

use super::Redis;
use crate::unsupported::{check_definitions, check_jobs, check_writes};

/// The answer to a write, once its scripts have run; as durable as Redis is configured.
fn committed<'a, T>(
    answer: impl Future<Output = Result<T, Error>> + Send + 'a,
) -> StoreFuture<'a, Committed<T>> {
    #[expect(clippy::disallowed_methods, reason = "this is a store, and its scripts have run")]
    Box::pin(async move { answer.await.map(Committed::synced) })
}

impl Jobs for Redis {
    fn push(&self, batch: Batch) -> StoreFuture<'_, Committed<PushedBatch>> {
        if let Err(refused) = check_jobs(&batch.jobs) {
            return Box::pin(std::future::ready(Err(refused)));
        }
        committed(self.push_batch(batch))
    }

    fn claim(&self, ask: Claim) -> StoreFuture<'_, Claimed> {
        Box::pin(self.claim_jobs(ask))
    }

    fn renew(&self, leases: Vec<Renew>) -> StoreFuture<'_, Vec<Renewed>> {
        Box::pin(self.renew_all(leases))
    }

    fn apply(&self, writes: Vec<StoreWrite>) -> StoreFuture<'_, Committed<Vec<Applied>>> {
        if let Err(refused) = check_writes(&writes) {
            return Box::pin(std::future::ready(Err(refused)));
        }
        committed(self.apply_all(writes))
    }

    fn get(&self, which: Vec<JobSelector>) -> StoreFuture<'_, Vec<Option<Job>>> {
        Box::pin(self.get_all(which))
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> StoreFuture<'_, Vec<Option<JobId>>> {
        Box::pin(self.holders_of(keys))
    }
}

impl Registry for Redis {
    fn define(&self, definitions: Vec<Define>) -> StoreFuture<'_, Committed<Vec<Defined>>> {
        if let Err(refused) = check_definitions(&definitions) {
            return Box::pin(std::future::ready(Err(refused)));
        }
        committed(self.define_all(definitions))
    }

    fn entries(
        &self,
        table: RegistryTable,
        after: Option<Name>,
        n: usize,
    ) -> StoreFuture<'_, Vec<RegistryEntry>> {
        Box::pin(self.read_entries(table, after, n))
    }

    fn group(&self, id: GroupId) -> StoreFuture<'_, Option<Group>> {
        Box::pin(self.read_group(id))
    }
}
