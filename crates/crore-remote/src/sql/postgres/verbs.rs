//! The seam: each verb is tried until it does not lose a race.

use std::collections::BTreeMap;
use std::sync::Arc;

use crore_core::group::Group;
use crore_core::{Batch, GroupId, Job, JobId, Name};
use crore_store::jobs::{Applied, Claim, Claimed, Pushes, Renew, Renewed, Which, Write};
use crore_store::registry::{Define, Defined, Entry, Table};
use crore_store::{Answer, Committed, Jobs, Registry};
use sqlx::Row;

use super::Postgres;
use super::error::{Fault, retried};
use super::keys::{client_key, unique_key};
use super::row::{self, columns, int, unsigned};

impl Jobs for Postgres {
    fn push(&self, batch: Batch) -> Answer<'_, Committed<Pushes>> {
        Box::pin(async move { retried(|| self.push_once(&batch)).await })
    }

    fn claim(&self, ask: Claim) -> Answer<'_, Claimed> {
        Box::pin(async move { retried(|| self.claim_once(&ask)).await })
    }

    fn renew(&self, leases: Vec<Renew>) -> Answer<'_, Vec<Renewed>> {
        Box::pin(async move { retried(|| self.renew_once(&leases)).await })
    }

    fn apply(&self, writes: Vec<Write>) -> Answer<'_, Committed<Vec<Applied>>> {
        Box::pin(async move { retried(|| self.apply_once(&writes)).await })
    }

    fn get(&self, which: Vec<Which>) -> Answer<'_, Vec<Option<Job>>> {
        Box::pin(async move { retried(|| self.get_once(&which)).await })
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> Answer<'_, Vec<Option<JobId>>> {
        Box::pin(async move { retried(|| self.holders_once(&keys)).await })
    }
}

impl Registry for Postgres {
    fn define(&self, definitions: Vec<Define>) -> Answer<'_, Committed<Vec<Defined>>> {
        Box::pin(async move { retried(|| self.define_once(&definitions)).await })
    }

    fn entries(&self, table: Table, after: Option<Name>, n: usize) -> Answer<'_, Vec<Entry>> {
        Box::pin(async move { retried(|| self.entries_once(table, after.as_ref(), n)).await })
    }

    fn group(&self, id: GroupId) -> Answer<'_, Option<Group>> {
        Box::pin(async move { retried(|| self.group_once(id)).await })
    }
}

impl Postgres {
    async fn get_once(&self, which: &[Which]) -> Result<Vec<Option<Job>>, Fault> {
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

    async fn holders_once(&self, keys: &[Arc<str>]) -> Result<Vec<Option<JobId>>, Fault> {
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

    /// The numbers of the jobs that are meant; callers' own ids are looked up in one statement.
    async fn ids_of(&self, which: &[Which]) -> Result<Vec<Option<JobId>>, Fault> {
        let clients = which.iter().filter_map(|which| match which {
            Which::Client(client) => Some(client_key(client)),
            Which::Id(_) => None,
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
        let id = |which: &Which| match which {
            Which::Id(id) => Some(*id),
            Which::Client(client) => found.get(&client_key(client)).copied(),
        };
        Ok(which.iter().map(id).collect())
    }
}
