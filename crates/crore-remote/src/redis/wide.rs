//! A push that needs several slots: it holds the locks and asks how things stand, then commits at
//! home, with the rest as messages.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::job::Thing;
use crore_core::push::{AfterRef, GroupRef};
use crore_core::{GroupId, JobId};
use crore_store::Error;

use super::names::Slot;
use super::pack::{Arg, map};
use super::plan::{Facts, Frees, Load, locks, plan, slot_of};
use super::push::{Busy, Commit, Written, read_commit};
use super::record::thing_text;
use super::reply::{Reply, damaged};
use super::together::together;
use super::{Ran, Redis};

/// How long after it held its locks a push may still commit, in milliseconds.
const COMMIT_WITHIN: i64 = 5_000;

/// What a slot is asked before a commit.
#[derive(Default)]
struct Ask {
    groups: usize,
    places: Vec<usize>,
    locks: BTreeSet<String>,
    things: BTreeSet<Thing>,
}

/// What the slots answered.
struct Held {
    facts: Facts,
    /// Until when it may be committed, by the home's clock.
    deadline: i64,
    busy: Option<Busy>,
}

impl Held {
    /// Takes in what a slot answered, and gives its time.
    fn take_in(
        &mut self,
        shards: usize,
        slot: Slot,
        ask: &Ask,
        reply: Reply,
    ) -> Result<i64, Error> {
        let facts = &mut self.facts;
        let [first, locks, things, now] = reply.parts()?;
        let mut ids = (first.id()?..).step_by(shards.max(1));
        facts.groups.extend(ids.by_ref().take(ask.groups).map(GroupId));
        for (place, id) in ask.places.iter().zip(ids) {
            if let Some(job) = facts.jobs.get_mut(*place) {
                *job = JobId(id);
            }
        }
        for (name, lock) in ask.locks.iter().zip(locks.list()?) {
            let [status, a, b, c, d] = lock.parts()?;
            match status.text()?.as_str() {
                "held" => facts.held.push((slot, name.clone())),
                "taken" => {
                    facts.taken.insert(name.clone(), JobId(a.id()?));
                }
                _ => self.busy = Some(Busy::read(slot, [a, b, c, d])?),
            }
        }
        for (thing, fact) in ask.things.iter().zip(things.list()?) {
            facts.learn(*thing, fact)?;
        }
        now.number()
    }
}

