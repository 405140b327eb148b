//! Named events that jobs wait for.

use axum::extract::State;
use axum::response::Response;
use crore_api::body::Decoded;
use crore_api::negotiation::Responder;
use crore_api::params::{PathParam, QueryParams};
use crore_api::{Api, Fault, Grant};
use crore_wire::api::events::{EventSent, NamedEvent, NamedEventList, NamedEventsQuery, NewEvent};
use crore_wire::api::job::JobView;

/// Sends an event: jobs that wait for it are released, and jobs that are pushed while it is kept do not wait.
///
/// An event replaces the kept one of the same name. It is not an error if no job waits for it.
#[utoipa::path(
    post, path = "/v1/events/{name}", operation_id = "sendEvent", tag = "events",
    params(("name" = crore_wire::api::Name, Path, description = "The event.")),
    request_body = NewEvent,
    responses((status = 200, description = "The event was sent.", body = EventSent)),
)]
pub(super) async fn send(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    name: PathParam,
    Decoded { value, format, .. }: Decoded<NewEvent>,
) -> Result<Response, Fault> {
    let event = value.read(name.name("event")?, format)?;
    Ok(reply.ok(&api.send_event(&grant, event).await?))
}

/// Gets the kept event of a name: jobs that are pushed now receive it.
#[utoipa::path(
    get, path = "/v1/events/{name}", operation_id = "getEvent", tag = "events",
    params(("name" = crore_wire::api::Name, Path, description = "The event.")),
    responses((status = 200, description = "The event.", body = NamedEvent)),
)]
pub(super) async fn get(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    name: PathParam,
) -> Result<Response, Fault> {
    let event = api.get_event(&grant, name.name("event")?).await?;
    Ok(reply.ok(&NamedEvent::of(&event, reply.0, JobView::Full)))
}

/// Removes the kept event of a name, if there is one. Jobs that have received it keep it.
#[utoipa::path(
    delete, path = "/v1/events/{name}", operation_id = "removeEvent", tag = "events",
    params(("name" = crore_wire::api::Name, Path, description = "The event.")),
    responses((status = 204, description = "The event was removed, or there was none.")),
)]
pub(super) async fn remove(
    State(api): State<Api>,
    grant: Grant,
    name: PathParam,
) -> Result<Response, Fault> {
    api.remove_event(&grant, name.name("event")?).await?;
    Ok(Responder::no_content())
}

/// Lists kept events by name.
#[utoipa::path(
    get, path = "/v1/kept-events", operation_id = "listEvents", tag = "events",
    params(NamedEventsQuery),
    responses((status = 200, description = "A page of events.", body = NamedEventList)),
)]
pub(super) async fn list(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    QueryParams(which): QueryParams<NamedEventsQuery>,
) -> Result<Response, Fault> {
    let (events, next) = api.list_events(&grant, which.after.as_deref(), which.limit).await?;
    let show = |event| NamedEvent::of(event, reply.0, JobView::Summary);
    let events = events.iter().map(show).collect();
    Ok(reply.ok(&NamedEventList { events, next: next.map(|name| name.to_string()) }))
}
