//! Claim. With one shard and no limits it is one script. Otherwise each round reads the best jobs of every
//! shard, reserves the permits that they need, claims the jobs, and returns unused permits.
//!
//! A round skips lanes without permits. Rounds repeat until enough jobs are claimed or none are left.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::{Job, JobId, Time};
use crore_store::Error;
use crore_store::jobs::{Claim, Claimed, QueueOrder};

use super::Redis;
use super::join_all::join_all;
use super::names::{SlotIndex, buckets, escape, lane};
use super::pack::Arg;
use super::permits::{Allowance, PermitGrant, PermitShortage, USE_WITHIN_MILLIS};
use super::record;
use super::reply::{ScriptReply, corrupt};

/// Maximum rounds in which others were faster; then the claim returns what it has.
const MAX_LOST_ROUNDS: usize = 8;

/// Maximum jobs per claim: a script blocks its whole Redis node.
const MAX_CLAIM: usize = 10_000;

/// A ready job that a shard reported: its position in the order, and its lane.
struct ClaimCandidate {
    slot: SlotIndex,
    position: String,
    lane: String,
    limited: bool,
}

/// The answer of a shard.
enum ShardAnswer {
    Candidates(Vec<ClaimCandidate>),
    Taken(Vec<(String, Job)>),
    Late,
}

/// The state of a claim.
#[derive(Default)]
struct RedisClaim {
    now: i64,
    left: usize,
    taken: Vec<(String, Job)>,
    /// Lanes without permits, and when a rate grants the next one.
    blocked: BTreeMap<String, Option<Time>>,
    /// The best job of each shard that was left out.
    left_out: BTreeMap<SlotIndex, String>,
}

impl RedisClaim {
    /// The position up to which a shard may be claimed from: beyond it, other shards have better jobs. If
    /// others take its candidates, a claim gets the following ones up to there.
    fn bound(&self, slot: SlotIndex) -> Option<String> {
        let others = self.left_out.iter().filter(|(other, _)| **other != slot);
        others.map(|(_, position)| position).min().cloned()
    }
}

impl Redis {
    pub(super) async fn claim_jobs(&self, request: Claim) -> Result<Claimed, Error> {
        let mut round = RedisClaim { left: request.n.min(MAX_CLAIM), ..RedisClaim::default() };
        let mut lost = 0;
        // With one shard a claim may start by claiming; the script reports limits if there are any.
        let mut candidates = if self.shards() == 1 {
            self.take_or_peek(&request, &mut round).await?
        } else {
            self.peek(&request, &mut round).await?
        };
        while round.left > 0 && !candidates.is_empty() && lost < MAX_LOST_ROUNDS {
            let (before, blocked) = (round.left, round.blocked.len());
            let allowed = self.one_round(&request, &mut round, &candidates).await?;
            let taken = before - round.left;
            if taken == allowed && candidates.len() < before {
                // All jobs have been seen, and claimed as far as allowed.
                break;
            }
            if taken == 0 && round.blocked.len() == blocked {
                lost += 1;
            }
            if round.left > 0 {
                candidates = self.peek(&request, &mut round).await?;
            }
        }
        round.taken.sort_by(|a, b| a.0.cmp(&b.0));
        let next_at =
            if round.left > 0 { round.blocked.values().flatten().min().copied() } else { None };
        let jobs = round.taken.into_iter().map(|(_, job)| job).collect();
        Ok(Claimed { now: Time::from_millis(round.now), jobs, next_at })
    }

    /// The best jobs of all shards, in order, without lanes that are known to be blocked.
    async fn peek(
        &self,
        request: &Claim,
        round: &mut RedisClaim,
    ) -> Result<Vec<ClaimCandidate>, Error> {
        let blocked: Vec<_> =
            round.blocked.keys().map(|lane| (lane.clone(), Arg::List(Vec::new()))).collect();
        let one = |slot| {
            let mut args = self.claim_args(request, round.left, None, blocked.clone());
            args.push(("look", true.into()));
            self.ask_shard(slot, Arg::Map(args))
        };
        let mut candidates = Vec::new();
        for answer in join_all((0..self.shards()).map(one).collect()).await {
            let (now, answer) = answer?;
            round.now = now;
            if let ShardAnswer::Candidates(some) = answer {
                candidates.extend(some);
            }
        }
        candidates.sort_by(|a, b| a.position.cmp(&b.position));
        round.left_out.clear();
        for candidate in candidates.drain(round.left.min(candidates.len())..) {
            round.left_out.entry(candidate.slot).or_insert(candidate.position);
        }
        Ok(candidates)
    }

