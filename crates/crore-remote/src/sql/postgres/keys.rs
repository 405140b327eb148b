//! Unique keys and client ids: who has them.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::job::ClientId;
use crore_core::{JobId, Spec, Time};
use sqlx::{PgConnection, Row};

use super::error::Fault;
use super::row::{int, unsigned};
use super::time;

/// How a unique key is stored.
pub(super) fn unique_key(key: &str) -> Vec<u8> {
    [b"u", key.as_bytes()].concat()
}

/// How a client id is stored. The door's name has no control character, so the two stay apart.
pub(super) fn client_key(client: &ClientId) -> Vec<u8> {
    [b"c", client.door.as_str().as_bytes(), b"\0", client.id.as_bytes()].concat()
}

/// The keys that a job has or wants: those that it may lose before it is gone first.
pub(super) fn keys_of(spec: &Spec) -> impl Iterator<Item = Vec<u8>> {
    let unique = spec.unique.as_ref().map(|unique| unique_key(&unique.key));
    unique.into_iter().chain(spec.client_id.as_ref().map(client_key))
}

/// Who has these keys, without locking them.
pub(super) async fn holders(
    connection: &mut PgConnection,
    keys: &BTreeSet<Vec<u8>>,
) -> Result<Vec<JobId>, Fault> {
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

/// A key that this transaction alone may read and change.
#[derive(Debug)]
pub(super) struct Key {
    held: Option<(JobId, Option<Time>)>,
    changed: bool,
}

/// The keys that a transaction is about.
#[derive(Debug, Default)]
pub(super) struct Keys(BTreeMap<Vec<u8>, Key>);

impl Keys {
    /// Locks keys, those that nobody has included: a row is put there to be locked. Whoever wants
    /// the same key waits here until this transaction has ended.
    pub(super) async fn lock(
        connection: &mut PgConnection,
        wanted: BTreeSet<Vec<u8>>,
    ) -> Result<Self, Fault> {
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
            keys.insert(row.try_get("key")?, Key { held, changed: false });
        }
        Ok(Self(keys))
    }

    /// Every job that has one of them.
    pub(super) fn holders(&self) -> impl Iterator<Item = JobId> {
        self.0.values().filter_map(|key| key.held).map(|(job, _)| job)
    }

    /// Who has one of the keys that a new job wants.
    pub(super) fn holder(&self, spec: &Spec, now: Time) -> Option<JobId> {
        keys_of(spec).find_map(|key| {
            let (job, until) = self.0.get(&key)?.held?;
            until.is_none_or(|until| now < until).then_some(job)
        })
    }

    /// Gives a new job what it wants; nobody has it, as [`Keys::holder`] said.
    pub(super) fn take(&mut self, id: JobId, spec: &Spec, due: Time) {
        if let Some(unique) = &spec.unique {
            let until = unique.window.map(|window| due.after(window));
            self.set(&unique_key(&unique.key), Some((id, until)));
        }
        if let Some(client) = &spec.client_id {
            self.set(&client_key(client), Some((id, None)));
        }
    }

    /// Frees a job's unique key, if it still has it.
    pub(super) fn release_unique(&mut self, id: JobId, spec: &Spec) {
        if let Some(unique) = &spec.unique {
            self.release(id, &unique_key(&unique.key));
        }
    }

    /// Frees a job's client id, since the job is gone.
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
        self.0.insert(key.to_vec(), Key { held, changed: true });
    }

    /// Writes what has changed, and takes away the rows that were only there to be locked.
    pub(super) async fn flush(self, connection: &mut PgConnection) -> Result<(), Fault> {
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
