//! Unique keys and client ids, and the jobs that hold them.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::job::ClientId;
use crore_core::{JobId, Spec, Time};
use sqlx::{PgConnection, Row};

use super::error::PostgresFault;
use super::row::{int, unsigned};
use super::time;

/// The stored form of a unique key.
pub(super) fn unique_key(key: &str) -> Vec<u8> {
    [b"u", key.as_bytes()].concat()
}

/// The stored form of a client id. Door names have no control characters, so the zero byte separates them.
pub(super) fn client_key(client: &ClientId) -> Vec<u8> {
    [b"c", client.door.as_str().as_bytes(), b"\0", client.id.as_bytes()].concat()
}

/// The keys of a job: first the unique key, which it may lose before it is removed.
pub(super) fn keys_of(spec: &Spec) -> impl Iterator<Item = Vec<u8>> {
    let unique = spec.unique.as_ref().map(|unique| unique_key(&unique.key));
    unique.into_iter().chain(spec.client_id.as_deref().map(client_key))
}

/// The holders of these keys, read without locks.
pub(super) async fn holders(
    connection: &mut PgConnection,
    keys: &BTreeSet<Vec<u8>>,
) -> Result<Vec<JobId>, PostgresFault> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let holders = sqlx::query_scalar("select job from keys where key = any($1) and job > 0");
    let holders: Vec<i64> = holders
        .bind(keys.iter().map(Vec::as_slice).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    Ok(holders.into_iter().map(|job| JobId(job.cast_unsigned())).collect())
}

/// A key locked by this transaction.
#[derive(Debug)]
pub(super) struct LockedKey {
    held: Option<(JobId, Option<Time>)>,
    changed: bool,
}

/// The keys locked by a transaction.
#[derive(Debug, Default)]
pub(super) struct LockedKeys(BTreeMap<Vec<u8>, LockedKey>);

impl LockedKeys {
    /// Locks keys, including free ones: a row is inserted to be locked. Another transaction that wants the
    /// same key waits here until this one ends.
    pub(super) async fn lock(
        connection: &mut PgConnection,
        wanted: BTreeSet<Vec<u8>>,
    ) -> Result<Self, PostgresFault> {
        let mut keys = BTreeMap::new();
        if wanted.is_empty() {
            return Ok(Self(keys));
        }
        let rows = sqlx::query(
            "insert into keys (key, job) \
             select w.key, 0 from unnest($1::bytea[]) w(key) order by w.key \
             on conflict (key) do update set job = keys.job returning key, job, until",
        )
        .bind(wanted.into_iter().collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
        for row in rows {
            let job = unsigned("the holder of a key", row.try_get("job")?)?;
            let until = row.try_get::<Option<i64>, _>("until")?.map(time);
            let held = JobId::new(job).map(|job| (job, until));
            keys.insert(row.try_get("key")?, LockedKey { held, changed: false });
        }
        Ok(Self(keys))
    }

    /// Every job that holds one of the locked keys.
    pub(super) fn holders(&self) -> impl Iterator<Item = JobId> {
        self.0.values().filter_map(|key| key.held).map(|(job, _)| job)
    }

    /// The job that holds one of the keys of a new job, if any: the new job is its duplicate.
    pub(super) fn holder(&self, spec: &Spec, now: Time) -> Option<JobId> {
        keys_of(spec).find_map(|key| {
            let (job, until) = self.0.get(&key)?.held?;
            until.is_none_or(|until| now < until).then_some(job)
        })
    }

    /// Assigns a new job its keys, which must be free, see [`LockedKeys::holder`].
    pub(super) fn take(&mut self, id: JobId, spec: &Spec, due: Time) {
        if let Some(unique) = &spec.unique {
            let until = unique.window.map(|window| due.after(window));
            self.set(&unique_key(&unique.key), Some((id, until)));
        }
        if let Some(client) = &spec.client_id {
            self.set(&client_key(client), Some((id, None)));
        }
    }

    /// Frees a job's unique key, if the job still holds it.
    pub(super) fn release_unique(&mut self, id: JobId, spec: &Spec) {
        if let Some(unique) = &spec.unique {
            self.release(id, &unique_key(&unique.key));
        }
    }

    /// Frees the client id of a removed job.
    pub(super) fn release_client(&mut self, id: JobId, spec: &Spec) {
        if let Some(client) = &spec.client_id {
            self.release(id, &client_key(client));
        }
    }

    fn release(&mut self, id: JobId, key: &[u8]) {
        if self.0.get(key).is_some_and(|key| key.held.is_some_and(|(job, _)| job == id)) {
            self.set(key, None);
        }
    }

    fn set(&mut self, key: &[u8], held: Option<(JobId, Option<Time>)>) {
        self.0.insert(key.to_vec(), LockedKey { held, changed: true });
    }

    /// Writes changes, and deletes rows that were inserted only to be locked.
    pub(super) async fn flush(self, connection: &mut PgConnection) -> Result<(), PostgresFault> {
        let (mut free, mut taken) = (Vec::new(), Vec::new());
        let (mut jobs, mut untils) = (Vec::new(), Vec::new());
        for (key, now) in self.0 {
            match now.held {
                None => free.push(key),
                Some((job, until)) if now.changed => {
                    taken.push(key);
                    jobs.push(int(job.0));
                    untils.push(until.map(Time::as_millis));
                }
                Some(_) => {}
            }
        }
        if !free.is_empty() {
            let delete = sqlx::query("delete from keys where key = any($1)").bind(free);
            delete.execute(&mut *connection).await?;
        }
        if !taken.is_empty() {
            sqlx::query(
                "update keys set job = t.job, until = t.until from \
                 unnest($1::bytea[], $2::bigint[], $3::bigint[]) t(key, job, until) \
                 where keys.key = t.key",
            )
            .bind(taken)
            .bind(jobs)
            .bind(untils)
            .execute(connection)
            .await?;
        }
        Ok(())
    }
}
