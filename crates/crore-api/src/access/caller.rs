//! Origin of a call, and the identity behind it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::ConnectInfo;
use crore_core::Name;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Method, Request, Uri};

/// Name in the client certificate of a connection. The accept loop puts it into the extensions of each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate(pub Arc<str>);

/// User at the other end of a connection on this machine. The accept loop puts it into the extensions of each request,
/// if [`Access::needs_peer_user`](super::Access::needs_peer_user).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerUser(pub u32);

/// Marks a request that came over TLS. The accept loop puts it into the extensions of each such request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecureConnection;

/// The token with which the bearer of a session has logged in. The pages put it into the extensions of each request
/// that names a session; nothing in a request can set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionToken(pub Name);

/// Headers that mark a request as forwarded by a proxy.
const FORWARDED: [&str; 4] = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

/// Header with the id of a request, for finding it in logs.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Facts about a call before it is admitted: its origin, its credentials and its target.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Peer address of the connection, if known.
    pub(super) peer: Option<SocketAddr>,
    pub(super) certificate: Option<Certificate>,
    /// User at the other end of the connection, if known.
    pub(super) user: Option<PeerUser>,
    /// The token of the caller's session, if it has one.
    pub(super) session: Option<SessionToken>,
    /// The first two values of the `authorization` header.
    pub(super) authorization: (Option<HeaderValue>, Option<HeaderValue>),
    /// Whether a proxy forwarded the request.
    is_forwarded: bool,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) request_id: Option<HeaderValue>,
}

impl Caller {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let (extensions, headers) = (request.extensions(), request.headers());
        let mut values = headers.get_all(AUTHORIZATION).iter().cloned();
        Self {
            peer: extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer),
            certificate: extensions.get().cloned(),
            user: extensions.get().copied(),
            session: extensions.get().cloned(),
            authorization: (values.next(), values.next()),
            // Requests have few headers: one pass over them is faster than four lookups.
            is_forwarded: headers.keys().any(|name| FORWARDED.contains(&name.as_str())),
            method: request.method().clone(),
            uri: request.uri().clone(),
            request_id: headers.get(REQUEST_ID).cloned(),
        }
    }

    /// Whether the call was made on this machine and not forwarded by a proxy.
    pub(super) fn is_local(&self) -> bool {
        let is_loopback = |peer: SocketAddr| peer.ip().to_canonical().is_loopback();
        self.peer.is_some_and(is_loopback) && !self.is_forwarded
    }

    /// The peer address as text.
    pub fn address(&self) -> String {
        self.peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string())
    }
}

/// Identity of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// Bearer of a token.
    Token {
        /// Public id of the token.
        id: Name,
        /// Name of the token.
        name: Name,
    },
    /// Client with a certificate of this name.
    Certificate(Arc<str>),
    /// Caller on this machine, while there is no token.
    Loopback,
    /// Any caller, while there is no token and the server is insecure.
    Anyone,
    /// Unauthenticated caller.
    Unauthenticated,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token { id, name } => write!(f, "token {name} ({id})"),
            Self::Certificate(name) => write!(f, "certificate {name}"),
            Self::Loopback => f.write_str("loopback"),
            Self::Anyone => f.write_str("anybody"),
            Self::Unauthenticated => f.write_str("nobody"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_direct_loopback_connections_are_local() {
        let is_local = |peer: &str, header: Option<&'static str>| {
            let mut request = Request::new(());
            if let Ok(peer) = peer.parse::<SocketAddr>() {
                request.extensions_mut().insert(ConnectInfo(peer));
            }
            if let Some(name) = header {
                request.headers_mut().insert(name, HeaderValue::from_static("10.0.0.1"));
            }
            Caller::of(&request).is_local()
        };
        for peer in ["127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(is_local(peer, None), "{peer}");
            assert!(FORWARDED.iter().all(|name| !is_local(peer, Some(name))));
        }
        for peer in ["10.0.0.1:1", "[::2]:1", "0.0.0.0:1", "nowhere"] {
            assert!(!is_local(peer, None), "{peer}");
        }
    }
}
