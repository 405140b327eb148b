//! The store traits. Each operation is repeated after a conflict with another transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use crore_core::group::Group;
use crore_core::{Batch, GroupId, Job, JobId, Name};
use crore_store::jobs::{
    Applied, Claim, Claimed, JobSelector, PushedBatch, Renew, Renewed, StoreWrite,
};
use crore_store::registry::{Define, Defined, RegistryEntry, RegistryTable};
use crore_store::{Committed, Jobs, Registry, StoreFuture};
use sqlx::Row;

use super::Postgres;
use super::error::{PostgresFault, with_retries};
use super::keys::{client_key, unique_key};
use super::row::{self, columns, int, unsigned};
use crate::unsupported::{check_definitions, check_jobs, check_writes};

impl Jobs for Postgres {
    fn push(&self, batch: Batch) -> StoreFuture<'_, Committed<PushedBatch>> {
        Box::pin(async move {
            check_jobs(&batch.jobs)?;
            with_retries(|| self.push_once(&batch)).await
        })
    }

    fn claim(&self, ask: Claim) -> StoreFuture<'_, Claimed> {
        Box::pin(async move { with_retries(|| self.claim_once(&ask)).await })
    }

    fn renew(&self, leases: Vec<Renew>) -> StoreFuture<'_, Vec<Renewed>> {
        Box::pin(async move { with_retries(|| self.renew_once(&leases)).await })
    }

    fn apply(&self, writes: Vec<StoreWrite>) -> StoreFuture<'_, Committed<Vec<Applied>>> {
        Box::pin(async move {
            check_writes(&writes)?;
            with_retries(|| self.apply_once(&writes)).await
        })
    }

    fn get(&self, which: Vec<JobSelector>) -> StoreFuture<'_, Vec<Option<Job>>> {
        Box::pin(async move { with_retries(|| self.get_once(&which)).await })
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> StoreFuture<'_, Vec<Option<JobId>>> {
        Box::pin(async move { with_retries(|| self.holders_once(&keys)).await })
    }
}

impl Registry for Postgres {
    fn define(&self, definitions: Vec<Define>) -> StoreFuture<'_, Committed<Vec<Defined>>> {
        Box::pin(async move {
            check_definitions(&definitions)?;
            with_retries(|| self.define_once(&definitions)).await
        })
    }

    fn entries(
        &self,
        table: RegistryTable,
        after: Option<Name>,
        n: usize,
    ) -> StoreFuture<'_, Vec<RegistryEntry>> {
        Box::pin(async move { with_retries(|| self.entries_once(table, after.as_ref(), n)).await })
    }

    fn group(&self, id: GroupId) -> StoreFuture<'_, Option<Group>> {
        Box::pin(async move { with_retries(|| self.group_once(id)).await })
    }
}

impl Postgres {
    async fn get_once(&self, which: &[JobSelector]) -> Result<Vec<Option<Job>>, PostgresFault> {
        let ids = self.ids_of(which).await?;
        let rows = sqlx::query(concat!(
            "select j.payload, ",
            columns!(),
            " from jobs j where j.id = any($1)"
        ))
        .bind(ids.iter().flatten().map(|id| int(id.0)).collect::<Vec<_>>())
        .fetch_all(&self.pool)
        .await?;
        let mut jobs = BTreeMap::new();
        for row in rows {
            let job = row::read(&row, row.try_get("payload")?)?;
            jobs.insert(job.id, job);
        }
        Ok(ids.iter().map(|id| jobs.get(id.as_ref()?).cloned()).collect())
    }

    async fn holders_once(&self, keys: &[Arc<str>]) -> Result<Vec<Option<JobId>>, PostgresFault> {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| unique_key(key)).collect();
        let rows = sqlx::query(
            "select key, job from keys where key = any($1) and job > 0 and (until is null or until > \
             coalesce($2::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint))",
        )
        .bind(&keys)
        .bind(self.now())
        .fetch_all(&self.pool)
        .await?;
        let mut found: BTreeMap<Vec<u8>, JobId> = BTreeMap::new();
        for row in rows {
            found.insert(row.try_get("key")?, JobId(unsigned("a job", row.try_get("job")?)?));
        }
        Ok(keys.iter().map(|key| found.get(key).copied()).collect())
    }

    /// The ids of the selected jobs; client ids are looked up in one statement.
    async fn ids_of(&self, which: &[JobSelector]) -> Result<Vec<Option<JobId>>, PostgresFault> {
        let clients = which.iter().filter_map(|which| match which {
            JobSelector::Client(client) => Some(client_key(client)),
            JobSelector::Id(_) => None,
        });
        let clients: Vec<Vec<u8>> = clients.collect();
        let mut found: BTreeMap<Vec<u8>, JobId> = BTreeMap::new();
        if !clients.is_empty() {
            let rows = sqlx::query("select key, job from keys where key = any($1)")
                .bind(clients)
                .fetch_all(&self.pool)
                .await?;
            for row in rows {
                found.insert(row.try_get("key")?, JobId(unsigned("a job", row.try_get("job")?)?));
            }
        }
        let id = |which: &JobSelector| match which {
            JobSelector::Id(id) => Some(*id),
            JobSelector::Client(client) => found.get(&client_key(client)).copied(),
        };
        Ok(which.iter().map(id).collect())
    }
}
