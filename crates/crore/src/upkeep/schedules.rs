//! Fires schedules: pushes the jobs of due ticks.

use crore_core::job::{DueTime, StartDeadline};
use crore_core::schedule::{SCHEDULE_LABEL, due};
use crore_core::{Name, NewJob, Time};
use crore_store::jobs::{Applied, StoreWrite};
use crore_store::registry::{RegistryEntry, RegistryTable, RegistryValue, Schedule};

use super::DueTimes;
use crate::drop_guard::DropGuard;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::push::{PushResult, push_result};
use crate::timers::NEVER;

/// Maximum missed ticks of a schedule that are made up for in one write.
const MAX_TICKS: usize = 100;

impl EngineInner {
    /// Pushes the jobs of all due ticks; returns when the next tick is due.
    pub(super) async fn schedules_once(&self) -> Result<Time, Error> {
        self.ensure_limits_current().await?;
        self.ensure_handlers_current().await?;
        let now = self.now();
        let mut next_at = NEVER;
        for entry in self.entries(RegistryTable::Schedules).await? {
            let RegistryValue::Schedule(schedule) = &entry.value else { continue };
            if !schedule.paused {
                next_at = next_at.min(self.tick(&entry, schedule, now).await?);
            }
        }
        Ok(next_at)
    }

    async fn tick(
        &self,
        entry: &RegistryEntry,
        schedule: &Schedule,
        now: Time,
    ) -> Result<Time, Error> {
        let due = due(&schedule.timing, schedule.missed, schedule.cursor, now, MAX_TICKS);
        if due.cursor == schedule.cursor {
            return Ok(due.next.unwrap_or(NEVER));
        }
        let job = |tick: &Time| self.scheduled_job(&entry.name, schedule, *tick);
        let push: Vec<NewJob> = due.fire.iter().map(job).collect();
        let (dues, names) = (DueTimes::of(&push, now), self.push_names(&push));
        let write = StoreWrite::Tick {
            schedule: entry.name.clone(),
            seen: entry.revision,
            cursor: due.cursor,
            push,
        };
        let guard = DropGuard::new(|| self.plan_promotion(dues));
        let applied = self.store.apply(vec![write]).await?.into_inner();
        guard.disarm();
        // Stale: another node has pushed them.
        if let Some(Applied::Yes(pushed)) = applied.first() {
            self.plan_promotion(dues);
            self.publish_pushed((now, now), pushed, &names);
        }
        Ok(due.next.unwrap_or(NEVER))
    }

    /// The job of a tick.
    fn scheduled_job(&self, name: &Name, schedule: &Schedule, tick: Time) -> NewJob {
        let mut job: NewJob = schedule.job.clone();
        job.due = match job.due {
            DueTime::After(span) => DueTime::At(tick.after(span)),
            _ => DueTime::At(tick),
        };
        if let Some(StartDeadline::Within(span)) = job.deadline {
            job.deadline = Some(StartDeadline::At(tick.after(span)));
        }
        job.spec.labels.insert(SCHEDULE_LABEL.to_owned(), name.to_string());
        self.fill_in(&mut job);
        job
    }

    /// Pushes the job of a schedule now, in addition to its ticks.
    pub(crate) async fn run_schedule(&self, name: &Name) -> Result<PushResult, Error> {
        self.ensure_limits_current().await?;
        self.ensure_handlers_current().await?;
        loop {
            let existing = self.schedule(name).await?;
            let (schedule, entry) =
                existing.ok_or_else(|| Error::NotFound { what: format!("schedule `{name}`") })?;
            let now = self.now();
            let push = vec![self.scheduled_job(name, &schedule, now)];
            let (dues, names) = (DueTimes::of(&push, now), self.push_names(&push));
            let (seen, cursor) = (entry.revision, schedule.cursor);
            let write = StoreWrite::Tick { schedule: name.clone(), seen, cursor, push };
            let _plan = DropGuard::new(|| self.plan_promotion(dues));
            let applied = self.store.apply(vec![write]).await?.into_inner();
            // Stale: the schedule has changed meanwhile.
            if let Some(Applied::Yes(pushed)) = applied.into_iter().next() {
                self.publish_pushed((now, self.now()), &pushed, &names);
                let pushed = pushed.into_iter().next().map(push_result);
                return pushed
                    .ok_or_else(|| Error::NotFound { what: format!("schedule `{name}`") });
            }
        }
    }
}
