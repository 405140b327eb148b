//! The registry of definitions: limits, queues, schedules, handlers, workers, tokens.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::group::Group;
use crore_core::{GroupId, Name, Revision, Time};
use crore_store::Committed;
use crore_store::jobs::StoreWrite;
use crore_store::registry::{
    Define, DefineAction, Defined, RegistryEntry, RegistryTable, RegistryValue,
};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::error::PostgresFault;
use super::row::{from_json, int, json, name, unsigned};
use super::unit_of_work::read_group;
use super::{Postgres, commit, time};

/// An entry locked by this transaction. Without a value it is absent or was removed.
#[derive(Debug)]
struct LockedEntry {
    value: Option<RegistryValue>,
    revision: Revision,
    expires_at: Option<Time>,
    changed: bool,
}

impl LockedEntry {
    fn read(row: &PgRow) -> Result<Self, PostgresFault> {
        let value: Option<&str> = row.try_get("value")?;
        Ok(Self {
            value: value.map(|text| from_json("a definition", text)).transpose()?,
            revision: Revision(unsigned("a revision", row.try_get("revision")?)?),
            expires_at: row.try_get::<Option<i64>, _>("expires_at")?.map(time),
            changed: false,
        })
    }

    fn is_present(&self, now: Time) -> bool {
        self.value.is_some() && self.expires_at.is_none_or(|at| now < at)
    }

    fn guard_holds(&self, define: &Define, now: Time) -> bool {
        define.guard.holds(self.is_present(now).then_some(self.revision))
    }

    /// Sets or removes the entry, whatever the guard.
    fn define(&mut self, define: &Define, now: Time) -> Defined {
        let there = self.is_present(now);
        let value = match &define.action {
            DefineAction::Set(value) => Some(value.clone()),
            DefineAction::Remove(_) if !there => return Defined::Yes(self.revision),
            DefineAction::Remove(_) => None,
        };
        self.set(value, define.expires_after.map(|span| now.after(span)));
        Defined::Yes(self.revision)
    }

    fn set(&mut self, value: Option<RegistryValue>, expires_at: Option<Time>) {
        self.value = value;
        self.expires_at = expires_at;
        self.revision = self.revision.next();
        self.changed = true;
    }
}

/// Entries by table and name.
type LockedEntries = BTreeMap<(i16, String), LockedEntry>;

/// Locks entries in order, including absent ones.
async fn lock(
    connection: &mut PgConnection,
    names: BTreeSet<(i16, String)>,
) -> Result<LockedEntries, PostgresFault> {
    let mut slots = LockedEntries::new();
    if names.is_empty() {
        return Ok(slots);
    }
    let (tables, names): (Vec<i16>, Vec<String>) = names.into_iter().unzip();
    let rows = sqlx::query(
        "insert into registry (tab, name, paused, revision) \
         select w.tab, w.name, false, 0 from unnest($1::smallint[], $2::text[]) w(tab, name) \
         order by w.tab, w.name collate \"C\" \
         on conflict (tab, name) do update set tab = registry.tab \
         returning tab, name, value, revision, expires_at",
    )
    .bind(tables)
    .bind(names)
    .fetch_all(connection)
    .await?;
    for row in rows {
        slots.insert((row.try_get("tab")?, row.try_get("name")?), LockedEntry::read(&row)?);
    }
    Ok(slots)
}

