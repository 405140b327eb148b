//! Writes all changes of a unit of work, with one statement per kind of record.

use crore_core::GroupId;
use crore_core::job::DependencyCondition;
use sqlx::PgConnection;

use super::error::PostgresFault;
use super::row::{LiveColumns, SpecColumns, int};
use super::unit_of_work::{JobWrite, LockedGroup, UnitOfWork};

/// The lane of a row `n`: a digest of its limit keys, computed by the database.
macro_rules! lane {
    () => {
        "case when n.limits is null then ''::bytea \
         else substr(sha256(convert_to(n.limits, 'UTF8')), 1, 16) end"
    };
}

impl UnitOfWork {
    pub(super) async fn flush(self, connection: &mut PgConnection) -> Result<(), PostgresFault> {
        let (mut added, mut new) = (LiveColumns::default(), SpecColumns::default());
        let (mut changed, mut edited) = (LiveColumns::default(), SpecColumns::default());
        let mut removed = Vec::new();
        for (id, locked) in &self.jobs {
            match (&locked.job, locked.write) {
                (_, JobWrite::Unchanged) | (None, JobWrite::New) => {}
                (None, _) => removed.push(int(id.0)),
                (Some(job), JobWrite::New) => {
                    added.add(job)?;
                    new.add(job)?;
                }
                (Some(job), write) => {
                    changed.add(job)?;
                    if write == JobWrite::Spec {
                        edited.add(job)?;
                    }
                }
            }
        }
        insert_jobs(connection, self.now.as_millis(), added, new).await?;
        update_jobs(connection, changed).await?;
        update_specs(connection, edited).await?;
        delete_jobs(connection, removed).await?;
        self.flush_deps(connection).await?;
        flush_groups(connection, self.now.as_millis(), self.groups).await?;
        self.keys.flush(connection).await
    }

    async fn flush_deps(&self, connection: &mut PgConnection) -> Result<(), PostgresFault> {
        if !self.settled.is_empty() {
            let (jobs, places): (Vec<i64>, Vec<i32>) =
                self.settled.iter().map(|(job, place)| (int(job.0), *place)).unzip();
            sqlx::query(
                "delete from deps d using unnest($1::bigint[], $2::integer[]) s(job, place) \
                 where d.job = s.job and d.place = s.place",
            )
            .bind(jobs)
            .bind(places)
            .execute(&mut *connection)
            .await?;
        }
        let (mut jobs, mut places, mut things, mut needs) = (vec![], vec![], vec![], vec![]);
        for (thing, deps) in &self.deps {
            for dep in deps.iter().filter(|dep| !dep.stored) {
                jobs.push(int(dep.job.0));
                places.push(dep.place);
                things.push(int(*thing));
                needs.push(i16::from(dep.needs == DependencyCondition::Success));
            }
        }
        if !jobs.is_empty() {
            sqlx::query(
                "insert into deps (job, place, thing, needs) select * from \
                 unnest($1::bigint[], $2::integer[], $3::bigint[], $4::smallint[])",
            )
            .bind(jobs)
            .bind(places)
            .bind(things)
            .bind(needs)
            .execute(connection)
            .await?;
        }
        Ok(())
    }
}

async fn insert_jobs(
    connection: &mut PgConnection,
    now: i64,
    live: LiveColumns,
    spec: SpecColumns,
) -> Result<(), PostgresFault> {
    if live.id.is_empty() {
        return Ok(());
    }
    sqlx::query(concat!(
        "insert into jobs (id, queue, kind, lane, limits, priority, state, stop, counted, broken, \
         waits, delivery, revision, attempt, crashes, pushed_at, due, started_at, lease_until, \
         lease, start_key, spec, payload) \
         select n.id, n.queue, n.kind, ",
        lane!(),
        ", n.limits, n.priority, n.state, false, false, n.broken, n.waits, 0, n.revision, 0, 0, \
         $1, n.due, 0, 0, n.lease, n.start_key, n.spec, n.payload from unnest($2::bigint[], \
         $3::smallint[], $4::boolean[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[], \
         $9::text[], $10::text[], $11::integer[], $12::bigint[], $13::bytea[], $14::text[], \
         $15::bytea[]) n(id, state, broken, waits, revision, due, queue, kind, limits, priority, \
         lease, start_key, spec, payload)"
    ))
    .bind(now)
    .bind(live.id)
    .bind(live.state)
    .bind(live.broken)
    .bind(live.waits)
    .bind(live.revision)
    .bind(live.due)
    .bind(spec.queue)
    .bind(spec.kind)
    .bind(spec.limits)
    .bind(spec.priority)
    .bind(spec.lease)
    .bind(spec.start_key)
    .bind(spec.spec)
    .bind(spec.payload)
    .execute(connection)
    .await?;
    Ok(())
}

