//! Push: one script if a single slot is involved, else three steps (see the module [`redis`](super)).

use std::time::Duration;

use crore_core::group::JobOrigin;
use crore_core::job::DueTime;
use crore_core::push::GroupRef;
use crore_core::{Batch, GroupId, JobId, NewJob, Time};
use crore_store::Error;
use crore_store::jobs::{Pushed, PushedBatch};

use super::connection::{pause, unavailable};
use super::names::{Layout, SlotIndex, client_lock, unique_lock};
use super::pack::{Arg, map};
use super::plan::{FreedLocks, PushInput};
use super::record::{spec_fields, variant_name};
use super::reply::{ScriptReply, corrupt};
use super::{Redis, ScriptRun};

/// Age in milliseconds at which the lock of an uncommitted push is broken. Longer than a push may take to
/// commit, because the clocks of nodes may differ.
const BREAK_LOCK_AFTER_MILLIS: i64 = 15_000;
/// Maximum attempts of a push that meets the locks of others.
const MAX_ATTEMPTS: u32 = 200;

/// The outcome of a commit.
pub(super) enum Commit {
    Yes(Written),
    Stale,
    /// Another unfinished push holds a lock.
    Busy(HeldLock),
    Late,
}

#[derive(Default)]
pub(super) struct Written {
    pub(super) now: i64,
    pub(super) groups: Vec<GroupId>,
    pub(super) jobs: Vec<Pushed>,
    /// Permits to return: their lane, and their tokens.
    pub(super) permits: Option<(String, String)>,
}

/// A lock that an unfinished push holds.
pub(super) struct HeldLock {
    slot: SlotIndex,
    home: SlotIndex,
    token: String,
    name: String,
    age: i64,
}

impl HeldLock {
    /// Reads a script's reply after the word `busy`.
    pub(super) fn read(
        slot: SlotIndex,
        [home, token, name, age]: [ScriptReply; 4],
    ) -> Result<Self, Error> {
        let home = usize::try_from(home.number()?).map_err(|_| corrupt("a slot is negative"))?;
        Ok(Self { slot, home, token: token.text()?, name: name.text()?, age: age.number()? })
    }
}

