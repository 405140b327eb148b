//! Pushing: in one script where one slot has it all, else in three steps (see the module's page).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crore_core::job::{Thing, When};
use crore_core::push::{AfterRef, GroupRef};
use crore_core::{Batch, GroupId, JobId, NewJob, Time};
use crore_store::jobs::{Pushed, Pushes};
use crore_store::{Committed, Error};

use super::link::unavailable;
use super::names::{Layout, Slot, client_lock, unique_lock};
use super::pack::{Arg, map};
use super::plan::{Facts, Load, locks, plan, slot_of};
use super::record::{spec_fields, thing_text, word};
use super::reply::{Reply, damaged};
use super::together::together;
use super::{Ran, Redis};

/// How long after it held its locks a push may still commit, in milliseconds.
const COMMIT_WITHIN: i64 = 5_000;
/// After so long a held lock is let go, if its push has not committed: nodes' clocks may differ.
const HELD_FOR: i64 = 15_000;
/// How often, and after how long, a push that met another one under way tries again.
const TRIES: u32 = 1_000;
const TRY_AFTER: Duration = Duration::from_millis(2);

/// What became of a commit.
pub(super) enum Commit {
    Yes(Written),
    Stale,
    /// Another push under way has to be finished first.
    Busy(Busy),
    Late,
}

#[derive(Default)]
pub(super) struct Written {
    pub(super) now: i64,
    pub(super) groups: Vec<GroupId>,
    pub(super) jobs: Vec<Pushed>,
    /// Permits to return: the lane that they are for, and their tokens.
    pub(super) permits: Option<(String, String)>,
}

/// A lock that a push under way holds.
pub(super) struct Busy {
    slot: Slot,
    home: Slot,
    token: String,
    name: String,
    age: i64,
}

/// The fields of a job to put, as scripts take them.
pub(super) fn put_fields(
    layout: &Layout,
    slot: Slot,
    job: &NewJob,
    parent: Option<(JobId, usize)>,
) -> Result<Vec<(&'static str, Arg)>, Error> {
    let spec = &job.spec;
    let mut fields = spec_fields(spec)?;
    fields.push(("payload", spec.payload.bytes.to_vec().into()));
    fields.extend(due_fields(job.due));
    if let Some(unique) = &spec.unique {
        fields.push(("unique", unique_lock(&unique.key).into()));
        fields.push(("hold", word(&unique.hold)?.into()));
        fields.extend(unique.window.map(|window| ("window", window.as_millis().into())));
    }
    if let Some(client) = &spec.client_id {
        let name = client_lock(client);
        let at = layout.of_text(&name);
        fields.push(("client", name.into()));
        if at != slot {
            fields.push(("client_shard", at.into()));
        }
    }
    if let Some((id, nth)) = parent {
        fields.push(("parent", format!("{id}:{nth}").into()));
    } else if let Some((id, nth)) = spec.parent {
        fields.push(("parent", format!("{id}:{nth}").into()));
    }
    Ok(fields)
}

pub(super) fn due_fields(due: When) -> Vec<(&'static str, Arg)> {
    match due {
        When::Now => vec![("due", "now".into())],
        When::Keep => vec![("due", "keep".into())],
        When::At(time) => vec![("due", "at".into()), ("due_ms", time.as_millis().into())],
        When::After(span) => {
            let most = Time::MAX.as_millis().unsigned_abs();
            vec![("due", "after".into()), ("due_ms", span.as_millis().min(most).into())]
        }
    }
}

/// Reads the answer of a commit.
pub(super) fn read_commit(slot: Slot, now: i64, reply: Reply) -> Result<Commit, Error> {
    let [status, a, b, c, d] = reply.parts()?;
    match status.text()?.as_str() {
        "stale" => Ok(Commit::Stale),
        "late" => Ok(Commit::Late),
        "busy" => {
            let home = usize::try_from(a.number()?).map_err(|_| damaged("a slot is negative"))?;
            Ok(Commit::Busy(Busy { slot, home, token: b.text()?, name: c.text()?, age: d.number()? }))
        }
        "yes" => {
            let jobs = a.list()?.into_iter().map(read_pushed).collect::<Result<_, _>>()?;
            let permits = if b.is_nil() {
                None
            } else {
                let [lane, tokens] = b.parts()?;
                Some((lane.text()?, tokens.text()?))
            };
            Ok(Commit::Yes(Written { now, groups: Vec::new(), jobs, permits }))
        }
        other => Err(damaged(format!("a commit answered `{other}`"))),
    }
}

