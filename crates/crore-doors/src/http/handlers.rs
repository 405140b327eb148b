//! Handlers: how jobs of a kind are run.

use axum::extract::State;
use axum::response::Response;
use crore_api::body::Decoded;
use crore_api::calls::HandlerList;
use crore_api::if_match::IfMatch;
use crore_api::negotiation::Responder;
use crore_api::params::PathParam;
use crore_api::{Api, Fault, Grant};
use crore_wire::api::handlers::{Handler, Handlers, SetHandler};

/// Lists all handlers.
#[utoipa::path(
    get, path = "/v1/handlers", operation_id = "listHandlers", tag = "handlers",
    responses((status = 200, description = "The handlers, by kind.", body = Handlers)),
)]
pub(super) async fn list(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
) -> Result<Response, Fault> {
    let HandlerList { handlers, unreadable } = api.list_handlers(&grant).await?;
    let handlers = handlers.iter().map(|handler| handler.to_wire(reply.0)).collect();
    Ok(reply.ok(&Handlers { handlers, unreadable }))
}

/// Gets the handler of a kind.
#[utoipa::path(
    get, path = "/v1/handlers/{kind}", operation_id = "getHandler", tag = "handlers",
    params(("kind" = crore_wire::api::Name, Path, description = "The kind.")),
    responses((status = 200, description = "The handler.", body = Handler)),
)]
pub(super) async fn get(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    kind: PathParam,
) -> Result<Response, Fault> {
    let handler = api.get_handler(&grant, kind.name("kind")?).await?;
    Ok(handler.map(|handler| handler.to_wire(reply.0)).response(reply))
}

/// Creates or replaces the handler of a kind. It applies immediately: to the next push, fetch and end of a job.
#[utoipa::path(
    put, path = "/v1/handlers/{kind}", operation_id = "setHandler", tag = "handlers",
    params(("kind" = crore_wire::api::Name, Path, description = "The kind."), ("If-Match" = Option<String>, Header, description = "Change it only if its `ETag` is this one, otherwise 412.")),
    request_body = SetHandler,
    responses((status = 200, description = "The updated handler.", body = Handler)),
)]
pub(super) async fn set(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    (kind, if_match): (PathParam, IfMatch),
    Decoded { value, .. }: Decoded<SetHandler>,
) -> Result<Response, Fault> {
    let handler = api.set_handler(&grant, kind.name("kind")?, value, &if_match).await?;
    Ok(handler.map(|handler| handler.to_wire(reply.0)).response(reply))
}

/// Deletes the handler of a kind, if there is one. Its jobs then wait for a worker or another handler.
#[utoipa::path(
    delete, path = "/v1/handlers/{kind}", operation_id = "deleteHandler", tag = "handlers",
    params(("kind" = crore_wire::api::Name, Path, description = "The kind.")),
    responses((status = 204, description = "The handler was deleted, or there was none.")),
)]
pub(super) async fn delete(
    State(api): State<Api>,
    grant: Grant,
    kind: PathParam,
) -> Result<Response, Fault> {
    api.delete_handler(&grant, kind.name("kind")?).await?;
    Ok(Responder::no_content())
}
