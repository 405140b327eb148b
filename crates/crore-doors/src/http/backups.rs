//! Backups: consistent copies of the store, made while it is in use.

use axum::extract::State;
use axum::response::Response;
use crore_api::audit::AuditDetails;
use crore_api::body::Decoded;
use crore_api::negotiation::Responder;
use crore_api::{Api, Fault, Grant};
use crore_wire::api::backups::{Backup, NewBackup};
use http::StatusCode;

/// Copies the store into the server's backup directory, under a new name.
///
/// Other calls continue. The backup is a complete store with everything acknowledged before this call. The response
/// is sent when it is durable.
#[utoipa::path(
    post, path = "/v1/backups", operation_id = "createBackup", tag = "server",
    request_body = NewBackup,
    responses((status = 201, description = "The backup was created.", body = Backup)),
)]
pub(super) async fn create(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    Decoded { value: NewBackup { name }, .. }: Decoded<NewBackup>,
) -> Result<Response, Fault> {
    let made = api.create_backup(&grant, &name).await?;
    let mut response = reply.with(StatusCode::CREATED, &made);
    response.extensions_mut().insert(AuditDetails(format!("backup {name}: {} bytes", made.bytes)));
    Ok(response)
}
