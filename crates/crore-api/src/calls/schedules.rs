//! Schedules: recurring jobs.

use crore::store::registry::{RegistryEntry, RegistryValue, Schedule};
use crore::store::views::ListQuery;
use crore_core::schedule::{SCHEDULE_LABEL, Timing};
use crore_core::{Code, Invalid, Job, Name, NewJob, State, Time};
use crore_wire::Format;
use crore_wire::api::enums::Missed;
use crore_wire::api::push::{self, Pushed};
use crore_wire::api::schedules::{self as wire, PreviewQuery, ScheduleRun, ScheduleRuns, Ticks};
use crore_wire::units::Moment;

use super::push::pushed;
use crate::if_match::{IfMatch, Tagged, tag_of};
use crate::{Api, Fault, Grant};

/// Default number of previewed ticks.
const TICKS: usize = 10;

/// Number of runs in a response.
const RUNS: usize = 20;
/// Jobs read at once, and maximum number of jobs read, to find the runs of a schedule in one state.
const RUNS_SLICE: usize = 100;
const MAX_RUNS_READ: usize = 1000;

/// A schedule, with its next tick.
#[derive(Debug)]
pub struct ScheduleView {
    /// The name.
    pub name: Name,
    /// The definition.
    pub schedule: Box<Schedule>,
    /// The next tick, unless the schedule is paused.
    pub next_at: Option<Time>,
    tag: String,
}

/// A schedule to set.
#[derive(Debug)]
pub struct NewSchedule {
    /// When it ticks.
    pub timing: Timing,
    /// Policy for missed ticks.
    pub missed: Missed,
    /// The job to push.
    pub job: NewJob,
}

