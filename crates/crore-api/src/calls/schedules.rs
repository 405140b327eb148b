//! Schedules: recurring jobs.

use crore::store::registry::{RegistryEntry, RegistryValue, Schedule};
use crore_core::schedule::Timing;
use crore_core::{Code, Invalid, Name, NewJob, Time};
use crore_wire::Format;
use crore_wire::api::enums::Missed;
use crore_wire::api::push;
use crore_wire::api::schedules::{self as wire, PreviewQuery, Ticks};
use crore_wire::units::Moment;

use crate::{Api, Fault};

/// Default number of previewed ticks.
const TICKS: usize = 10;

/// A schedule, with its next tick.
#[derive(Debug)]
pub struct ScheduleView {
    /// The name.
    pub name: Name,
    /// The definition.
    pub schedule: Box<Schedule>,
    /// The next tick, unless the schedule is paused.
    pub next_at: Option<Time>,
}

impl ScheduleView {
    /// Converts to the type of the native API.
    pub fn to_wire(&self, format: Format) -> wire::Schedule {
        let Self { name, schedule, next_at } = self;
        wire::Schedule {
            name: name.to_string(),
            timing: schedule.timing.to_string(),
            missed: schedule.missed.into(),
            paused: schedule.paused,
            next_at: next_at.map(Moment),
            job: push::NewJob::of(&schedule.job, format),
        }
    }
}

impl Api {
    /// All schedules.
    pub async fn list_schedules(&self) -> Result<Vec<ScheduleView>, Fault> {
        let entries = self.engine().schedules().list().await?;
        Ok(entries.into_iter().filter_map(|entry| self.schedule_of(entry)).collect())
    }

    /// A schedule.
    pub async fn get_schedule(&self, name: &Name) -> Result<ScheduleView, Fault> {
        let entry = self.engine().schedules().get(name).await?;
        let schedule = entry.and_then(|entry| self.schedule_of(entry));
        schedule.ok_or_else(|| Fault::missing(format!("schedule `{name}`")))
    }

    /// Sets a schedule. If the timing is unchanged, its next tick stays, so that a program may set it at every start.
    pub async fn set_schedule(
        &self,
        name: Name,
        timing: Timing,
        missed: Missed,
        job: NewJob,
    ) -> Result<(), Fault> {
        self.engine().schedules().set(name, timing, missed.into(), job).await?;
        Ok(())
    }

    /// Removes a schedule, if it exists. Jobs that it pushed stay.
    pub async fn delete_schedule(&self, name: Name) -> Result<(), Fault> {
        self.engine().schedules().remove(name).await?;
        Ok(())
    }

    /// Pauses a schedule.
    pub async fn pause_schedule(&self, name: &Name) -> Result<ScheduleView, Fault> {
        self.engine().schedules().pause(name).await?;
        self.get_schedule(name).await
    }

    /// Resumes a schedule, from now on.
    pub async fn resume_schedule(&self, name: &Name) -> Result<ScheduleView, Fault> {
        self.engine().schedules().resume(name).await?;
        self.get_schedule(name).await
    }

    /// The next ticks of a timing.
    pub fn preview_timing(&self, query: &PreviewQuery) -> Result<Ticks, Fault> {
        let timing = Timing::parse("timing", &query.timing)?;
        let (n, max) = (query.n.unwrap_or(TICKS), self.engine().status().caps().page);
        if n == 0 || n > max {
            let message = format!("`{n}` is not between 1 and {max}");
            return Err(Invalid::new(Code::CountRange, "n", message).into());
        }
        let ticks = self.engine().schedules().preview(&timing, n).into_iter().map(Moment).collect();
        Ok(Ticks { timing: timing.to_string(), ticks })
    }

    fn schedule_of(&self, entry: RegistryEntry) -> Option<ScheduleView> {
        let RegistryValue::Schedule(schedule) = entry.value else { return None };
        let next = self.engine().schedules().preview(&schedule.timing, 1).pop();
        let next_at = next.filter(|_| !schedule.paused);
        Some(ScheduleView { name: entry.name, schedule, next_at })
    }
}
