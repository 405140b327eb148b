//! The upkeep of a whole store.

use crore_core::machine::{Event, decide};
use crore_core::{Job, State};
use crore_store::jobs::Write;
use crore_store::upkeep::Lapses;
use crore_store::{Error, Upkeep};

use super::apply::DICE;
use super::normal::Said;
use super::op::Upkeep as Op;
use super::side::Side;
use super::words;

/// More than a test ever has.
const ALL: usize = 10_000;

impl Side<'_> {
    pub(super) async fn upkeep(&mut self, store: &dyn Upkeep, op: &Op) -> Result<Said, Error> {
        match op {
            Op::Promote(n) => Ok(Said::Promoted(store.promote(*n).await?)),
            Op::Lapsed(n) => {
                let lapses = store.lapsed(*n).await?;
                Ok(Said::Number(lapses.lapsed.len() + lapses.broken.len()))
            }
            Op::Rescue => self.rescue(store).await,
            Op::Prune(n) => prune(store, *n).await,
            Op::Lead { node, span } => {
                Ok(Said::Lead(store.lead(words::name('d', 0), *node, *span).await?))
            }
        }
    }

    /// Everything that needs a decision gets it, in the order of ids, since the contract names none.
    async fn rescue(&mut self, store: &dyn Upkeep) -> Result<Said, Error> {
        let Lapses { now, lapsed, broken, next_at } = store.lapsed(ALL).await?;
        let mut all: Vec<&Job> = lapsed.iter().chain(&broken).collect();
        all.sort_by_key(|job| self.known.job_id(job.id));
        let event = |job: &Job| match job.live.state {
            State::Running => Event::Lapsed(job.live.delivery),
            _ => Event::Broken,
        };
        let decided = all.iter().map(|job| decide(job, &event(job), DICE).map(Write::Job));
        let applied = self.write(decided.collect()).await?;
        let lapsed = self.known.unordered(lapsed, now);
        let broken = self.known.unordered(broken, now);
        Ok(Said::Rescued(Lapses { now, lapsed, broken, next_at }, applied))
    }
}

/// Prunes in slices until nothing is left. Only removed jobs are counted: a lock or a result whose
/// time is over is nobody's any more, so that a store may have dropped it before.
async fn prune(store: &dyn Upkeep, n: usize) -> Result<Said, Error> {
    let mut jobs = 0;
    for _ in 0..1000 {
        let pruned = store.prune(n).await?;
        jobs += pruned.jobs;
        if pruned.jobs + pruned.others > n {
            return Ok(Said::Wrong(format!("{pruned:?} in a slice of {n}")));
        }
        if pruned.jobs + pruned.others == 0 {
            return Ok(Said::Number(jobs));
        }
    }
    Ok(Said::Wrong("a thousand slices of pruning, and still something to remove".to_owned()))
}
