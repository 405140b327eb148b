//! The records that one push or one batch of decisions is about: locked, read, changed in memory in
//! the order of the batch, and written at the end. So what the rules say is said once, in
//! `crore-core`, and a batch costs a handful of statements, however long it is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crore_core::group::{Group, Tally};
use crore_core::job::Needs;
use crore_core::machine::Settled;
use crore_core::{GroupId, Job, JobId, Revision, Satisfaction, Time};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::error::{Fault, corrupt};
use super::keys::Keys;
use super::row::{self, columns, int, unsigned};
use super::time;

/// A job that this transaction alone may change.
#[derive(Debug)]
pub(super) struct Slot {
    /// `None`: it is gone.
    pub(super) job: Option<Job>,
    pub(super) write: Write,
}

/// What is to be written of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Write {
    /// Nothing.
    Same,
    /// Where it stands.
    Live,
    /// Also what it is.
    Spec,
    /// All of it: it is new.
    New,
}

/// One thing that a job still waits for.
#[derive(Debug)]
pub(super) struct Dep {
    pub(super) job: JobId,
    pub(super) place: i32,
    pub(super) needs: Needs,
    pub(super) stored: bool,
}

#[derive(Debug)]
pub(super) struct GroupSlot {
    pub(super) group: Group,
    pub(super) changed: bool,
}

/// The records.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) now: Time,
    /// Numbers for new groups and jobs, in order.
    pub(super) ids: VecDeque<u64>,
    pub(super) jobs: BTreeMap<JobId, Slot>,
    pub(super) keys: Keys,
    pub(super) groups: BTreeMap<GroupId, GroupSlot>,
    /// By the number of what is waited for.
    pub(super) deps: BTreeMap<u64, Vec<Dep>>,
    /// Stored dependencies that are settled.
    pub(super) settled: Vec<(JobId, i32)>,
}

impl Work {
    /// Takes `n` numbers, and locks jobs.
    pub(super) async fn start(
        connection: &mut PgConnection,
        now: Option<i64>,
        n: usize,
        jobs: BTreeSet<JobId>,
    ) -> Result<Self, Fault> {
        let row = sqlx::query(
            "select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) \
             as now, array(select nextval('ids') from generate_series(1, $2::bigint)) as ids",
        )
        .bind(now)
        .bind(int(n as u64))
        .fetch_one(&mut *connection)
        .await?;
        let ids: Vec<i64> = row.try_get("ids")?;
        let mut work = Self {
            now: time(row.try_get("now")?),
            ids: ids.into_iter().map(i64::cast_unsigned).collect(),
            jobs: BTreeMap::new(),
            keys: Keys::default(),
            groups: BTreeMap::new(),
            deps: BTreeMap::new(),
            settled: Vec::new(),
        };
        work.lock_jobs(connection, jobs).await?;
        Ok(work)
    }

    /// Locks jobs, in the order of their ids, and reads all of them but the payload.
    pub(super) async fn lock_jobs(
        &mut self,
        connection: &mut PgConnection,
        ids: BTreeSet<JobId>,
    ) -> Result<(), Fault> {
        let ids: Vec<i64> =
            ids.iter().filter(|id| !self.jobs.contains_key(id)).map(|id| int(id.0)).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let rows = sqlx::query(concat!(
            "select ",
            columns!(),
            " from jobs j where j.id = any($1) order by j.id for update"
        ))
        .bind(ids)
        .fetch_all(connection)
        .await?;
        for row in rows {
            let job = row::read(&row, Vec::new())?;
            self.jobs.insert(job.id, Slot { job: Some(job), write: Write::Same });
        }
        Ok(())
    }

    /// Locks groups, in the order of their ids.
    pub(super) async fn lock_groups(
        &mut self,
        connection: &mut PgConnection,
        ids: BTreeSet<GroupId>,
    ) -> Result<(), Fault> {
        if ids.is_empty() {
            return Ok(());
        }
        let rows = sqlx::query("select * from groups where id = any($1) order by id for update")
            .bind(ids.iter().map(|id| int(id.0)).collect::<Vec<_>>())
            .fetch_all(connection)
            .await?;
        for row in rows {
            let id = GroupId(unsigned("a group", row.try_get("id")?)?);
            let group = read_group(&row)?;
            self.groups.insert(id, GroupSlot { group, changed: false });
        }
        Ok(())
    }

