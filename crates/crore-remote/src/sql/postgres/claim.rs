//! Claim: takes permits and ready jobs, each with a new delivery number, in one transaction.
//!
//! It first reads without locks: lanes, their permits, their first jobs. Then it locks the buckets, reads
//! them again, and takes each lane's share from its front, skipping rows that are locked by others. Alone, a
//! claim returns exactly the first `n` jobs. Concurrent claims never return a job twice and never exceed a
//! limit, and repeat while they have too few.

use std::collections::BTreeSet;

use crore_core::{Job, Time};
use crore_store::jobs::{Claim, Claimed};
use sqlx::{PgConnection, Row};

use super::Postgres;
use super::buckets::{PermitBlocked, PermitLedger, bucket_key};
use super::error::PostgresFault;
use super::keys::unique_key;
use super::peek::{self, ClaimPosition, LaneColumns, ReadyLane};
use super::row::{self, columns, int};

impl Postgres {
    pub(super) async fn claim_once(&self, ask: &Claim) -> Result<Claimed, PostgresFault> {
        let mut tx = self.begin().await?;
        let mut round = PostgresClaim::new(self.now(), ask);
        while round.run(&mut tx).await? && round.left() > 0 {}
        round.release_keys(&mut tx).await?;
        if let Some(ledger) = &round.ledger {
            ledger.flush(&mut tx).await?;
        }
        tx.commit().await?;
        Ok(round.into_claimed())
    }
}

/// The state of a claim.
struct PostgresClaim<'a> {
    clock: Option<i64>,
    request: &'a Claim,
    now: Time,
    /// Permits of the locked buckets, from the first round on.
    ledger: Option<PermitLedger>,
    /// Lanes whose remaining jobs are being claimed by others.
    exhausted: BTreeSet<(String, String, Vec<u8>)>,
    jobs: Vec<(ClaimPosition, Job)>,
    next_at: Option<Time>,
}

impl<'a> PostgresClaim<'a> {
    fn new(clock: Option<i64>, ask: &'a Claim) -> Self {
        let exhausted = BTreeSet::new();
        let (ledger, next_at) = (None, None);
        Self { clock, request: ask, now: Time::ZERO, ledger, exhausted, jobs: Vec::new(), next_at }
    }

