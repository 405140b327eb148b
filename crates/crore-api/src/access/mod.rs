//! Who may call, and what: tokens, scopes, and what becomes of those who fail.
//!
//! While there is no token, a caller on this machine may do everything. From the first token on, every
//! caller needs one, or a certificate that the server asks for. A token that has expired still counts as
//! one that is there: a server does not open by itself.

mod beyond;
mod caller;
mod failures;
mod token;
mod tokens;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use crore::Engine;
use crore_core::settings::section;
use crore_core::{Code, Invalid};
use http::HeaderValue;
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use tokio::time::Instant;

pub use beyond::{Protection, Refusal, Warning, may_listen};
pub use caller::{Caller, Certificate, REQUEST_ID, Who};
pub use token::Token;
pub use token::{random, redacted};
pub use tokens::{create, exist, list, remove};

use crate::Fault;
use crate::scope::{Scope, Scopes};
use failures::Failures;
use tokens::Tokens;

section! {
    /// What callers may do who are not known by a token.
    pub struct Options: Eq = "access" {
        /// What who shows a client certificate may do (see `tls.client-ca`): any of `push`, `work`, `read`,
        /// `operate`, `define` and `admin`.
        certificate_scopes: Scopes = "push,work,read,operate,define,admin",
        /// While there is no token, everybody may do everything, and not only who calls from this machine.
        insecure: bool => false,
    }
}

/// Why a token could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine refused, or has no answer.
    #[error(transparent)]
    Engine(#[from] crore::Error),
    /// The system has no randomness to give.
    #[error("the system gives no random bytes")]
    NoRandomness,
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::Engine(invalid.into())
    }
}

/// Knows callers.
#[derive(Debug)]
pub struct Access {
    engine: Engine,
    options: Options,
    tokens: Tokens,
    /// Of callers who are not known.
    failures: Failures,
    /// Of those who are, and want more than they may.
    denials: Failures,
}

/// Why a call is refused.
#[derive(Debug)]
pub enum Denied {
    /// The caller is not known.
    Unknown,
    /// The caller is known, and may not.
    Lacks(Who, Scope),
    /// The caller has failed too often; he may try again after this.
    TooOften(Duration),
    /// It is not clear what he says.
    Unclear(Fault),
    /// Nobody can say.
    Unavailable(crore::Error),
}

impl Access {
    pub(crate) fn new(engine: Engine, options: Options) -> Self {
        let tokens = Tokens::new(engine.clone());
        let (failures, denials) = Default::default();
        Self { engine, options, tokens, failures, denials }
    }

    /// The tokens were changed by this server.
    pub fn changed(&self) {
        self.tokens.changed();
    }

    /// Who makes a call that needs this scope; `None`: it needs any at all. Valid tokens are always let
    /// in: that somebody else behind the same address fails is no reason to lock them out.
    pub async fn admit(&self, caller: &Caller, needs: Option<Scope>) -> Result<Who, Denied> {
        let token = bearer(caller)?;
        let now = self.engine.status().now();
        let known = self.tokens.known().await.map_err(Denied::Unavailable)?;
        let (who, scopes) = if !known.any && caller.is_near() {
            (Who::Loopback, Scopes::all())
        } else if !known.any && self.options.insecure {
            (Who::Anybody, Scopes::all())
        } else if let Some(token) = token {
            let Some(token) = known.find(token, now) else { return Err(self.fail(caller)) };
            (Who::Token { id: token.id.clone(), name: token.name.clone() }, token.scopes)
        } else if let Some(Certificate(name)) = &caller.certificate {
            let scopes = self.options.certificate_scopes;
            (Who::Certificate(Arc::clone(name)), scopes)
        } else {
            return Err(self.fail(caller));
        };
        match needs {
            Some(scope) if !scopes.has(scope) => Err(Denied::Lacks(who, scope)),
            None if scopes == Scopes::NONE => Err(self.fail(caller)),
            _ => Ok(who),
        }
    }

    fn fail(&self, caller: &Caller) -> Denied {
        match self.failures.count(address(caller), Instant::now()) {
            Ok(()) => Denied::Unknown,
            Err(wait) => Denied::TooOften(wait),
        }
    }

    /// Whether a refusal is to be written down: the first ones of each address are, and that somebody
    /// goes on is not.
    pub fn is_news(&self, caller: &Caller, denied: &Denied) -> bool {
        match denied {
            Denied::Unknown => true,
            Denied::Lacks(..) => self.denials.count(address(caller), Instant::now()).is_ok(),
            Denied::TooOften(_) | Denied::Unclear(_) | Denied::Unavailable(_) => false,
        }
    }
}

fn address(caller: &Caller) -> IpAddr {
    caller.peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip())
}

/// The token that a call brings, if it brings one.
fn bearer(caller: &Caller) -> Result<Option<&str>, Denied> {
    if caller.uri.query().is_some_and(has_token) {
        let detail = "a token does not belong in an address, where it is written into logs; \
                      send it as `Authorization: Bearer …`";
        return Err(Denied::Unclear(Fault::new(Code::Malformed, detail)));
    }
    let (Some(value), second) = &caller.shown else { return Ok(None) };
    if second.is_some() {
        let detail = "the header `authorization` stands twice";
        return Err(Denied::Unclear(Fault::new(Code::Malformed, detail)));
    }
    // What cannot be a token is one that nobody has.
    let text = value.to_str().unwrap_or_default();
    let token = text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    Ok(Some(token.map_or("", |(_, token)| token.trim_matches(' '))))
}

/// Whether a token stands in the query of an address, or something that is meant as one.
fn has_token(query: &str) -> bool {
    const NAMES: [&str; 4] = ["token", "access_token", "auth_token", "authorization"];
    form_urlencoded::parse(query.as_bytes()).any(|(name, value)| {
        NAMES.iter().any(|one| name.eq_ignore_ascii_case(one)) || redacted(&value) != value
    })
}

impl Denied {
    /// Who is refused.
    pub fn who(&self) -> Who {
        match self {
            Self::Lacks(who, _) => who.clone(),
            _ => Who::Nobody,
        }
    }
}

impl IntoResponse for Denied {
    /// Whether a token is missing, wrong, expired or removed is not said: all four look alike.
    fn into_response(self) -> Response {
        match self {
            Self::Unknown => {
                let detail =
                    "this needs a token that is valid here: `Authorization: Bearer crore_…`";
                let mut response = Fault::new(Code::TokenNeeded, detail).into_response();
                let scheme = HeaderValue::from_static("Bearer");
                response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
                response
            }
            Self::Lacks(_, scope) => {
                let detail =
                    format!("this needs the scope `{scope}`, which the caller does not have");
                Fault::new(Code::ScopeMissing, detail).into_response()
            }
            Self::TooOften(wait) => {
                let detail = "too many calls from this address had no valid token; try again later";
                let mut response = Fault::new(Code::TooMany, detail).into_response();
                let seconds = wait.as_millis().div_ceil(1000).max(1) as u64;
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
                response
            }
            Self::Unclear(fault) => fault.into_response(),
            Self::Unavailable(error) => Fault::from(error).into_response(),
        }
    }
}