    /// Reads what waits for these, and locks those jobs. What is waited for was locked before, in a
    /// statement of its own, so nobody can come to wait for it unseen.
    pub(super) async fn lock_waiting_for(
        &mut self,
        connection: &mut PgConnection,
        things: Vec<u64>,
    ) -> Result<(), Fault> {
        if things.is_empty() {
            return Ok(());
        }
        let rows = sqlx::query(
            "select job, place, thing, needs from deps where thing = any($1) order by job, place",
        )
        .bind(things.into_iter().map(int).collect::<Vec<_>>())
        .fetch_all(&mut *connection)
        .await?;
        let mut waiting = BTreeSet::new();
        for row in rows {
            let job = JobId(unsigned("a dependant", row.try_get("job")?)?);
            let needs = match row.try_get::<i16, _>("needs")? {
                0 => Needs::End,
                1 => Needs::Success,
                other => return Err(corrupt(format!("a dependency needs `{other}`"))),
            };
            let thing = unsigned("a dependency", row.try_get("thing")?)?;
            let dep = Dep { job, place: row.try_get("place")?, needs, stored: true };
            self.deps.entry(thing).or_default().push(dep);
            waiting.insert(job);
        }
        self.lock_jobs(connection, waiting).await
    }

    /// A job that is there, to look at.
    pub(super) fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)?.job.as_ref()
    }

    /// A job that is there, to change.
    pub(super) fn change(&mut self, id: JobId, write: Write) -> Option<&mut Job> {
        let slot = self.jobs.get_mut(&id)?;
        slot.write = slot.write.max(write);
        slot.job.as_mut()
    }

    /// Removes a job.
    pub(super) fn remove(&mut self, id: JobId) {
        if let Some(slot) = self.jobs.get_mut(&id) {
            slot.job = None;
            slot.write = slot.write.max(Write::Live);
        }
    }

    /// Tells those that wait for a job what became of it.
    pub(super) fn settle(&mut self, id: JobId, settled: Settled) {
        self.settle_dependencies(id.0, |needs| settled.satisfaction(needs));
    }

    /// Counts for a group, and tells those that wait for it.
    pub(super) fn tally(&mut self, id: GroupId, tally: Tally) {
        self.change_group(id, |group| Some(group.tallied(tally)));
    }

    /// Seals a group; says whether it was there and open.
    pub(super) fn seal(&mut self, id: GroupId) -> bool {
        self.change_group(id, Group::seal)
    }

    /// Changes a group and tells those that wait for it; says whether it was there and changed.
    fn change_group(&mut self, id: GroupId, change: impl FnOnce(Group) -> Option<Group>) -> bool {
        let Some(slot) = self.groups.get_mut(&id) else { return false };
        let Some(group) = change(slot.group) else { return false };
        (slot.group, slot.changed) = (group, true);
        self.settle_dependencies(id.0, |needs| group.satisfaction(needs));
        true
    }

    /// Tells the jobs that wait for a thing how it satisfies their needs; open ones go on waiting.
    fn settle_dependencies(&mut self, thing: u64, satisfaction: impl Fn(Needs) -> Satisfaction) {
        let now = self.now;
        let Some(deps) = self.deps.remove(&thing) else { return };
        let mut left = Vec::new();
        for dep in deps {
            let Some(slot) = self.jobs.get_mut(&dep.job) else { continue };
            let Some(job) = slot.job.as_mut() else { continue };
            if !job.live.settle(satisfaction(dep.needs), now) {
                left.push(dep);
                continue;
            }
            slot.write = slot.write.max(Write::Live);
            if dep.stored {
                self.settled.push((dep.job, dep.place));
            }
        }
        self.deps.insert(thing, left);
    }
}

pub(super) fn read_group(row: &PgRow) -> Result<Group, Fault> {
    Ok(Group {
        size: unsigned("`size`", row.try_get("size")?)?,
        ran: unsigned("`ran`", row.try_get("ran")?)?,
        succeeded: unsigned("`succeeded`", row.try_get("succeeded")?)?,
        lost: row.try_get("lost")?,
        sealed: row.try_get("sealed")?,
        revision: Revision(unsigned("a revision", row.try_get("revision")?)?),
    })
}
