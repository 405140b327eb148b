//! Writes: decided on what was seen of this store, then applied to it.

use std::sync::Arc;

use crore_core::job::Spec;
use crore_core::machine::{Again, Edit, Event, Outcome, Refusal, Report, decide};
use crore_core::{Delivery, Job, JobId, Name, Payload, Revision, Time};
use crore_store::Error;
use crore_store::jobs::{Applied, Which, Write};
use crore_store::registry::{Entry, Table, Value};
use crore_testkit::FakeClock;

use super::known::Known;
use super::normal::Said;
use super::op::{Act, End, On, Plan, Sight, What};
use super::side::Side;
use super::words;

/// The same for both stores: the jitter of a retry is not what is compared.
pub(super) const DICE: u64 = 7;

impl Side<'_> {
    pub(super) async fn apply(&mut self, acts: &[Act]) -> Result<Said, Error> {
        self.refresh(acts).await?;
        let mut decided = Vec::new();
        for act in acts {
            decided.extend(match act {
                Act::Decide { on, what, .. } => self.decide(*on, what),
                Act::Seal(back) => self.known.groups.pick(*back).map(|id| Ok(Write::Seal(id))),
                Act::Tick { schedule, sight, forward, push } => {
                    let schedule = words::entry(Table::Schedules, *schedule);
                    let seen = self.schedule(&schedule, *sight).await?;
                    seen.map(|(seen, cursor)| {
                        let (cursor, push) = (cursor.after(*forward), self.known.new_jobs(push, 0));
                        Ok(Write::Tick { schedule, seen, cursor, push })
                    })
                }
            });
        }
        Ok(Said::Applied(self.write(decided).await?))
    }

    /// Applies what was decided to be written, and gives an answer for every decision.
    pub(super) async fn write(
        &mut self,
        decided: Vec<Result<Write, Refusal>>,
    ) -> Result<Vec<Result<Applied, Refusal>>, Error> {
        let writes: Vec<_> = decided.iter().flatten().cloned().collect();
        let mut applied = self.parts.jobs.apply(writes).await?.into_inner().into_iter();
        let mut said = Vec::new();
        for decision in decided {
            match decision {
                Err(refusal) => said.push(Err(refusal)),
                Ok(_) => {
                    said.extend(applied.next().map(|applied| Ok(self.known.applied(applied))));
                }
            }
        }
        Ok(said)
    }

    /// Reads the jobs that are to be seen fresh, and those that were never seen.
    async fn refresh(&mut self, acts: &[Act]) -> Result<(), Error> {
        let stale = |act: &Act| {
            let Act::Decide { on, sight, .. } = act else { return None };
            let (id, _) = self.known.target(*on)?;
            (*sight == Sight::Fresh || !self.known.copies.contains_key(&id)).then_some(id)
        };
        let ids: Vec<_> = acts.iter().filter_map(stale).collect();
        if ids.is_empty() {
            return Ok(());
        }
        for (id, job) in ids.iter().zip(self.parts.jobs.get(Which::all(&ids)).await?) {
            match job {
                Some(job) => self.known.saw(&job),
                None => _ = self.known.copies.remove(id),
            }
        }
        Ok(())
    }

    /// Decides on a job as it was seen last; `None` if there is none.
    fn decide(&self, on: On, what: &What) -> Option<Result<Write, Refusal>> {
        let (id, delivery) = self.known.target(on)?;
        let mut job = self.known.copies.get(&id)?.clone();
        if job.result_at(self.now()).is_none() {
            job.live.result = None;
        }
        let event = self.known.event(&job, delivery.unwrap_or(job.live.delivery), what);
        Some(decide(&job, &event, DICE).map(Write::Job))
    }

    /// The revision and the cursor of a schedule.
    async fn schedule(
        &mut self,
        name: &Name,
        sight: Sight,
    ) -> Result<Option<(Revision, Time)>, Error> {
        if sight == Sight::Old {
            let seen = self.known.revision(Table::Schedules, name, 1);
            return Ok(seen.map(|seen| (seen, FakeClock::START)));
        }
        let entries = self.parts.registry.entries(Table::Schedules, None, 100).await?;
        let found = entries.into_iter().find(|entry| entry.name == *name);
        Ok(found.map(|entry| {
            self.known.entry(Table::Schedules, entry.clone());
            let Entry { revision, value, .. } = entry;
            let Value::Schedule(schedule) = value else { return (revision, FakeClock::START) };
            (revision, schedule.cursor)
        }))
    }
}

impl Known {
    /// The job that is meant, and its delivery if that is what was named.
    fn target(&self, on: On) -> Option<(JobId, Option<Delivery>)> {
        match on {
            On::Job(back) => Some((self.jobs.pick(back)?, None)),
            On::Delivery(back) => {
                let delivery = self.deliveries.pick(back)?;
                Some((*self.holders.get(&delivery)?, Some(delivery)))
            }
        }
    }

    fn event(&self, job: &Job, delivery: Delivery, what: &What) -> Event {
        match what {
            What::Finish { outcome, anonymous, then } => Event::Finished {
                delivery: (!anonymous).then_some(delivery),
                report: self.report(*outcome, then),
            },
            What::Lapsed => Event::Lapsed(delivery),
            What::TimedOut => Event::TimedOut(delivery),
            What::HandedOver => Event::HandedOver(delivery),
            What::Cancel => Event::Cancel,
            What::Retry => Event::Retry,
            What::Delete => Event::Delete,
            What::Prune => Event::Prune,
            What::TakeResult => Event::TakeResult,
            What::Edit { queue, priority, limits, due } => {
                let mut spec = Spec::clone(&job.spec);
                spec.queue = queue.map_or(spec.queue, words::queue);
                spec.priority = priority.unwrap_or(spec.priority);
                if let Some(limits) = limits {
                    spec.limits = limits.iter().copied().map(words::limit_key).collect();
                }
                let spec = (spec != *job.spec).then(|| Arc::new(spec));
                Event::Edit(Edit { spec, due: due.map(super::op::Due::when) })
            }
        }
    }

    fn report(&self, outcome: End, then: &[Plan]) -> Report {
        let failed = |detail: bool, again| Outcome::Failed {
            error: "it's \"broken\"".into(),
            detail: detail.then(|| Payload::json("[1]")),
            again,
        };
        let outcome = match outcome {
            End::Done { result } => Outcome::Done { result: result.then(|| words::payload(1)) },
            End::Failed { detail } => failed(detail, Again::ByPolicy),
            End::FailedFor(span) => failed(false, Again::After(span)),
            End::FailedForGood { detail } => failed(detail, Again::Never),
            End::Snooze(span) => Outcome::Snooze(span),
            End::Cancel => Outcome::Cancel,
            End::Interrupted => Outcome::Interrupted,
        };
        Report { outcome, on_done: self.new_jobs(then, 0), on_dead: self.new_jobs(then, 0) }
    }
}
