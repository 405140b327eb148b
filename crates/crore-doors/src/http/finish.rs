//! Reports: how deliveries went.

use axum::extract::State;
use axum::response::Response;
use crore_api::body::Decoded;
use crore_api::negotiation::Reply;
use crore_api::{Api, Fault};
use crore_wire::api::finish as wire;

/// Reports how deliveries went, each on its own.
///
/// What is answered is on the disk. The first report about a delivery that counts wins; any other is
/// answered `stale`. If one of the reports breaks a rule, none is taken.
#[utoipa::path(
    post, path = "/v1/finish", operation_id = "finish", tag = "work",
    request_body = wire::Finish,
    responses((status = 200, description = "One answer for each report, in order.", body = wire::Finished)),
)]
pub(super) async fn finish(
    State(api): State<Api>,
    reply: Reply,
    Decoded { format, value: ask }: Decoded<wire::Finish>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.finish(ask, format).await?))
}
