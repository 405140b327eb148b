//! Definitions, in a slot of their own. Paused queues are sent to every shard.

use crore_core::group::Group;
use crore_core::{GroupId, Name, Revision, Time};
use crore_store::Error;
use crore_store::registry::{
    Define, DefineAction, DefineGuard, Defined, RegistryEntry, RegistryTable, RegistryValue,
};

use super::names::escape;
use super::pack::{Arg, map};
use super::record::{read_group, variant_name};
use super::reply::{ScriptReply, corrupt};
use super::{Redis, ScriptRun};

/// Maximum entries in one answer.
const MAX_ENTRIES: usize = 10_000;

pub(super) fn read_value(bytes: &[u8]) -> Result<RegistryValue, Error> {
    rmp_serde::from_slice(bytes).map_err(|e| corrupt(format!("a definition: {e}")))
}

fn define_op(define: &Define) -> Result<Arg, Error> {
    let (value, cursor, paused) = match &define.action {
        DefineAction::Remove(_) => (None, None, false),
        DefineAction::Set(value) => {
            let bytes = rmp_serde::to_vec_named(value).map_err(|e| corrupt(e.to_string()))?;
            let cursor = match value {
                RegistryValue::Schedule(schedule) => Some(schedule.cursor.as_millis()),
                _ => None,
            };
            (
                Some(bytes),
                cursor,
                matches!(value, RegistryValue::Queue(settings) if settings.paused),
            )
        }
    };
    let (guard, revision) = match define.guard {
        DefineGuard::Any => ("any", None),
        DefineGuard::Absent => ("absent", None),
        DefineGuard::At(revision) => ("at", Some(revision.0)),
    };
    let table = define.table();
    let queue = (table == RegistryTable::Queues).then(|| escape(define.name.as_str()));
    let most = Time::MAX.as_millis().unsigned_abs();
    Ok(map! {
        "joint" => define.joint, "table" => variant_name(&table)?, "name" => define.name.as_str(),
        "guard" => guard, "revision"? revision, "value"? value, "cursor"? cursor,
        "expires"? define.expires_after.map(|span| span.as_millis().min(most)),
        "queue"? queue, "paused" => paused,
    })
}

fn read_defined(reply: ScriptReply) -> Result<Defined, Error> {
    let [status, revision] = reply.parts()?;
    if status.text()? == "stale" {
        return Ok(Defined::Stale);
    }
    Ok(Defined::Yes(Revision(revision.id()?)))
}

fn read_entry(reply: ScriptReply) -> Result<RegistryEntry, Error> {
    let [name, revision, expires, value, cursor] = reply.parts()?;
    let mut value = read_value(&value.bytes()?)?;
    if let RegistryValue::Schedule(schedule) = &mut value {
        schedule.cursor = Time::from_millis(cursor.number()?);
    }
    let expires_at =
        if expires.is_nil() { None } else { Some(Time::from_millis(expires.number()?)) };
    let name = Name::try_from(name.text()?)?;
    Ok(RegistryEntry { name, value, revision: Revision(revision.id()?), expires_at })
}

impl Redis {
    pub(super) async fn define_all(&self, definitions: Vec<Define>) -> Result<Vec<Defined>, Error> {
        let ops = definitions.iter().map(define_op).collect::<Result<_, _>>()?;
        let slot = self.layout.registry();
        let op = map! { "op" => "define", "all" => Arg::List(ops) };
        let ScriptRun { dirty, replies: answers, .. } = self.run(slot, vec![op]).await?;
        self.deliver_after_commit(dirty.then_some(slot)).await?;
        let reply = answers.into_iter().next().ok_or_else(|| corrupt("no answer"))?;
        reply.list()?.into_iter().map(read_defined).collect()
    }

    pub(super) async fn read_entries(
        &self,
        table: RegistryTable,
        after: Option<Name>,
        n: usize,
    ) -> Result<Vec<RegistryEntry>, Error> {
        let op = map! {
            "op" => "entries", "table" => variant_name(&table)?, "n" => n.min(MAX_ENTRIES),
            "after"? after.as_ref().map(Name::as_str),
        };
        let rows = self.run_one(self.layout.registry(), op).await?.0.list()?;
        rows.into_iter().map(read_entry).collect()
    }

    /// Entries by name, as bytes.
    pub(super) async fn values(
        &self,
        table: RegistryTable,
        names: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let names = Arg::list(names.iter().cloned());
        let op = map! { "op" => "values", "table" => variant_name(&table)?, "names" => names };
        let rows = self.run_one(self.layout.registry(), op).await?.0.list()?;
        let read = |row: ScriptReply| if row.is_nil() { Ok(None) } else { row.bytes().map(Some) };
        rows.into_iter().map(read).collect()
    }

    pub(super) async fn read_group(&self, id: GroupId) -> Result<Option<Group>, Error> {
        let op = map! { "op" => "read_group", "id" => id.0 };
        let reply = self.run_one(self.layout.of_group(id), op).await?.0;
        if reply.is_nil() { Ok(None) } else { read_group(reply).map(Some) }
    }
}
