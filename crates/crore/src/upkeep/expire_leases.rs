//! Ends deliveries whose lease has expired, jobs that have missed their deadline or whose dependencies can no longer
//! succeed, and waits for events that are over.

use crore_core::machine::{Change, Effect, JobEvent, decide};
use crore_core::{Job, Time};
use crore_store::jobs::{JobSelector, Renew};
use crore_store::views::ListQuery;

use crate::bug::planted;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::timers::NEVER;

/// Jobs per call.
const AT_ONCE: usize = 1000;

impl EngineInner {
    /// Ends deliveries with an expired lease, broken jobs, jobs past their deadline and waits that are over; returns when
    /// the next of these is due.
    pub(super) async fn expire_leases_once(&self) -> Result<Time, Error> {
        self.renew_recovered_leases().await?;
        let lapses = self.store.lapsed(AT_ONCE).await?;
        let lapsed = lapses.lapsed.iter().map(|job| (job, JobEvent::Lapsed(job.live.delivery)));
        let broken = lapses.broken.iter().map(|job| (job, JobEvent::Broken));
        let expired = lapses.expired.iter().map(|job| (job, JobEvent::Expired(lapses.now)));
        let timed_out =
            lapses.timed_out.iter().map(|job| (job, JobEvent::EventTimedOut(lapses.now)));
        let requests: Vec<(JobSelector, JobEvent)> = lapsed
            .chain(broken)
            .chain(expired)
            .chain(timed_out)
            .map(|(job, event)| {
                // The cached job does not include renewals.
                self.running.forget(job.id);
                (JobSelector::Id(job.id), event)
            })
            .collect();
        if !requests.is_empty() {
            let now = lapses.now;
            self.change(requests, |job, event, random| match event {
                // The lease may have been renewed since.
                JobEvent::Lapsed(_) if job.live.lease_until > now => {
                    Err(crore_core::machine::Refusal::NotNow)
                }
                JobEvent::Expired(_) => {
                    decide(job, event, random).map(|change| self.expiry(change))
                }
                event => decide(job, event, random),
            })
            .await?;
        }
        Ok(lapses.next_at.unwrap_or(NEVER))
    }

    /// The end of a job past its deadline, with the defaults of its follow-up. They are those of now: limits and
    /// handlers may have changed since the job was pushed.
    fn expiry(&self, mut change: Change) -> Change {
        if planted!("bug-30") {
            change.effects.retain(|effect| !matches!(effect, Effect::Push(_)));
        }
        for effect in &mut change.effects {
            if let Effect::Push(jobs) = effect {
                jobs.iter_mut().for_each(|job| self.fill_in(job));
            }
        }
        change
    }

    /// Collects the running jobs when the engine starts, before any fetch can claim one. Each gets one more lease,
    /// so that workers that reconnect keep their jobs.
    pub(crate) async fn recover_running(&self) -> Result<(), Error> {
        let mut after = None;
        loop {
            let state = crore_core::State::Running;
            let query = ListQuery { state, queue: None, kind: None, key: None, after, n: AT_ONCE };
            let page = self.store.list(query).await?;
            let renew = |job: &Job| Renew { id: job.id, delivery: job.live.delivery, span: None };
            self.duties.recovered_leases().extend(page.jobs.iter().map(renew));
            let overdue_at = self.running.add(&page.jobs);
            self.plan_duty(super::Duty::Overdue, overdue_at);
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Renews the collected leases once. If the disk is full they end when they would have ended anyway.
    async fn renew_recovered_leases(&self) -> Result<(), Error> {
        loop {
            let some: Vec<Renew> =
                self.duties.recovered_leases().iter().rev().take(AT_ONCE).copied().collect();
            if some.is_empty() {
                return Ok(());
            }
            let n = some.len();
            match self.store.renew(some).await {
                Err(crore_store::Error::Full { .. }) => {}
                renewed => drop(renewed?),
            }
            let mut leases = self.duties.recovered_leases();
            let left = leases.len().saturating_sub(n);
            leases.truncate(left);
        }
    }
}
