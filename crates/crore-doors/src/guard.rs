//! Refuses cross-site requests, on every door.
//!
//! A web page can make a browser send requests to any server, also to one on the same machine. Such a request is
//! detected by its `Host`, which is the attacker's own name under DNS rebinding, and by the headers in which the
//! browser describes the page (`Origin`, `Sec-Fetch-*`).

mod host;
mod origin;
mod site;

use std::net::SocketAddr;

use crore_api::Fault;
use crore_core::Code;
use crore_core::code::excerpt;
use http::header::{HOST, ORIGIN};
use http::{Request, Version};

pub use host::AllowedHost;
use host::HostAuthority;
pub use origin::AllowedOrigin;

use crate::doors::is_grpc;

/// Admits requests that are addressed to this server and do not come from a page of another site.
#[derive(Debug)]
pub(crate) struct RequestGuard {
    hosts: Vec<AllowedHost>,
    /// Origins that may call by gRPC-Web only; `grpc/web.rs` answers their CORS requests.
    origins: Vec<AllowedOrigin>,
}

impl RequestGuard {
    /// `hosts` are the server's names besides those of this machine.
    pub(crate) const fn new(hosts: Vec<AllowedHost>, origins: Vec<AllowedOrigin>) -> Self {
        Self { hosts, origins }
    }

    /// Checks a request on a connection to `local`.
    pub(crate) fn check<B>(&self, request: &Request<B>, local: SocketAddr) -> Result<(), Fault> {
        let Some(text) = addressed_host(request)? else { return Ok(()) };
        let wrong = || malformed(format!("`{}` is not a valid host", excerpt(text)));
        let authority = HostAuthority::parse(text).ok_or_else(wrong)?;
        if !self.is_ours(&authority, local) {
            let detail = format!(
                "`{}` is not a name of this server; if it should be one, add it to `listen.hosts`",
                excerpt(text)
            );
            return Err(Fault::new(Code::HostUnknown, detail));
        }
        if self.is_allowed(request) {
            return Ok(());
        }
        site::check(request, |origin| {
            origin.is_same(&authority) || self.hosts.iter().any(|host| host.is_origin(origin))
        })
    }

    /// Whether this is a gRPC call from an allowed origin.
    fn is_allowed<B>(&self, request: &Request<B>) -> bool {
        let mut headers = request.headers().get_all(ORIGIN).iter();
        match (headers.next(), headers.next()) {
            (Some(header), None) => {
                is_grpc(request.uri().path())
                    && self.origins.iter().any(|origin| origin.matches(header))
            }
            _ => false,
        }
    }

    /// A name or address of this machine, with our port or none, or a configured name.
    fn is_ours(&self, authority: &HostAuthority, local: SocketAddr) -> bool {
        let has_our_port = authority.port.is_none_or(|port| port == local.port());
        (has_our_port && authority.is_this_machine(local.ip()))
            || self.hosts.iter().any(|host| host.matches(authority))
    }
}

/// The host that a request addresses. URI and `host` header must agree. `None`: neither is there, in HTTP/1.0, which
/// does not require it and which no browser speaks.
fn addressed_host<B>(request: &Request<B>) -> Result<Option<&str>, Fault> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let header = match (hosts.next(), hosts.next()) {
        (_, Some(_)) => return Err(malformed("the `host` header appears twice")),
        (None, _) => None,
        (Some(host), None) => {
            Some(host.to_str().map_err(|_| malformed("the `host` header is not text"))?)
        }
    };
    match (request.uri().authority().map(http::uri::Authority::as_str), header) {
        (Some(one), Some(other)) if !one.eq_ignore_ascii_case(other) => {
            Err(malformed("the URI and the `host` header name different hosts"))
        }
        (Some(text), _) | (None, Some(text)) => Ok(Some(text)),
        (None, None) if request.version() <= Version::HTTP_10 => Ok(None),
        (None, None) => Err(malformed("the `host` header is missing")),
    }
}

fn malformed(detail: impl Into<String>) -> Fault {
    Fault::new(Code::Malformed, detail)
}
