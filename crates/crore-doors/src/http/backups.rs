//! Backups: copies of the store, made while it is used.

use axum::extract::State;
use axum::response::Response;
use crore_api::audit::About;
use crore_api::body::Decoded;
use crore_api::negotiation::Reply;
use crore_api::{Api, Fault};
use crore_wire::api::backups::{Backup, NewBackup};
use http::StatusCode;

/// Copies the store into the server's directory for backups, under a new name.
///
/// Others go on with their work. What is made is a store, with everything that was answered before this call;
/// the answer comes when it is on the disk.
#[utoipa::path(
    post, path = "/v1/backups", operation_id = "createBackup", tag = "server",
    request_body = NewBackup,
    responses((status = 201, description = "The backup is made.", body = Backup)),
)]
pub(super) async fn create(
    State(api): State<Api>,
    reply: Reply,
    Decoded { value: NewBackup { name }, .. }: Decoded<NewBackup>,
) -> Result<Response, Fault> {
    let made = api.create_backup(&name).await?;
    let mut response = reply.with(StatusCode::CREATED, &made);
    response.extensions_mut().insert(About(format!("backup {name}: {} bytes", made.bytes)));
    Ok(response)
}
