//! Claim: permits reserved, ready jobs running, each under a fresh delivery, in one transaction.
//!
//! What to take is found out by looking without locks: the lanes, their permits, their first jobs.
//! Then the buckets are locked, looked at again, and each lane's share is taken from its front,
//! past whatever others are taking at the moment. Alone, a claim gives exactly the first `n`; among
//! others it never gives a job twice, never passes a limit, and looks again as long as it is short.

use std::collections::BTreeSet;

use crore_core::{Job, Time};
use crore_store::jobs::{Claim, Claimed};
use sqlx::{PgConnection, Row};

use super::Postgres;
use super::buckets::{Blocked, Ledger, bucket_key};
use super::error::Fault;
use super::keys::unique_key;
use super::peek::{self, Lane, LaneColumns, Place};
use super::row::{self, columns, int};

impl Postgres {
    pub(super) async fn claim_once(&self, ask: &Claim) -> Result<Claimed, Fault> {
        let mut tx = self.begin().await?;
        let mut round = Round::new(self.now(), ask);
        while round.run(&mut tx).await? && round.left() > 0 {}
        round.release_keys(&mut tx).await?;
        if let Some(ledger) = &round.ledger {
            ledger.flush(&mut tx).await?;
        }
        tx.commit().await?;
        Ok(round.answer())
    }
}

/// A claim under way.
struct Round<'a> {
    clock: Option<i64>,
    ask: &'a Claim,
    now: Time,
    /// Permits of the buckets that are locked, from the first round on.
    ledger: Option<Ledger>,
    /// Lanes whose other jobs somebody else is taking.
    spent: BTreeSet<(String, String, Vec<u8>)>,
    jobs: Vec<(Place, Job)>,
    next_at: Option<Time>,
}

impl<'a> Round<'a> {
    fn new(clock: Option<i64>, ask: &'a Claim) -> Self {
        let spent = BTreeSet::new();
        let (ledger, next_at) = (None, None);
        Self { clock, ask, now: Time::ZERO, ledger, spent, jobs: Vec::new(), next_at }
    }

