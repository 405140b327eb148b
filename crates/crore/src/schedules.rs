//! Schedules: recurring jobs, by cron expression or interval.

use crore_core::job::{DueTime, StartDeadline};
use crore_core::push::{GroupRef, NewDependencyTarget};
use crore_core::schedule::{Missed, Timing};
use crore_core::{Code, Invalid, Name, NewJob, Time};
use crore_store::registry::{
    Define, DefineAction, DefineGuard, RegistryEntry, RegistryTable, RegistryValue, Schedule,
};

use crate::drop_guard::DropGuard;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::handlers::check_not_of_handler;
use crate::push::PushResult;
use crate::upkeep::Duty;

/// Schedules; see [`Engine::schedules`](crate::Engine::schedules).
#[derive(Debug, Clone, Copy)]
pub struct Schedules<'a> {
    pub(crate) inner: &'a EngineInner,
}

impl Schedules<'_> {
    /// Creates or replaces a schedule. A new schedule, or one with a new timing, fires from now on. With the same
    /// timing it keeps its position, so a program can set its schedules at every start.
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
    /// // Ticks missed while the program was not running are made up for by one job.
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
        self.set_if((name, |_| true), timing, missed, job).await.map(drop)
    }

    /// Like [`set`](Self::set), if the predicate holds for the current entry (`None`: there is none); `false`: it does
    /// not.
    pub async fn set_if(
        self,
        (name, accepts): (Name, impl Fn(Option<&RegistryEntry>) -> bool + Send + Sync),
        timing: Timing,
        missed: Missed,
        job: NewJob,
    ) -> Result<bool, Error> {
        check_not_of_handler(&name)?;
        let inner = self.inner;
        let now = inner.now();
        job.check_from_caller(&inner.caps, now).map_err(|invalid| invalid.inside("job"))?;
        check_references(&job)?;
        check_recurring(&job)?;
        if timing.next_after(now).is_none() {
            let message = format!("`{timing}` never fires again");
            return Err(Invalid::new(Code::ScheduleNever, "timing", message).into());
        }
        loop {
            let existing = inner.schedule(&name).await?;
            if !accepts(existing.as_ref().map(|(_, entry)| entry)) {
                return Ok(false);
            }
            let (cursor, paused, guard) = match &existing {
                Some((old, entry)) if old.timing == timing => {
                    (old.cursor, old.paused, DefineGuard::At(entry.revision))
                }
                Some((old, entry)) => (now, old.paused, DefineGuard::At(entry.revision)),
                None => (now, false, DefineGuard::Absent),
            };
            let (timing, job) = (timing.clone(), job.clone());
            let schedule = Schedule { timing, missed, job, cursor, paused };
            if inner.define_schedule(&name, schedule, guard).await? {
                return Ok(true);
            }
        }
    }

    /// Removes a schedule, if it exists. Jobs that it has pushed stay.
    pub async fn remove(self, name: Name) -> Result<(), Error> {
        check_not_of_handler(&name)?;
        self.inner.define(Define::remove(RegistryTable::Schedules, name)).await.map(drop)
    }

    /// A schedule by name; `None`: it does not exist.
    pub async fn get(self, name: &Name) -> Result<Option<RegistryEntry>, Error> {
        self.inner.entry(RegistryTable::Schedules, name).await
    }

    /// All schedules, by name.
    pub async fn list(self) -> Result<Vec<RegistryEntry>, Error> {
        self.inner.entries(RegistryTable::Schedules).await
    }

    /// Pauses a schedule: it does not fire until it is resumed.
    pub async fn pause(self, name: &Name) -> Result<(), Error> {
        self.inner.set_schedule_paused(name, true).await
    }

    /// Resumes a schedule from now on. Ticks missed during the pause are not made up for.
    pub async fn resume(self, name: &Name) -> Result<(), Error> {
        self.inner.set_schedule_paused(name, false).await
    }

    /// Pushes the job of a schedule now, paused or not. Its ticks stay as they are.
    pub async fn run(self, name: &Name) -> Result<PushResult, Error> {
        self.inner.run_schedule(name).await
    }

    /// The next `n` times at which a timing fires.
    pub fn preview(self, timing: &Timing, n: usize) -> Vec<Time> {
        timing.preview(self.inner.now(), n.min(self.inner.caps.page))
    }
}

impl EngineInner {
    pub(crate) async fn schedule(
        &self,
        name: &Name,
    ) -> Result<Option<(Schedule, RegistryEntry)>, Error> {
        let entry = self.entry(RegistryTable::Schedules, name).await?;
        Ok(entry.and_then(|entry| match entry.value.clone() {
            RegistryValue::Schedule(schedule) => Some((*schedule, entry)),
            _ => None,
        }))
    }

    async fn set_schedule_paused(&self, name: &Name, paused: bool) -> Result<(), Error> {
        loop {
            let existing = self.schedule(name).await?;
            let (old, entry) =
                existing.ok_or_else(|| Error::NotFound { what: format!("schedule `{name}`") })?;
            let cursor = if old.paused && !paused { self.now() } else { old.cursor };
            let schedule = Schedule { paused, cursor, ..old };
            let guard = DefineGuard::At(entry.revision);
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
        guard: DefineGuard,
    ) -> Result<bool, Error> {
        let to = DefineAction::Set(RegistryValue::Schedule(Box::new(schedule)));
        let define =
            Define { name: name.clone(), action: to, guard, expires_after: None, joint: false };
        // Also on error: the change may have taken effect.
        let _plan = DropGuard::new(|| self.plan_duty(Duty::Schedules, self.now()));
        match self.define(define).await {
            Ok(_) => Ok(true),
            Err(Error::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A schedule pushes single jobs, so they cannot refer to other parts of a batch.
fn check_references(job: &NewJob) -> Result<(), Invalid> {
    let wrong = |field: &str| {
        Err(Invalid::new(Code::BatchReference, field, "a schedule has no batch to refer to"))
    };
    if matches!(job.group, Some(GroupRef::New(_))) {
        return wrong("job.group");
    }
    let is_in_batch = |on: &NewDependencyTarget| {
        matches!(on, NewDependencyTarget::Earlier(_) | NewDependencyTarget::Group(GroupRef::New(_)))
    };
    match job.after.iter().any(|after| is_in_batch(&after.on)) {
        true => wrong("job.after"),
        false => Ok(()),
    }
}

/// A schedule pushes many jobs: they cannot share an id, and a time of day belongs to the timing.
fn check_recurring(job: &NewJob) -> Result<(), Invalid> {
    let wrong = |field: &str, why: &str| Err(Invalid::new(Code::Malformed, field, why));
    if job.spec.client_id.is_some() {
        return wrong(
            "job.client_id",
            "is not allowed: all jobs of a schedule would have the same id",
        );
    }
    if matches!(job.due, DueTime::At(_)) {
        return wrong(
            "job.due",
            "is not allowed: the timing sets when a job is due; use `delay` to add to it",
        );
    }
    if matches!(job.deadline, Some(StartDeadline::At(_))) {
        return wrong(
            "job.deadline",
            "is not allowed: all later jobs would expire; use `start_within`, which counts from the tick",
        );
    }
    Ok(())
}
