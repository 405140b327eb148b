//! Outbound calls to URLs given by callers: push workers and runners. Prevents server-side request forgery.
//!
//! A host name is resolved once, every resolved address is checked, and the connection goes to one of these
//! addresses only, so DNS rebinding has no effect. Redirects are not followed, proxy environment variables
//! are ignored, and responses are limited in size and time.
//!
//! | address | called |
//! |---|---|
//! | public | always |
//! | private, reserved | if [`Options::allow`] contains its range or its host |
//! | loopback | the same, or if the server listens on loopback only and has no token |
//! | the server's own ports | never |
//! | link-local, cloud metadata, multicast, unspecified | never |
//!
//! Allowed ports are 80, 443, and 1024 and above.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(test, expect(clippy::expect_used, reason = "a test may panic"))]

mod address;
mod authentication;
mod call;
mod connector;
mod net;
mod resolve;
mod target;
mod url;

use std::fmt;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;

use crore_core::settings::section;
use crore_core::{Code, Invalid, Size, Span};
use rustls::pki_types::CertificateDer;

use address::AddressClass;
pub use authentication::{Authentication, AuthenticationFuture};
pub use call::CallError;
pub use connector::{Connecting, Connector, HttpVersions, OutboundStream};
pub use net::{AddressRange, AllowEntry};
pub use resolve::{Resolve, ResolveFuture, SystemResolver};
pub use target::Target;
pub use url::Url;

section! {
    /// Outbound calls to push workers, and by the http, grpc and slack runners. Public addresses are always
    /// allowed, loopback addresses only if the server listens on loopback only and has no access token. The
    /// server's own ports, link-local addresses and cloud metadata addresses are never called.
    pub struct Options: Eq = "outbound" {
        /// Non-public address ranges, addresses and host names that may be called: `["10.1.0.0/16", "build.lan"]`.
        allow: Vec<AllowEntry> = none,
        /// PEM file with additional trusted CA certificates.
        ca: Option<PathBuf> = none,
        /// Timeout for resolving a name, for connecting to each address, and for the TLS handshake.
        connect_time: Span = "5s",
        /// Maximum size of a response.
        max_answer: Size = "1MiB",
        /// Addresses on which this server listens; set after the sockets are bound.
        listens: Vec<SocketAddr> => Vec::new(),
        /// The certificates of `ca`; set by the code that reads the file.
        roots: Vec<CertificateDer<'static>> => Vec::new(),
    }
}

/// Why a target must not be called. Nothing was sent to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboundDenied(String);

impl fmt::Display for OutboundDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A URL that is not a valid [`Target`] is denied.
impl From<Invalid> for OutboundDenied {
    fn from(invalid: Invalid) -> Self {
        Self(invalid.message)
    }
}

impl OutboundDenied {
    /// Converts to a validation error of the field with the URL.
    pub fn into_invalid(self, field: &str) -> Invalid {
        Invalid::new(Code::OutboundDenied, field, self.to_string())
    }
}

/// Makes outbound calls to allowed addresses. Cloning shares everything.
#[derive(Debug, Clone)]
pub struct Outbound {
    options: Arc<Options>,
    resolver: Arc<dyn Resolve>,
    tls: Arc<rustls::ClientConfig>,
    /// Whether callers of the server need a token.
    authentication: Option<Arc<dyn Authentication>>,
}

impl Outbound {
    /// With the resolver of the operating system.
    pub fn new(options: Options) -> Self {
        Self::with_resolver(options, Arc::new(SystemResolver))
    }

    /// With another resolver.
    pub fn with_resolver(options: Options, resolver: Arc<dyn Resolve>) -> Self {
        let tls = Arc::new(call::tls_config(&options.roots));
        Self { options: Arc::new(options), resolver, tls, authentication: None }
    }

    /// While callers of the server need a token, denies loopback addresses unless [`Options::allow`] contains them:
    /// such callers may not be users of this machine.
    #[must_use]
    pub fn with_authentication(mut self, authentication: impl Authentication + 'static) -> Self {
        self.authentication = Some(Arc::new(authentication));
        self
    }

    /// Maximum size of a response.
    pub fn max_answer(&self) -> Size {
        self.options.max_answer
    }

    /// Resolves a target; fails unless all its addresses may be called.
    pub async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, CallError> {
        let resolved = self.resolver.resolve(&target.host, target.port);
        let unreachable = |why: String| CallError::Unreachable(format!("`{}` {why}", target.host));
        let addresses = tokio::time::timeout(self.options.connect_time.into(), resolved)
            .await
            .map_err(|_| unreachable("was not resolved in time".to_owned()))?
            .map_err(|error| unreachable(format!("could not be resolved: {error}")))?;
        if addresses.is_empty() {
            return Err(unreachable("has no address".to_owned()));
        }
        for address in &addresses {
            self.check(target, *address).await?;
        }
        Ok(addresses)
    }

    /// Checks that an address may be called for a target.
    async fn check(&self, target: &Target, address: SocketAddr) -> Result<(), OutboundDenied> {
        let ip = address.ip().to_canonical();
        let denied = |why: String| Err(OutboundDenied(format!("url `{target}` {why}")));
        let embedded = match ip {
            IpAddr::V4(_) => None,
            IpAddr::V6(v6) => address::embedded_v4(v6).map(IpAddr::from),
        };
        if [Some(ip), embedded]
            .into_iter()
            .flatten()
            .any(|ip| self.is_own_listener(ip, address.port()))
        {
            return denied(format!("resolves to {address}, on which crore itself listens"));
        }
        let what = match address::class(ip) {
            AddressClass::Public => return Ok(()),
            AddressClass::Forbidden(what) => return denied(format!("resolves to {ip}, {what}")),
            _ if self.is_allowed(&target.host, ip) => return Ok(()),
            AddressClass::Loopback if self.serves_this_machine_only().await => return Ok(()),
            AddressClass::Loopback => "a loopback address",
            AddressClass::Internal(what) => what,
        };
        denied(format!("resolves to {ip}, {what}; add it to `outbound.allow` to permit it"))
    }

    fn is_allowed(&self, host: &str, ip: IpAddr) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        self.options.allow.iter().any(|allow| match allow {
            AllowEntry::Net(net) => net.contains(ip),
            AllowEntry::Host(name) => {
                host.eq_ignore_ascii_case(name.strip_suffix('.').unwrap_or(name))
            }
        })
    }

    /// Whether only users of this machine send requests: the server listens on loopback only and needs no token. A
    /// token is for callers with fewer rights, or behind a proxy.
    async fn serves_this_machine_only(&self) -> bool {
        let listens = &self.options.listens;
        let is_local =
            !listens.is_empty() && listens.iter().all(|at| at.ip().to_canonical().is_loopback());
        match &self.authentication {
            Some(authentication) if is_local => !authentication.needs_token().await,
            _ => is_local,
        }
    }

    fn is_own_listener(&self, ip: IpAddr, port: u16) -> bool {
        self.options.listens.iter().filter(|at| at.port() == port).any(|at| {
            let own = at.ip().to_canonical();
            own == ip || ip.is_loopback() || own.is_unspecified() && is_local(ip)
        })
    }
}

/// Whether an address belongs to this machine: only then can a socket be bound to it.
fn is_local(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}
