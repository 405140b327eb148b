//! Completion of filters.

use axum::extract::State;
use axum::response::Response;
use crore_api::negotiation::Responder;
use crore_api::params::QueryParams;
use crore_api::{Api, Fault, Grant};
use crore_wire::api::complete::{CompleteQuery, Completion};

/// Suggests how to continue a filter, and says what is wrong with it.
///
/// Names of queues and kinds are those of stored jobs; labels and fields of payloads are those of some of them. They
/// are at most ten seconds old.
#[utoipa::path(
    get, path = "/v1/complete", operation_id = "completeFilter", tag = "jobs",
    params(CompleteQuery),
    responses((status = 200, description = "The suggestions.", body = Completion)),
)]
pub(super) async fn complete(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    QueryParams(which): QueryParams<CompleteQuery>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.complete(&grant, &which).await?))
}
