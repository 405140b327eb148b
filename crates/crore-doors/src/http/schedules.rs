//! Schedules: jobs that the clock pushes.

use axum::extract::State;
use axum::response::Response;
use crore::store::registry::{self, Entry, Value};
use crore_core::schedule::Timing;
use crore_core::{Code, Invalid, Name, Time};
use crore_wire::api::push::NewJob;
use crore_wire::api::schedules::{Ahead, Schedule, Schedules, SetSchedule, Ticks};
use crore_wire::api::words::Missed;
use crore_wire::words::Moment;

use super::body::Read;
use super::fault::Fault;
use super::query::{Query, Segment};
use super::wants::Reply;
use crate::Doors;

/// How many instants are previewed, if nothing is said.
const TICKS: usize = 10;

/// All schedules.
#[utoipa::path(
    get, path = "/v1/schedules", operation_id = "listSchedules", tag = "schedules",
    responses((status = 200, description = "The schedules, by name.", body = Schedules)),
)]
pub(super) async fn list(State(doors): State<Doors>, reply: Reply) -> Result<Response, Fault> {
    let entries = doors.engine().schedules().await?;
    let schedules = entries.iter().filter_map(|entry| shown(&doors, reply, entry)).collect();
    Ok(reply.ok(&Schedules { schedules }))
}

fn shown(doors: &Doors, reply: Reply, entry: &Entry) -> Option<Schedule> {
    let Value::Schedule(schedule) = &entry.value else { return None };
    Some(Schedule {
        name: entry.name.to_string(),
        timing: schedule.timing.to_string(),
        missed: schedule.missed.into(),
        paused: schedule.paused,
        next_at: next_at(doors, schedule).map(Moment),
        job: NewJob::of(&schedule.job, reply.0),
    })
}

/// When a schedule fires next.
pub(crate) fn next_at(doors: &Doors, schedule: &registry::Schedule) -> Option<Time> {
    let next = doors.engine().preview(&schedule.timing, 1).pop();
    next.filter(|_| !schedule.paused)
}

async fn show(doors: &Doors, reply: Reply, name: &Name) -> Result<Response, Fault> {
    let entry = doors.engine().schedule(name).await?;
    let schedule = entry.and_then(|entry| shown(doors, reply, &entry));
    let schedule = schedule.ok_or_else(|| Fault::missing(format!("schedule `{name}`")))?;
    Ok(reply.ok(&schedule))
}

/// A schedule.
#[utoipa::path(
    get, path = "/v1/schedules/{name}", operation_id = "getSchedule", tag = "schedules",
    params(("name" = crore_wire::api::Name, Path, description = "The schedule.")),
    responses((status = 200, description = "The schedule.", body = Schedule)),
)]
pub(super) async fn get(
    State(doors): State<Doors>,
    reply: Reply,
    name: Segment,
) -> Result<Response, Fault> {
    show(&doors, reply, &name.name("schedule")?).await
}

/// Sets a schedule. One with the same timing keeps its place, so it may be set whenever a program starts.
#[utoipa::path(
    put, path = "/v1/schedules/{name}", operation_id = "setSchedule", tag = "schedules",
    params(("name" = crore_wire::api::Name, Path, description = "The schedule.")),
    request_body = SetSchedule,
    responses((status = 200, description = "The schedule as it is now.", body = Schedule)),
)]
pub(super) async fn set(
    State(doors): State<Doors>,
    reply: Reply,
    name: Segment,
    Read { format, value }: Read<SetSchedule>,
) -> Result<Response, Fault> {
    let name = name.name("schedule")?;
    let timing = Timing::parse("timing", &value.timing)?;
    let missed = value.missed.unwrap_or(Missed::Skip).into();
    let job = value.job.read(format).map_err(|invalid| invalid.inside("job"))?;
    doors.engine().set_schedule(name.clone(), timing, missed, job).await?;
    show(&doors, reply, &name).await
}

/// Removes a schedule, if it is there. What it has pushed stays.
#[utoipa::path(
    delete, path = "/v1/schedules/{name}", operation_id = "deleteSchedule", tag = "schedules",
    params(("name" = crore_wire::api::Name, Path, description = "The schedule.")),
    responses((status = 204, description = "It is not there any more.")),
)]
pub(super) async fn delete(State(doors): State<Doors>, name: Segment) -> Result<Response, Fault> {
    doors.engine().remove_schedule(name.name("schedule")?).await?;
    Ok(Reply::nothing())
}

/// Lets a schedule not fire.
#[utoipa::path(
    post, path = "/v1/schedules/{name}/pause", operation_id = "pauseSchedule", tag = "schedules",
    params(("name" = crore_wire::api::Name, Path, description = "The schedule.")),
    responses((status = 200, description = "The schedule as it is now.", body = Schedule)),
)]
pub(super) async fn pause(
    State(doors): State<Doors>,
    reply: Reply,
    name: Segment,
) -> Result<Response, Fault> {
    let name = name.name("schedule")?;
    doors.engine().set_schedule_paused(&name, true).await?;
    show(&doors, reply, &name).await
}

/// Lets a schedule fire again, from now on.
#[utoipa::path(
    post, path = "/v1/schedules/{name}/resume", operation_id = "resumeSchedule", tag = "schedules",
    params(("name" = crore_wire::api::Name, Path, description = "The schedule.")),
    responses((status = 200, description = "The schedule as it is now.", body = Schedule)),
)]
pub(super) async fn resume(
    State(doors): State<Doors>,
    reply: Reply,
    name: Segment,
) -> Result<Response, Fault> {
    let name = name.name("schedule")?;
    doors.engine().set_schedule_paused(&name, false).await?;
    show(&doors, reply, &name).await
}

/// The next instants at which a timing would fire.
#[utoipa::path(
    get, path = "/v1/preview", operation_id = "previewTiming", tag = "schedules",
    params(Ahead),
    responses((status = 200, description = "The instants.", body = Ticks)),
)]
pub(super) async fn preview(
    State(doors): State<Doors>,
    reply: Reply,
    Query(ask): Query<Ahead>,
) -> Result<Response, Fault> {
    let timing = Timing::parse("timing", &ask.timing)?;
    let (n, most) = (ask.n.unwrap_or(TICKS), doors.engine().caps().page);
    if n == 0 || n > most {
        let message = format!("`{n}` lies outside 1 to {most}");
        return Err(Invalid::new(Code::CountRange, "n", message).into());
    }
    let ticks = doors.engine().preview(&timing, n).into_iter().map(Moment).collect();
    Ok(reply.ok(&Ticks { timing: timing.to_string(), ticks }))
}
