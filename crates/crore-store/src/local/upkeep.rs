//! Upkeep: promote, lapsed, prune, lead.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crore_core::machine::{self, Event};
use crore_core::{Job, JobId, Name, Span, State, Time};

use super::Local;
use super::apply::Touched;
use super::claim::lost;
use super::records::Records;
use super::run::Slot;
use super::side::Key;
use crate::Error;
use crate::bug::planted;
use crate::registry::QueueSettings;
use crate::upkeep::{Lapses, Lead, Promoted, Pruned};

/// The ended jobs of a queue in one state: how many there are, and the oldest of each kind.
#[derive(Debug, Default)]
struct Oldest {
    count: u64,
    heads: BinaryHeap<Reverse<(Slot, u32)>>,
    /// The desk that was drawn from last, whose oldest is another by now.
    drawn: Option<u32>,
}

impl<R: Records> Local<R> {
    pub(crate) fn promote(&mut self, n: usize, now: Time) -> Result<Promoted, Error> {
        let mut count = 0;
        while count < n
            && let Some(slot) = self.timers.first()
            && (slot.at <= now || planted!("bug-7") && slot.at <= now.after(Span::from_millis(1)))
        {
            let promoted = self.change(slot.id, |record| record.job.live.promote())?;
            promoted.ok_or_else(|| lost(slot.id))?;
            count += 1;
        }
        Ok(Promoted { now, count, next_at: self.timers.first().map(|slot| slot.at) })
    }

    pub(crate) fn lapsed(&self, n: usize, now: Time) -> Result<Lapses, Error> {
        let over = |at: Time| if planted!("bug-2") { at < now } else { at <= now };
        let job = |id| self.load(id)?.map(|record| record.job).ok_or_else(|| lost(id));
        let slots = self.leases.iter_after(None).take_while(|slot| over(slot.at)).take(n);
        let lapsed: Vec<Job> = slots.map(|slot| job(slot.id)).collect::<Result<_, _>>()?;
        let broken = self.broken.iter().take(n.saturating_sub(lapsed.len()));
        let broken = broken.map(|id| job(*id)).collect::<Result<_, _>>()?;
        let next_at = self.leases.iter_after(None).nth(lapsed.len()).map(|slot| slot.at);
        Ok(Lapses { now, lapsed, broken, next_at })
    }

    pub(crate) fn prune(&mut self, n: usize, now: Time) -> Result<Pruned, Error> {
        let jobs = self.prune_jobs(n, now)?;
        let left = n - jobs;
        let mut others = self.prune_results(left, now)?;
        others += self.keys.prune(left - others, now);
        others += self.expire(left - others, now);
        others += self.ties.prune(left - others, now);
        self.notes.prune(left - others, now);
        self.leaders.retain(|_, (_, until)| now < *until);
        self.lanes.prune(now);
        Ok(Pruned { jobs, others })
    }

    /// Removes ended jobs, oldest first: what a queue's settings do not keep any more.
    fn prune_jobs(&mut self, n: usize, now: Time) -> Result<usize, Error> {
        let queues: Vec<u32> = self.lanes.queues.iter().map(|(no, _)| no).collect();
        let mut removed = 0;
        for queue in queues {
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
        let record = self.remove(id)?.ok_or_else(|| lost(id))?;
        // What it means to others that a job is gone is decided in one place.
        if let Ok(change) = machine::decide(&record.job, &Event::Prune, 0) {
            let touched = Touched::of(&record);
            for effect in change.effects {
                self.take_effect(&touched, effect, now)?;
            }
        }
        Ok(())
    }

    /// The ended jobs of a queue: the oldest of each kind.
    fn ended(&self, queue: u32, state: State) -> Oldest {
        let mut ended = Oldest::default();
        for desk in self.lanes.queues.at(queue).desks.values() {
            let Some(run) = self.lanes.desks.at(*desk).run(state) else { continue };
            ended.count += run.len() as u64;
            ended.heads.extend(run.first().map(|slot| Reverse((slot, *desk))));
        }
        ended
    }

    /// The oldest ended job of a queue, if it is older, or one more, than is kept; it is to be
    /// removed before the next is asked for.
    fn oldest_over(
        &self,
        ended: &mut Oldest,
        state: State,
        settings: &QueueSettings,
        now: Time,
    ) -> Option<JobId> {
        if let Some(desk) = ended.drawn.take() {
            let next = self.lanes.desks.at(desk).run(state).and_then(super::Run::first);
            ended.heads.extend(next.map(|slot| Reverse((slot, desk))));
        }
        let (keep, most) = match state {
            State::Dead => (settings.keep_dead, settings.max_dead),
            _ => (settings.keep_done, settings.max_done),
        };
        let Reverse((oldest, desk)) = ended.heads.pop()?;
        if ended.count <= most && oldest.at.after(keep) > now {
            return None;
        }
        ended.count -= 1;
        ended.drawn = Some(desk);
        Some(oldest.id)
    }

    fn prune_results(&mut self, n: usize, now: Time) -> Result<usize, Error> {
        let mut dropped = 0;
        while dropped < n
            && let Some((until, id)) = self.results.first().copied()
            && until <= now
        {
            let dropped_one = self.change(id, |record| record.job.live.result = None)?;
            dropped_one.ok_or_else(|| lost(id))?;
            dropped += 1;
        }
        Ok(dropped)
    }

    pub(crate) fn lead(&mut self, duty: Name, node: u64, span: Span, now: Time) -> Lead {
        match self.leaders.get(&duty) {
            Some((leader, until)) if *leader != node && now < *until => Lead::No(*until),
            _ => {
                let until = now.after(span);
                self.touched.push(Key::Leader(duty.clone()));
                self.leaders.insert(duty, (node, until));
                Lead::Yes(until)
            }
        }
    }
}
