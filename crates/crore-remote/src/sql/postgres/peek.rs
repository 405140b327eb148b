//! Lanes: what there is to claim, seen without locking anything.
//!
//! A lane is not a record: it is a stretch of the index of ready jobs, and its first entry is its
//! head. So lanes cost nothing to keep, and finding them costs one step down the index for each lane
//! that has ready jobs, however many jobs stand in it.

use std::collections::BTreeSet;

use crore_core::limit::LimitKey;
use crore_core::{Name, Time};
use crore_store::jobs::{Claim, Order};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::error::Fault;
use super::row::from_json;
use super::time;

/// The jobs of one (queue, kind, limit keys).
#[derive(Debug, Clone)]
pub(super) struct Lane {
    pub(super) queue: String,
    pub(super) kind: String,
    pub(super) digest: Vec<u8>,
    pub(super) limits: Vec<LimitKey>,
    pub(super) head: Place,
    /// The queue's place among those that were asked for, if their order is strict.
    pub(super) turn: i64,
}

/// A job's place in the order of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) turn: i64,
    pub(super) priority: i32,
    pub(super) due: i64,
    pub(super) id: i64,
}

macro_rules! lanes {
    ($pairs:literal, $next:literal) => {
        concat!(
            "with recursive asked as (select q.queue, q.turn, t.now from \
             (select coalesce($1::bigint, \
             floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) t \
             left join unnest($2::text[]) with ordinality q(queue, turn) on not exists ( \
             select from registry r where r.tab = 1 and r.name = q.queue and r.paused \
             and (r.expires_at is null or r.expires_at > t.now))), \
             lanes as (select p.turn, h.* from ",
            $pairs,
            " union all select l.turn, h.* from lanes l cross join lateral (select j.queue, \
             j.kind, j.lane, j.limits, j.priority, j.due, j.id from jobs j \
             where j.queue = l.queue and j.state = 2 and ",
            $next,
            " order by j.kind, j.lane, j.priority, j.due, j.id limit 1) h) \
             select t.now, l.* from (select min(now) as now from asked) t left join lanes l on true"
        )
    };
}

const ANY_KIND: &str = lanes!(
    "asked p cross join lateral (select j.queue, j.kind, j.lane, j.limits, j.priority, j.due, j.id \
     from jobs j where j.queue = p.queue and j.state = 2 \
     order by j.kind, j.lane, j.priority, j.due, j.id limit 1) h",
    "(j.kind, j.lane) > (l.kind, l.lane)"
);

const BY_KIND: &str = lanes!(
    "(select a.queue, a.turn, k.kind from asked a cross join unnest($3::text[]) k(kind)) p \
     cross join lateral (select j.queue, j.kind, j.lane, j.limits, j.priority, j.due, j.id \
     from jobs j where j.queue = p.queue and j.state = 2 and j.kind = p.kind \
     order by j.kind, j.lane, j.priority, j.due, j.id limit 1) h",
    "j.kind = l.kind and j.lane > l.lane"
);

/// The lanes that have ready jobs, in the order of their heads, and the time.
pub(super) async fn lanes(
    connection: &mut PgConnection,
    now: Option<i64>,
    ask: &Claim,
) -> Result<(Time, Vec<Lane>), Fault> {
    let queues = distinct(&ask.queues);
    let query = match &ask.kinds {
        None => sqlx::query(ANY_KIND).bind(now).bind(queues),
        Some(kinds) => sqlx::query(BY_KIND).bind(now).bind(queues).bind(distinct(kinds)),
    };
    let rows = query.fetch_all(connection).await?;
    let mut lanes = Vec::new();
    let mut at = Time::ZERO;
    for row in rows {
        at = time(row.try_get("now")?);
        lanes.extend(lane(&row, ask.order)?);
    }
    lanes.sort_by_key(|lane| lane.head);
    Ok((at, lanes))
}

/// Each name once, where it came first.
fn distinct(names: &[Name]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    names.iter().map(Name::as_str).filter(|name| seen.insert(*name)).collect()
}

fn lane(row: &PgRow, order: Order) -> Result<Option<Lane>, Fault> {
    let Some(queue) = row.try_get::<Option<String>, _>("queue")? else { return Ok(None) };
    let turn = match order {
        Order::Merged => 0,
        Order::Strict => row.try_get("turn")?,
    };
    let limits: Option<&str> = row.try_get("limits")?;
    Ok(Some(Lane {
        queue,
        kind: row.try_get("kind")?,
        digest: row.try_get("lane")?,
        limits: limits.map_or_else(|| Ok(Vec::new()), |text| from_json("limit keys", text))?,
        head: place(row, turn)?,
        turn,
    }))
}

fn place(row: &PgRow, turn: i64) -> Result<Place, Fault> {
    let (priority, due) = (row.try_get("priority")?, row.try_get("due")?);
    Ok(Place { turn, priority, due, id: row.try_get("id")? })
}

/// Some of the lanes, column by column, with a number for each.
#[derive(Debug, Default)]
pub(super) struct LaneColumns<'a> {
    pub(super) queues: Vec<&'a str>,
    pub(super) kinds: Vec<&'a str>,
    pub(super) digests: Vec<&'a [u8]>,
    pub(super) counts: Vec<i64>,
}

impl<'a> LaneColumns<'a> {
    pub(super) fn add(&mut self, lane: &'a Lane, count: u32) {
        self.queues.push(&lane.queue);
        self.kinds.push(&lane.kind);
        self.digests.push(&lane.digest);
        self.counts.push(count.into());
    }
}

/// The first jobs of lanes, at most so many of each as it says: the place of each, and the place of
/// its lane, in order.
pub(super) async fn entries(
    connection: &mut PgConnection,
    lanes: &[(&Lane, u32)],
) -> Result<Vec<(Place, usize)>, Fault> {
    let mut columns = LaneColumns::default();
    lanes.iter().for_each(|(lane, most)| columns.add(lane, *most));
    let rows = sqlx::query(
        "select w.nth, e.priority, e.due, e.id from \
         unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[]) with ordinality \
         w(queue, kind, lane, most, nth) cross join lateral (select j.priority, j.due, j.id \
         from jobs j where j.queue = w.queue and j.kind = w.kind and j.lane = w.lane \
         and j.state = 2 order by j.priority, j.due, j.id limit w.most) e",
    )
    .bind(columns.queues)
    .bind(columns.kinds)
    .bind(columns.digests)
    .bind(columns.counts)
    .fetch_all(connection)
    .await?;
    let mut entries = Vec::new();
    for row in rows {
        let nth: i64 = row.try_get("nth")?;
        let nth = usize::try_from(nth - 1).unwrap_or(usize::MAX);
        if let Some((lane, _)) = lanes.get(nth) {
            entries.push((place(&row, lane.turn)?, nth));
        }
    }
    entries.sort_unstable();
    Ok(entries)
}
