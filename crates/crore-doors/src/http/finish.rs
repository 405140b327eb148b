//! Reports of finished deliveries.

use axum::extract::State;
use axum::response::Response;
use crore_api::body::Decoded;
use crore_api::negotiation::Responder;
use crore_api::{Api, Fault, Grant};
use crore_wire::api::finish as wire;

/// Reports the outcomes of deliveries.
///
/// The response has a result for each report, and is sent when the reports are durable. The first report about a
/// delivery wins; later ones are `stale`. If the request contains an invalid report, none is applied.
#[utoipa::path(
    post, path = "/v1/finish", operation_id = "finish", tag = "work",
    request_body = wire::Finish,
    responses((status = 200, description = "One result per report, in order.", body = wire::Finished)),
)]
pub(super) async fn finish(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    Decoded { format, value: request }: Decoded<wire::Finish>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.finish(&grant, request, format).await?))
}
