//! A push that needs several slots: it takes the locks and reads the states in all of them, then commits in one
//! slot, its home. The home's outbox carries the writes to the other slots as messages.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::job::DependencyTarget;
use crore_core::push::{GroupRef, NewDependencyTarget};
use crore_core::{GroupId, JobId};
use crore_store::Error;

use super::join_all::join_all;
use super::names::SlotIndex;
use super::pack::{Arg, map};
use super::plan::{FreedLocks, PushInput, SlotFacts, locks, plan, slot_of};
use super::push::{Commit, HeldLock, Written, read_commit};
use super::record::target_text;
use super::reply::{ScriptReply, corrupt};
use super::{Redis, ScriptRun};

/// How long after taking its locks a push may still commit, in milliseconds.
const COMMIT_WITHIN_MILLIS: i64 = 5_000;

/// The query to a slot before a commit.
#[derive(Default)]
struct SlotQuery {
    groups: usize,
    indexes: Vec<usize>,
    locks: BTreeSet<String>,
    targets: BTreeSet<DependencyTarget>,
}

/// The answers of the slots.
struct LockReservation {
    facts: SlotFacts,
    /// The latest time of the commit, by the home's clock.
    deadline: i64,
    busy: Option<HeldLock>,
}

impl LockReservation {
    /// Adds the answer of a slot, and returns the time of the slot's clock.
    fn add(
        &mut self,
        shards: usize,
        slot: SlotIndex,
        query: &SlotQuery,
        reply: ScriptReply,
    ) -> Result<i64, Error> {
        let facts = &mut self.facts;
        let [first, locks, things, now] = reply.parts()?;
        let mut ids = (first.id()?..).step_by(shards.max(1));
        facts.groups.extend(ids.by_ref().take(query.groups).map(GroupId));
        for (index, id) in query.indexes.iter().zip(ids) {
            if let Some(job) = facts.jobs.get_mut(*index) {
                *job = JobId(id);
            }
        }
        for (name, lock) in query.locks.iter().zip(locks.list()?) {
            let [status, a, b, c, d] = lock.parts()?;
            match status.text()?.as_str() {
                "held" => facts.held.push((slot, name.clone())),
                "taken" => {
                    facts.taken.insert(name.clone(), JobId(a.id()?));
                }
                _ => self.busy = Some(HeldLock::read(slot, [a, b, c, d])?),
            }
        }
        for (thing, fact) in query.targets.iter().zip(things.list()?) {
            facts.add(*thing, fact)?;
        }
        now.number()
    }
}

