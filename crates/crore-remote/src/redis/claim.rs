//! Claiming. With one shard and no limits it is one script. Otherwise each round looks at the best of
//! every shard, reserves the permits that these need, takes them, and returns what was not used.
//!
//! A round passes over lanes that had no permit; rounds go on until enough was taken or nothing is
//! left that could be.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::{Job, JobId, Time};
use crore_store::Error;
use crore_store::jobs::{Claim, Claimed, Order};

use super::Redis;
use super::names::{Slot, buckets, escape, lane};
use super::pack::Arg;
use super::permits::{Allowance, Grant, Short, USE_WITHIN};
use super::record;
use super::reply::{Reply, damaged};
use super::together::together;

/// How many rounds may be lost to others before a claim is content with what it has.
const LOST_ROUNDS: usize = 8;

/// The most that one claim takes, whatever it asks for: a script keeps a whole node waiting.
const MOST: usize = 10_000;

/// A ready job that a shard has named: its place in the order, and its lane.
struct Candidate {
    slot: Slot,
    place: String,
    lane: String,
    limited: bool,
}

/// What a shard answered.
enum Answer {
    Candidates(Vec<Candidate>),
    Taken(Vec<(String, Job)>),
    Late,
}

/// A claim under way.
#[derive(Default)]
struct Round {
    now: i64,
    left: usize,
    taken: Vec<(String, Job)>,
    /// Lanes that had no permit, and when a rate lets their next one through.
    blocked: BTreeMap<String, Option<Time>>,
    /// The best of each shard that there was no room for.
    passed: BTreeMap<Slot, String>,
}

impl Round {
    /// Up to where a shard may be taken from: what others have is better beyond that. So a claim
    /// that finds its candidates taken by others gets those that come next.
    fn bound(&self, slot: Slot) -> Option<String> {
        let others = self.passed.iter().filter(|(other, _)| **other != slot);
        others.map(|(_, place)| place).min().cloned()
    }
}

impl Redis {
    pub(super) async fn claim_jobs(&self, ask: Claim) -> Result<Claimed, Error> {
        let mut round = Round { left: ask.n.min(MOST), ..Round::default() };
        let mut lost = 0;
        // With one shard a claim may begin by taking: it learns of limits if there are any.
        let mut candidates = if self.shards() == 1 {
            self.take_or_look(&ask, &mut round).await?
        } else {
            self.look(&ask, &mut round).await?
        };
        while round.left > 0 && !candidates.is_empty() && lost < LOST_ROUNDS {
            let (before, blocked) = (round.left, round.blocked.len());
            let allowed = self.one_round(&ask, &mut round, &candidates).await?;
            let taken = before - round.left;
            if taken == allowed && candidates.len() < before {
                // All that there was has been seen, and taken as far as it may be.
                break;
            }
            if taken == 0 && round.blocked.len() == blocked {
                lost += 1;
            }
            if round.left > 0 {
                candidates = self.look(&ask, &mut round).await?;
            }
        }
        round.taken.sort_by(|a, b| a.0.cmp(&b.0));
        let next_at =
            if round.left > 0 { round.blocked.values().flatten().min().copied() } else { None };
        let jobs = round.taken.into_iter().map(|(_, job)| job).collect();
        Ok(Claimed { now: Time::from_millis(round.now), jobs, next_at })
    }

    /// The best of all shards, in order, without lanes that are known to be blocked.
    async fn look(&self, ask: &Claim, round: &mut Round) -> Result<Vec<Candidate>, Error> {
        let blocked: Vec<_> =
            round.blocked.keys().map(|lane| (lane.clone(), Arg::List(Vec::new()))).collect();
        let one = |slot| {
            let mut args = self.claim_args(ask, round.left, None, blocked.clone());
            args.push(("look", true.into()));
            self.ask_shard(slot, Arg::Map(args))
        };
        let mut candidates = Vec::new();
        for answer in together((0..self.shards()).map(one).collect()).await {
            let (now, answer) = answer?;
            round.now = now;
            if let Answer::Candidates(some) = answer {
                candidates.extend(some);
            }
        }
        candidates.sort_by(|a, b| a.place.cmp(&b.place));
        round.passed.clear();
        for candidate in candidates.drain(round.left.min(candidates.len())..) {
            round.passed.entry(candidate.slot).or_insert(candidate.place);
        }
        Ok(candidates)
    }

    async fn take_or_look(&self, ask: &Claim, round: &mut Round) -> Result<Vec<Candidate>, Error> {
        let args = self.claim_args(ask, round.left, None, Vec::new());
        let (now, answer) = self.ask_shard(0, Arg::Map(args)).await?;
        round.now = now;
        match answer {
            Answer::Candidates(candidates) => Ok(candidates),
            Answer::Taken(jobs) => {
                round.left = round.left.saturating_sub(jobs.len());
                round.taken.extend(jobs);
                Ok(Vec::new())
            }
            Answer::Late => Ok(Vec::new()),
        }
    }