/// The fields of a new job, as scripts expect them.
pub(super) fn put_fields(
    layout: &Layout,
    slot: SlotIndex,
    job: &NewJob,
    parent: Option<(JobId, usize)>,
) -> Result<Vec<(&'static str, Arg)>, Error> {
    let spec = &job.spec;
    let mut fields = spec_fields(spec)?;
    fields.push(("payload", spec.payload.bytes.to_vec().into()));
    fields.extend(due_fields(job.due));
    if let Some(unique) = &spec.unique {
        fields.push(("unique", unique_lock(&unique.key).into()));
        fields.push(("hold", variant_name(&unique.hold)?.into()));
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

pub(super) fn due_fields(due: DueTime) -> Vec<(&'static str, Arg)> {
    match due {
        DueTime::Now => vec![("due", "now".into())],
        DueTime::Keep => vec![("due", "keep".into())],
        DueTime::At(time) => vec![("due", "at".into()), ("due_ms", time.as_millis().into())],
        DueTime::After(span) => {
            let max = Time::MAX.as_millis().unsigned_abs();
            vec![("due", "after".into()), ("due_ms", span.as_millis().min(max).into())]
        }
    }
}

/// Reads the answer of a commit.
pub(super) fn read_commit(slot: SlotIndex, now: i64, reply: ScriptReply) -> Result<Commit, Error> {
    let [status, a, b, c, d] = reply.parts()?;
    match status.text()?.as_str() {
        "stale" => Ok(Commit::Stale),
        "late" => Ok(Commit::Late),
        "busy" => HeldLock::read(slot, [a, b, c, d]).map(Commit::Busy),
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
        other => Err(corrupt(format!("a commit answered `{other}`"))),
    }
}

fn read_pushed(reply: ScriptReply) -> Result<Pushed, Error> {
    let [status, id] = reply.parts()?;
    let id = JobId(id.id()?);
    if status.text()? == "new" { Ok(Pushed::New(id)) } else { Ok(Pushed::Duplicate(id)) }
}

/// A commit that needs only one script.
pub(super) fn single_slot_commit(
    layout: &Layout,
    guard: Vec<(&'static str, Arg)>,
    input: PushInput<'_>,
) -> Result<Arg, Error> {
    let mut fields = guard;
    let put = |(nth, job)| {
        put_fields(layout, input.home, job, input.parent.map(|id| (id, nth))).map(Arg::Map)
    };
    let puts: Vec<Arg> = input.jobs.iter().enumerate().map(put).collect::<Result<_, _>>()?;
    fields.push(("op", "commit".into()));
    if !puts.is_empty() {
        fields.push(("puts", Arg::List(puts)));
    }
    Ok(Arg::Map(fields))
}

impl Redis {
    pub(super) async fn push_batch(&self, batch: Batch) -> Result<PushedBatch, Error> {
        let input = PushInput {
            home: self.home(&batch),
            groups: &batch.groups,
            jobs: &batch.jobs,
            parent: None,
            origin: JobOrigin::Push,
            freed: FreedLocks::default(),
        };
        match self.commit(Vec::new(), input).await? {
            Some(written) => Ok(PushedBatch {
                now: Time::from_millis(written.now),
                groups: written.groups,
                jobs: written.jobs,
            }),
            None => Err(corrupt("a push without a guard was stale")),
        }
    }

    /// The home of a batch: by its first job's key, group or queue.
    fn home(&self, batch: &Batch) -> SlotIndex {
        let Some(first) = batch.jobs.first() else { return self.layout.of_text(&self.token()) };
        self.layout.slot_of_key(first).unwrap_or_else(|| match first.group {
            Some(GroupRef::Id(id)) => self.layout.of_group(id),
            _ => self.layout.of_text(first.spec.queue.as_str()),
        })
    }

    /// Commits a guarded change and a push atomically. `None` if the guard is stale.
    pub(super) async fn commit(
        &self,
        guard: Vec<(&'static str, Arg)>,
        input: PushInput<'_>,
    ) -> Result<Option<Written>, Error> {
        for nth in 0..MAX_ATTEMPTS {
            let commit = if input.is_single_slot(&self.layout) {
                self.commit_single_slot(guard.clone(), input).await?
            } else {
                self.commit_multi_slot(guard.clone(), input).await?
            };
            match commit {
                Commit::Yes(written) => return Ok(Some(written)),
                Commit::Stale => return Ok(None),
                Commit::Busy(busy) => {
                    self.complete_or_break(busy).await?;
                    pause(self.backoff(nth)).await;
                }
                Commit::Late => {}
            }
        }
        Err(unavailable("other pushes hold the same keys"))
    }

    async fn commit_single_slot(
        &self,
        guard: Vec<(&'static str, Arg)>,
        input: PushInput<'_>,
    ) -> Result<Commit, Error> {
        let op = single_slot_commit(&self.layout, guard, input)?;
        let ScriptRun { now, dirty, replies: answers } = self.run(input.home, vec![op]).await?;
        let reply = answers.into_iter().next().ok_or_else(|| corrupt("no answer"))?;
        self.deliver_after_commit(dirty.then_some(input.home)).await?;
        read_commit(input.home, now, reply)
    }

    /// Completes another unfinished push, or breaks its lock if it is too old.
    pub(super) async fn complete_or_break(&self, busy: HeldLock) -> Result<(), Error> {
        self.deliver_after_commit([busy.home]).await?;
        if busy.age > BREAK_LOCK_AFTER_MILLIS {
            let names = Arg::list([busy.name]);
            let unhold = map! { "op" => "unhold", "names" => names, "token" => busy.token };
            self.run_one(busy.slot, unhold).await?;
        }
        Ok(())
    }

    /// A random back-off that grows, so that two colliding pushes do not collide forever.
    fn backoff(&self, nth: u32) -> Duration {
        let max = 1 << nth.min(5);
        let jitter = self.layout.stable_hash(&self.token()) % max;
        Duration::from_millis(1 + jitter)
    }
}