impl Redis {
    pub(super) async fn commit_multi_slot(
        &self,
        guard: Vec<(&'static str, Arg)>,
        input: PushInput<'_>,
    ) -> Result<Commit, Error> {
        let token = self.token();
        let LockReservation { mut facts, deadline, busy } =
            self.reserve_locks(input, &token).await?;
        if let Some(busy) = busy {
            self.release_locks(&token, &facts.held).await?;
            return Ok(Commit::Busy(busy));
        }
        let freed = self.freed(input, &mut facts);
        self.load_duplicates(&mut facts).await?;
        if let Some(removed) = input.freed.removed {
            facts.states.remove(&removed);
        }
        facts.parent_group = self.parent_group(input).await?;
        let mut plan = plan(&self.layout, input, &facts)?;
        let mut held: BTreeMap<SlotIndex, Vec<String>> = BTreeMap::new();
        for (slot, name) in &facts.held {
            held.entry(*slot).or_default().push(name.clone());
        }
        for (slot, names) in held {
            let names = Arg::list(names);
            let unhold = map! { "op" => "unhold", "names" => names, "token" => token.as_str() };
            plan.ops.entry(slot).or_default().push(unhold);
        }
        let home = plan.ops.remove(&input.home).unwrap_or_default();
        let out = plan.ops.into_iter().map(|(to, ops)| Arg::List(vec![to.into(), Arg::List(ops)]));
        let mut fields = guard;
        fields.push(("op", "commit".into()));
        fields.push(("deadline", deadline.into()));
        fields.push(("freed", Arg::list(freed)));
        fields.push(("joined", Arg::list(plan.joined.iter().map(|id| id.0))));
        fields.push(("ops", Arg::List(home)));
        fields.push(("out", Arg::List(out.collect())));
        let ScriptRun { now, dirty, replies: answers } =
            self.run(input.home, vec![Arg::Map(fields)]).await?;
        let reply = answers.into_iter().next().ok_or_else(|| corrupt("no answer"))?;
        let commit = read_commit(input.home, now, reply)?;
        let Commit::Yes(written) = commit else {
            self.release_locks(&token, &facts.held).await?;
            return Ok(commit);
        };
        self.deliver_after_commit(dirty.then_some(input.home)).await?;
        Ok(Commit::Yes(Written { groups: facts.groups, jobs: plan.answers, ..written }))
    }

    /// Takes the locks, allocates ids and reads states: one script per slot.
    async fn reserve_locks(
        &self,
        input: PushInput<'_>,
        token: &str,
    ) -> Result<LockReservation, Error> {
        let queries = self.slot_queries(input);
        let one = |slot: SlotIndex, query: &SlotQuery| {
            let op = map! {
                "op" => "reserve", "home" => input.home, "token" => token,
                "ids" => query.groups + query.indexes.len(),
                "locks" => Arg::list(query.locks.iter().cloned()),
                "things" => Arg::list(query.targets.iter().copied().map(target_text)),
            };
            async move { self.run_one(slot, op).await }
        };
        let answers =
            join_all(queries.iter().map(|(slot, query)| one(*slot, query)).collect()).await;
        let jobs = vec![JobId(0); input.jobs.len()];
        let mut held = LockReservation {
            facts: SlotFacts { jobs, ..SlotFacts::default() },
            deadline: 0,
            busy: None,
        };
        for ((slot, query), answer) in queries.iter().zip(answers) {
            let now = held.add(self.shards(), *slot, query, answer?.0)?;
            if *slot == input.home {
                held.deadline = now.saturating_add(COMMIT_WITHIN_MILLIS);
            }
        }
        Ok(held)
    }

    /// Locks in the home that the write itself frees. They count as free; the commit checks that they still
    /// belong to the job.
    fn freed(&self, input: PushInput<'_>, facts: &mut SlotFacts) -> Vec<String> {
        let own = |name: &str, id: JobId| {
            let FreedLocks { key_of, removed } = input.freed;
            let of = if name.starts_with("u:") { key_of } else { removed };
            Some(id) == of && self.layout.of_text(name) == input.home
        };
        let names = facts.taken.extract_if(|name, id| own(name, *id));
        names.map(|(name, _)| name).collect()
    }

    /// The query for each slot; the home is always included, because its clock sets the deadline.
    fn slot_queries(&self, input: PushInput<'_>) -> BTreeMap<SlotIndex, SlotQuery> {
        let mut queries: BTreeMap<SlotIndex, SlotQuery> = BTreeMap::new();
        // Groups live in shards. A tick, whose home is the registry, creates none.
        queries.entry(input.home).or_default().groups = input.groups.len();
        for (index, job) in input.jobs.iter().enumerate() {
            queries.entry(input.slot(&self.layout, job)).or_default().indexes.push(index);
            for (slot, name) in locks(&self.layout, job) {
                queries.entry(slot).or_default().locks.insert(name);
            }
            let group = match job.group {
                Some(GroupRef::Id(id)) => Some(DependencyTarget::Group(id)),
                _ => None,
            };
            let after = job.after.iter().filter_map(|after| match after.on {
                NewDependencyTarget::Job(id) => Some(DependencyTarget::Job(id)),
                NewDependencyTarget::Group(GroupRef::Id(id)) => Some(DependencyTarget::Group(id)),
                NewDependencyTarget::Earlier(_) | NewDependencyTarget::Group(GroupRef::New(_)) => {
                    None
                }
            });
            for thing in group.into_iter().chain(after) {
                let slot = slot_of(&self.layout, thing);
                queries.entry(slot).or_default().targets.insert(thing);
            }
        }
        queries
    }

    /// The group of the parent, if a follow-up joins a group. The group of a job never changes.
    async fn parent_group(&self, input: PushInput<'_>) -> Result<Option<GroupId>, Error> {
        let Some(parent) =
            input.parent.filter(|_| input.jobs.iter().any(|job| job.group.is_some()))
        else {
            return Ok(None);
        };
        let op = map! { "op" => "group_of", "id" => parent.0 };
        let reply = self.run_one(self.layout.of_job(parent), op).await?.0;
        if reply.is_nil() { Ok(None) } else { Ok(Some(GroupId(reply.id()?))) }
    }

    /// Loads the states of the jobs that hold taken locks: later jobs of the batch may refer to them.
    async fn load_duplicates(&self, facts: &mut SlotFacts) -> Result<(), Error> {
        let mut things: BTreeMap<SlotIndex, Vec<DependencyTarget>> = BTreeMap::new();
        for id in facts.taken.values().collect::<BTreeSet<_>>() {
            things.entry(self.layout.of_job(*id)).or_default().push(DependencyTarget::Job(*id));
        }
        for (slot, things) in things {
            let none = || Arg::List(Vec::new());
            let look = map! {
                "op" => "reserve", "home" => slot, "token" => "", "ids" => 0_i64,
                "locks" => none(),
                "things" => Arg::list(things.iter().copied().map(target_text)),
            };
            let [_, _, states] = self.run_one(slot, look).await?.0.parts()?;
            for (thing, fact) in things.into_iter().zip(states.list()?) {
                facts.add(thing, fact)?;
            }
        }
        Ok(())
    }

    async fn release_locks(&self, token: &str, held: &[(SlotIndex, String)]) -> Result<(), Error> {
        for (slot, name) in held {
            let names = Arg::list([name.as_str()]);
            self.run_one(*slot, map! { "op" => "unhold", "names" => names, "token" => token })
                .await?;
        }
        Ok(())
    }
}