fn read_pushed(reply: Reply) -> Result<Pushed, Error> {
    let [status, id] = reply.parts()?;
    let id = JobId(id.id()?);
    if status.text()? == "new" { Ok(Pushed::New(id)) } else { Ok(Pushed::Duplicate(id)) }
}

/// A commit that one script can do.
pub(super) fn plain_commit(
    layout: &Layout,
    guard: Vec<(&'static str, Arg)>,
    load: Load<'_>,
) -> Result<Arg, Error> {
    let mut fields = guard;
    let put = |(nth, job)| {
        put_fields(layout, load.home, job, load.parent.map(|id| (id, nth))).map(Arg::Map)
    };
    let puts: Vec<Arg> = load.jobs.iter().enumerate().map(put).collect::<Result<_, _>>()?;
    fields.push(("op", "commit".into()));
    if !puts.is_empty() {
        fields.push(("puts", Arg::List(puts)));
    }
    Ok(Arg::Map(fields))
}

impl Redis {
    pub(super) async fn push_batch(&self, batch: Batch) -> Result<Committed<Pushes>, Error> {
        let load = Load {
            home: self.home(&batch),
            groups: &batch.groups,
            jobs: &batch.jobs,
            parent: None,
        };
        match self.commit(Vec::new(), load).await? {
            Some(written) => Ok(Committed::synced(Pushes {
                now: Time::from_millis(written.now),
                groups: written.groups,
                jobs: written.jobs,
            })),
            None => Err(damaged("a push without a guard was stale")),
        }
    }

    /// Where a batch is at home: by its first job's key, group or queue.
    fn home(&self, batch: &Batch) -> Slot {
        let Some(first) = batch.jobs.first() else { return self.layout.of_text(&self.token()) };
        self.layout.forced(first).unwrap_or_else(|| match first.group {
            Some(GroupRef::Id(id)) => self.layout.of_group(id),
            _ => self.layout.of_text(first.spec.queue.as_str()),
        })
    }

    /// Commits a guarded change and a push as one. `None`: what it was based on is not so any more.
    pub(super) async fn commit(
        &self,
        guard: Vec<(&'static str, Arg)>,
        load: Load<'_>,
    ) -> Result<Option<Written>, Error> {
        for _ in 0..TRIES {
            let commit = if load.is_plain(&self.layout) {
                self.commit_plain(guard.clone(), load).await?
            } else {
                self.commit_wide(guard.clone(), load).await?
            };
            match commit {
                Commit::Yes(written) => return Ok(Some(written)),
                Commit::Stale => return Ok(None),
                Commit::Busy(busy) => self.get_past(busy).await?,
                Commit::Late => {}
            }
        }
        Err(unavailable("other pushes hold the same keys"))
    }

    async fn commit_plain(
        &self,
        guard: Vec<(&'static str, Arg)>,
        load: Load<'_>,
    ) -> Result<Commit, Error> {
        let op = plain_commit(&self.layout, guard, load)?;
        let Ran { now, dirty, answers } = self.run(load.home, vec![op]).await?;
        let reply = answers.into_iter().next().ok_or_else(|| damaged("no answer"))?;
        self.settle(dirty.then_some(load.home)).await?;
        read_commit(load.home, now, reply)
    }

    /// Lets another push that is under way come to its end, or ends it if it will not.
    pub(super) async fn get_past(&self, busy: Busy) -> Result<(), Error> {
        self.settle([busy.home]).await?;
        if busy.age > HELD_FOR {
            let names = Arg::list([busy.name]);
            let unhold = map! { "op" => "unhold", "names" => names, "token" => busy.token };
            self.run_one(busy.slot, unhold).await?;
        }
        tokio::time::sleep(TRY_AFTER).await;
        Ok(())
    }

    async fn commit_wide(
        &self,
        guard: Vec<(&'static str, Arg)>,
        load: Load<'_>,
    ) -> Result<Commit, Error> {
        let token = self.token();
        let (mut facts, deadline, busy) = self.hold(load, &token).await?;
        if let Some(busy) = busy {
            self.unhold(&token, &facts.held).await?;
            return Ok(Commit::Busy(busy));
        }
        self.look_at_duplicates(&mut facts).await?;
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
    async fn hold(
        &self,
        load: Load<'_>,
        token: &str,
    ) -> Result<(Facts, i64, Option<Busy>), Error> {
        let asks = self.asks(load);
        let one = |slot: Slot, ask: &Ask| {
            let op = map! {
                "op" => "reserve", "home" => load.home, "token" => token,
                "ids" => ask.groups + ask.places.len(),
                "locks" => Arg::list(ask.locks.iter().cloned()),
                "things" => Arg::list(ask.things.iter().cloned()),
            };
            async move { self.run_one(slot, op).await }
        };
        let answers = together(asks.iter().map(|(slot, ask)| one(*slot, ask)).collect()).await;
        let mut facts =
            Facts { jobs: vec![JobId(0); load.jobs.len()], ..Facts::default() };
        let (mut deadline, mut busy) = (0, None);
        for ((slot, ask), answer) in asks.iter().zip(answers) {
            let now = take_in(&mut facts, &mut busy, self.shards(), *slot, ask, answer?.0)?;
            if *slot == load.home {
                deadline = now.saturating_add(COMMIT_WITHIN);
            }
        }
        Ok((facts, deadline, busy))
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
                asks.entry(slot).or_default().things.insert(thing_text(thing));
            }
        }
        asks
    }

    /// Jobs that hold a lock may be meant by others of the batch: how they stand has to be known.
    async fn look_at_duplicates(&self, facts: &mut Facts) -> Result<(), Error> {
        let mut things: BTreeMap<Slot, Vec<String>> = BTreeMap::new();
        for id in facts.taken.values().collect::<BTreeSet<_>>() {
            let text = thing_text(Thing::Job(*id));
            things.entry(self.layout.of_job(*id)).or_default().push(text);
        }
        for (slot, names) in things {
            let none = || Arg::List(Vec::new());
            let look = map! {
                "op" => "reserve", "home" => slot, "token" => "", "ids" => 0_i64,
                "locks" => none(), "things" => Arg::list(names.clone()),
            };
            let [_, _, states] = self.run_one(slot, look).await?.0.parts()?;
            for (name, state) in names.into_iter().zip(states.list()?) {
                facts.things.insert(name, state.text()?);
            }
        }
        Ok(())
    }

    async fn unhold(&self, token: &str, held: &[(Slot, String)]) -> Result<(), Error> {
        for (slot, name) in held {
            let names = Arg::list([name.as_str()]);
            self.run_one(*slot, map! { "op" => "unhold", "names" => names, "token" => token }).await?;
        }
        Ok(())
    }
}

/// What a slot is asked before a commit.
#[derive(Default)]
struct Ask {
    groups: usize,
    places: Vec<usize>,
    locks: BTreeSet<String>,
    things: BTreeSet<String>,
}

fn take_in(
    facts: &mut Facts,
    busy: &mut Option<Busy>,
    shards: usize,
    slot: Slot,
    ask: &Ask,
    reply: Reply,
) -> Result<i64, Error> {
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
            _ => {
                let home = usize::try_from(a.number()?).map_err(|_| damaged("a slot is negative"))?;
                let found = Busy { slot, home, token: b.text()?, name: c.text()?, age: d.number()? };
                *busy = Some(found);
            }
        }
    }
    for (name, state) in ask.things.iter().zip(things.list()?) {
        facts.things.insert(name.clone(), state.text()?);
    }
    now.number()
}
