//! Tokens: who may call.

use axum::extract::State;
use axum::response::Response;
use crore_wire::api::tokens::{CreatedToken, NewToken, Token, Tokens};
use crore_wire::words::Moment;
use http::StatusCode;
use http::header::CACHE_CONTROL;

use super::body::Read;
use super::fault::Fault;
use super::query::Segment;
use super::wants::Reply;
use crate::access;
use crate::audit::About;
use crate::{Doors, Scope};

fn shown(token: &access::Token) -> Token {
    Token {
        id: token.id.to_string(),
        name: token.name.to_string(),
        scopes: token.scopes.iter().collect(),
        created_at: Moment(token.created_at),
        expires_at: token.expires_at.map(Moment),
    }
}

/// All tokens, without their secrets.
#[utoipa::path(
    get, path = "/v1/tokens", operation_id = "listTokens", tag = "tokens",
    responses((status = 200, description = "The tokens, by name.", body = Tokens)),
)]
pub(super) async fn list(State(doors): State<Doors>, reply: Reply) -> Result<Response, Fault> {
    let tokens = access::list(doors.engine()).await?;
    Ok(reply.ok(&Tokens { tokens: tokens.iter().map(shown).collect() }))
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
    State(doors): State<Doors>,
    reply: Reply,
    Read { value, .. }: Read<NewToken>,
) -> Result<Response, Fault> {
    let made = access::create(doors.engine(), &value).await;
    // Also after an error: it may be there.
    doors.access().changed();
    let (token, secret) = made?;
    let created = CreatedToken { about: shown(&token), token: secret };
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
pub(super) async fn delete(State(doors): State<Doors>, id: Segment) -> Result<Response, Fault> {
    let id = id.name("token")?;
    let removed = access::remove(doors.engine(), id.as_str()).await;
    doors.access().changed();
    let token = removed?.ok_or_else(|| Fault::missing(format!("token `{id}`")))?;
    let mut response = Reply::nothing();
    response.extensions_mut().insert(About(format!("token {} ({})", token.name, token.id)));
    Ok(response)
}
