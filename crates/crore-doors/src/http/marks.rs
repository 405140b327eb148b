//! Marks for charts.

use axum::extract::State;
use axum::response::Response;
use crore_api::negotiation::Responder;
use crore_api::params::QueryParams;
use crore_api::{Api, Fault, Grant};
use crore_wire::api::marks::{Marks, MarksQuery};

/// Lists what may explain a change in the statistics: starts of the server, new versions of workers, and changes of queues
/// and limits.
#[utoipa::path(
    get, path = "/v1/marks", operation_id = "listMarks", tag = "server",
    params(MarksQuery),
    responses((status = 200, description = "The marks, oldest first.", body = Marks)),
)]
pub(super) async fn list(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    QueryParams(which): QueryParams<MarksQuery>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.list_marks(&grant, &which)))
}
