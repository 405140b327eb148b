//! Schedules: jobs that the clock pushes.

use axum::extract::State;
use axum::response::Response;
use crore_api::body::Decoded;
use crore_api::negotiation::Reply;
use crore_api::params::{PathParam, Query};
use crore_api::{Api, Fault};
use crore_core::schedule::Timing;
use crore_wire::api::schedules::{Ahead, Schedule, Schedules, SetSchedule, Ticks};
use crore_wire::api::words::Missed;

/// All schedules.
#[utoipa::path(
    get, path = "/v1/schedules", operation_id = "listSchedules", tag = "schedules",
    responses((status = 200, description = "The schedules, by name.", body = Schedules)),
)]
pub(super) async fn list(State(api): State<Api>, reply: Reply) -> Result<Response, Fault> {
    let schedules = api.list_schedules().await?;
    let schedules = schedules.iter().map(|schedule| schedule.to_wire(reply.0)).collect();
    Ok(reply.ok(&Schedules { schedules }))
}

/// A schedule.
#[utoipa::path(
    get, path = "/v1/schedules/{name}", operation_id = "getSchedule", tag = "schedules",
    params(("name" = crore_wire::api::Name, Path, description = "The schedule.")),
    responses((status = 200, description = "The schedule.", body = Schedule)),
)]
pub(super) async fn get(
    State(api): State<Api>,
    reply: Reply,
    name: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.get_schedule(&name.name("schedule")?).await?.to_wire(reply.0)))
}

/// Sets a schedule. One with the same timing keeps its place, so it may be set whenever a program starts.
#[utoipa::path(
    put, path = "/v1/schedules/{name}", operation_id = "setSchedule", tag = "schedules",
    params(("name" = crore_wire::api::Name, Path, description = "The schedule.")),
    request_body = SetSchedule,
    responses((status = 200, description = "The schedule as it is now.", body = Schedule)),
)]
pub(super) async fn set(
    State(api): State<Api>,
    reply: Reply,
    name: PathParam,
    Decoded { format, value }: Decoded<SetSchedule>,
) -> Result<Response, Fault> {
    let name = name.name("schedule")?;
    let timing = Timing::parse("timing", &value.timing)?;
    let missed = value.missed.unwrap_or(Missed::Skip);
    let job = value.job.read(format).map_err(|invalid| invalid.inside("job"))?;
    api.set_schedule(name.clone(), timing, missed, job).await?;
    Ok(reply.ok(&api.get_schedule(&name).await?.to_wire(reply.0)))
}

/// Removes a schedule, if it is there. What it has pushed stays.
#[utoipa::path(
    delete, path = "/v1/schedules/{name}", operation_id = "deleteSchedule", tag = "schedules",
    params(("name" = crore_wire::api::Name, Path, description = "The schedule.")),
    responses((status = 204, description = "It is not there any more.")),
)]
pub(super) async fn delete(State(api): State<Api>, name: PathParam) -> Result<Response, Fault> {
    api.delete_schedule(name.name("schedule")?).await?;
    Ok(Reply::nothing())
}

/// Lets a schedule not fire.
#[utoipa::path(
    post, path = "/v1/schedules/{name}/pause", operation_id = "pauseSchedule", tag = "schedules",
    params(("name" = crore_wire::api::Name, Path, description = "The schedule.")),
    responses((status = 200, description = "The schedule as it is now.", body = Schedule)),
)]
pub(super) async fn pause(
    State(api): State<Api>,
    reply: Reply,
    name: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.pause_schedule(&name.name("schedule")?).await?.to_wire(reply.0)))
}

/// Lets a schedule fire again, from now on.
#[utoipa::path(
    post, path = "/v1/schedules/{name}/resume", operation_id = "resumeSchedule", tag = "schedules",
    params(("name" = crore_wire::api::Name, Path, description = "The schedule.")),
    responses((status = 200, description = "The schedule as it is now.", body = Schedule)),
)]
pub(super) async fn resume(
    State(api): State<Api>,
    reply: Reply,
    name: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.resume_schedule(&name.name("schedule")?).await?.to_wire(reply.0)))
}

/// The next instants at which a timing would fire.
#[utoipa::path(
    get, path = "/v1/preview", operation_id = "previewTiming", tag = "schedules",
    params(Ahead),
    responses((status = 200, description = "The instants.", body = Ticks)),
)]
pub(super) async fn preview(
    State(api): State<Api>,
    reply: Reply,
    Query(ask): Query<Ahead>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.preview_timing(&ask)?))
}