impl ScheduleView {
    /// Converts to the type of the native API.
    pub fn to_wire(&self, format: Format) -> wire::Schedule {
        let Self { name, schedule, next_at, .. } = self;
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
    /// All schedules whose jobs the caller may see.
    pub async fn list_schedules(&self, grant: &Grant) -> Result<Vec<ScheduleView>, Fault> {
        let entries = self.engine().schedules().list().await?;
        let mut shown = Vec::new();
        for schedule in entries.into_iter().filter_map(|entry| self.schedule_of(entry)) {
            match self.check_scheduled(grant, &schedule.schedule.job).await {
                Ok(()) => shown.push(schedule),
                Err(crore::Error::Invalid(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(shown)
    }

    /// A schedule.
    pub async fn get_schedule(
        &self,
        grant: &Grant,
        name: &Name,
    ) -> Result<Tagged<ScheduleView>, Fault> {
        let schedule = self.find_schedule(grant, name).await?;
        let value = schedule.ok_or_else(|| Fault::missing(format!("schedule `{name}`")))?;
        Ok(Tagged { tag: Some(value.tag.clone()), value })
    }

    /// A schedule, if it exists. One whose jobs the caller may not see is refused.
    async fn find_schedule(
        &self,
        grant: &Grant,
        name: &Name,
    ) -> Result<Option<ScheduleView>, Fault> {
        let entry = self.engine().schedules().get(name).await?;
        let schedule = entry.and_then(|entry| self.schedule_of(entry));
        if let Some(schedule) = &schedule {
            self.check_scheduled(grant, &schedule.schedule.job).await?;
        }
        Ok(schedule)
    }

    /// Refuses the job of a schedule if it is outside the caller's restriction.
    async fn check_scheduled(&self, grant: &Grant, job: &NewJob) -> Result<(), crore::Error> {
        if grant.only().is_none() {
            return Ok(());
        }
        let mut job = job.clone();
        self.engine().handlers().settle_queue(&mut job).await?;
        Ok(grant.check_job(&job.spec).map_err(|invalid| invalid.inside("job"))?)
    }

    /// Refuses the follow-up for a missed deadline of a scheduled job if it is outside the caller's restriction.
    async fn check_scheduled_follow_up(
        &self,
        grant: &Grant,
        next: &mut NewJob,
    ) -> Result<(), crore::Error> {
        if grant.only().is_some() {
            self.engine().handlers().settle_queue(next).await?;
            grant.check_job(&next.spec).map_err(|invalid| invalid.inside("on-expired"))?;
        }
        self.check_relations(grant, next).await
    }

    /// Sets a schedule. If the timing is unchanged, its next tick stays, so that a program may set it at every start. A mask
    /// in the payload stands for the value of the schedule that is replaced.
    pub async fn set_schedule(
        &self,
        grant: &Grant,
        name: Name,
        new: NewSchedule,
        if_match: &IfMatch,
    ) -> Result<(), Fault> {
        let NewSchedule { timing, missed, mut job } = new;
        if grant.only().is_some() {
            // A later handler must not move the jobs to another queue.
            self.engine().handlers().settle_queue(&mut job).await?;
            self.check_scheduled(grant, &job).await?;
            self.find_schedule(grant, &name).await?;
        }
        self.check_relations(grant, &job).await.map_err(inside_job)?;
        if let Some(next) = &mut job.spec.on_expired {
            self.check_scheduled_follow_up(grant, next).await.map_err(inside_job)?;
        }
        self.restore_scheduled(&name, &mut job).await?;
        let accepts = |entry: Option<&RegistryEntry>| if_match.accepts(entry);
        let named = (name.clone(), accepts);
        match self.engine().schedules().set_if(named, timing, missed.into(), job).await? {
            true => Ok(()),
            false => Err(IfMatch::failed(&format!("schedule `{name}`"))),
        }
    }

    /// A mask in the payload stands for the value of the schedule that is replaced.
    async fn restore_scheduled(&self, name: &Name, job: &mut NewJob) -> Result<(), Fault> {
        let entry = self.engine().schedules().get(name).await?;
        let Some(RegistryValue::Schedule(before)) = entry.map(|entry| entry.value) else {
            return Ok(());
        };
        let (spec, before) = (&mut job.spec, &before.job.spec);
        spec.payload = self.mask().restored(spec.payload.clone(), &before.payload);
        if let (Some(next), Some(before)) = (&mut spec.on_expired, &before.on_expired) {
            let payload = next.spec.payload.clone();
            next.spec.payload = self.mask().restored(payload, &before.spec.payload);
        }
        Ok(())
    }

    /// Removes a schedule, if it exists. Jobs that it pushed stay.
    pub async fn delete_schedule(&self, grant: &Grant, name: Name) -> Result<(), Fault> {
        if grant.only().is_some() {
            self.find_schedule(grant, &name).await?;
        }
        self.engine().schedules().remove(name).await?;
        Ok(())
    }

    /// Pauses a schedule.
    pub async fn pause_schedule(
        &self,
        grant: &Grant,
        name: &Name,
    ) -> Result<Tagged<ScheduleView>, Fault> {
        self.find_schedule(grant, name).await?;
        self.engine().schedules().pause(name).await?;
        self.get_schedule(grant, name).await
    }

    /// Resumes a schedule, from now on.
    pub async fn resume_schedule(
        &self,
        grant: &Grant,
        name: &Name,
    ) -> Result<Tagged<ScheduleView>, Fault> {
        self.find_schedule(grant, name).await?;
        self.engine().schedules().resume(name).await?;
        self.get_schedule(grant, name).await
    }

    /// Pushes the job of a schedule now, once. Its ticks stay as they are.
    pub async fn run_schedule(&self, grant: &Grant, name: &Name) -> Result<Pushed, Fault> {
        self.get_schedule(grant, name).await?;
        let result = self.engine().schedules().run(name).await?;
        let (id, status) = pushed(0, result)?;
        Ok(Pushed { status, id: Some(id.into()), problem: None })
    }

    /// The last jobs that a schedule pushed, newest first. The search reads a bounded number of jobs of its queue and
    /// kind in each state.
    pub async fn schedule_runs(&self, grant: &Grant, name: &Name) -> Result<ScheduleRuns, Fault> {
        let schedule = self.get_schedule(grant, name).await?.value.schedule;
        let mut job = schedule.job.clone();
        self.engine().handlers().settle_queue(&mut job).await?;
        let mut runs = Vec::new();
        for state in State::ALL {
            runs.extend(self.schedule_runs_in(state, &job, name).await?);
        }
        runs.sort_unstable_by_key(|run| std::cmp::Reverse((run.pushed_at, run.id)));
        runs.truncate(RUNS);
        Ok(ScheduleRuns { jobs: runs })
    }

    async fn schedule_runs_in(
        &self,
        state: State,
        job: &NewJob,
        name: &Name,
    ) -> Result<Vec<ScheduleRun>, Fault> {
        let (mut runs, mut after, mut read) = (Vec::new(), None, 0);
        loop {
            let (queue, kind) = (Some(job.spec.queue.clone()), Some(job.spec.kind.clone()));
            let query = ListQuery { state, queue, kind, key: None, after, n: RUNS_SLICE };
            let page = self.engine().list(query).await?;
            read += page.jobs.len();
            let is_run = |job: &&Job| {
                job.spec.labels.get(SCHEDULE_LABEL).is_some_and(|of| of == name.as_str())
            };
            runs.extend(page.jobs.iter().filter(is_run).map(schedule_run));
            if page.next.is_none() || read >= MAX_RUNS_READ || runs.len() >= RUNS {
                return Ok(runs);
            }
            after = page.next;
        }
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
        let tag = tag_of(&entry);
        let RegistryValue::Schedule(mut schedule) = entry.value else { return None };
        self.mask().mask_new_job(&mut schedule.job);
        let next = self.engine().schedules().preview(&schedule.timing, 1).pop();
        let next_at = next.filter(|_| !schedule.paused);
        Some(ScheduleView { name: entry.name, schedule, next_at, tag })
    }
}

fn schedule_run(job: &Job) -> ScheduleRun {
    ScheduleRun {
        id: job.id.into(),
        state: job.live.state.into(),
        pushed_at: Moment(job.live.pushed_at),
        due_at: Moment(job.live.due),
        ended_at: job.live.ended_at.map(Moment),
    }
}

/// Names the job in front of the field of an error.
fn inside_job(error: crore::Error) -> crore::Error {
    match error {
        crore::Error::Invalid(invalid) => invalid.inside("job").into(),
        other => other,
    }
}
