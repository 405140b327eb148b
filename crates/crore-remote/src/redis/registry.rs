//! Definitions, in a slot of their own. Which queues are paused is told to every shard.

use crore_core::group::Group;
use crore_core::{GroupId, Name, Revision, Time};
use crore_store::Error;
use crore_store::registry::{Define, Defined, Definition, Entry, Guard, Table, Value};

use super::names::escape;
use super::pack::{Arg, map};
use super::record::{read_group, word};
use super::reply::{Reply, damaged};
use super::{Ran, Redis};

/// The most entries in one answer.
const MOST: usize = 10_000;

pub(super) fn read_value(bytes: &[u8]) -> Result<Value, Error> {
    rmp_serde::from_slice(bytes).map_err(|e| damaged(format!("a definition: {e}")))
}

fn define_op(define: &Define) -> Result<Arg, Error> {
    let (value, cursor, paused) = match &define.to {
        Definition::Remove(_) => (None, None, false),
        Definition::Set(value) => {
            let bytes = rmp_serde::to_vec_named(value).map_err(|e| damaged(e.to_string()))?;
            let cursor = match value {
                Value::Schedule(schedule) => Some(schedule.cursor.as_millis()),
                _ => None,
            };
            (Some(bytes), cursor, matches!(value, Value::Queue(settings) if settings.paused))
        }
    };
    let (guard, revision) = match define.guard {
        Guard::Any => ("any", None),
        Guard::Absent => ("absent", None),
        Guard::At(revision) => ("at", Some(revision.0)),
    };
    let table = define.table();
    let queue = (table == Table::Queues).then(|| escape(define.name.as_str()));
    let most = Time::MAX.as_millis().unsigned_abs();
    Ok(map! {
        "op" => "define", "table" => word(&table)?, "name" => define.name.as_str(),
        "guard" => guard, "revision"? revision, "value"? value, "cursor"? cursor,
        "expires"? define.expires_after.map(|span| span.as_millis().min(most)),
        "queue"? queue, "paused" => paused,
    })
}

fn read_defined(reply: Reply) -> Result<Defined, Error> {
    let [status, revision] = reply.parts()?;
    if status.text()? == "stale" {
        return Ok(Defined::Stale);
    }
    Ok(Defined::Yes(Revision(revision.id()?)))
}

fn read_entry(reply: Reply) -> Result<Entry, Error> {
    let [name, revision, expires, value, cursor] = reply.parts()?;
    let mut value = read_value(&value.bytes()?)?;
    if let Value::Schedule(schedule) = &mut value {
        schedule.cursor = Time::from_millis(cursor.number()?);
    }
    let expires_at =
        if expires.is_nil() { None } else { Some(Time::from_millis(expires.number()?)) };
    let name = Name::try_from(name.text()?)?;
    Ok(Entry { name, value, revision: Revision(revision.id()?), expires_at })
}

impl Redis {
    pub(super) async fn define_all(&self, definitions: Vec<Define>) -> Result<Vec<Defined>, Error> {
        let ops = definitions.iter().map(define_op).collect::<Result<_, _>>()?;
        let slot = self.layout.registry();
        let Ran { dirty, answers, .. } = self.run(slot, ops).await?;
        self.settle(dirty.then_some(slot)).await?;
        answers.into_iter().map(read_defined).collect()
    }

    pub(super) async fn read_entries(
        &self,
        table: Table,
        after: Option<Name>,
        n: usize,
    ) -> Result<Vec<Entry>, Error> {
        let op = map! {
            "op" => "entries", "table" => word(&table)?, "n" => n.min(MOST),
            "after"? after.as_ref().map(Name::as_str),
        };
        let rows = self.run_one(self.layout.registry(), op).await?.0.list()?;
        rows.into_iter().map(read_entry).collect()
    }

    /// Entries by name, as bytes.
    pub(super) async fn values(
        &self,
        table: Table,
        names: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let names = Arg::list(names.iter().cloned());
        let op = map! { "op" => "values", "table" => word(&table)?, "names" => names };
        let rows = self.run_one(self.layout.registry(), op).await?.0.list()?;
        let read = |row: Reply| if row.is_nil() { Ok(None) } else { row.bytes().map(Some) };
        rows.into_iter().map(read).collect()
    }

    pub(super) async fn read_group(&self, id: GroupId) -> Result<Option<Group>, Error> {
        let op = map! { "op" => "read_group", "id" => id.0 };
        let reply = self.run_one(self.layout.of_group(id), op).await?.0;
        if reply.is_nil() { Ok(None) } else { read_group(reply).map(Some) }
    }
}
