//! Pushing: in one script where one slot has it all, else in three steps (see the module's page).

use std::time::Duration;

use crore_core::job::When;
use crore_core::push::GroupRef;
use crore_core::{Batch, GroupId, JobId, NewJob, Time};
use crore_store::Error;
use crore_store::jobs::{Pushed, Pushes};

use super::link::{pause, unavailable};
use super::names::{Layout, Slot, client_lock, unique_lock};
use super::pack::{Arg, map};
use super::plan::{Frees, Load};
use super::record::{spec_fields, word};
use super::reply::{Reply, damaged};
use super::{Ran, Redis};

/// After so long a held lock is let go, if its push has not committed: longer than it may still
/// commit, since nodes' clocks may differ.
const HELD_FOR: i64 = 15_000;
/// How often a push that met another one under way tries again.
const TRIES: u32 = 200;

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

impl Busy {
    /// Reads what a script says after the word `busy`.
    pub(super) fn read(slot: Slot, [home, token, name, age]: [Reply; 4]) -> Result<Self, Error> {
        let home = usize::try_from(home.number()?).map_err(|_| damaged("a slot is negative"))?;
        Ok(Self { slot, home, token: token.text()?, name: name.text()?, age: age.number()? })
    }
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
        "busy" => Busy::read(slot, [a, b, c, d]).map(Commit::Busy),
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
    pub(super) async fn push_batch(&self, batch: Batch) -> Result<Pushes, Error> {
        let load = Load {
            home: self.home(&batch),
            groups: &batch.groups,
            jobs: &batch.jobs,
            parent: None,
            frees: Frees::default(),
        };
        match self.commit(Vec::new(), load).await? {
            Some(written) => Ok(Pushes {
                now: Time::from_millis(written.now),
                groups: written.groups,
                jobs: written.jobs,
            }),
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
        for nth in 0..TRIES {
            let commit = if load.is_plain(&self.layout) {
                self.commit_plain(guard.clone(), load).await?
            } else {
                self.commit_wide(guard.clone(), load).await?
            };
            match commit {
                Commit::Yes(written) => return Ok(Some(written)),
                Commit::Stale => return Ok(None),
                Commit::Busy(busy) => {
                    self.get_past(busy).await?;
                    pause(self.patience(nth)).await;
                }
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
        Ok(())
    }

    /// A while that grows, and that differs from one push to the next, so that two which met do not
    /// meet again for ever.
    fn patience(&self, nth: u32) -> Duration {
        let most = 1 << nth.min(5);
        let some = self.layout.spread(&self.token()) % most;
        Duration::from_millis(1 + some)
    }
}
