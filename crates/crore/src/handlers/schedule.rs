//! The schedule of a handler. It is written and removed together with the handler.

use crore_core::handler::HandlerSchedule;
use crore_core::{Handler, Invalid, Name};
use crore_store::registry::{Define, DefineGuard, RegistryTable, RegistryValue, Schedule};

use crate::engine::EngineInner;
use crate::error::Error;

/// Name prefix of these schedules.
const NAME_PREFIX: &str = "handler:";

/// The name of a handler's schedule. Fails if the kind is too long for the prefix.
pub(super) fn schedule_name(kind: &Name) -> Result<Name, Invalid> {
    Name::new("kind", &format!("{NAME_PREFIX}{kind}"))
}

/// Refuses direct changes of a schedule that belongs to a handler.
pub(crate) fn check_not_of_handler(schedule: &Name) -> Result<(), Error> {
    match schedule.as_str().starts_with(NAME_PREFIX) {
        true => Err(Error::Refused {
            what: format!("schedule `{schedule}`"),
            why: "belongs to a handler; change the handler instead",
        }),
        false => Ok(()),
    }
}

impl EngineInner {
    /// The definition that sets or removes the schedule of a handler. Its cursor is kept if the timing is unchanged.
    pub(super) async fn schedule_definition(
        &self,
        kind: &Name,
        handler: Option<&Handler>,
    ) -> Result<Define, Error> {
        let name = schedule_name(kind)?;
        let current = self.schedule(&name).await?;
        let guard = current
            .as_ref()
            .map_or(DefineGuard::Absent, |(_, entry)| DefineGuard::At(entry.revision));
        let planned = handler
            .and_then(|handler| Some((handler.schedule.as_ref()?, handler.scheduled_job(kind)?)));
        let Some((HandlerSchedule { timing, missed, .. }, job)) = planned else {
            return Ok(Define { guard, ..Define::remove(RegistryTable::Schedules, name) });
        };
        let current = current.as_ref().map(|(current, _)| current);
        let same = current.filter(|current| current.timing == *timing);
        let cursor = same.map_or(self.now(), |current| current.cursor);
        let paused = current.is_some_and(|current| current.paused);
        let schedule = Schedule { timing: timing.clone(), missed: *missed, job, cursor, paused };
        Ok(Define { guard, ..Define::set(name, RegistryValue::Schedule(Box::new(schedule))) })
    }
}
