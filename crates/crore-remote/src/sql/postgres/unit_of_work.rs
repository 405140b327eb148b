//! The records of one push or one batch of decisions: locked, read, changed in memory in the order of the
//! batch, and written at the end. The rules stay in `crore-core`, and a batch costs a few statements,
//! whatever its length.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crore_core::group::{Group, GroupTally};
use crore_core::job::DependencyCondition;
use crore_core::machine::Settled;
use crore_core::{GroupId, Job, JobId, Revision, Satisfaction, Time};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::error::{PostgresFault, corrupt};
use super::keys::LockedKeys;
use super::row::{self, columns, int, unsigned};
use super::time;

/// A job locked by this transaction.
#[derive(Debug)]
pub(super) struct LockedJob {
    /// `None`: removed.
    pub(super) job: Option<Job>,
    pub(super) write: JobWrite,
}

/// The part of a job to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum JobWrite {
    /// Nothing.
    Unchanged,
    /// The live columns.
    Live,
    /// The live columns and the spec.
    Spec,
    /// A new row.
    New,
}

/// A dependency that a job still waits for.
#[derive(Debug)]
pub(super) struct Dep {
    pub(super) job: JobId,
    pub(super) place: i32,
    pub(super) needs: DependencyCondition,
    pub(super) stored: bool,
}

#[derive(Debug)]
pub(super) struct LockedGroup {
    pub(super) group: Group,
    pub(super) changed: bool,
}

/// The locked records of a transaction, and their changes.
#[derive(Debug)]
pub(super) struct UnitOfWork {
    pub(super) now: Time,
    /// Ids for new groups and jobs, in order.
    pub(super) ids: VecDeque<u64>,
    pub(super) jobs: BTreeMap<JobId, LockedJob>,
    pub(super) keys: LockedKeys,
    pub(super) groups: BTreeMap<GroupId, LockedGroup>,
    /// Dependencies by the id of the job or group that is waited for.
    pub(super) deps: BTreeMap<u64, Vec<Dep>>,
    /// Stored dependencies that are settled.
    pub(super) settled: Vec<(JobId, i32)>,
}

impl UnitOfWork {
    /// Allocates `n` ids, and locks jobs.
    pub(super) async fn start(
        connection: &mut PgConnection,
        now: Option<i64>,
        n: usize,
        jobs: BTreeSet<JobId>,
    ) -> Result<Self, PostgresFault> {
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
            keys: LockedKeys::default(),
            groups: BTreeMap::new(),
            deps: BTreeMap::new(),
            settled: Vec::new(),
        };
        work.lock_jobs(connection, jobs).await?;
        Ok(work)
    }

    /// Locks jobs in the order of their ids, and reads them without payloads.
    pub(super) async fn lock_jobs(
        &mut self,
        connection: &mut PgConnection,
        ids: BTreeSet<JobId>,
    ) -> Result<(), PostgresFault> {
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
            self.jobs.insert(job.id, LockedJob { job: Some(job), write: JobWrite::Unchanged });
        }
        Ok(())
    }

    /// Locks groups in the order of their ids.
    pub(super) async fn lock_groups(
        &mut self,
        connection: &mut PgConnection,
        ids: BTreeSet<GroupId>,
    ) -> Result<(), PostgresFault> {
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
            self.groups.insert(id, LockedGroup { group, changed: false });
        }
        Ok(())
    }

    /// Reads the dependants of these jobs and groups, and locks them. The jobs and groups were locked before
    /// by a separate statement, so no dependant can be added unseen.
    pub(super) async fn lock_waiting_for(
        &mut self,
        connection: &mut PgConnection,
        things: Vec<u64>,
    ) -> Result<(), PostgresFault> {
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
                0 => DependencyCondition::End,
                1 => DependencyCondition::Success,
                other => return Err(corrupt(format!("a dependency needs `{other}`"))),
            };
            let thing = unsigned("a dependency", row.try_get("thing")?)?;
            let dep = Dep { job, place: row.try_get("place")?, needs, stored: true };
            self.deps.entry(thing).or_default().push(dep);
            waiting.insert(job);
        }
        self.lock_jobs(connection, waiting).await
    }

    /// An existing job.
    pub(super) fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)?.job.as_ref()
    }

    /// An existing job, to change.
    pub(super) fn change(&mut self, id: JobId, write: JobWrite) -> Option<&mut Job> {
        let locked = self.jobs.get_mut(&id)?;
        locked.write = locked.write.max(write);
        locked.job.as_mut()
    }

    /// Removes a job.
    pub(super) fn remove(&mut self, id: JobId) {
        if let Some(locked) = self.jobs.get_mut(&id) {
            locked.job = None;
            locked.write = locked.write.max(JobWrite::Live);
        }
    }

    /// Settles the dependencies on a job.
    pub(super) fn settle(&mut self, id: JobId, settled: Settled) {
        self.settle_dependencies(id.0, |needs| settled.satisfaction(needs));
    }

    /// Updates the counts of a group, and settles the dependencies on it.
    pub(super) fn tally(&mut self, id: GroupId, tally: GroupTally) {
        self.change_group(id, |group| Some(group.tallied(tally)));
    }

    /// Seals a group. Returns whether it existed and was open.
    pub(super) fn seal(&mut self, id: GroupId) -> bool {
        self.change_group(id, Group::seal)
    }

    /// Changes a group and settles the dependencies on it. Returns whether it existed and changed.
    fn change_group(&mut self, id: GroupId, change: impl FnOnce(Group) -> Option<Group>) -> bool {
        let Some(locked) = self.groups.get_mut(&id) else { return false };
        let Some(group) = change(locked.group) else { return false };
        (locked.group, locked.changed) = (group, true);
        self.settle_dependencies(id.0, |needs| group.satisfaction(needs));
        true
    }

    /// Settles the dependencies on a job or group; dependants whose need is still open keep waiting.
    fn settle_dependencies(
        &mut self,
        thing: u64,
        satisfaction: impl Fn(DependencyCondition) -> Satisfaction,
    ) {
        let now = self.now;
        let Some(deps) = self.deps.remove(&thing) else { return };
        let mut left = Vec::new();
        for dep in deps {
            let Some(locked) = self.jobs.get_mut(&dep.job) else { continue };
            let Some(job) = locked.job.as_mut() else { continue };
            if !job.live.settle(satisfaction(dep.needs), now) {
                left.push(dep);
                continue;
            }
            locked.write = locked.write.max(JobWrite::Live);
            if dep.stored {
                self.settled.push((dep.job, dep.place));
            }
        }
        self.deps.insert(thing, left);
    }
}

pub(super) fn read_group(row: &PgRow) -> Result<Group, PostgresFault> {
    Ok(Group {
        size: unsigned("`size`", row.try_get("size")?)?,
        ran: unsigned("`ran`", row.try_get("ran")?)?,
        succeeded: unsigned("`succeeded`", row.try_get("succeeded")?)?,
        lost: row.try_get("lost")?,
        sealed: row.try_get("sealed")?,
        revision: Revision(unsigned("a revision", row.try_get("revision")?)?),
        maker: None,
    })
}