    fn left(&self) -> u32 {
        let left = self.request.n.saturating_sub(self.jobs.len());
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    /// Runs one round. Returns whether another round may find more.
    async fn run(&mut self, connection: &mut PgConnection) -> Result<bool, PostgresFault> {
        let (now, mut lanes) = peek::lanes(connection, self.clock, self.request).await?;
        self.now = self.now.max(now);
        lanes.retain(|lane| !self.exhausted.contains(&lane_key(lane)));
        let mut peeked = self.ledger(connection, &lanes).await?;
        let mut first = peeked.clone();
        let (chosen, more) = self.choose(&lanes, &mut first);
        let entries = match chosen.as_slice() {
            [] => {
                self.lock(connection, &first, &[], &[]).await?;
                return Ok(false);
            }
            [(lane, _)] if lane.limits.is_empty() && !first.has_overdrawn() => None,
            several => Some(peek::entries(connection, several).await?),
        };
        let shares = match entries {
            None => vec![self.left()],
            Some(entries) => {
                peeked.merge_overdrawn(&first);
                let used = self.share(&chosen, &entries, &mut peeked);
                self.lock(connection, &peeked, &chosen, &used).await?;
                let mut locked = self.ledger.clone().unwrap_or_default();
                self.share(&chosen, &entries, &mut locked)
            }
        };
        let short = self.take(connection, &chosen, &shares).await?;
        Ok(more || (short && chosen.len() > 1))
    }

    /// The current permits; exact only for buckets that are locked already.
    async fn ledger(
        &self,
        connection: &mut PgConnection,
        lanes: &[ReadyLane],
    ) -> Result<PermitLedger, PostgresFault> {
        match &self.ledger {
            Some(ledger) => Ok(ledger.clone()),
            None => {
                let keys = lanes.iter().flat_map(|lane| &lane.limits).collect();
                PermitLedger::peek(connection, self.now, &keys).await
            }
        }
    }

    /// The lanes to claim from, with the number of jobs to read in each: the first lanes, ordered by their
    /// heads, that have a permit. Also returns whether there are more. Only the first round locks buckets, so
    /// that no two claims deadlock.
    fn choose<'l>(
        &mut self,
        lanes: &'l [ReadyLane],
        ledger: &mut PermitLedger,
    ) -> (Vec<(&'l ReadyLane, u32)>, bool) {
        let n = self.left();
        let mut chosen = Vec::new();
        for lane in lanes {
            if chosen.len() >= n as usize {
                return (chosen, true);
            }
            if self.ledger.is_some() && !ledger.covers(&lane.limits) {
                continue;
            }
            let room = ledger.room(&lane.limits, n);
            match ledger.take(&lane.limits) {
                Ok(()) => chosen.push((lane, room.saturating_add(1).min(n))),
                Err(blocked) => self.blocked(blocked),
            }
        }
        (chosen, false)
    }

    /// How many of the jobs, in order, each lane gets with the permits of the ledger.
    fn share(
        &mut self,
        lanes: &[(&ReadyLane, u32)],
        entries: &[(ClaimPosition, usize)],
        ledger: &mut PermitLedger,
    ) -> Vec<u32> {
        let mut shares = vec![0; lanes.len()];
        let mut left = self.left();
        for (_, nth) in entries {
            let (Some((lane, _)), Some(share)) = (lanes.get(*nth), shares.get_mut(*nth)) else {
                continue;
            };
            if left == 0 {
                break;
            }
            match ledger.take(&lane.limits) {
                Ok(()) => {
                    *share += 1;
                    left -= 1;
                }
                Err(blocked) => self.blocked(blocked),
            }
        }
        shares
    }

    fn blocked(&mut self, blocked: PermitBlocked) {
        if let PermitBlocked::Until(at) = blocked {
            self.next_at = Some(self.next_at.map_or(at, |next| next.min(at)));
        }
    }

    /// Locks the buckets of the lanes that have a share, in the first round only.
    async fn lock(
        &mut self,
        connection: &mut PgConnection,
        peeked: &PermitLedger,
        lanes: &[(&ReadyLane, u32)],
        shares: &[u32],
    ) -> Result<(), PostgresFault> {
        let nothing = lanes.is_empty() && !peeked.has_overdrawn();
        if self.ledger.is_none() && !nothing {
            let used = lanes.iter().zip(shares).filter(|(_, share)| **share > 0);
            let keys = used.flat_map(|((lane, _), _)| lane.limits.iter().map(bucket_key)).collect();
            let ledger = peeked.lock(connection, self.clock, keys).await?;
            self.now = self.now.max(ledger.now);
            self.ledger = Some(ledger);
        }
        Ok(())
    }

    /// Claims each lane's share. Returns whether a lane had fewer jobs than its share.
    async fn take(
        &mut self,
        connection: &mut PgConnection,
        lanes: &[(&ReadyLane, u32)],
        shares: &[u32],
    ) -> Result<bool, PostgresFault> {
        let mut columns = LaneColumns::default();
        for ((lane, _), share) in lanes.iter().zip(shares).filter(|(_, share)| **share > 0) {
            columns.add(lane, *share);
        }
        if columns.queues.is_empty() {
            return Ok(false);
        }
        let rows = sqlx::query(TAKE)
            .bind(columns.queues)
            .bind(columns.kinds)
            .bind(columns.digests)
            .bind(columns.counts)
            .bind(self.now.as_millis())
            .bind(self.request.worker.as_str())
            .fetch_all(connection)
            .await?;
        let mut got = vec![0; shares.len()];
        for row in &rows {
            let job = row::read(row, row.try_get("payload")?)?;
            let of = |lane: &ReadyLane| {
                lane.queue == job.spec.queue.as_str()
                    && lane.kind == job.spec.kind.as_str()
                    && lane.limits == job.spec.limits
            };
            let Some(nth) = lanes.iter().position(|(lane, _)| of(lane)) else { continue };
            if let Some(got) = got.get_mut(nth) {
                *got += 1;
            }
            self.add_claimed(job, lanes.get(nth).map_or(0, |(lane, _)| lane.queue_rank));
        }
        let short =
            lanes.iter().zip(shares.iter().zip(got)).filter(|(_, (share, got))| got < *share);
        let short: Vec<_> = short.map(|((lane, _), _)| lane_key(lane)).collect();
        let any = !short.is_empty();
        self.exhausted.extend(short);
        Ok(any)
    }

    fn add_claimed(&mut self, job: Job, queue_rank: i64) {
        if let Some(ledger) = &mut self.ledger {
            // A share never exceeds what the ledger granted, so this succeeds.
            _ = ledger.take(&job.spec.limits);
        }
        let (priority, due) = (job.spec.priority, job.live.due.as_millis());
        self.jobs.push((ClaimPosition { queue_rank, priority, due, id: int(job.id.0) }, job));
    }

    /// Releases the unique keys that are held until a job starts.
    async fn release_keys(&self, connection: &mut PgConnection) -> Result<(), PostgresFault> {
        use crore_core::unique::UniqueHold::UntilStart;
        let (mut keys, mut ids) = (Vec::new(), Vec::new());
        for (position, job) in &self.jobs {
            if let Some(unique) = job.spec.unique.as_ref().filter(|u| u.hold == UntilStart) {
                keys.push(unique_key(&unique.key));
                ids.push(position.id);
            }
        }
        if !keys.is_empty() {
            sqlx::query(
                "delete from keys where key in (select k.key from keys k \
                 join unnest($1::bytea[], $2::bigint[]) w(key, job) on k.key = w.key \
                 and k.job = w.job order by k.key for update of k)",
            )
            .bind(keys)
            .bind(ids)
            .execute(connection)
            .await?;
        }
        Ok(())
    }

    fn into_claimed(mut self) -> Claimed {
        self.jobs.sort_by_key(|(position, _)| *position);
        let short = self.left() > 0;
        let jobs = self.jobs.into_iter().map(|(_, job)| job).collect();
        Claimed { now: self.now, jobs, next_at: self.next_at.filter(|_| short) }
    }
}

fn lane_key(lane: &ReadyLane) -> (String, String, Vec<u8>) {
    (lane.queue.clone(), lane.kind.clone(), lane.digest.clone())
}

/// Each lane's share from its front, skipping rows that are locked by others.
const TAKE: &str = concat!(
    "with picked as materialized (select p.id, p.priority, p.due from \
     unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[]) w(queue, kind, lane, share) \
     cross join lateral (select j.id, j.priority, j.due from jobs j where j.queue = w.queue \
     and j.kind = w.kind and j.lane = w.lane and j.state = 2 \
     order by j.priority, j.due, j.id limit w.share for update skip locked) p), \
     numbered as materialized (select o.id, nextval('deliveries') as delivery from \
     (select id from picked order by priority, due, id) o) \
     update jobs j set state = 3, delivery = n.delivery, revision = j.revision + 1, \
     attempt = least(j.attempt + 1, 4294967295), started_at = $5, \
     lease_until = least($5 + coalesce(j.lease, 30000), 253402300799999), worker = $6 \
     from numbered n where j.id = n.id returning j.payload, ",
    columns!()
);