async fn flush(connection: &mut PgConnection, slots: LockedEntries) -> Result<(), PostgresFault> {
    for ((table, name), slot) in slots.into_iter().filter(|(_, slot)| slot.changed) {
        let paused = matches!(&slot.value, Some(RegistryValue::Queue(settings)) if settings.paused);
        sqlx::query(
            "update registry set value = $3, paused = $4, revision = $5, expires_at = $6 \
             where tab = $1 and name = $2",
        )
        .bind(table)
        .bind(name)
        .bind(slot.value.as_ref().map(json).transpose()?)
        .bind(paused)
        .bind(int(slot.revision.0))
        .bind(slot.expires_at.map(Time::as_millis))
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// Limits 0, queues 1, schedules 2, handlers 3, workers 4, tokens 5, operations 6.
const fn table_number(table: RegistryTable) -> i16 {
    table as i16
}

impl Postgres {
    pub(super) async fn define_once(
        &self,
        definitions: &[Define],
    ) -> Result<Committed<Vec<Defined>>, PostgresFault> {
        let key = |define: &Define| (table_number(define.table()), define.name.as_str().to_owned());
        let mut tx = self.begin().await?;
        let now = self.instant(&mut tx).await?;
        let mut slots = lock(&mut tx, definitions.iter().map(key).collect()).await?;
        let mut answers = Vec::new();
        let holds = |slots: &LockedEntries, define: &Define| {
            slots.get(&key(define)).is_some_and(|slot| slot.guard_holds(define, now))
        };
        let joint_hold =
            definitions.iter().filter(|define| define.joint).all(|define| holds(&slots, define));
        for define in definitions {
            let holds = if define.joint { joint_hold } else { holds(&slots, define) };
            let slot = slots.get_mut(&key(define)).filter(|_| holds);
            answers.push(slot.map_or(Defined::Stale, |slot| slot.define(define, now)));
        }
        flush(&mut tx, slots).await?;
        commit(tx, answers).await
    }

    pub(super) async fn entries_once(
        &self,
        table: RegistryTable,
        after: Option<&Name>,
        n: usize,
    ) -> Result<Vec<RegistryEntry>, PostgresFault> {
        let rows = sqlx::query(
            "select name, value, revision, expires_at from registry where tab = $1 \
             and name > $2 and value is not null and (expires_at is null or expires_at > \
             coalesce($3::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)) \
             order by name limit $4",
        )
        .bind(table_number(table))
        .bind(after.map_or("", Name::as_str))
        .bind(self.now())
        .bind(int(n as u64))
        .fetch_all(&self.pool)
        .await?;
        let mut entries = Vec::new();
        for row in rows {
            let name = name("an entry", row.try_get("name")?)?;
            let LockedEntry { value, revision, expires_at, .. } = LockedEntry::read(&row)?;
            entries.extend(value.map(|value| RegistryEntry { name, value, revision, expires_at }));
        }
        Ok(entries)
    }

    pub(super) async fn group_once(&self, id: GroupId) -> Result<Option<Group>, PostgresFault> {
        let row = sqlx::query("select * from groups where id = $1")
            .bind(int(id.0))
            .fetch_optional(&self.pool)
            .await?;
        row.map(|row| read_group(&row)).transpose()
    }

    async fn instant(&self, connection: &mut PgConnection) -> Result<Time, PostgresFault> {
        if let Some(now) = self.now() {
            return Ok(time(now));
        }
        let now = "select floor(extract(epoch from clock_timestamp()) * 1000)::bigint";
        Ok(time(sqlx::query_scalar(now).fetch_one(connection).await?))
    }
}

/// The schedules that a batch of writes advances.
#[derive(Debug)]
pub(super) struct LockedSchedules {
    now: Time,
    slots: LockedEntries,
}

impl LockedSchedules {
    pub(super) async fn lock(
        connection: &mut PgConnection,
        now: Time,
        writes: &[StoreWrite],
    ) -> Result<Self, PostgresFault> {
        let names = writes.iter().filter_map(|write| match write {
            StoreWrite::Tick { schedule, .. } => {
                Some((table_number(RegistryTable::Schedules), schedule.as_str().to_owned()))
            }
            StoreWrite::Job(_) | StoreWrite::Seal(_) | StoreWrite::ResumeKeys { .. } => None,
        });
        Ok(Self { now, slots: lock(connection, names.collect()).await? })
    }

    /// Moves a schedule's cursor, if its revision is still the one that the ticks were computed from.
    pub(super) fn tick(&mut self, schedule: &Name, seen: Revision, cursor: Time) -> bool {
        let key = (table_number(RegistryTable::Schedules), schedule.as_str().to_owned());
        let Some(slot) = self.slots.get_mut(&key) else { return false };
        if !slot.is_present(self.now) || slot.revision != seen {
            return false;
        }
        let Some(RegistryValue::Schedule(mut entry)) = slot.value.take() else { return false };
        entry.cursor = cursor;
        let expires_at = slot.expires_at;
        slot.set(Some(RegistryValue::Schedule(entry)), expires_at);
        true
    }

    pub(super) async fn flush(self, connection: &mut PgConnection) -> Result<(), PostgresFault> {
        flush(connection, self.slots).await
    }
}
