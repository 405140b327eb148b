//! The audit log.

use axum::extract::State;
use axum::response::Response;
use crore_api::negotiation::Responder;
use crore_api::params::QueryParams;
use crore_api::{Api, Fault, Grant};
use crore_wire::api::audit::{AuditPage, AuditQuery};

/// Reads the audit log, newest entries first. A server without an audit log answers 409.
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "readAudit", tag = "server",
    params(AuditQuery),
    responses((status = 200, description = "A page of entries.", body = AuditPage)),
)]
pub(super) async fn read(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    QueryParams(which): QueryParams<AuditQuery>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.read_audit(&grant, which).await?))
}
