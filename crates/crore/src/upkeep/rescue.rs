use crore_core::machine::{Event, decide};
use crore_core::{Job, Time};
use crore_store::jobs::{Renew, Which};
use crore_store::views::Query;

use crate::engine::Inner;
use crate::error::Error;
use crate::timers::NEVER;

/// How many are looked at in one go.
const AT_ONCE: usize = 1000;

impl Inner {
    /// Takes lapsed leases back, and cancels what waits for something that cannot come true; gives
    /// when the next lease ends.
    pub(super) async fn rescue_once(&self) -> Result<Time, Error> {
        self.keep_leases().await?;
        let lapses = self.store.lapsed(AT_ONCE).await?;
        let lapsed = lapses.lapsed.iter().map(|job| (job, Event::Lapsed(job.live.delivery)));
        let broken = lapses.broken.iter().map(|job| (job, Event::Broken));
        let asked: Vec<(Which, Event)> = lapsed
            .chain(broken)
            .map(|(job, event)| {
                // What is at hand knows nothing of renewals.
                self.running.forget(job.id);
                (Which::Id(job.id), event)
            })
            .collect();
        if !asked.is_empty() {
            let now = lapses.now;
            self.change(asked, |job, event, dice| match event {
                // It may have been renewed since.
                Event::Lapsed(_) if job.live.lease_until > now => {
                    Err(crore_core::machine::Refusal::NotNow)
                }
                event => decide(job, event, dice),
            })
            .await?;
        }
        Ok(lapses.next_at.unwrap_or(NEVER))
    }

    /// After a restart every running job is to be given one more lease, so that workers which come back
    /// keep their jobs. Which ones those are is seen before anybody can claim one.
    pub(crate) async fn look_for_running(&self) -> Result<(), Error> {
        let mut after = None;
        loop {
            let state = crore_core::State::Running;
            let query = Query { state, queue: None, kind: None, after, n: AT_ONCE };
            let page = self.store.list(query).await?;
            let renew = |job: &Job| Renew { id: job.id, delivery: job.live.delivery, span: None };
            self.duties.leases_to_keep().extend(page.jobs.iter().map(renew));
            let overdue_at = self.running.add(&page.jobs);
            self.want(super::Duty::Overdue, overdue_at);
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Gives them their leases. A full disk has no room for that: they end then when they would have
    /// ended.
    async fn keep_leases(&self) -> Result<(), Error> {
        loop {
            let some: Vec<Renew> =
                self.duties.leases_to_keep().iter().rev().take(AT_ONCE).copied().collect();
            if some.is_empty() {
                return Ok(());
            }
            let n = some.len();
            match self.store.renew(some).await {
                Err(crore_store::Error::Full { .. }) => {}
                renewed => drop(renewed?),
            }
            let mut leases = self.duties.leases_to_keep();
            let left = leases.len().saturating_sub(n);
            leases.truncate(left);
        }
    }
}
