//! The registry: what is defined rather than pushed.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::group::Group;
use crore_core::{GroupId, Name, Revision, Time};
use crore_store::Committed;
use crore_store::jobs::Write;
use crore_store::registry::{Define, Defined, Definition, Entry, Guard, Table, Value};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::error::Fault;
use super::row::{from_json, int, json, name, unsigned};
use super::work::read_group;
use super::{Postgres, commit, time};

/// An entry that this transaction alone may change. One without a value is not there, or not any
/// more.
#[derive(Debug)]
struct Slot {
    value: Option<Value>,
    revision: Revision,
    expires_at: Option<Time>,
    changed: bool,
}

impl Slot {
    fn read(row: &PgRow) -> Result<Self, Fault> {
        let value: Option<&str> = row.try_get("value")?;
        Ok(Self {
            value: value.map(|text| from_json("a definition", text)).transpose()?,
            revision: Revision(unsigned("a revision", row.try_get("revision")?)?),
            expires_at: row.try_get::<Option<i64>, _>("expires_at")?.map(time),
            changed: false,
        })
    }

    fn is_there(&self, now: Time) -> bool {
        self.value.is_some() && self.expires_at.is_none_or(|at| now < at)
    }

    fn define(&mut self, define: &Define, now: Time) -> Defined {
        let there = self.is_there(now);
        let holds = match define.guard {
            Guard::Any => true,
            Guard::Absent => !there,
            Guard::At(revision) => there && self.revision == revision,
        };
        if !holds {
            return Defined::Stale;
        }
        let value = match &define.to {
            Definition::Set(value) => Some(value.clone()),
            Definition::Remove(_) if !there => return Defined::Yes(self.revision),
            Definition::Remove(_) => None,
        };
        self.set(value, define.expires_after.map(|span| now.after(span)));
        Defined::Yes(self.revision)
    }

    fn set(&mut self, value: Option<Value>, expires_at: Option<Time>) {
        self.value = value;
        self.expires_at = expires_at;
        self.revision = self.revision.next();
        self.changed = true;
    }
}

/// Entries by table and name.
type Slots = BTreeMap<(i16, String), Slot>;

/// Locks entries, in their order, those that are not there included.
async fn lock(
    connection: &mut PgConnection,
    names: BTreeSet<(i16, String)>,
) -> Result<Slots, Fault> {
    let mut slots = Slots::new();
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
        slots.insert((row.try_get("tab")?, row.try_get("name")?), Slot::read(&row)?);
    }
    Ok(slots)
}

async fn flush(connection: &mut PgConnection, slots: Slots) -> Result<(), Fault> {
    for ((table, name), slot) in slots.into_iter().filter(|(_, slot)| slot.changed) {
        let paused = matches!(&slot.value, Some(Value::Queue(settings)) if settings.paused);
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

/// Limits 0, queues 1, schedules 2, handlers 3, workers 4, tokens 5.
const fn number(table: Table) -> i16 {
    table as i16
}

impl Postgres {
    pub(super) async fn define_once(
        &self,
        definitions: &[Define],
    ) -> Result<Committed<Vec<Defined>>, Fault> {
        let key = |define: &Define| (number(define.table()), define.name.as_str().to_owned());
        let mut tx = self.begin().await?;
        let now = self.instant(&mut tx).await?;
        let mut slots = lock(&mut tx, definitions.iter().map(key).collect()).await?;
        let mut answers = Vec::new();
        for define in definitions {
            let slot = slots.get_mut(&key(define));
            answers.push(slot.map_or(Defined::Stale, |slot| slot.define(define, now)));
        }
        flush(&mut tx, slots).await?;
        commit(tx, answers).await
    }

    pub(super) async fn entries_once(
        &self,
        table: Table,
        after: Option<&Name>,
        n: usize,
    ) -> Result<Vec<Entry>, Fault> {
        let rows = sqlx::query(
            "select name, value, revision, expires_at from registry where tab = $1 \
             and name > $2 and value is not null and (expires_at is null or expires_at > \
             coalesce($3::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)) \
             order by name limit $4",
        )
        .bind(number(table))
        .bind(after.map_or("", Name::as_str))
        .bind(self.now())
        .bind(int(n as u64))
        .fetch_all(&self.pool)
        .await?;
        let mut entries = Vec::new();
        for row in rows {
            let name = name("an entry", row.try_get("name")?)?;
            let Slot { value, revision, expires_at, .. } = Slot::read(&row)?;
            entries.extend(value.map(|value| Entry { name, value, revision, expires_at }));
        }
        Ok(entries)
    }

    pub(super) async fn group_once(&self, id: GroupId) -> Result<Option<Group>, Fault> {
        let row = sqlx::query("select * from groups where id = $1")
            .bind(int(id.0))
            .fetch_optional(&self.pool)
            .await?;
        row.map(|row| read_group(&row)).transpose()
    }

    async fn instant(&self, connection: &mut PgConnection) -> Result<Time, Fault> {
        if let Some(now) = self.now() {
            return Ok(time(now));
        }
        let now = "select floor(extract(epoch from clock_timestamp()) * 1000)::bigint";
        Ok(time(sqlx::query_scalar(now).fetch_one(connection).await?))
    }
}

/// The schedules that a batch of writes moves.
#[derive(Debug)]
pub(super) struct Schedules {
    now: Time,
    slots: Slots,
}

impl Schedules {
    pub(super) async fn lock(
        connection: &mut PgConnection,
        now: Time,
        writes: &[Write],
    ) -> Result<Self, Fault> {
        let names = writes.iter().filter_map(|write| match write {
            Write::Tick { schedule, .. } => {
                Some((number(Table::Schedules), schedule.as_str().to_owned()))
            }
            Write::Job(_) | Write::Seal(_) => None,
        });
        Ok(Self { now, slots: lock(connection, names.collect()).await? })
    }

    /// Moves a schedule's cursor, if the schedule still is what the ticks were computed from.
    pub(super) fn tick(&mut self, schedule: &Name, seen: Revision, cursor: Time) -> bool {
        let key = (number(Table::Schedules), schedule.as_str().to_owned());
        let Some(slot) = self.slots.get_mut(&key) else { return false };
        if !slot.is_there(self.now) || slot.revision != seen {
            return false;
        }
        let Some(Value::Schedule(mut entry)) = slot.value.take() else { return false };
        entry.cursor = cursor;
        let expires_at = slot.expires_at;
        slot.set(Some(Value::Schedule(entry)), expires_at);
        true
    }

    pub(super) async fn flush(self, connection: &mut PgConnection) -> Result<(), Fault> {
        flush(connection, self.slots).await
    }
}