async fn update_jobs(
    connection: &mut PgConnection,
    live: LiveColumns,
) -> Result<(), PostgresFault> {
    if live.id.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "update jobs set state = n.state, stop = n.stop, counted = n.counted, broken = n.broken, \
         waits = n.waits, delivery = n.delivery, revision = n.revision, attempt = n.attempt, \
         crashes = n.crashes, due = n.due, ended_at = n.ended_at, why = n.why, \
         history = n.history, kept = n.kept, result = n.result \
         from unnest($1::bigint[], $2::smallint[], $3::boolean[], $4::boolean[], $5::boolean[], \
         $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], \
         $12::bigint[], $13::text[], $14::text[], $15::text[], $16::bytea[]) n(id, state, stop, \
         counted, broken, waits, delivery, revision, attempt, crashes, due, ended_at, why, \
         history, kept, result) where jobs.id = n.id",
    )
    .bind(live.id)
    .bind(live.state)
    .bind(live.stop)
    .bind(live.counted)
    .bind(live.broken)
    .bind(live.waits)
    .bind(live.delivery)
    .bind(live.revision)
    .bind(live.attempt)
    .bind(live.crashes)
    .bind(live.due)
    .bind(live.ended_at)
    .bind(live.why)
    .bind(live.history)
    .bind(live.kept)
    .bind(live.result)
    .execute(connection)
    .await?;
    Ok(())
}

async fn update_specs(
    connection: &mut PgConnection,
    spec: SpecColumns,
) -> Result<(), PostgresFault> {
    if spec.id.is_empty() {
        return Ok(());
    }
    sqlx::query(concat!(
        "update jobs set queue = n.queue, kind = n.kind, lane = ",
        lane!(),
        ", limits = n.limits, priority = n.priority, lease = n.lease, start_key = n.start_key, \
         spec = n.spec, payload = n.payload from unnest($1::bigint[], $2::text[], $3::text[], \
         $4::text[], $5::integer[], $6::bigint[], $7::bytea[], $8::text[], $9::bytea[]) n(id, \
         queue, kind, limits, priority, lease, start_key, spec, payload) where jobs.id = n.id"
    ))
    .bind(spec.id)
    .bind(spec.queue)
    .bind(spec.kind)
    .bind(spec.limits)
    .bind(spec.priority)
    .bind(spec.lease)
    .bind(spec.start_key)
    .bind(spec.spec)
    .bind(spec.payload)
    .execute(connection)
    .await?;
    Ok(())
}

async fn delete_jobs(
    connection: &mut PgConnection,
    removed: Vec<i64>,
) -> Result<(), PostgresFault> {
    if removed.is_empty() {
        return Ok(());
    }
    sqlx::query("delete from deps where job = any($1)")
        .bind(&removed)
        .execute(&mut *connection)
        .await?;
    sqlx::query("delete from jobs where id = any($1)").bind(removed).execute(connection).await?;
    Ok(())
}

async fn flush_groups(
    connection: &mut PgConnection,
    now: i64,
    groups: impl IntoIterator<Item = (GroupId, LockedGroup)>,
) -> Result<(), PostgresFault> {
    let (mut ids, mut counts) = (vec![], [vec![], vec![], vec![], vec![]]);
    let (mut sealed, mut lost) = (vec![], vec![]);
    for (id, locked) in groups {
        if locked.changed {
            let group = locked.group;
            ids.push(int(id.0));
            let row = [group.size, group.ran, group.succeeded, group.revision.0];
            counts.iter_mut().zip(row).for_each(|(column, number)| column.push(int(number)));
            sealed.push(group.sealed);
            lost.push(group.lost);
        }
    }
    if ids.is_empty() {
        return Ok(());
    }
    let [size, ran, succeeded, revision] = counts;
    sqlx::query(
        "insert into groups (id, size, ran, succeeded, revision, sealed, lost, touched_at) \
         select g.*, $8 from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], \
         $5::bigint[], $6::boolean[], $7::boolean[]) g \
         on conflict (id) do update set size = excluded.size, ran = excluded.ran, \
         succeeded = excluded.succeeded, revision = excluded.revision, sealed = excluded.sealed, \
         lost = excluded.lost, touched_at = excluded.touched_at",
    )
    .bind(ids)
    .bind(size)
    .bind(ran)
    .bind(succeeded)
    .bind(revision)
    .bind(sealed)
    .bind(lost)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}
