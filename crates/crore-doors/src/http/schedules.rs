//! Schedules: recurring jobs.

use axum::extract::State;
use axum::response::Response;
use crore_api::body::Decoded;
use crore_api::calls::{NewSchedule, ScheduleView};
use crore_api::if_match::{IfMatch, Tagged};
use crore_api::negotiation::Responder;
use crore_api::params::{PathParam, QueryParams};
use crore_api::{Api, Fault, Grant};
use crore_core::schedule::Timing;
use crore_wire::api::enums::Missed;
use crore_wire::api::push::Pushed;
use crore_wire::api::schedules::{
    PreviewQuery, Schedule, ScheduleRuns, Schedules, SetSchedule, Ticks,
};

use super::push::single_response;

/// Lists all schedules.
#[utoipa::path(
    get, path = "/v1/schedules", operation_id = "listSchedules", tag = "schedules",
    responses((status = 200, description = "The schedules, by name.", body = Schedules)),
)]
pub(super) async fn list(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
) -> Result<Response, Fault> {
    let schedules = api.list_schedules(&grant).await?;
    let schedules = schedules.iter().map(|schedule| schedule.to_wire(reply.0)).collect();
    Ok(reply.ok(&Schedules { schedules }))
}

/// Gets a schedule.
#[utoipa::path(
    get, path = "/v1/schedules/{name}", operation_id = "getSchedule", tag = "schedules",
    params(("name" = crore_wire::api::Name, Path, description = "The schedule.")),
    responses((status = 200, description = "The schedule.", body = Schedule)),
)]
pub(super) async fn get(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    name: PathParam,
) -> Result<Response, Fault> {
    tagged(reply, api.get_schedule(&grant, &name.name("schedule")?).await?)
}

/// Creates or replaces a schedule. If the timing is unchanged, the next tick is too, so a program may set its schedules
/// at every start.
#[utoipa::path(
    put, path = "/v1/schedules/{name}", operation_id = "setSchedule", tag = "schedules",
    params(("name" = crore_wire::api::Name, Path, description = "The schedule."), ("If-Match" = Option<String>, Header, description = "Change it only if its `ETag` is this one, otherwise 412.")),
    request_body = SetSchedule,
    responses((status = 200, description = "The updated schedule.", body = Schedule)),
)]
pub(super) async fn set(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    (name, if_match): (PathParam, IfMatch),
    Decoded { format, value }: Decoded<SetSchedule>,
) -> Result<Response, Fault> {
    let name = name.name("schedule")?;
    let timing = Timing::parse("timing", &value.timing)?;
    let missed = value.missed.unwrap_or(Missed::Skip);
    let job = value.job.read(format).map_err(|invalid| invalid.inside("job"))?;
    let new = NewSchedule { timing, missed, job };
    api.set_schedule(&grant, name.clone(), new, &if_match).await?;
    tagged(reply, api.get_schedule(&grant, &name).await?)
}

/// Deletes a schedule, if it exists. Jobs that it has pushed remain.
#[utoipa::path(
    delete, path = "/v1/schedules/{name}", operation_id = "deleteSchedule", tag = "schedules",
    params(("name" = crore_wire::api::Name, Path, description = "The schedule.")),
    responses((status = 204, description = "The schedule was deleted, or there was none.")),
)]
pub(super) async fn delete(
    State(api): State<Api>,
    grant: Grant,
    name: PathParam,
) -> Result<Response, Fault> {
    api.delete_schedule(&grant, name.name("schedule")?).await?;
    Ok(Responder::no_content())
}

/// Pauses a schedule.
#[utoipa::path(
    post, path = "/v1/schedules/{name}/pause", operation_id = "pauseSchedule", tag = "schedules",
    params(("name" = crore_wire::api::Name, Path, description = "The schedule.")),
    responses((status = 200, description = "The updated schedule.", body = Schedule)),
)]
pub(super) async fn pause(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    name: PathParam,
) -> Result<Response, Fault> {
    tagged(reply, api.pause_schedule(&grant, &name.name("schedule")?).await?)
}

/// Resumes a schedule. It does not make up for ticks that passed while it was paused.
#[utoipa::path(
    post, path = "/v1/schedules/{name}/resume", operation_id = "resumeSchedule", tag = "schedules",
    params(("name" = crore_wire::api::Name, Path, description = "The schedule.")),
    responses((status = 200, description = "The updated schedule.", body = Schedule)),
)]
pub(super) async fn resume(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    name: PathParam,
) -> Result<Response, Fault> {
    tagged(reply, api.resume_schedule(&grant, &name.name("schedule")?).await?)
}

/// Pushes the job of a schedule now, once. Its ticks stay as they are; a paused schedule stays paused.
#[utoipa::path(
    post, path = "/v1/schedules/{name}/run", operation_id = "runSchedule", tag = "schedules",
    params(("name" = crore_wire::api::Name, Path, description = "The schedule.")),
    responses((status = 201, description = "The job was pushed; or, with status 200, a job with its unique key exists.", body = Pushed)),
)]
pub(super) async fn run(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    name: PathParam,
) -> Result<Response, Fault> {
    let pushed = api.run_schedule(&grant, &name.name("schedule")?).await?;
    Ok(single_response(reply, &pushed))
}

/// Lists the last jobs that a schedule pushed, newest first. They have the label `crore.schedule` with its name.
#[utoipa::path(
    get, path = "/v1/schedules/{name}/runs", operation_id = "scheduleRuns", tag = "schedules",
    params(("name" = crore_wire::api::Name, Path, description = "The schedule.")),
    responses((status = 200, description = "The jobs.", body = ScheduleRuns)),
)]
pub(super) async fn runs(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    name: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.schedule_runs(&grant, &name.name("schedule")?).await?))
}

/// Previews the next firing times (ticks) of a timing.
#[utoipa::path(
    get, path = "/v1/preview", operation_id = "previewTiming", tag = "schedules",
    params(PreviewQuery),
    responses((status = 200, description = "The ticks.", body = Ticks)),
)]
pub(super) async fn preview(
    State(api): State<Api>,
    reply: Responder,
    QueryParams(query): QueryParams<PreviewQuery>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.preview_timing(&query)?))
}

fn tagged(reply: Responder, schedule: Tagged<ScheduleView>) -> Result<Response, Fault> {
    Ok(schedule.map(|schedule| schedule.to_wire(reply.0)).response(reply))
}