    fn left(&self) -> u32 {
        let left = self.ask.n.saturating_sub(self.jobs.len());
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    /// Looks once, and takes what it may. Says whether looking again may give more.
    async fn run(&mut self, connection: &mut PgConnection) -> Result<bool, Fault> {
        let (now, mut lanes) = peek::lanes(connection, self.clock, self.ask).await?;
        self.now = self.now.max(now);
        lanes.retain(|lane| !self.spent.contains(&key_of(lane)));
        let mut peeked = self.ledger(connection, &lanes).await?;
        let mut first = peeked.clone();
        let (chosen, more) = self.choose(&lanes, &mut first);
        let entries = match chosen.as_slice() {
            [] => {
                self.lock(connection, &first, &[], &[]).await?;
                return Ok(false);
            }
            [(lane, _)] if lane.limits.is_empty() && !first.is_ahead() => None,
            several => Some(peek::entries(connection, several).await?),
        };
        let shares = match entries {
            None => vec![self.left()],
            Some(entries) => {
                peeked.note_ahead(&first);
                let used = self.share(&chosen, &entries, &mut peeked);
                self.lock(connection, &peeked, &chosen, &used).await?;
                let mut locked = self.ledger.clone().unwrap_or_default();
                self.share(&chosen, &entries, &mut locked)
            }
        };
        let short = self.take(connection, &chosen, &shares).await?;
        Ok(more || (short && chosen.len() > 1))
    }

    /// The permits as they seem to be; exact for the buckets that are locked already.
    async fn ledger(&self, connection: &mut PgConnection, lanes: &[Lane]) -> Result<Ledger, Fault> {
        match &self.ledger {
            Some(ledger) => Ok(ledger.clone()),
            None => {
                let keys = lanes.iter().flat_map(|lane| &lane.limits).collect();
                Ledger::peek(connection, self.now, &keys).await
            }
        }
    }

    /// The lanes to take from, with how many to look at in each: the first by their heads that have
    /// a permit. Also says whether there are others. Once buckets are locked no more are locked, so
    /// that no two claims wait for each other.
    fn choose<'l>(
        &mut self,
        lanes: &'l [Lane],
        ledger: &mut Ledger,
    ) -> (Vec<(&'l Lane, u32)>, bool) {
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

    /// How many of the jobs in order each lane gets, by the permits of the ledger.
    fn share(
        &mut self,
        lanes: &[(&Lane, u32)],
        entries: &[(Place, usize)],
        ledger: &mut Ledger,
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

    fn blocked(&mut self, blocked: Blocked) {
        if let Blocked::Until(at) = blocked {
            self.next_at = Some(self.next_at.map_or(at, |next| next.min(at)));
        }
    }

    /// Locks the buckets of the lanes that have a share, unless that was done before.
    async fn lock(
        &mut self,
        connection: &mut PgConnection,
        peeked: &Ledger,
        lanes: &[(&Lane, u32)],
        shares: &[u32],
    ) -> Result<(), Fault> {
        let nothing = lanes.is_empty() && !peeked.is_ahead();
        if self.ledger.is_none() && !nothing {
            let used = lanes.iter().zip(shares).filter(|(_, share)| **share > 0);
            let keys = used.flat_map(|((lane, _), _)| lane.limits.iter().map(bucket_key)).collect();
            let ledger = peeked.lock(connection, self.clock, keys).await?;
            self.now = self.now.max(ledger.now);
            self.ledger = Some(ledger);
        }
        Ok(())
    }

    /// Takes each lane's share, and says whether one of them was short of it.
    async fn take(
        &mut self,
        connection: &mut PgConnection,
        lanes: &[(&Lane, u32)],
        shares: &[u32],
    ) -> Result<bool, Fault> {
        let mut want = LaneColumns::default();
        for ((lane, _), share) in lanes.iter().zip(shares).filter(|(_, share)| **share > 0) {
            want.add(lane, *share);
        }
        if want.queues.is_empty() {
            return Ok(false);
        }
        let rows = sqlx::query(TAKE)
            .bind(want.queues)
            .bind(want.kinds)
            .bind(want.digests)
            .bind(want.counts)
            .bind(self.now.as_millis())
            .bind(self.ask.worker.as_str())
            .fetch_all(connection)
            .await?;
        let mut got = vec![0; shares.len()];
        for row in &rows {
            let job = row::read(row, row.try_get("payload")?)?;
            let of = |lane: &Lane| {
                lane.queue == job.spec.queue.as_str()
                    && lane.kind == job.spec.kind.as_str()
                    && lane.limits == job.spec.limits
            };
            let Some(nth) = lanes.iter().position(|(lane, _)| of(lane)) else { continue };
            if let Some(got) = got.get_mut(nth) {
                *got += 1;
            }
            self.enter(job, lanes.get(nth).map_or(0, |(lane, _)| lane.turn));
        }
        let short =
            lanes.iter().zip(shares.iter().zip(got)).filter(|(_, (share, got))| got < *share);
        let short: Vec<_> = short.map(|((lane, _), _)| key_of(lane)).collect();
        let any = !short.is_empty();
        self.spent.extend(short);
        Ok(any)
    }

    fn enter(&mut self, job: Job, turn: i64) {
        if let Some(ledger) = &mut self.ledger {
            // A share never passes what the ledger gave, so this is granted.
            _ = ledger.take(&job.spec.limits);
        }
        let (priority, due) = (job.spec.priority, job.live.due.as_millis());
        self.jobs.push((Place { turn, priority, due, id: int(job.id.0) }, job));
    }

    /// Frees the unique keys that the start of these jobs releases.
    async fn release_keys(&self, connection: &mut PgConnection) -> Result<(), Fault> {
        use crore_core::unique::Hold::UntilStart;
        let (mut keys, mut ids) = (Vec::new(), Vec::new());
        for (place, job) in &self.jobs {
            if let Some(unique) = job.spec.unique.as_ref().filter(|u| u.hold == UntilStart) {
                keys.push(unique_key(&unique.key));
                ids.push(place.id);
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

    fn answer(mut self) -> Claimed {
        self.jobs.sort_by_key(|(place, _)| *place);
        let short = self.left() > 0;
        let jobs = self.jobs.into_iter().map(|(_, job)| job).collect();
        Claimed { now: self.now, jobs, next_at: self.next_at.filter(|_| short) }
    }
}

fn key_of(lane: &Lane) -> (String, String, Vec<u8>) {
    (lane.queue.clone(), lane.kind.clone(), lane.digest.clone())
}

/// Each lane's share from its front, past rows that others have locked.
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