impl Redis {
    pub(super) async fn commit_wide(
        &self,
        guard: Vec<(&'static str, Arg)>,
        load: Load<'_>,
    ) -> Result<Commit, Error> {
        let token = self.token();
        let Held { mut facts, deadline, busy } = self.hold(load, &token).await?;
        if let Some(busy) = busy {
            self.unhold(&token, &facts.held).await?;
            return Ok(Commit::Busy(busy));
        }
        let freed = self.freed(load, &mut facts);
        self.look_at_duplicates(&mut facts).await?;
        if let Some(removed) = load.frees.removed {
            facts.states.remove(&removed);
        }
        let mut plan = plan(&self.layout, load, &facts)?;
        let mut held: BTreeMap<Slot, Vec<String>> = BTreeMap::new();
        for (slot, name) in &facts.held {
            held.entry(*slot).or_default().push(name.clone());
        }
        for (slot, names) in held {
            let names = Arg::list(names);
            let unhold = map! { "op" => "unhold", "names" => names, "token" => token.as_str() };
            plan.ops.entry(slot).or_default().push(unhold);
        }
        let home = plan.ops.remove(&load.home).unwrap_or_default();
        let out = plan.ops.into_iter().map(|(to, ops)| Arg::List(vec![to.into(), Arg::List(ops)]));
        let mut fields = guard;
        fields.push(("op", "commit".into()));
        fields.push(("deadline", deadline.into()));
        fields.push(("freed", Arg::list(freed)));
        fields.push(("ops", Arg::List(home)));
        fields.push(("out", Arg::List(out.collect())));
        let Ran { now, dirty, answers } = self.run(load.home, vec![Arg::Map(fields)]).await?;
        let reply = answers.into_iter().next().ok_or_else(|| damaged("no answer"))?;
        let commit = read_commit(load.home, now, reply)?;
        let Commit::Yes(written) = commit else {
            self.unhold(&token, &facts.held).await?;
            return Ok(commit);
        };
        self.settle(dirty.then_some(load.home)).await?;
        Ok(Commit::Yes(Written { groups: facts.groups, jobs: plan.answers, ..written }))
    }

    /// Holds the locks, gets ids and asks how things stand: one script for each slot.
    async fn hold(&self, load: Load<'_>, token: &str) -> Result<Held, Error> {
        let asks = self.asks(load);
        let one = |slot: Slot, ask: &Ask| {
            let op = map! {
                "op" => "reserve", "home" => load.home, "token" => token,
                "ids" => ask.groups + ask.places.len(),
                "locks" => Arg::list(ask.locks.iter().cloned()),
                "things" => Arg::list(ask.things.iter().copied().map(thing_text)),
            };
            async move { self.run_one(slot, op).await }
        };
        let answers = together(asks.iter().map(|(slot, ask)| one(*slot, ask)).collect()).await;
        let jobs = vec![JobId(0); load.jobs.len()];
        let mut held = Held { facts: Facts { jobs, ..Facts::default() }, deadline: 0, busy: None };
        for ((slot, ask), answer) in asks.iter().zip(answers) {
            let now = held.take_in(self.shards(), *slot, ask, answer?.0)?;
            if *slot == load.home {
                held.deadline = now.saturating_add(COMMIT_WITHIN);
            }
        }
        Ok(held)
    }

    /// Locks at home that the write itself frees: they are not taken, if they still are the job's when
    /// it is written.
    fn freed(&self, load: Load<'_>, facts: &mut Facts) -> Vec<String> {
        let own = |name: &str, id: JobId| {
            let Frees { key_of, removed } = load.frees;
            let of = if name.starts_with("u:") { key_of } else { removed };
            Some(id) == of && self.layout.of_text(name) == load.home
        };
        let names = facts.taken.extract_if(|name, id| own(name, *id));
        names.map(|(name, _)| name).collect()
    }

    /// What each slot is asked; the home always, for its time.
    fn asks(&self, load: Load<'_>) -> BTreeMap<Slot, Ask> {
        let mut asks: BTreeMap<Slot, Ask> = BTreeMap::new();
        // Groups live among jobs: those of a tick, whose home is the registry, do not exist.
        asks.entry(load.home).or_default().groups = load.groups.len();
        for (place, job) in load.jobs.iter().enumerate() {
            asks.entry(load.slot(&self.layout, job)).or_default().places.push(place);
            for (slot, name) in locks(&self.layout, job) {
                asks.entry(slot).or_default().locks.insert(name);
            }
            let group = match job.group {
                Some(GroupRef::Id(id)) => Some(Thing::Group(id)),
                _ => None,
            };
            let after = job.after.iter().filter_map(|after| match after.on {
                AfterRef::Job(id) => Some(Thing::Job(id)),
                AfterRef::Group(GroupRef::Id(id)) => Some(Thing::Group(id)),
                AfterRef::Earlier(_) | AfterRef::Group(GroupRef::New(_)) => None,
            });
            for thing in group.into_iter().chain(after) {
                let slot = slot_of(&self.layout, thing);
                asks.entry(slot).or_default().things.insert(thing);
            }
        }
        asks
    }

    /// Jobs that hold a lock may be meant by others of the batch: how they stand has to be known.
    async fn look_at_duplicates(&self, facts: &mut Facts) -> Result<(), Error> {
        let mut things: BTreeMap<Slot, Vec<Thing>> = BTreeMap::new();
        for id in facts.taken.values().collect::<BTreeSet<_>>() {
            things.entry(self.layout.of_job(*id)).or_default().push(Thing::Job(*id));
        }
        for (slot, things) in things {
            let none = || Arg::List(Vec::new());
            let look = map! {
                "op" => "reserve", "home" => slot, "token" => "", "ids" => 0_i64,
                "locks" => none(),
                "things" => Arg::list(things.iter().copied().map(thing_text)),
            };
            let [_, _, states] = self.run_one(slot, look).await?.0.parts()?;
            for (thing, fact) in things.into_iter().zip(states.list()?) {
                facts.learn(thing, fact)?;
            }
        }
        Ok(())
    }

    async fn unhold(&self, token: &str, held: &[(Slot, String)]) -> Result<(), Error> {
        for (slot, name) in held {
            let names = Arg::list([name.as_str()]);
            self.run_one(*slot, map! { "op" => "unhold", "names" => names, "token" => token })
                .await?;
        }
        Ok(())
    }
}
