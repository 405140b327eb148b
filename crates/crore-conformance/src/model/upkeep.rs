//! Upkeep of a whole store.

use crore_core::machine::{JobEvent, decide};
use crore_core::{Job, State};
use crore_store::jobs::StoreWrite;
use crore_store::upkeep::Lapses;
use crore_store::{Error, Upkeep};

use super::apply::FIXED_JITTER;
use super::compared_store::ComparedStore;
use super::normalize::NormalResponse;
use super::op::UpkeepOp as Op;
use super::samples;

/// More jobs than any test has.
const ALL: usize = 10_000;

impl ComparedStore<'_> {
    pub(super) async fn upkeep(
        &mut self,
        store: &dyn Upkeep,
        op: &Op,
    ) -> Result<NormalResponse, Error> {
        match op {
            Op::Promote(n) => Ok(NormalResponse::Promoted(store.promote(*n).await?)),
            Op::Lapsed(n) => {
                let lapses = store.lapsed(*n).await?;
                let others = lapses.broken.len() + lapses.expired.len() + lapses.timed_out.len();
                Ok(NormalResponse::Number(lapses.lapsed.len() + others))
            }
            Op::ExpireLeases => self.expire_leases(store).await,
            Op::Prune(n) => prune(store, *n).await,
            Op::Lead { node, span } => {
                Ok(NormalResponse::Lead(store.lead(samples::name('d', 0), *node, *span).await?))
            }
        }
    }

    /// Decides all jobs that need a decision, ordered by id, since the contract defines no order.
    async fn expire_leases(&mut self, store: &dyn Upkeep) -> Result<NormalResponse, Error> {
        let Lapses { now, lapsed, broken, expired, timed_out, next_at } = store.lapsed(ALL).await?;
        let decisions = lapsed.iter().chain(&broken).chain(&expired).chain(&timed_out);
        let mut all: Vec<&Job> = decisions.collect();
        all.sort_by_key(|job| self.observed.job_id(job.id));
        let event = |job: &Job| match job.live.state {
            State::Running => JobEvent::Lapsed(job.live.delivery),
            _ if job.live.broken => JobEvent::Broken,
            _ if job.live.is_expired(now) => JobEvent::Expired(now),
            _ => JobEvent::EventTimedOut(now),
        };
        let decided =
            all.iter().map(|job| decide(job, &event(job), FIXED_JITTER).map(StoreWrite::Job));
        let applied = self.write(decided.collect()).await?;
        let lapsed = self.observed.unordered(lapsed, now);
        let broken = self.observed.unordered(broken, now);
        let expired = self.observed.unordered(expired, now);
        let timed_out = self.observed.unordered(timed_out, now);
        let lapses = Lapses { now, lapsed, broken, expired, timed_out, next_at };
        Ok(NormalResponse::LeasesExpired(lapses, applied))
    }
}

/// Prunes in slices until nothing is left. Only removed jobs are counted: a store may have dropped expired
/// locks and results earlier.
async fn prune(store: &dyn Upkeep, n: usize) -> Result<NormalResponse, Error> {
    let mut jobs = 0;
    for _ in 0..1000 {
        let pruned = store.prune(n).await?;
        jobs += pruned.jobs;
        if pruned.jobs + pruned.others > n {
            return Ok(NormalResponse::Wrong(format!("{pruned:?} in a slice of {n}")));
        }
        if pruned.jobs + pruned.others == 0 {
            return Ok(NormalResponse::Number(jobs));
        }
    }
    Ok(NormalResponse::Wrong("a thousand slices of pruning without an end".to_owned()))
}
