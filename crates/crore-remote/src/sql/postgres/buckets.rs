//! Buckets: the usage of each limit key, and the arithmetic of permits.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::limit::{Limit, LimitKey, Tat};
use crore_core::{Name, Time};
use crore_store::registry::RegistryValue;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::error::PostgresFault;
use super::row::{from_json, name};
use super::time;

/// The stored form of a limit key. Names have no control characters, so the zero byte separates name and
/// value.
pub(super) fn bucket_key(key: &LimitKey) -> Vec<u8> {
    let mut bytes = key.limit.as_str().as_bytes().to_vec();
    if let Some(value) = &key.value {
        bytes.push(0);
        bytes.extend(value.as_bytes());
    }
    bytes
}

/// Locks buckets in the order of their keys.
pub(super) async fn lock(
    connection: &mut PgConnection,
    keys: BTreeSet<Vec<u8>>,
) -> Result<(), PostgresFault> {
    if !keys.is_empty() {
        sqlx::query("select from buckets where key = any($1) order by key for update")
            .bind(keys.into_iter().collect::<Vec<_>>())
            .execute(connection)
            .await?;
    }
    Ok(())
}

/// Returns permits to locked buckets.
pub(super) async fn return_permits(
    connection: &mut PgConnection,
    returned: BTreeMap<Vec<u8>, i64>,
) -> Result<(), PostgresFault> {
    if !returned.is_empty() {
        let (keys, counts): (Vec<_>, Vec<_>) = returned.into_iter().unzip();
        sqlx::query(
            "update buckets b set held = greatest(b.held - r.n, 0) \
             from unnest($1::bytea[], $2::bigint[]) r(key, n) where b.key = r.key",
        )
        .bind(keys)
        .bind(counts)
        .execute(connection)
        .await?;
    }
    Ok(())
}

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PermitBlocked {
    /// Until a permit is returned.
    Held,
    /// Until this time.
    Until(Time),
}

#[derive(Debug, Clone, Copy, Default)]
struct BucketRow {
    held: i64,
    tat: Tat,
}

/// The buckets and limits of a claim.
#[derive(Debug, Clone, Default)]
pub(super) struct PermitLedger {
    pub(super) now: Time,
    limits: BTreeMap<Name, Limit>,
    buckets: BTreeMap<Vec<u8>, BucketRow>,
    /// Buckets whose TAT (theoretical arrival time) is later than their rate allows, because the rate was
    /// raised since. They count as just used up, and their TAT is lowered accordingly.
    overdrawn: BTreeMap<Vec<u8>, Name>,
}

impl PermitLedger {
    /// Reads without locks: what a claim finds if nothing else runs.
    pub(super) async fn peek(
        connection: &mut PgConnection,
        now: Time,
        keys: &BTreeSet<&LimitKey>,
    ) -> Result<Self, PostgresFault> {
        let mut ledger = Self { now, ..Self::default() };
        if keys.is_empty() {
            return Ok(ledger);
        }
        let names: BTreeSet<&str> = keys.iter().map(|key| key.limit.as_str()).collect();
        let limits = sqlx::query(
            "select name, value from registry where tab = 0 and name = any($1) \
             and value is not null and (expires_at is null or expires_at > $2)",
        )
        .bind(names.into_iter().collect::<Vec<_>>())
        .bind(now.as_millis())
        .fetch_all(&mut *connection)
        .await?;
        for row in limits {
            let limit = name("a limit", row.try_get("name")?)?;
            if let RegistryValue::Limit(value) = from_json("a limit", row.try_get("value")?)? {
                ledger.limits.insert(limit, value);
            }
        }
        let buckets = sqlx::query("select key, held, tat from buckets where key = any($1)")
            .bind(keys.iter().map(|key| bucket_key(key)).collect::<Vec<_>>())
            .fetch_all(connection)
            .await?;
        ledger.read(&buckets)?;
        Ok(ledger)
    }

    /// The same limits with only these buckets, locked, and with the time of the lock: a rate must never be
    /// evaluated at an earlier time than that of the previous owner of the lock.
    pub(super) async fn lock(
        &self,
        connection: &mut PgConnection,
        now: Option<i64>,
        mut keys: BTreeSet<Vec<u8>>,
    ) -> Result<Self, PostgresFault> {
        let mut ledger = Self { buckets: BTreeMap::new(), ..self.clone() };
        keys.extend(self.overdrawn.keys().cloned());
        if keys.is_empty() {
            return Ok(ledger);
        }
        let keys: Vec<_> = keys.into_iter().collect();
        sqlx::query(
            "insert into buckets (key, held, tat) \
             select k.key, 0, 0 from unnest($1::bytea[]) k(key) \
             where not exists (select from buckets b where b.key = k.key) \
             order by k.key on conflict (key) do nothing",
        )
        .bind(&keys)
        .execute(&mut *connection)
        .await?;
        let rows = sqlx::query(
            "with locked as materialized ( \
             select key, held, tat from buckets where key = any($1) order by key for update) \
             select key, held, tat, coalesce($2::bigint, \
             floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now from locked",
        )
        .bind(&keys)
        .bind(now)
        .fetch_all(connection)
        .await?;
        for row in &rows {
            ledger.now = ledger.now.max(time(row.try_get("now")?));
        }
        ledger.read(&rows)?;
        for (key, limit) in std::mem::take(&mut ledger.overdrawn) {
            _ = ledger.blocked(&key, &limit);
        }
        Ok(ledger)
    }

