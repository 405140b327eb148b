//! Renews leases and reads jobs: one script per shard.

use std::collections::BTreeMap;
use std::sync::Arc;

use crore_core::{Job, JobId, Time};
use crore_store::Error;
use crore_store::jobs::{JobSelector, Renew, Renewed};

use super::Redis;
use super::connection::LuaScript;
use super::join_all::join_all;
use super::names::{SlotIndex, client_lock, unique_lock};
use super::pack::{Arg, map};
use super::record;
use super::reply::ScriptReply;

impl Redis {
    pub(super) async fn renew_all(&self, leases: Vec<Renew>) -> Result<Vec<Renewed>, Error> {
        let most = Time::MAX.as_millis().unsigned_abs();
        let rows = leases.iter().map(|lease| {
            let slot = self.layout.of_job(lease.id);
            let span = lease.span.map(|span| span.as_millis().min(most));
            let tick = self.layout.tick(slot, lease.delivery);
            (slot, map! { "id" => lease.id.0, "delivery" => tick, "span"? span })
        });
        let answers = self.by_shard(&self.scripts.renew, "leases", rows.collect()).await?;
        answers.into_iter().map(read_renewed).collect()
    }

    pub(super) async fn get_all(&self, which: Vec<JobSelector>) -> Result<Vec<Option<Job>>, Error> {
        let ids = self.ids_of(which).await?;
        // Greater numbers cannot be ids: a Lua script counts only up to 2^53.
        let row = |id: &JobId| (self.layout.of_job(*id), id.0.min(1 << 53).into());
        let rows = ids.iter().map(row).collect();
        let answers = self.by_shard(&self.scripts.get, "ids", rows).await?;
        let read = |(id, reply)| record::read(&self.layout, id, reply);
        ids.into_iter().zip(answers).map(read).collect()
    }

    /// The ids of the selected jobs. Client ids are looked up in the slots of their locks, one script per
    /// slot; an unknown one becomes an id that no job ever gets.
    async fn ids_of(&self, which: Vec<JobSelector>) -> Result<Vec<JobId>, Error> {
        let clients = which.iter().filter_map(|which| match which {
            JobSelector::Client(client) => Some(client_lock(client)),
            JobSelector::Id(_) => None,
        });
        let mut holders = self.lock_holders(clients).await?.into_iter();
        let mut id = |which| match which {
            JobSelector::Id(id) => id,
            JobSelector::Client(_) => holders.next().flatten().unwrap_or(JobId(0)),
        };
        Ok(which.into_iter().map(&mut id).collect())
    }

    /// The jobs that hold unique keys.
    pub(super) async fn holders_of(
        &self,
        keys: Vec<Arc<str>>,
    ) -> Result<Vec<Option<JobId>>, Error> {
        self.lock_holders(keys.iter().map(|key| unique_lock(key))).await
    }

    /// The jobs that hold locks, by the names of the locks; one script per slot.
    async fn lock_holders(
        &self,
        names: impl Iterator<Item = String>,
    ) -> Result<Vec<Option<JobId>>, Error> {
        let rows: Vec<_> = names.map(|name| (self.layout.of_text(&name), name.into())).collect();
        let holders = self.by_shard(&self.scripts.holders, "names", rows).await?;
        let one = |reply: ScriptReply| match reply.is_nil() {
            true => Ok(None),
            false => reply.id().map(|id| Some(JobId(id))),
        };
        holders.into_iter().map(one).collect()
    }

    /// Runs one script per shard with its rows. Returns the answers in the order of the rows.
    async fn by_shard(
        &self,
        script: &LuaScript,
        field: &'static str,
        rows: Vec<(SlotIndex, Arg)>,
    ) -> Result<Vec<ScriptReply>, Error> {
        let mut slots: BTreeMap<SlotIndex, (Vec<usize>, Vec<Arg>)> = BTreeMap::new();
        let count = rows.len();
        for (index, (slot, row)) in rows.into_iter().enumerate() {
            let (indices, args) = slots.entry(slot).or_default();
            indices.push(index);
            args.push(row);
        }
        let one = |slot: SlotIndex, indices: Vec<usize>, args: Vec<Arg>| async move {
            let reply =
                self.in_slot(script, slot, Arg::Map(vec![(field, Arg::List(args))])).await?;
            Ok::<_, Error>((indices, reply.list()?))
        };
        let asked = slots.into_iter().map(|(slot, (indices, args))| one(slot, indices, args));
        let mut answers: Vec<ScriptReply> = Vec::new();
        answers.resize_with(count, || ScriptReply(redis::Value::Nil));
        for answer in join_all(asked.collect()).await {
            let (indices, replies) = answer?;
            for (index, reply) in indices.into_iter().zip(replies) {
                if let Some(row) = answers.get_mut(index) {
                    *row = reply;
                }
            }
        }
        Ok(answers)
    }
}

fn read_renewed(reply: ScriptReply) -> Result<Renewed, Error> {
    if reply.is_nil() {
        return Ok(Renewed::Stale);
    }
    let [until, stop] = reply.parts()?;
    Ok(Renewed::Until { until: Time::from_millis(until.number()?), stop: stop.number()? == 1 })
}
