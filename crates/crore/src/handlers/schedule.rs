//! The schedule of a handler. It is written and removed together with the handler.

use crore_core::handler::HandlerSchedule;
use crore_core::{Handler, Invalid, Name};
use crore_store::registry::{
    Define, DefineGuard, Defined, RegistryEntry, RegistryTable, RegistryValue, Schedule,
};

use super::decode_handler;
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
    /// Rewrites the schedule from the stored handler, after a concurrent change or a tick made a write stale.
    pub(super) async fn reconcile_schedule(&self, kind: &Name) -> Result<(), Error> {
        loop {
            // Read the schedule first: a handler change after this read also changes the schedule, and the write
            // below is stale.
            let current = self.schedule(&schedule_name(kind)?).await?;
            let entry = self.entry(RegistryTable::Handlers, kind).await?;
            let handler = entry.and_then(|entry| decode_handler(&entry.value));
            let schedule =
                self.schedule_definition_over(current.as_ref(), kind, handler.as_ref())?;
            let defined = self.store.define(vec![schedule]).await?.into_inner();
            if matches!(defined.first(), Some(Defined::Yes(_))) {
                return Ok(());
            }
        }
    }

    /// The definition that sets or removes the schedule of a handler.
    pub(super) async fn schedule_definition(
        &self,
        kind: &Name,
        handler: Option<&Handler>,
    ) -> Result<Define, Error> {
        let current = self.schedule(&schedule_name(kind)?).await?;
        Ok(self.schedule_definition_over(current.as_ref(), kind, handler)?)
    }

    /// The same, given the current schedule. Its cursor is kept if the timing is unchanged.
    fn schedule_definition_over(
        &self,
        current: Option<&(Schedule, RegistryEntry)>,
        kind: &Name,
        handler: Option<&Handler>,
    ) -> Result<Define, Invalid> {
        let name = schedule_name(kind)?;
        let guard =
            current.map_or(DefineGuard::Absent, |(_, entry)| DefineGuard::At(entry.revision));
        let planned = handler
            .and_then(|handler| Some((handler.schedule.as_ref()?, handler.scheduled_job(kind)?)));
        let Some((HandlerSchedule { timing, missed, .. }, job)) = planned else {
            return Ok(Define { guard, ..Define::remove(RegistryTable::Schedules, name) });
        };
        let current = current.map(|(current, _)| current);
        let same = current.filter(|current| current.timing == *timing);
        let cursor = same.map_or(self.now(), |current| current.cursor);
        let paused = current.is_some_and(|current| current.paused);
        let schedule = Schedule { timing: timing.clone(), missed: *missed, job, cursor, paused };
        Ok(Define { guard, ..Define::set(name, RegistryValue::Schedule(Box::new(schedule))) })
    }
}