    /// Adds the overdrawn buckets of another ledger.
    pub(super) fn merge_overdrawn(&mut self, other: &Self) {
        self.overdrawn.extend(other.overdrawn.clone());
    }

    /// Whether buckets must be corrected even if no job can be claimed.
    pub(super) fn has_overdrawn(&self) -> bool {
        !self.overdrawn.is_empty()
    }

    fn read(&mut self, rows: &[PgRow]) -> Result<(), PostgresFault> {
        for row in rows {
            let tat = Tat::from_micros(row.try_get("tat")?);
            let bucket = BucketRow { held: row.try_get("held")?, tat };
            self.buckets.insert(row.try_get("key")?, bucket);
        }
        Ok(())
    }

    /// Whether the ledger has all buckets of these keys.
    pub(super) fn covers(&self, keys: &[LimitKey]) -> bool {
        keys.iter().all(|key| self.buckets.contains_key(&bucket_key(key)))
    }

    /// Up to `n` permits that a single lane could get.
    pub(super) fn room(&self, keys: &[LimitKey], n: u32) -> u32 {
        keys.iter().map(|key| self.room_at(key, n)).min().unwrap_or(n)
    }

    fn room_at(&self, key: &LimitKey, n: u32) -> u32 {
        let Some(limit) = self.limits.get(&key.limit) else { return n };
        let bucket = self.buckets.get(&bucket_key(key)).copied().unwrap_or_default();
        let free = limit.concurrency.map_or(i64::MAX, |max| i64::from(max) - bucket.held);
        let free = u32::try_from(free.max(0)).unwrap_or(u32::MAX);
        let rate = limit.rate.as_ref().map_or(n, |rate| rate.take(bucket.tat, self.now, n).granted);
        n.min(free).min(rate)
    }

    /// Takes a permit from each bucket; if one has none, takes nothing and returns why.
    pub(super) fn take(&mut self, keys: &[LimitKey]) -> Result<(), PermitBlocked> {
        let mut once = BTreeSet::new();
        let keys: Vec<_> = keys
            .iter()
            .map(|key| (bucket_key(key), &key.limit))
            .filter(|(key, _)| once.insert(key.clone()))
            .collect();
        for (key, limit) in &keys {
            if let Some(blocked) = self.blocked(key, limit) {
                return Err(blocked);
            }
        }
        for (key, limit) in keys {
            let bucket = self.buckets.entry(key).or_default();
            bucket.held += 1;
            if let Some(rate) = self.limits.get(limit).and_then(|limit| limit.rate.as_ref()) {
                bucket.tat = rate.take(bucket.tat, self.now, 1).tat;
            }
        }
        Ok(())
    }

    fn blocked(&mut self, key: &[u8], name: &Name) -> Option<PermitBlocked> {
        let limit = self.limits.get(name)?;
        let bucket = self.buckets.get(key).copied().unwrap_or_default();
        if limit.concurrency.is_some_and(|max| bucket.held >= i64::from(max)) {
            return Some(PermitBlocked::Held);
        }
        let rate = limit.rate.as_ref()?;
        let taken = rate.take(bucket.tat, self.now, 1);
        if taken.granted > 0 {
            return None;
        }
        let next_at = rate.next_at(taken.tat, self.now);
        if taken.tat != bucket.tat {
            self.overdrawn.insert(key.to_vec(), name.clone());
            self.buckets.insert(key.to_vec(), BucketRow { tat: taken.tat, ..bucket });
        }
        Some(PermitBlocked::Until(next_at))
    }

    /// Writes the buckets, which must be locked.
    pub(super) async fn flush(&self, connection: &mut PgConnection) -> Result<(), PostgresFault> {
        if self.buckets.is_empty() {
            return Ok(());
        }
        let keys: Vec<&[u8]> = self.buckets.keys().map(Vec::as_slice).collect();
        let (held, tats): (Vec<i64>, Vec<i64>) =
            self.buckets.values().map(|bucket| (bucket.held, bucket.tat.as_micros())).unzip();
        sqlx::query(
            "update buckets b set held = t.held, tat = t.tat \
             from unnest($1::bytea[], $2::bigint[], $3::bigint[]) t(key, held, tat) \
             where b.key = t.key",
        )
        .bind(keys)
        .bind(held)
        .bind(tats)
        .execute(connection)
        .await?;
        Ok(())
    }
}
