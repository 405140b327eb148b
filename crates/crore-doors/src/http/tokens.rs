//! Access tokens.

use axum::extract::State;
use axum::response::Response;
use crore_api::audit::AuditDetails;
use crore_api::body::Decoded;
use crore_api::negotiation::Responder;
use crore_api::params::PathParam;
use crore_api::{Api, Fault, Grant, Scope};
use crore_wire::api::tokens::{CreatedToken, NewToken, Tokens};
use http::StatusCode;
use http::header::CACHE_CONTROL;

/// Lists all tokens, without their secrets.
#[utoipa::path(
    get, path = "/v1/tokens", operation_id = "listTokens", tag = "tokens",
    responses((status = 200, description = "The tokens, by name.", body = Tokens)),
)]
pub(super) async fn list(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.list_tokens(&grant).await?))
}

/// Creates a token. The secret is in this response only; the server stores its hash.
///
/// As soon as a token exists, every caller needs one.
#[utoipa::path(
    post, path = "/v1/tokens", operation_id = "createToken", tag = "tokens",
    request_body = NewToken,
    responses((status = 201, description = "The token, with its secret.", body = CreatedToken)),
)]
pub(super) async fn create(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    Decoded { value, .. }: Decoded<NewToken>,
) -> Result<Response, Fault> {
    let (token, secret) = api.create_token(&grant, &value).await?;
    let created = CreatedToken { about: (&token).into(), token: secret };
    let mut response = reply.with(StatusCode::CREATED, &created);
    let scopes: Vec<_> = token.scopes.iter().map(Scope::as_str).collect();
    let about = format!("token {} ({}): {}", token.name, token.id, scopes.join(", "));
    response.extensions_mut().insert(AuditDetails(about));
    response.headers_mut().insert(CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Revokes a token, by its id or its name. Its streams and waiting calls end within two seconds.
///
/// When the last token is revoked, callers on the server's machine need none again.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", operation_id = "deleteToken", tag = "tokens",
    params(("id" = crore_wire::api::Name, Path, description = "The token's `id`, or its name.")),
    responses((status = 204, description = "The token has been revoked.")),
)]
pub(super) async fn delete(
    State(api): State<Api>,
    grant: Grant,
    id: PathParam,
) -> Result<Response, Fault> {
    let token = api.delete_token(&grant, &id.name("token")?).await?;
    let mut response = Responder::no_content();
    response.extensions_mut().insert(AuditDetails(format!("token {} ({})", token.name, token.id)));
    Ok(response)
}
