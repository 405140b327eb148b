//! Schedules: jobs that the clock pushes.

use crore_core::push::{AfterRef, GroupRef};
use crore_core::schedule::{Missed, Timing};
use crore_core::{Code, Invalid, Name, NewJob, Time};
use crore_store::registry::{Define, Definition, Entry, Guard, Schedule, Table, Value};

use crate::doubt::Doubt;
use crate::engine::Inner;
use crate::error::Error;
use crate::handlers::is_nobodys;
use crate::upkeep::Duty;

/// Schedules; see [`Engine::schedules`](crate::Engine::schedules).
#[derive(Debug, Clone, Copy)]
pub struct Schedules<'a> {
    pub(crate) inner: &'a Inner,
}

impl Schedules<'_> {
    /// Sets a schedule. A new one, or one whose timing is changed, fires from now on; one with the
    /// same timing keeps its place, so that a program may set it whenever it starts.
    ///
    /// ```
    /// use crore::core::schedule::{Missed, Timing};
    /// use crore::core::{Name, Payload, Spec};
    /// use crore::{Engine, block_on};
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// let timing = Timing::parse("timing", "cron 0 3 * * * in Europe/Berlin")?;
    /// let (queue, kind) = (Name::new("queue", "reports")?, Name::new("kind", "nightly")?);
    /// let job = Spec::new(queue, kind, Payload::json("{}"));
    ///
    /// let name = Name::new("schedule", "nightly")?;
    /// // A night on which the program did not run is made up for, once.
    /// block_on(engine.schedules().set(name, timing.clone(), Missed::Once, job.into()))?;
    /// assert_eq!(engine.schedules().preview(&timing, 5).len(), 5);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set(
        self,
        name: Name,
        timing: Timing,
        missed: Missed,
        job: NewJob,
    ) -> Result<(), Error> {
        is_nobodys(&name)?;
        let inner = self.inner;
        let now = inner.now();
        job.check_brought(&inner.caps, now).map_err(|invalid| invalid.inside("job"))?;
        check_references(&job)?;
        if timing.next_after(now).is_none() {
            let message = format!("`{timing}` never fires again");
            return Err(Invalid::new(Code::ScheduleNever, "timing", message).into());
        }
        loop {
            let known = inner.schedule(&name).await?;
            let (cursor, paused, guard) = match &known {
                Some((old, entry)) if old.timing == timing => {
                    (old.cursor, old.paused, Guard::At(entry.revision))
                }
                Some((old, entry)) => (now, old.paused, Guard::At(entry.revision)),
                None => (now, false, Guard::Absent),
            };
            let (timing, job) = (timing.clone(), job.clone());
            let schedule = Schedule { timing, missed, job, cursor, paused };
            if inner.define_schedule(&name, schedule, guard).await? {
                return Ok(());
            }
        }
    }

    /// Removes a schedule, if it is there. What it has pushed stays.
    pub async fn remove(self, name: Name) -> Result<(), Error> {
        is_nobodys(&name)?;
        self.inner.define(Define::remove(Table::Schedules, name)).await.map(drop)
    }

    /// A schedule, if it is there.
    pub async fn get(self, name: &Name) -> Result<Option<Entry>, Error> {
        self.inner.entry(Table::Schedules, name).await
    }

    /// All schedules, by name.
    pub async fn list(self) -> Result<Vec<Entry>, Error> {
        self.inner.entries(Table::Schedules).await
    }

    /// Pauses a schedule: it does not fire.
    pub async fn pause(self, name: &Name) -> Result<(), Error> {
        self.inner.set_schedule_paused(name, true).await
    }

    /// Resumes a schedule. It goes on from now: what it missed while it was paused is not made up for.
    pub async fn resume(self, name: &Name) -> Result<(), Error> {
        self.inner.set_schedule_paused(name, false).await
    }

    /// The next instants at which a timing fires.
    pub fn preview(self, timing: &Timing, n: usize) -> Vec<Time> {
        timing.preview(self.inner.now(), n.min(self.inner.caps.page))
    }
}

impl Inner {
    pub(crate) async fn schedule(&self, name: &Name) -> Result<Option<(Schedule, Entry)>, Error> {
        let entry = self.entry(Table::Schedules, name).await?;
        Ok(entry.and_then(|entry| match entry.value.clone() {
            Value::Schedule(schedule) => Some((*schedule, entry)),
            _ => None,
        }))
    }

    async fn set_schedule_paused(&self, name: &Name, paused: bool) -> Result<(), Error> {
        loop {
            let known = self.schedule(name).await?;
            let (old, entry) =
                known.ok_or_else(|| Error::NotFound { what: format!("schedule `{name}`") })?;
            let cursor = if old.paused && !paused { self.now() } else { old.cursor };
            let schedule = Schedule { paused, cursor, ..old };
            let guard = Guard::At(entry.revision);
            if self.define_schedule(name, schedule, guard).await? {
                return Ok(());
            }
        }
    }

    /// `false`: it was changed meanwhile.
    async fn define_schedule(
        &self,
        name: &Name,
        schedule: Schedule,
        guard: Guard,
    ) -> Result<bool, Error> {
        let to = Definition::Set(Value::Schedule(Box::new(schedule)));
        let define = Define { name: name.clone(), to, guard, expires_after: None };
        // Also if it is not known whether it took effect.
        let _look = Doubt::new(|| self.want(Duty::Schedules, self.now()));
        match self.define(define).await {
            Ok(_) => Ok(true),
            Err(Error::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A schedule pushes one job at a time, so there is no batch whose parts it could mean.
fn check_references(job: &NewJob) -> Result<(), Invalid> {
    let wrong = |field: &str| {
        Err(Invalid::new(Code::BatchReference, field, "a schedule pushes no batch to refer to"))
    };
    if matches!(job.group, Some(GroupRef::New(_))) {
        return wrong("job.group");
    }
    let is_in_batch =
        |on: &AfterRef| matches!(on, AfterRef::Earlier(_) | AfterRef::Group(GroupRef::New(_)));
    match job.after.iter().any(|after| is_in_batch(&after.on)) {
        true => wrong("job.after"),
        false => Ok(()),
    }
}