    async fn take_or_peek(
        &self,
        request: &Claim,
        round: &mut RedisClaim,
    ) -> Result<Vec<ClaimCandidate>, Error> {
        let args = self.claim_args(request, round.left, None, Vec::new());
        let (now, answer) = self.ask_shard(0, Arg::Map(args)).await?;
        round.now = now;
        match answer {
            ShardAnswer::Candidates(candidates) => Ok(candidates),
            ShardAnswer::Taken(jobs) => {
                round.left = round.left.saturating_sub(jobs.len());
                round.taken.extend(jobs);
                Ok(Vec::new())
            }
            ShardAnswer::Late => Ok(Vec::new()),
        }
    }

    /// Claims the candidates that have permits. Returns how many had; others may have been faster.
    async fn one_round(
        &self,
        request: &Claim,
        round: &mut RedisClaim,
        candidates: &[ClaimCandidate],
    ) -> Result<usize, Error> {
        let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
        for candidate in candidates.iter().filter(|candidate| candidate.limited) {
            for bucket in buckets(&candidate.lane) {
                *wanted.entry(bucket.to_owned()).or_default() += 1;
            }
        }
        let deadline = round.now.saturating_add(USE_WITHIN_MILLIS);
        let mut grants =
            if wanted.is_empty() { BTreeMap::new() } else { self.reserve(wanted).await? };
        let (shares, allowance) = assign_permits(candidates, &mut grants, &mut round.blocked);
        let allowed = shares.values().sum();
        let one = |(slot, n): (SlotIndex, usize)| {
            let lanes = allowance.get(&slot).cloned().unwrap_or_default();
            let mut table: Vec<_> =
                lanes.into_iter().map(|(lane, tokens)| (lane, Arg::list(tokens))).collect();
            for lane in round.blocked.keys() {
                if !table.iter().any(|(allowed, _)| allowed == lane) {
                    table.push((lane.clone(), Arg::List(Vec::new())));
                }
            }
            let mut args = self.claim_args(request, n, round.bound(slot), table);
            args.push(("deadline", deadline.into()));
            self.ask_shard(slot, Arg::Map(args))
        };
        let answers = join_all(shares.into_iter().map(one).collect()).await;
        let (mut failed, before) = (None, round.taken.len());
        for answer in answers {
            match answer {
                Ok((_, ShardAnswer::Taken(jobs))) => {
                    round.left = round.left.saturating_sub(jobs.len());
                    round.taken.extend(jobs);
                }
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            // It is unknown whether permits were used. Unused ones are found when permits run short.
            return Err(error);
        }
        let taken = round.taken.iter().skip(before).map(|(_, job)| job);
        self.return_unused(taken, &allowance, grants).await?;
        Ok(allowed)
    }

    /// Returns permits that the shards did not use, and those that no job could use.
    async fn return_unused(
        &self,
        taken: impl Iterator<Item = &Job>,
        allowance: &Allowance,
        mut grants: BTreeMap<String, PermitGrant>,
    ) -> Result<(), Error> {
        if grants.is_empty() {
            return Ok(());
        }
        let mut used: BTreeMap<(SlotIndex, String), usize> = BTreeMap::new();
        for job in taken {
            let at = (self.layout.of_job(job.id), lane(&job.spec));
            *used.entry(at).or_default() += 1;
        }
        for (slot, lanes) in allowance {
            for (lane, rows) in lanes {
                let count = used.get(&(*slot, lane.clone())).copied().unwrap_or(0);
                for row in rows.iter().skip(count) {
                    for (bucket, token) in buckets(lane).zip(row.split(',')) {
                        if let Some(grant) = grants.get_mut(bucket) {
                            grant.tokens.push(token.to_owned());
                        }
                    }
                }
            }
        }
        self.return_reserved(grants).await
    }

    fn claim_args(
        &self,
        request: &Claim,
        n: usize,
        bound: Option<String>,
        permits: Vec<(String, Arg)>,
    ) -> Vec<(&'static str, Arg)> {
        let mut queues: Vec<String> = Vec::new();
        for queue in request.queues.iter().map(|queue| escape(queue.as_str())) {
            if !queues.contains(&queue) {
                queues.push(queue);
            }
        }
        let mut args = vec![
            ("n", n.into()),
            ("queues", Arg::list(queues)),
            ("strict", (request.order == QueueOrder::Strict).into()),
            ("worker", request.worker.as_str().into()),
            ("permits", Arg::Table(permits)),
        ];
        if let Some(kinds) = &request.kinds {
            let kinds: BTreeSet<String> = kinds.iter().map(|kind| escape(kind.as_str())).collect();
            args.push(("kinds", Arg::list(kinds)));
        }
        args.extend(bound.map(|bound| ("bound", bound.into())));
        args
    }

    async fn ask_shard(&self, slot: SlotIndex, args: Arg) -> Result<(i64, ShardAnswer), Error> {
        let [now, kind, rows] = self.in_slot(&self.scripts.claim, slot, args).await?.parts()?;
        let rows = rows.list()?;
        let answer = match kind.text()?.as_str() {
            "candidates" => ShardAnswer::Candidates(
                rows.into_iter().map(|row| read_candidate(slot, row)).collect::<Result<_, _>>()?,
            ),
            "taken" => ShardAnswer::Taken(
                rows.into_iter().map(|row| self.read_taken(row)).collect::<Result<_, _>>()?,
            ),
            _ => ShardAnswer::Late,
        };
        Ok((now.number()?, answer))
    }

    fn read_taken(&self, row: ScriptReply) -> Result<(String, Job), Error> {
        let [position, id, fields] = row.parts()?;
        let id = JobId(id.id()?);
        let job = record::read(&self.layout, id, fields)?;
        Ok((
            position.text()?,
            job.ok_or_else(|| corrupt(format!("job {id} is in a lane but has no record")))?,
        ))
    }
}

fn read_candidate(slot: SlotIndex, row: ScriptReply) -> Result<ClaimCandidate, Error> {
    let [position, lane, limited] = row.parts()?;
    Ok(ClaimCandidate {
        slot,
        position: position.text()?,
        lane: lane.text()?,
        limited: limited.number()? == 1,
    })
}

/// Selects the candidates to claim: in order, each gets a permit of all its buckets or none. Permits left in
/// the grants are not needed.
fn assign_permits(
    candidates: &[ClaimCandidate],
    grants: &mut BTreeMap<String, PermitGrant>,
    blocked: &mut BTreeMap<String, Option<Time>>,
) -> (BTreeMap<SlotIndex, usize>, Allowance) {
    let mut shares: BTreeMap<SlotIndex, usize> = BTreeMap::new();
    let mut allowance = Allowance::new();
    for candidate in candidates {
        let names: Vec<&str> = buckets(&candidate.lane).collect();
        let empty = names.iter().find_map(|name| grants.get(*name).filter(|g| g.tokens.is_empty()));
        if let Some(grant) = empty {
            let until = match grant.short {
                Some(PermitShortage::Until(time)) => Some(time),
                Some(PermitShortage::Held) | None => None,
            };
            blocked.entry(candidate.lane.clone()).or_insert(until);
            continue;
        }
        if candidate.limited {
            let tokens = names.iter().filter_map(|name| grants.get_mut(*name)?.tokens.pop());
            let row = tokens.collect::<Vec<_>>().join(",");
            let lanes = allowance.entry(candidate.slot).or_default();
            lanes.entry(candidate.lane.clone()).or_default().push(row);
        }
        *shares.entry(candidate.slot).or_default() += 1;
    }
    (shares, allowance)
}
