//! The schedule of a handler, which comes and goes with it.

use crore_core::handler::Planned;
use crore_core::{Handler, Invalid, Name};
use crore_store::registry::{Define, Defined, Entry, Guard, Schedule, Table, Value};

use super::read;
use crate::engine::Inner;
use crate::error::Error;

/// What the names of such schedules begin with.
const OF_HANDLER: &str = "handler:";

/// The schedule of a handler. A kind whose name leaves no room for that can have none.
pub(super) fn schedule_of(kind: &Name) -> Result<Name, Invalid> {
    Name::new("kind", &format!("{OF_HANDLER}{kind}"))
}

/// Refuses to change a schedule that a handler has.
pub(crate) fn is_nobodys(schedule: &Name) -> Result<(), Error> {
    match schedule.as_str().starts_with(OF_HANDLER) {
        true => Err(Error::Refused {
            what: format!("schedule `{schedule}`"),
            why: "it belongs to a handler: change that",
        }),
        false => Ok(()),
    }
}

impl Inner {
    /// Somebody was faster, or the schedule has fired meanwhile: it is made what the handler says that is there.
    pub(super) async fn plan_anew(&self, kind: &Name) -> Result<(), Error> {
        loop {
            // The schedule first: whoever changes the handler after that changes the schedule too, and this
            // is not written.
            let known = self.schedule(&schedule_of(kind)?).await?;
            let entry = self.entry(Table::Handlers, kind).await?;
            let handler = entry.and_then(|entry| read(&entry.value));
            let schedule = self.planned_over(known.as_ref(), kind, handler.as_ref())?;
            let defined = self.store.define(vec![schedule]).await?.into_inner();
            if matches!(defined.first(), Some(Defined::Yes(_))) {
                return Ok(());
            }
        }
    }

    /// The schedule of a handler, or that it has none.
    pub(super) async fn planned(
        &self,
        kind: &Name,
        handler: Option<&Handler>,
    ) -> Result<Define, Error> {
        let known = self.schedule(&schedule_of(kind)?).await?;
        Ok(self.planned_over(known.as_ref(), kind, handler)?)
    }

    /// The same, in the place of the one that is known, which keeps its place in time if its timing stays.
    fn planned_over(
        &self,
        known: Option<&(Schedule, Entry)>,
        kind: &Name,
        handler: Option<&Handler>,
    ) -> Result<Define, Invalid> {
        let name = schedule_of(kind)?;
        let guard = known.map_or(Guard::Absent, |(_, entry)| Guard::At(entry.revision));
        let planned = handler
            .and_then(|handler| Some((handler.schedule.as_ref()?, handler.planned_job(kind)?)));
        let Some((Planned { timing, missed, .. }, job)) = planned else {
            return Ok(Define { guard, ..Define::remove(Table::Schedules, name) });
        };
        let known = known.map(|(known, _)| known);
        let same = known.filter(|known| known.timing == *timing);
        let cursor = same.map_or(self.now(), |known| known.cursor);
        let paused = known.is_some_and(|known| known.paused);
        let schedule = Schedule { timing: timing.clone(), missed: *missed, job, cursor, paused };
        Ok(Define { guard, ..Define::set(name, Value::Schedule(Box::new(schedule))) })
    }
}
