//! Apply: decisions and their effects, each whole or not at all.

use std::sync::Arc;

use crore_core::machine::{Change, Effect, Next};
use crore_core::{GroupId, Job, JobId, Satisfaction, Spec, State, Time};

use super::Local;
use super::records::{Record, Records};
use crate::Error;
use crate::bug::planted;
use crate::jobs::{Applied, Pushed, Write};

/// What effects need to know of the job that they come from, as it was before.
pub(super) struct Touched {
    id: JobId,
    lane: u32,
    attempt: u32,
    spec: Arc<Spec>,
}

impl Touched {
    pub(super) fn of(record: &Record) -> Self {
        let job = &record.job;
        let (lane, attempt) = (record.lane, job.live.attempt);
        Self { id: job.id, lane, attempt, spec: Arc::clone(&job.spec) }
    }
}

impl<R: Records> Local<R> {
    pub(crate) fn apply(&mut self, writes: Vec<Write>, now: Time) -> Result<Vec<Applied>, Error> {
        writes.into_iter().map(|write| self.apply_one(write, now)).collect()
    }

    fn apply_one(&mut self, write: Write, now: Time) -> Result<Applied, Error> {
        match write {
            Write::Job(change) => self.apply_change(change, now),
            Write::Seal(group) => self.seal(group, now),
            Write::Tick { schedule, seen, cursor, push } => {
                if !self.definitions.tick(&schedule, seen, cursor, now) {
                    return Ok(Applied::Stale);
                }
                Ok(Applied::Yes(self.push_more(push, None, now)?))
            }
        }
    }

    fn apply_change(&mut self, change: Change, now: Time) -> Result<Applied, Error> {
        let holds = |job: &Job| {
            job.live.is(&change.seen) || planted!("bug-1") && job.live.state == change.seen.state
        };
        let touched = self.change(change.id, |record| {
            let touched = holds(&record.job).then(|| Touched::of(record))?;
            if let Next::Live(next) = &change.next {
                let before = planted!("bug-10").then(|| record.job.live.result.clone());
                record.job.take(next, now);
                if let Some(Some(result)) = before {
                    record.job.live.result = Some(result);
                }
                if planted!("bug-8") && record.job.live.state == State::Ready {
                    record.job.live.due = now;
                }
            }
            Some(touched)
        })?;
        let Some(touched) = touched.flatten() else { return Ok(Applied::Stale) };
        if let Next::Gone = change.next {
            self.remove(change.id)?;
        }
        let mut pushed = Vec::new();
        for effect in change.effects {
            pushed.extend(self.take_effect(&touched, effect, now)?);
        }
        Ok(Applied::Yes(pushed))
    }

    /// One effect of a change.
    pub(super) fn take_effect(
        &mut self,
        touched: &Touched,
        effect: Effect,
        now: Time,
    ) -> Result<Vec<Pushed>, Error> {
        let (id, spec) = (touched.id, &touched.spec);
        match effect {
            Effect::ReturnPermits if planted!("bug-4") && touched.attempt > 1 => {}
            Effect::ReturnPermits => self.lanes.give_back(touched.lane, now),
            Effect::ReleaseKey => {
                if let Some(unique) = &spec.unique {
                    self.keys.release(unique, id);
                }
            }
            Effect::Tally(mut tally) => {
                if planted!("bug-9") {
                    tally.succeeded = tally.ran;
                }
                if let Some(group) = spec.group {
                    let settled = self.ties.tally(group, tally, now);
                    self.tell(settled, now)?;
                }
            }
            Effect::Settle(settled) => {
                let settled = self.ties.settle(id, settled);
                self.tell(settled, now)?;
            }
            Effect::Push(jobs) => {
                if planted!("bug-6") {
                    self.push_more(jobs.clone(), Some(id), now)?;
                }
                return self.push_more(jobs, Some(id), now);
            }
        }
        Ok(Vec::new())
    }

    fn seal(&mut self, group: GroupId, now: Time) -> Result<Applied, Error> {
        let Some(settled) = self.ties.seal(group, now) else { return Ok(Applied::Stale) };
        self.tell(settled, now)?;
        Ok(Applied::Yes(Vec::new()))
    }

    /// Tells waiting jobs how their dependencies settled.
    pub(super) fn tell(
        &mut self,
        settled: Vec<(JobId, Satisfaction)>,
        now: Time,
    ) -> Result<(), Error> {
        for (id, dependency) in settled {
            self.change(id, |record| record.job.live.settle(dependency, now))?;
        }
        Ok(())
    }
}
