//! Handlers: how jobs of a kind are run.

use axum::extract::State;
use axum::response::Response;
use crore_api::body::Decoded;
use crore_api::calls::HandlerList;
use crore_api::negotiation::Responder;
use crore_api::params::PathParam;
use crore_api::{Api, Fault};
use crore_wire::api::handlers::{Handler, Handlers, SetHandler};

/// Lists all handlers.
#[utoipa::path(
    get, path = "/v1/handlers", operation_id = "listHandlers", tag = "handlers",
    responses((status = 200, description = "The handlers, by kind.", body = Handlers)),
)]
pub(super) async fn list(State(api): State<Api>, reply: Responder) -> Result<Response, Fault> {
    let HandlerList { handlers, unreadable } = api.list_handlers().await?;
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
    reply: Responder,
    kind: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.get_handler(kind.name("kind")?).await?.to_wire(reply.0)))
}

/// Creates or replaces the handler of a kind. It applies immediately: to the next push, fetch and end of a job.
#[utoipa::path(
    put, path = "/v1/handlers/{kind}", operation_id = "setHandler", tag = "handlers",
    params(("kind" = crore_wire::api::Name, Path, description = "The kind.")),
    request_body = SetHandler,
    responses((status = 200, description = "The updated handler.", body = Handler)),
)]
pub(super) async fn set(
    State(api): State<Api>,
    reply: Responder,
    kind: PathParam,
    Decoded { value, .. }: Decoded<SetHandler>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.set_handler(kind.name("kind")?, value).await?.to_wire(reply.0)))
}

/// Deletes the handler of a kind, if there is one. Its jobs then wait for a worker or another handler.
#[utoipa::path(
    delete, path = "/v1/handlers/{kind}", operation_id = "deleteHandler", tag = "handlers",
    params(("kind" = crore_wire::api::Name, Path, description = "The kind.")),
    responses((status = 204, description = "The handler was deleted, or there was none.")),
)]
pub(super) async fn delete(State(api): State<Api>, kind: PathParam) -> Result<Response, Fault> {
    api.delete_handler(kind.name("kind")?).await?;
    Ok(Responder::no_content())
}
