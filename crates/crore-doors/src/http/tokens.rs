//! Tokens: who may call.

use axum::extract::State;
use axum::response::Response;
use crore_api::audit::About;
use crore_api::body::Decoded;
use crore_api::negotiation::Reply;
use crore_api::params::PathParam;
use crore_api::{Api, Fault, Scope};
use crore_wire::api::tokens::{CreatedToken, NewToken, Tokens};
use http::StatusCode;
use http::header::CACHE_CONTROL;

/// All tokens, without their secrets.
#[utoipa::path(
    get, path = "/v1/tokens", operation_id = "listTokens", tag = "tokens",
    responses((status = 200, description = "The tokens, by name.", body = Tokens)),
)]
pub(super) async fn list(State(api): State<Api>, reply: Reply) -> Result<Response, Fault> {
    Ok(reply.ok(&api.list_tokens().await?))
}

/// Makes a token. It is shown in this answer and never again; what is kept is its hash.
///
/// From the first token on, every caller needs one.
#[utoipa::path(
    post, path = "/v1/tokens", operation_id = "createToken", tag = "tokens",
    request_body = NewToken,
    responses((status = 201, description = "The token, with its secret.", body = CreatedToken)),
)]
pub(super) async fn create(
    State(api): State<Api>,
    reply: Reply,
    Decoded { value, .. }: Decoded<NewToken>,
) -> Result<Response, Fault> {
    let (token, secret) = api.create_token(&value).await?;
    let created = CreatedToken { about: (&token).into(), token: secret };
    let mut response = reply.with(StatusCode::CREATED, &created);
    let scopes: Vec<_> = token.scopes.iter().map(Scope::as_str).collect();
    let about = format!("token {} ({}): {}", token.name, token.id, scopes.join(", "));
    response.extensions_mut().insert(About(about));
    response.headers_mut().insert(CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Removes a token, by its public part or its name. Calls that are under way go on.
///
/// When the last one is gone, callers on the server's machine need none again.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", operation_id = "deleteToken", tag = "tokens",
    params(("id" = crore_wire::api::Name, Path, description = "The token's `id`, or its name.")),
    responses((status = 204, description = "It is good for nothing any more.")),
)]
pub(super) async fn delete(State(api): State<Api>, id: PathParam) -> Result<Response, Fault> {
    let token = api.delete_token(&id.name("token")?).await?;
    let mut response = Reply::nothing();
    response.extensions_mut().insert(About(format!("token {} ({})", token.name, token.id)));
    Ok(response)
}
