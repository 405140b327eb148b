//! Upkeep: promote, lapsed, prune, lead.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crore_core::machine::{self, JobEvent};
use crore_core::{Job, JobId, Name, Span, State, Time};

use super::LocalIndex;
use super::apply::EffectSource;
use super::claim::missing_record;
use super::records::JobRecords;
use super::side::SideKey;
use super::sorted_run::RunSlot;
use crate::Error;
use crate::bug::planted;
use crate::registry::QueueSettings;
use crate::upkeep::{Lapses, Lead, Promoted, Pruned};

/// The ended jobs of a queue in one state: their number, and the oldest of each kind.
#[derive(Debug, Default)]
struct EndedJobs {
    count: u64,
    heads: BinaryHeap<Reverse<(RunSlot, u32)>>,
    /// The partition that the last removed job came from; its next head is not in `heads` yet.
    drawn: Option<u32>,
}

impl<R: JobRecords> LocalIndex<R> {
    pub(crate) fn promote(&mut self, n: usize, now: Time) -> Result<Promoted, Error> {
        let mut count = 0;
        while count < n
            && let Some(slot) = self.timers.first()
            && (slot.at <= now || planted!("bug-7") && slot.at <= now.after(Span::from_millis(1)))
        {
            let promoted = self.change(slot.id, |record| record.job.live.promote())?;
            promoted.ok_or_else(|| missing_record(slot.id))?;
            count += 1;
        }
        Ok(Promoted { now, count, next_at: self.timers.first().map(|slot| slot.at) })
    }

    pub(crate) fn lapsed(&self, n: usize, now: Time) -> Result<Lapses, Error> {
        let over = |at: Time| if planted!("bug-2") { at < now } else { at <= now };
        let job = |id| self.load(id)?.map(|record| record.job).ok_or_else(|| missing_record(id));
        let slots = self.leases.iter_after(None).take_while(|slot| over(slot.at)).take(n);
        let lapsed: Vec<Job> = slots.map(|slot| job(slot.id)).collect::<Result<_, _>>()?;
        let broken = self.broken.iter().take(n.saturating_sub(lapsed.len()));
        let broken: Vec<Job> = broken.map(|id| job(*id)).collect::<Result<_, _>>()?;
        let next_lease = self.leases.iter_after(None).nth(lapsed.len()).map(|slot| slot.at);
        let left = n.saturating_sub(lapsed.len() + broken.len());
        let (expired, next_deadline) = self.deadlines.expired(left, now);
        // An unreadable job must not keep the others from a decision: it is left to a repair.
        let expired = expired.iter().map(|slot| job(slot.id));
        let expired = expired.filter(|job| !matches!(job, Err(Error::Corrupt { .. })));
        let expired: Vec<Job> = expired.collect::<Result<_, _>>()?;
        let (timed_out, next_timeout) = self.events.timed_out(left - expired.len(), now);
        let timed_out = timed_out.into_iter().map(job);
        let timed_out = timed_out.filter(|job| !matches!(job, Err(Error::Corrupt { .. })));
        let timed_out = timed_out.collect::<Result<_, _>>()?;
        let next_at = next_lease.into_iter().chain(next_deadline).chain(next_timeout).min();
        Ok(Lapses { now, lapsed, broken, expired, timed_out, next_at })
    }

    pub(crate) fn prune(&mut self, n: usize, now: Time) -> Result<Pruned, Error> {
        let jobs = self.prune_jobs(n, now)?;
        let left = n - jobs;
        let mut others = self.prune_results(left, now)?;
        others += self.keys.prune(left - others, now);
        others += self.expire(left - others, now);
        others += self.dependencies.prune(left - others, now);
        others += self.events.prune(left - others, now);
        self.notes.prune(left - others, now);
        self.series.prune(left - others, now);
        self.leaders.retain(|_, (_, until)| now < *until);
        if jobs + others < n {
            // It examines every lane, so only after the last slice.
            self.lanes.prune(now);
        }
        Ok(Pruned { jobs, others })
    }

    /// Removes ended jobs beyond the age and count limits of their queue, oldest first.
    fn prune_jobs(&mut self, n: usize, now: Time) -> Result<usize, Error> {
        let queues: Vec<u32> = self.lanes.queues.iter().map(|(number, _)| number).collect();
        let mut removed = 0;
        for queue in queues {
            if removed == n {
                break;
            }
            let settings = self.definitions.settings(&self.lanes.queues.at(queue).name, now);
            for state in [State::Done, State::Dead, State::Cancelled] {
                let mut ended = self.ended(queue, state);
                while removed < n
                    && let Some(id) = self.oldest_over(&mut ended, state, &settings, now)
                {
                    self.prune_job(id, now)?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }

    fn prune_job(&mut self, id: JobId, now: Time) -> Result<(), Error> {
        let record = self.remove(id)?.ok_or_else(|| missing_record(id))?;
        // `decide` is the only place that knows what a removal means to other jobs.
        if let Ok(change) = machine::decide(&record.job, &JobEvent::Prune, 0) {
            let source = EffectSource::of(&record);
            for effect in change.effects {
                self.apply_effect(&source, effect, now)?;
            }
        }
        Ok(())
    }

    /// The ended jobs of a queue in one state.
    fn ended(&self, queue: u32, state: State) -> EndedJobs {
        let mut ended = EndedJobs::default();
        for (_, partition) in self.lanes.queues.at(queue).all_partitions() {
            let Some(run) = self.lanes.partitions.at(partition).run(state) else { continue };
            ended.count += run.len() as u64;
            ended.heads.extend(run.first().map(|slot| Reverse((slot, partition))));
        }
        ended
    }

    /// Returns the oldest ended job of a queue if it exceeds the age or count limit. The caller
    /// removes it before the next call.
    fn oldest_over(
        &self,
        ended: &mut EndedJobs,
        state: State,
        settings: &QueueSettings,
        now: Time,
    ) -> Option<JobId> {
        if let Some(partition) = ended.drawn.take() {
            let next =
                self.lanes.partitions.at(partition).run(state).and_then(super::SortedRun::first);
            ended.heads.extend(next.map(|slot| Reverse((slot, partition))));
        }
        let (keep, max_count) = match state {
            State::Dead => (settings.keep_dead, settings.max_dead),
            _ => (settings.keep_done, settings.max_done),
        };
        let Reverse((oldest, partition)) = ended.heads.pop()?;
        if ended.count <= max_count && oldest.at.after(keep) > now {
            return None;
        }
        ended.count -= 1;
        ended.drawn = Some(partition);
        Some(oldest.id)
    }

    fn prune_results(&mut self, n: usize, now: Time) -> Result<usize, Error> {
        let mut dropped = 0;
        while dropped < n
            && let Some((until, id)) = self.results.first().copied()
            && until <= now
        {
            let dropped_one = self.change(id, |record| record.job.live.result = None)?;
            dropped_one.ok_or_else(|| missing_record(id))?;
            dropped += 1;
        }
        Ok(dropped)
    }

    pub(crate) fn lead(&mut self, duty: Name, node: u64, span: Span, now: Time) -> Lead {
        match self.leaders.get(&duty) {
            Some((leader, until)) if *leader != node && now < *until => Lead::No(*until),
            _ => {
                let until = now.after(span);
                self.touched.push(SideKey::Leader(duty.clone()));
                self.leaders.insert(duty, (node, until));
                Lead::Yes(until)
            }
        }
    }
}
