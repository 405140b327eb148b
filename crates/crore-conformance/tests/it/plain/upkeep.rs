//! Upkeep.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::job::DependencyTarget;
use crore_core::machine::{JobEvent, decide};
use crore_core::{Job, JobId, Name, Span, State, Time};
use crore_store::upkeep::{GROUP_RETENTION, Lapses, Lead, Promoted, Pruned};

use super::records::Records;

impl Records {
    pub(super) fn promote(&mut self, n: usize) -> Promoted {
        let mut scheduled =
            self.by_time(State::Scheduled, |job| job.live.due).into_iter().peekable();
        let mut count = 0;
        while count < n
            && let Some((_, id)) = scheduled.next_if(|(due, _)| *due <= self.now)
        {
            self.jobs.get_mut(&id).expect("it is scheduled").live.promote();
            count += 1;
        }
        Promoted { now: self.now, count, next_at: scheduled.next().map(|(due, _)| due) }
    }

    pub(super) fn lapsed(&self, n: usize) -> Lapses {
        let mut running =
            self.by_time(State::Running, |job| job.live.lease_until).into_iter().peekable();
        let mut lapsed = Vec::new();
        while lapsed.len() < n
            && let Some((_, id)) = running.next_if(|(end, _)| *end <= self.now)
        {
            lapsed.push(self.jobs[&id].clone());
        }
        let broken = self.jobs.values().filter(|job| job.live.state == State::Waiting);
        let broken = broken.filter(|job| job.live.broken).take(n - lapsed.len());
        let broken: Vec<Job> = broken.cloned().collect();
        let mut pending = self.deadlines().into_iter().peekable();
        let mut expired = Vec::new();
        while lapsed.len() + broken.len() + expired.len() < n
            && let Some((_, id)) = pending.next_if(|(deadline, _)| *deadline <= self.now)
        {
            expired.push(self.jobs[&id].clone());
        }
        let mut waits = self.event_timeouts().into_iter().peekable();
        let mut timed_out = Vec::new();
        while lapsed.len() + broken.len() + expired.len() + timed_out.len() < n
            && let Some((_, id)) = waits.next_if(|(until, _)| *until <= self.now)
        {
            timed_out.push(self.jobs[&id].clone());
        }
        let next = running.next().into_iter().chain(pending.next()).chain(waits.next());
        let next_at = next.map(|(at, _)| at).min();
        Lapses { now: self.now, lapsed, broken, expired, timed_out, next_at }
    }

    /// Deadlines of jobs that have not started and whose dependencies are not broken, in order.
    fn deadlines(&self) -> BTreeSet<(Time, JobId)> {
        let pending = [State::Waiting, State::Scheduled, State::Ready];
        let jobs = self.jobs.values().filter(|job| pending.contains(&job.live.state));
        let jobs = jobs.filter(|job| !job.live.broken);
        jobs.filter_map(|job| Some((job.live.deadline?, job.id))).collect()
    }

    pub(super) fn lead(&mut self, duty: Name, node: u64, span: Span) -> Lead {
        match self.leads.get(&duty) {
            Some((leader, until)) if *leader != node && self.now < *until => Lead::No(*until),
            _ => {
                let until = self.now.after(span);
                self.leads.insert(duty, (node, until));
                Lead::Yes(until)
            }
        }
    }

    pub(super) fn prune(&mut self, n: usize) -> Pruned {
        let ids: Vec<JobId> = self.expired_jobs().into_iter().take(n).collect();
        for id in &ids {
            let change =
                decide(&self.jobs[id], &JobEvent::Prune, 0).expect("an ended job is pruned");
            self.change(change);
        }
        Pruned { jobs: ids.len(), others: self.prune_others(n - ids.len()) }
    }

    /// The ended jobs that are too old, or too many of their state in their queue; oldest first.
    fn expired_jobs(&self) -> Vec<JobId> {
        let mut over = BTreeSet::new();
        for state in [State::Done, State::Dead, State::Cancelled] {
            let mut newer = BTreeMap::<&Name, u64>::new();
            for (ended_at, id) in self.by_time(state, ended_at).into_iter().rev() {
                let queue = &self.jobs[&id].spec.queue;
                let settings = self.settings(queue);
                let (keep, most) = match state {
                    State::Dead => (settings.keep_dead, settings.max_dead),
                    _ => (settings.keep_done, settings.max_done),
                };
                let newer = newer.entry(queue).or_default();
                if *newer >= most || ended_at.after(keep) <= self.now {
                    over.insert((ended_at, id));
                }
                *newer += 1;
            }
        }
        over.into_iter().map(|(_, id)| id).collect()
    }

    /// Removes up to `n` expired results, locks, entries and groups; returns how many.
    fn prune_others(&mut self, n: usize) -> usize {
        let (mut left, now) = (n, self.now);
        let mut goes = |is_over: bool| {
            let goes = is_over && left > 0;
            left -= usize::from(goes);
            goes
        };
        for job in self.jobs.values_mut() {
            if goes(job.live.result.as_ref().is_some_and(|kept| kept.until <= now)) {
                job.live.result = None;
            }
        }
        self.locks.retain(|_, lock| !goes(lock.until.is_some_and(|until| until <= now)));
        self.entries.retain(|_, entry| !goes(entry.expires_at.is_some_and(|end| end <= now)));
        self.groups.retain(|id, (group, changed_at)| {
            let is_over = group.has_ended() && changed_at.after(GROUP_RETENTION) <= now;
            !goes(is_over && self.waits.iter().all(|wait| wait.on != DependencyTarget::Group(*id)))
        });
        n - left
    }

    /// The jobs of a state, sorted by a time and their ids.
    fn by_time(&self, state: State, time: impl Fn(&Job) -> Time) -> Vec<(Time, JobId)> {
        let jobs = self.jobs.values().filter(|job| job.live.state == state);
        let mut jobs: Vec<_> = jobs.map(|job| (time(job), job.id)).collect();
        jobs.sort_unstable();
        jobs
    }
}

fn ended_at(job: &Job) -> Time {
    job.live.ended_at.unwrap_or_default()
}
