//! Where a call comes from, and who is behind it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::ConnectInfo;
use crore_core::Name;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Method, Request, Uri};

/// The name in the certificate that the other end of a connection has shown, put into each request by
/// the accept loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate(pub Arc<str>);

/// Headers by which proxies say that they speak for somebody else.
const FORWARDED: [&str; 4] = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

/// The header by which a call is found again in logs.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What is known of a call before it is served: where it comes from, what it brings to show, and what it
/// asks for.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The other end of the connection, if there is one.
    pub(super) peer: Option<SocketAddr>,
    pub(super) certificate: Option<Certificate>,
    /// What stands in the header `authorization`, each time.
    pub(super) shown: (Option<HeaderValue>, Option<HeaderValue>),
    /// Whether the other end speaks for somebody else.
    is_forwarded: bool,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) request_id: Option<HeaderValue>,
}

impl Caller {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let (extensions, headers) = (request.extensions(), request.headers());
        let mut shown = headers.get_all(AUTHORIZATION).iter().cloned();
        Self {
            peer: extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer),
            certificate: extensions.get().cloned(),
            shown: (shown.next(), shown.next()),
            // A request has a handful of headers: to look at each is quicker than to look for four.
            is_forwarded: headers.keys().any(|name| FORWARDED.contains(&name.as_str())),
            method: request.method().clone(),
            uri: request.uri().clone(),
            request_id: headers.get(REQUEST_ID).cloned(),
        }
    }

    /// Whether the call was made on this machine. One that a proxy here passes on was not.
    pub(super) fn is_near(&self) -> bool {
        let is_loopback = |peer: SocketAddr| peer.ip().to_canonical().is_loopback();
        self.peer.is_some_and(is_loopback) && !self.is_forwarded
    }

    /// The address, for people.
    pub fn address(&self) -> String {
        self.peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string())
    }
}

/// Who makes a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// The bearer of a token.
    Token {
        /// Its public part.
        id: Name,
        /// Who it is for.
        name: Name,
    },
    /// Who has shown a certificate.
    Certificate(Arc<str>),
    /// Somebody on this machine, while there is no token.
    Loopback,
    /// Anybody, while there is no token and the operator said that he may.
    Anybody,
    /// Somebody who could not say.
    Nobody,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token { id, name } => write!(f, "token {name} ({id})"),
            Self::Certificate(name) => write!(f, "certificate {name}"),
            Self::Loopback => f.write_str("loopback"),
            Self::Anybody => f.write_str("anybody"),
            Self::Nobody => f.write_str("nobody"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_connection_on_this_machine_that_speaks_for_itself_is_near() {
        let near = |peer: &str, header: Option<&'static str>| {
            let mut request = Request::new(());
            if let Ok(peer) = peer.parse::<SocketAddr>() {
                request.extensions_mut().insert(ConnectInfo(peer));
            }
            if let Some(name) = header {
                request.headers_mut().insert(name, HeaderValue::from_static("10.0.0.1"));
            }
            Caller::of(&request).is_near()
        };
        for peer in ["127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(near(peer, None), "{peer}");
            assert!(FORWARDED.iter().all(|name| !near(peer, Some(name))));
        }
        for peer in ["10.0.0.1:1", "[::2]:1", "0.0.0.0:1", "nowhere"] {
            assert!(!near(peer, None), "{peer}");
        }
    }
}
