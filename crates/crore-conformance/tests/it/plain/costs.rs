//! Costs under limits, rates that are reserved for a job, and paused keys.

use crore_core::limit::{Limit, LimitKey, PauseEnd, Tat};
use crore_core::{Job, Name, Span, Spec, State};
use crore_store::jobs::Pushed;
use crore_store::views::PausedKey;

use super::claim::RefusedStart;
use super::records::Records;

/// How long a rate stays reserved after it has what the job costs.
const GRACE: Span = Span::from_secs(5);

impl Records {
    /// Whether a limit of the job counts costs.
    pub(super) fn has_costs(&self, spec: &Spec) -> bool {
        spec.limits.iter().any(|key| self.costed(key).is_some())
    }

    fn costed(&self, key: &LimitKey) -> Option<&Limit> {
        self.limit(&key.limit).filter(|limit| limit.cost.is_some())
    }

    /// Whether the concurrency and the pause of a key let a job start.
    pub(super) fn check_held(&self, key: &LimitKey, limit: &Limit) -> Result<(), RefusedStart> {
        if limit.concurrency.is_some_and(|most| self.running(key) >= most as usize) {
            return Err(RefusedStart::default());
        }
        match self.paused.get(key) {
            Some(until) if self.now < *until => {
                Err(RefusedStart { next_at: Some(*until), ..RefusedStart::default() })
            }
            _ => Ok(()),
        }
    }

    /// First everything but the rates is checked, then all rates. If only they refuse, they are reserved for the job.
    pub(super) fn permits_by_cost(&self, job: &Job) -> Result<Vec<(LimitKey, Tat)>, RefusedStart> {
        for key in &job.spec.limits {
            let Some(limit) = self.limit(&key.limit) else { continue };
            self.check_held(key, limit)?;
            if let Some((id, priority, at)) = self.reserved.get(key)
                && *id != job.id
                && *priority <= job.spec.priority
                && self.now < at.after(GRACE)
            {
                let next_at = Some(at.after(GRACE));
                return Err(RefusedStart { next_at, ..RefusedStart::default() });
            }
        }
        let (mut taken, mut refused) = (Vec::new(), RefusedStart::default());
        for (key, cost) in job.spec.charges() {
            let Some(limit) = self.limit(&key.limit) else { continue };
            let Some(rate) = limit.rate else { continue };
            let tat = self.tats.get(key).copied().unwrap_or_default();
            let (is_granted, next, next_at) = if limit.cost.is_some() {
                let grant = rate.take_cost(tat, self.now, cost);
                (grant.is_granted, grant.tat, rate.next_at_cost(tat, self.now, cost))
            } else {
                let grant = rate.take(tat, self.now, 1);
                (grant.granted == 1, grant.tat, rate.next_at(tat, self.now))
            };
            if is_granted {
                taken.push((key.clone(), next));
            } else {
                refused.tats.push((key.clone(), next));
                refused.next_at = refused.next_at.max(Some(next_at));
            }
        }
        if refused.next_at.is_none() {
            return Ok(taken);
        }
        let costed = job.spec.limits.iter().filter(|key| self.costed(key).is_some());
        refused.reserves = costed.cloned().collect();
        Err(refused)
    }

    /// Drops reservations for jobs that are no longer the first of their lane.
    pub(super) fn prune_reserved(&mut self) {
        let jobs = &self.jobs;
        self.reserved.retain(|_, (id, priority, _)| {
            let is_ready = |job: &&Job| job.live.state == State::Ready;
            let Some(job) = jobs.get(id).filter(is_ready) else { return false };
            let lane = |job: &Job| {
                let Spec { queue, kind, limits, fair, worker_version, .. } = Spec::clone(&job.spec);
                (queue, kind, limits, fair, worker_version)
            };
            let mut others =
                jobs.values().filter(is_ready).filter(|other| lane(other) == lane(job));
            let head = |job: &Job| (job.spec.priority, job.live.due, job.id);
            job.spec.priority == *priority && others.all(|other| head(job) <= head(other))
        });
    }

    pub(super) fn correct_cost(&mut self, key: LimitKey, charged: u32, real: u32) {
        if let Some(rate) = self.costed(&key).and_then(|limit| limit.rate) {
            let tat = self.tats.entry(key).or_default();
            *tat = rate.settle(*tat, self.now, charged, real);
        }
    }

    pub(super) fn pause(&mut self, key: LimitKey, until: PauseEnd) {
        let until = until.resolve(self.now);
        let pause = self.paused.entry(key).or_default();
        *pause = until.max(*pause);
    }

    pub(super) fn resume(&mut self, limit: &Name, key: Option<&LimitKey>) -> Option<Vec<Pushed>> {
        let now = self.now;
        self.paused.retain(|_, until| now < *until);
        let before = self.paused.len();
        self.paused.retain(|it, _| it.limit != *limit || key.is_some_and(|key| key != it));
        (self.paused.len() < before).then(Vec::new)
    }

    pub(super) fn paused_keys(&self, limit: Option<&Name>, n: usize) -> Vec<PausedKey> {
        let paused = self.paused.iter().filter(|(_, until)| self.now < **until);
        let paused = paused.filter(|(key, _)| limit.is_none_or(|limit| key.limit == *limit));
        paused.map(|(key, until)| PausedKey { key: key.clone(), until: *until }).take(n).collect()
    }
}
