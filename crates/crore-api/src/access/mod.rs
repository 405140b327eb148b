//! Authentication and authorization: tokens, scopes, and rate limits of failures.
//!
//! While there is no token, callers on this machine have full access; if jobs can run programs on it, only the server's
//! own user and root. As soon as a token exists, every caller needs
//! one, or a client certificate. An expired token still counts as existing, so a server never opens up by itself.

mod caller;
mod failures;
mod grant;
mod listen_rules;
mod token;
mod tokens;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use crore::Engine;
use crore_core::settings::section;
use crore_core::{Code, Invalid, Name};
use http::HeaderValue;
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use tokio::time::Instant;

pub use caller::{
    Caller, Certificate, Identity, PeerUser, REQUEST_ID, SecureConnection, SessionToken,
};
pub use grant::Grant;
pub(crate) use grant::list as list_patterns;
pub use listen_rules::{ListenRefused, ListenWarning, Protection, may_listen};
pub use token::Token;
pub use token::{random, redacted};
pub use tokens::{any_exist, create, list, remove};

use crate::Fault;
use crate::mask::MaskedField;
use crate::scope::{Scope, Scopes};
use failures::FailureLimiter;
use tokens::TokenCache;

section! {
    /// Access of clients that authenticate with a certificate instead of a token, and fields that no client may read.
    pub struct Options: Eq = "access" {
        /// Scopes of clients that authenticate with a certificate (see `tls.client-ca`): any of `push`, `work`, `read`,
        /// `operate`, `define` and `admin`.
        certificate_scopes: Scopes = "push,work,read,operate,define,admin",
        /// Names of payload fields whose values are shown as `***` to every reader, whatever its scopes; workers get the
        /// values. A name applies at any depth, and the case of its letters does not matter.
        mask: Vec<MaskedField> = none,
        /// Full access for any caller while there is no token, not only for callers on this machine. Without effect if
        /// jobs can run programs on this machine.
        insecure: bool => false,
        /// User id of the server, if jobs can run programs on this machine. While there is no token, only this user and
        /// root are then admitted without one.
        own_user: Option<u32> => None,
    }
}

/// Why a token could not be created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine refused, or is unavailable.
    #[error(transparent)]
    Engine(#[from] crore::Error),
    /// The operating system returned no random bytes.
    #[error("cannot read random bytes from the operating system")]
    NoRandomness,
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::Engine(invalid.into())
    }
}

/// Authenticates callers and checks their scopes.
#[derive(Debug)]
pub struct Access {
    engine: Engine,
    options: Options,
    tokens: TokenCache,
    /// Failures of unauthenticated callers.
    failures: FailureLimiter,
    /// Calls of authenticated callers without the needed scope.
    denials: FailureLimiter,
    loopback: Grant,
    anyone: Grant,
}

/// User id of root, who can act as every user anyway.
const ROOT: u32 = 0;

/// Why a call is refused.
#[derive(Debug)]
pub enum AccessDenied {
    /// The caller is not authenticated.
    Unauthenticated,
    /// The caller is not known to be the server's own user, and there is no token yet.
    UserNotAdmitted,
    /// The caller is authenticated, but lacks the scope.
    MissingScope(Identity, &'static [Scope]),
    /// Too many failures from this address; retry after this time.
    RateLimited(Duration),
    /// The credentials are malformed.
    Malformed(Fault),
    /// The tokens cannot be read.
    Unavailable(crore::Error),
}

impl Access {
    pub(crate) fn new(engine: Engine, options: Options) -> Self {
        let tokens = TokenCache::new(engine.clone());
        let (failures, denials) = Default::default();
        let loopback = Grant::unrestricted(Identity::Loopback, Scopes::all());
        let anyone = Grant::unrestricted(Identity::Anyone, Scopes::all());
        Self { engine, options, tokens, failures, denials, loopback, anyone }
    }

