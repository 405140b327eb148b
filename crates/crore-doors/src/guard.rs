//! What no request passes that a page of another site has made, on any door.
//!
//! A browser sends requests wherever a page tells it to, also to a server on its own machine. Two things
//! give such a request away: the name by which it addresses the server, which is the attacker's if he
//! lets his own name lead here (DNS rebinding), and what the browser says about the page.

mod host;
mod origin;
mod site;

use std::net::SocketAddr;

use crore_api::Fault;
use crore_core::Code;
use crore_core::code::excerpt;
use http::header::{HOST, ORIGIN};
use http::{Request, Version};

use host::Authority;
pub use host::Host;
pub use origin::Origin;

use crate::doors::is_grpc;

/// Lets requests through that are meant for this server, and that no foreign page has made.
#[derive(Debug)]
pub(crate) struct Guard {
    hosts: Vec<Host>,
    /// Pages of other sites that may call by gRPC-Web, and only so: what they may read is said there.
    origins: Vec<Origin>,
}

impl Guard {
    /// A guard for a server that is known by these names, besides those of this machine.
    pub(crate) const fn new(hosts: Vec<Host>, origins: Vec<Origin>) -> Self {
        Self { hosts, origins }
    }

    /// Whether a request on a connection to `local` may pass.
    pub(crate) fn check<B>(&self, request: &Request<B>, local: SocketAddr) -> Result<(), Fault> {
        let Some(text) = addressed(request)? else { return Ok(()) };
        let wrong = || malformed(format!("host `{}` is no host", excerpt(text)));
        let authority = Authority::parse(text).ok_or_else(wrong)?;
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
            origin.is_same(&authority) || self.hosts.iter().any(|host| host.names(origin))
        })
    }

    /// Whether this is a call of gRPC by a page that may make it.
    fn is_allowed<B>(&self, request: &Request<B>) -> bool {
        let mut said = request.headers().get_all(ORIGIN).iter();
        match (said.next(), said.next()) {
            (Some(said), None) => {
                is_grpc(request.uri().path()) && self.origins.iter().any(|origin| origin.is(said))
            }
            _ => false,
        }
    }

    /// A name or an address of this machine, with our port if it has one, or a name that was configured.
    fn is_ours(&self, authority: &Authority, local: SocketAddr) -> bool {
        let has_our_port = authority.port.is_none_or(|port| port == local.port());
        (has_our_port && authority.is_of(local.ip()))
            || self.hosts.iter().any(|host| host.names(authority))
    }
}

/// To whom a request is addressed. Where that is said twice, it has to be the same. `None`: it is not
/// said, in a protocol that does not ask for it and that no browser speaks.
fn addressed<B>(request: &Request<B>) -> Result<Option<&str>, Fault> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let header = match (hosts.next(), hosts.next()) {
        (_, Some(_)) => return Err(malformed("the header `host` stands twice")),
        (None, _) => None,
        (Some(host), None) => {
            Some(host.to_str().map_err(|_| malformed("the header `host` is no text"))?)
        }
    };
    match (request.uri().authority().map(http::uri::Authority::as_str), header) {
        (Some(one), Some(other)) if !one.eq_ignore_ascii_case(other) => {
            Err(malformed("the address and the header `host` name two hosts"))
        }
        (Some(text), _) | (None, Some(text)) => Ok(Some(text)),
        (None, None) if request.version() <= Version::HTTP_10 => Ok(None),
        (None, None) => Err(malformed("the header `host` is missing")),
    }
}

fn malformed(detail: impl Into<String>) -> Fault {
    Fault::new(Code::Malformed, detail)
}
