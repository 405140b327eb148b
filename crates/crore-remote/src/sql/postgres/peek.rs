//! Reads lanes without locks.
//!
//! A lane is not a record but a range in the index of ready jobs, and its first entry is its head. Lanes need
//! no maintenance; finding them costs one index lookup per lane with ready jobs, however many jobs it has.

use std::collections::BTreeSet;

use crore_core::limit::LimitKey;
use crore_core::{Name, Time};
use crore_store::jobs::{Claim, QueueOrder};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::error::PostgresFault;
use super::row::from_json;
use super::time;

/// The jobs of one (queue, kind, limit keys).
#[derive(Debug, Clone)]
pub(super) struct ReadyLane {
    pub(super) queue: String,
    pub(super) kind: String,
    pub(super) digest: Vec<u8>,
    pub(super) limits: Vec<LimitKey>,
    pub(super) head: ClaimPosition,
    /// The rank of the queue among those asked for, if the order is strict; else 0.
    pub(super) queue_rank: i64,
}

/// The position of a job in the order of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClaimPosition {
    pub(super) queue_rank: i64,
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

/// The lanes that have ready jobs, ordered by their heads, and the current time.
pub(super) async fn lanes(
    connection: &mut PgConnection,
    now: Option<i64>,
    request: &Claim,
) -> Result<(Time, Vec<ReadyLane>), PostgresFault> {
    let queues = distinct(&request.queues);
    let query = match &request.kinds {
        None => sqlx::query(ANY_KIND).bind(now).bind(queues),
        Some(kinds) => sqlx::query(BY_KIND).bind(now).bind(queues).bind(distinct(kinds)),
    };
    let rows = query.fetch_all(connection).await?;
    let mut lanes = Vec::new();
    let mut at = Time::ZERO;
    for row in rows {
        at = time(row.try_get("now")?);
        lanes.extend(lane(&row, request.order)?);
    }
    lanes.sort_by_key(|lane| lane.head);
    Ok((at, lanes))
}

/// Each name once, at its first position.
fn distinct(names: &[Name]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    names.iter().map(Name::as_str).filter(|name| seen.insert(*name)).collect()
}

fn lane(row: &PgRow, order: QueueOrder) -> Result<Option<ReadyLane>, PostgresFault> {
    let Some(queue) = row.try_get::<Option<String>, _>("queue")? else { return Ok(None) };
    let queue_rank = match order {
        QueueOrder::Merged => 0,
        QueueOrder::Strict => row.try_get("turn")?,
    };
    let limits: Option<&str> = row.try_get("limits")?;
    Ok(Some(ReadyLane {
        queue,
        kind: row.try_get("kind")?,
        digest: row.try_get("lane")?,
        limits: limits.map_or_else(|| Ok(Vec::new()), |text| from_json("limit keys", text))?,
        head: read_position(row, queue_rank)?,
        queue_rank,
    }))
}

fn read_position(row: &PgRow, queue_rank: i64) -> Result<ClaimPosition, PostgresFault> {
    let (priority, due) = (row.try_get("priority")?, row.try_get("due")?);
    Ok(ClaimPosition { queue_rank, priority, due, id: row.try_get("id")? })
}

/// Lanes column by column, each with a count.
#[derive(Debug, Default)]
pub(super) struct LaneColumns<'a> {
    pub(super) queues: Vec<&'a str>,
    pub(super) kinds: Vec<&'a str>,
    pub(super) digests: Vec<&'a [u8]>,
    pub(super) counts: Vec<i64>,
}

impl<'a> LaneColumns<'a> {
    pub(super) fn add(&mut self, lane: &'a ReadyLane, count: u32) {
        self.queues.push(&lane.queue);
        self.kinds.push(&lane.kind);
        self.digests.push(&lane.digest);
        self.counts.push(count.into());
    }
}

/// The first jobs of lanes, at most the given number of each: their positions and the indexes of their lanes,
/// in order.
pub(super) async fn entries(
    connection: &mut PgConnection,
    lanes: &[(&ReadyLane, u32)],
) -> Result<Vec<(ClaimPosition, usize)>, PostgresFault> {
    let mut columns = LaneColumns::default();
    lanes.iter().for_each(|(lane, max)| columns.add(lane, *max));
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
            entries.push((read_position(&row, lane.queue_rank)?, nth));
        }
    }
    entries.sort_unstable();
    Ok(entries)
}