    /// Tells the cache that this server changed the tokens.
    pub fn tokens_changed(&self) {
        self.tokens.changed();
    }

    /// Authenticates a call that needs one of these scopes; none: any scope is enough. A valid token is always
    /// admitted, even if others behind the same address fail.
    pub async fn admit(
        &self,
        caller: &Caller,
        needs: &'static [Scope],
    ) -> Result<Grant, AccessDenied> {
        let token = bearer(caller)?;
        let now = self.engine.status().now();
        let snapshot = self.tokens.snapshot().await.map_err(AccessDenied::Unavailable)?;
        let is_open = !snapshot.any_exist && self.is_trusted_user(caller);
        let grant = if is_open && caller.is_local() {
            self.loopback.clone()
        } else if !snapshot.any_exist && self.options.insecure && self.options.own_user.is_none() {
            self.anyone.clone()
        } else if let Some(token) = token {
            snapshot.find(token, now).ok_or_else(|| self.fail(caller))?
        } else if let Some(SessionToken(id)) = &caller.session {
            // Not counted as a failure: the session began with this token.
            snapshot.grant(id, now).ok_or(AccessDenied::Unauthenticated)?
        } else if let Some(Certificate(name)) = &caller.certificate {
            let who = Identity::Certificate(Arc::clone(name));
            Grant::unrestricted(who, self.options.certificate_scopes)
        } else if !snapshot.any_exist && !self.is_trusted_user(caller) {
            return Err(self.limited(caller, AccessDenied::UserNotAdmitted));
        } else {
            return Err(self.fail(caller));
        };
        match needs {
            [] if grant.scopes() == Scopes::NONE => Err(self.fail(caller)),
            [] => Ok(grant),
            needs if needs.iter().any(|scope| grant.has(*scope)) => Ok(grant),
            needs => Err(AccessDenied::MissingScope(grant.who().clone(), needs)),
        }
    }

    /// Authenticates a caller that logs in with the text of a token.
    pub(crate) async fn log_in(&self, caller: &Caller, text: &str) -> Result<Grant, AccessDenied> {
        let now = self.engine.status().now();
        let snapshot = self.tokens.snapshot().await.map_err(AccessDenied::Unavailable)?;
        snapshot.find(text.trim(), now).ok_or_else(|| self.fail(caller))
    }

    /// Whether a token exists, so that every caller needs one or a certificate. `true` if the tokens cannot be read.
    pub async fn needs_token(&self) -> bool {
        self.tokens.snapshot().await.map_or(true, |snapshot| snapshot.any_exist)
    }

    /// Whether callers are admitted by their user id while there is no token.
    pub const fn may_need_peer_user(&self) -> bool {
        self.options.own_user.is_some()
    }

    /// Whether callers are admitted by their user id now, so that the accept loop has to look it up.
    pub async fn needs_peer_user(&self) -> bool {
        self.may_need_peer_user() && !self.needs_token().await
    }

    /// Whether the caller may do what the server's own user can do on this machine.
    fn is_trusted_user(&self, caller: &Caller) -> bool {
        let Some(own) = self.options.own_user else { return true };
        caller.user.is_some_and(|PeerUser(user)| user == own || user == ROOT)
    }

    /// The time at which the tokens were read, and whether the token with an id exists and has not expired.
    pub(crate) async fn valid_tokens(
        &self,
    ) -> Result<(Instant, impl Fn(&Name) -> bool), crore::Error> {
        let snapshot = self.tokens.snapshot().await?;
        let now = self.engine.status().now();
        Ok((snapshot.read_at(), move |id: &Name| snapshot.is_valid(id, now)))
    }

    fn fail(&self, caller: &Caller) -> AccessDenied {
        self.limited(caller, AccessDenied::Unauthenticated)
    }

    fn limited(&self, caller: &Caller, denied: AccessDenied) -> AccessDenied {
        match self.failures.count(address(caller), Instant::now()) {
            Ok(()) => denied,
            Err(wait) => AccessDenied::RateLimited(wait),
        }
    }