    /// Takes what may be taken of the candidates. Gives how many that were; others may have been
    /// faster.
    async fn one_round(
        &self,
        ask: &Claim,
        round: &mut Round,
        candidates: &[Candidate],
    ) -> Result<usize, Error> {
        let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
        for candidate in candidates.iter().filter(|candidate| candidate.limited) {
            for bucket in buckets(&candidate.lane) {
                *wanted.entry(bucket.to_owned()).or_default() += 1;
            }
        }
        let deadline = round.now.saturating_add(USE_WITHIN);
        let mut grants =
            if wanted.is_empty() { BTreeMap::new() } else { self.reserve(wanted).await? };
        let (shares, allowance) = share_out(candidates, &mut grants, &mut round.blocked);
        let allowed = shares.values().sum();
        let one = |(slot, n): (Slot, usize)| {
            let lanes = allowance.get(&slot).cloned().unwrap_or_default();
            let mut table: Vec<_> =
                lanes.into_iter().map(|(lane, tokens)| (lane, Arg::list(tokens))).collect();
            for lane in round.blocked.keys() {
                if !table.iter().any(|(allowed, _)| allowed == lane) {
                    table.push((lane.clone(), Arg::List(Vec::new())));
                }
            }
            let mut args = self.claim_args(ask, n, round.bound(slot), table);
            args.push(("deadline", deadline.into()));
            self.ask_shard(slot, Arg::Map(args))
        };
        let answers = together(shares.into_iter().map(one).collect()).await;
        let (mut failed, before) = (None, round.taken.len());
        for answer in answers {
            match answer {
                Ok((_, Answer::Taken(jobs))) => {
                    round.left = round.left.saturating_sub(jobs.len());
                    round.taken.extend(jobs);
                }
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            // Whether permits were used is open; those that were not are found when they run short.
            return Err(error);
        }
        let taken = round.taken.iter().skip(before).map(|(_, job)| job);
        self.return_unused(taken, &allowance, grants).await?;
        Ok(allowed)
    }

    /// Gives back what the shards did not use of their allowance, and what no job could use.
    async fn return_unused(
        &self,
        taken: impl Iterator<Item = &Job>,
        allowance: &Allowance,
        mut grants: BTreeMap<String, Grant>,
    ) -> Result<(), Error> {
        if grants.is_empty() {
            return Ok(());
        }
        let mut used: BTreeMap<(Slot, String), usize> = BTreeMap::new();
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
        self.give_back(grants).await
    }

    fn claim_args(
        &self,
        ask: &Claim,
        n: usize,
        bound: Option<String>,
        permits: Vec<(String, Arg)>,
    ) -> Vec<(&'static str, Arg)> {
        let mut queues: Vec<String> = Vec::new();
        for queue in ask.queues.iter().map(|queue| escape(queue.as_str())) {
            if !queues.contains(&queue) {
                queues.push(queue);
            }
        }
        let mut args = vec![
            ("n", n.into()),
            ("queues", Arg::list(queues)),
            ("strict", (ask.order == Order::Strict).into()),
            ("worker", ask.worker.as_str().into()),
            ("permits", Arg::Table(permits)),
        ];
        if let Some(kinds) = &ask.kinds {
            let kinds: BTreeSet<String> = kinds.iter().map(|kind| escape(kind.as_str())).collect();
            args.push(("kinds", Arg::list(kinds)));
        }
        args.extend(bound.map(|bound| ("bound", bound.into())));
        args
    }

    async fn ask_shard(&self, slot: Slot, args: Arg) -> Result<(i64, Answer), Error> {
        let [now, sort, rows] = self.in_slot(&self.scripts.claim, slot, args).await?.parts()?;
        let rows = rows.list()?;
        let answer = match sort.text()?.as_str() {
            "candidates" => Answer::Candidates(
                rows.into_iter().map(|row| read_candidate(slot, row)).collect::<Result<_, _>>()?,
            ),
            "taken" => Answer::Taken(
                rows.into_iter().map(|row| self.read_taken(row)).collect::<Result<_, _>>()?,
            ),
            _ => Answer::Late,
        };
        Ok((now.number()?, answer))
    }

    fn read_taken(&self, row: Reply) -> Result<(String, Job), Error> {
        let [place, id, fields] = row.parts()?;
        let id = JobId(id.id()?);
        let job = record::read(&self.layout, id, fields)?;
        Ok((place.text()?, job.ok_or_else(|| damaged(format!("job {id} is in a lane only")))?))
    }
}

fn read_candidate(slot: Slot, row: Reply) -> Result<Candidate, Error> {
    let [place, lane, limited] = row.parts()?;
    Ok(Candidate {
        slot,
        place: place.text()?,
        lane: lane.text()?,
        limited: limited.number()? == 1,
    })
}

/// Who of the candidates may be taken: in order, each gets a permit of all its buckets or none. What
/// is left in the grants is for nobody.
fn share_out(
    candidates: &[Candidate],
    grants: &mut BTreeMap<String, Grant>,
    blocked: &mut BTreeMap<String, Option<Time>>,
) -> (BTreeMap<Slot, usize>, Allowance) {
    let mut shares: BTreeMap<Slot, usize> = BTreeMap::new();
    let mut allowance = Allowance::new();
    for candidate in candidates {
        let names: Vec<&str> = buckets(&candidate.lane).collect();
        let empty = names.iter().find_map(|name| grants.get(*name).filter(|g| g.tokens.is_empty()));
        if let Some(grant) = empty {
            let until = match grant.short {
                Some(Short::Until(time)) => Some(time),
                Some(Short::Held) | None => None,
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
