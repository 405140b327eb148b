use crore_core::job::When;
use crore_core::schedule::due;
use crore_core::{NewJob, Time};
use crore_store::jobs::{Applied, Write};
use crore_store::registry::{Entry, Schedule, Table, Value};

use super::Dues;
use crate::doubt::Doubt;
use crate::engine::Inner;
use crate::error::Error;
use crate::push::names;
use crate::timers::NEVER;

/// How many missed ticks of a schedule are made up for at a time.
const TICKS: usize = 100;

impl Inner {
    /// Pushes the jobs of all ticks that are due; gives when the next one is.
    pub(super) async fn schedules_once(&self) -> Result<Time, Error> {
        self.sure_limits().await?;
        self.sure_handlers().await?;
        let now = self.now();
        let mut next_at = NEVER;
        for entry in self.entries(Table::Schedules).await? {
            let Value::Schedule(schedule) = &entry.value else { continue };
            if !schedule.paused {
                next_at = next_at.min(self.tick(&entry, schedule, now).await?);
            }
        }
        Ok(next_at)
    }

    async fn tick(&self, entry: &Entry, schedule: &Schedule, now: Time) -> Result<Time, Error> {
        let due = due(&schedule.timing, schedule.missed, schedule.cursor, now, TICKS);
        if due.cursor == schedule.cursor {
            return Ok(due.next.unwrap_or(NEVER));
        }
        let job = |tick: &Time| {
            let mut job: NewJob = schedule.job.clone();
            job.due = match job.due {
                When::After(span) => When::At(tick.after(span)),
                _ => When::At(*tick),
            };
            self.fill_in(&mut job);
            job
        };
        let push: Vec<NewJob> = due.fire.iter().map(job).collect();
        let (dues, names) = (Dues::of(&push, now), push.iter().map(names).collect::<Vec<_>>());
        let write = Write::Tick {
            schedule: entry.name.clone(),
            seen: entry.revision,
            cursor: due.cursor,
            push,
        };
        let doubt = Doubt::new(|| self.expect(dues));
        let applied = self.store.apply(vec![write]).await?.into_inner();
        doubt.over();
        // Stale: another node was faster, and has pushed them.
        if let Some(Applied::Yes(pushed)) = applied.first() {
            self.expect(dues);
            self.tell_pushed((now, now), pushed, &names);
        }
        Ok(due.next.unwrap_or(NEVER))
    }
}
