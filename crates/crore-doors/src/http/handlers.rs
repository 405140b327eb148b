//! Handlers: how jobs of a kind are run.

use axum::extract::State;
use axum::response::Response;
use crore_core::handler::BUILT_IN;
use crore_core::{Handler, Name};
use crore_wire::Format;
use crore_wire::api::handlers::{self as api, Handlers, SetHandler};
use crore_wire::words::Moment;

use super::body::Read;
use super::fault::Fault;
use super::query::Segment;
use super::wants::Reply;
use crate::Doors;

/// A handler, as it is shown.
pub(crate) fn shown(doors: &Doors, kind: &Name, handler: &Handler, format: Format) -> api::Handler {
    let planned = handler.schedule.as_ref();
    let next_at = planned.and_then(|planned| doors.engine().preview(&planned.timing, 1).pop());
    api::Handler {
        kind: kind.to_string(),
        id: (handler.id != BUILT_IN).then_some(handler.id),
        next_at: next_at.map(Moment),
        says: SetHandler::of(handler, format),
    }
}

/// Sets a handler, if there is such a runner, it may be used, and it understands its settings.
pub(crate) async fn define(doors: &Doors, kind: &Name, says: SetHandler) -> Result<Handler, Fault> {
    let handler = says.read()?;
    doors.check_handler(&handler)?;
    let id = doors.engine().set_handler(kind.clone(), handler.clone()).await?;
    Ok(Handler { id, ..handler })
}

/// All handlers.
#[utoipa::path(
    get, path = "/v1/handlers", operation_id = "listHandlers", tag = "handlers",
    responses((status = 200, description = "The handlers, by kind.", body = Handlers)),
)]
pub(super) async fn list(State(doors): State<Doors>, reply: Reply) -> Result<Response, Fault> {
    let all = doors.engine().handlers().await?;
    let shown = all.iter().map(|(kind, known)| shown(&doors, kind, &known.handler, reply.0));
    let unreadable = doors.engine().unreadable_handlers().await?;
    let unreadable = unreadable.iter().map(ToString::to_string).collect();
    Ok(reply.ok(&Handlers { handlers: shown.collect(), unreadable }))
}

/// The handler of a kind.
#[utoipa::path(
    get, path = "/v1/handlers/{kind}", operation_id = "getHandler", tag = "handlers",
    params(("kind" = crore_wire::api::Name, Path, description = "The kind.")),
    responses((status = 200, description = "The handler.", body = api::Handler)),
)]
pub(super) async fn get(
    State(doors): State<Doors>,
    reply: Reply,
    kind: Segment,
) -> Result<Response, Fault> {
    let kind = kind.name("kind")?;
    let known = doors.engine().handler(&kind).await?;
    let known = known.ok_or_else(|| Fault::missing(format!("handler of `{kind}`")))?;
    Ok(reply.ok(&shown(&doors, &kind, &known.handler, reply.0)))
}

/// Sets the handler of a kind. It holds at once: for the next push, the next fetch and the next end.
#[utoipa::path(
    put, path = "/v1/handlers/{kind}", operation_id = "setHandler", tag = "handlers",
    params(("kind" = crore_wire::api::Name, Path, description = "The kind.")),
    request_body = SetHandler,
    responses((status = 200, description = "The handler as it is now.", body = api::Handler)),
)]
pub(super) async fn set(
    State(doors): State<Doors>,
    reply: Reply,
    kind: Segment,
    Read { value, .. }: Read<SetHandler>,
) -> Result<Response, Fault> {
    let kind = kind.name("kind")?;
    let handler = define(&doors, &kind, value).await?;
    Ok(reply.ok(&shown(&doors, &kind, &handler, reply.0)))
}

/// Removes the handler of a kind, if it has one. Its jobs wait for a worker, or for another handler.
#[utoipa::path(
    delete, path = "/v1/handlers/{kind}", operation_id = "deleteHandler", tag = "handlers",
    params(("kind" = crore_wire::api::Name, Path, description = "The kind.")),
    responses((status = 204, description = "It has none any more.")),
)]
pub(super) async fn delete(State(doors): State<Doors>, kind: Segment) -> Result<Response, Fault> {
    doors.engine().remove_handler(kind.name("kind")?).await?;
    Ok(Reply::nothing())
}