    /// Whether to write a refusal to the audit log: only the first ones of each address are written.
    pub fn should_audit(&self, caller: &Caller, denied: &AccessDenied) -> bool {
        match denied {
            AccessDenied::Unauthenticated | AccessDenied::UserNotAdmitted => true,
            AccessDenied::MissingScope(..) => {
                self.denials.count(address(caller), Instant::now()).is_ok()
            }
            AccessDenied::RateLimited(_)
            | AccessDenied::Malformed(_)
            | AccessDenied::Unavailable(_) => false,
        }
    }
}

fn address(caller: &Caller) -> IpAddr {
    caller.peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip())
}

/// The token in a request, if any.
fn bearer(caller: &Caller) -> Result<Option<&str>, AccessDenied> {
    if caller.uri.query().is_some_and(has_token) {
        let detail = "a token must not be in the URL, which is written to logs; \
                      send it as `Authorization: Bearer …`";
        return Err(AccessDenied::Malformed(Fault::new(Code::Malformed, detail)));
    }
    let (Some(value), second) = &caller.authorization else { return Ok(None) };
    if second.is_some() {
        let detail = "the header `authorization` occurs twice";
        return Err(AccessDenied::Malformed(Fault::new(Code::Malformed, detail)));
    }
    // An unreadable value is treated as an unknown token.
    let text = value.to_str().unwrap_or_default();
    let token = text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    Ok(Some(token.map_or("", |(_, token)| token.trim_matches(' '))))
}

/// Whether a query string contains a token, or a parameter with the name of one.
fn has_token(query: &str) -> bool {
    const NAMES: [&str; 4] = ["token", "access_token", "auth_token", "authorization"];
    form_urlencoded::parse(query.as_bytes()).any(|(name, value)| {
        NAMES.iter().any(|one| name.eq_ignore_ascii_case(one)) || redacted(&value) != value
    })
}

impl AccessDenied {
    /// The caller that is refused.
    pub fn who(&self) -> Identity {
        match self {
            Self::MissingScope(who, _) => who.clone(),
            _ => Identity::Unauthenticated,
        }
    }
}

fn token_needed(detail: &str) -> Response {
    let mut response = Fault::new(Code::TokenNeeded, detail).into_response();
    let scheme = HeaderValue::from_static("Bearer");
    response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    response
}

impl IntoResponse for AccessDenied {
    /// A missing, wrong, expired and revoked token get the same response.
    fn into_response(self) -> Response {
        match self {
            Self::Unauthenticated => token_needed(
                "this call needs a valid access token: `Authorization: Bearer crore_…`; on the command line, set \
                 `CRORE_TOKEN` or `--token-file`",
            ),
            Self::UserNotAdmitted => token_needed(
                "this call needs an access token: jobs can run programs on the server's machine, so only the server's \
                 own user is admitted without one; as that user, run `crore token create NAME --preset admin`, and \
                 send `Authorization: Bearer crore_…`; on the command line, set `CRORE_TOKEN` or `--token-file`",
            ),
            Self::MissingScope(_, scopes) => {
                let scopes: Vec<_> = scopes.iter().map(|scope| format!("`{scope}`")).collect();
                let scopes = scopes.join(" or ");
                let detail =
                    format!("this call needs the scope {scopes}, which the caller does not have");
                Fault::new(Code::ScopeMissing, detail).into_response()
            }
            Self::RateLimited(wait) => {
                let detail = "too many calls without a valid token from this address; retry later";
                let mut response = Fault::new(Code::TooMany, detail).into_response();
                let seconds = wait.as_millis().div_ceil(1000).max(1) as u64;
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
                response
            }
            Self::Malformed(fault) => fault.into_response(),
            Self::Unavailable(error) => Fault::from(error).into_response(),
        }
    }
}
