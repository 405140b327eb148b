//! Addresses that crore may call: push workers, and whatever else callers name by a URL.
//!
//! A caller may not use crore to reach what only crore can reach. So a name is resolved first, every
//! address that it stands for is checked, and the connection goes to one of those and to no other:
//! a name that means something else a moment later gains nothing. Redirects are not followed, proxies
//! of the environment are not asked, and an answer is cut off at a size and a time.
//!
//! | address | is called |
//! |---|---|
//! | public | always |
//! | private, reserved | if [`Options::allow`] names its range or its host |
//! | loopback | the same, or while the server listens on loopback alone |
//! | the server's own ports | never |
//! | link-local, a cloud's metadata, multicast, none | never |
//!
//! Ports are 80, 443, and those from 1024 on.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(test, expect(clippy::expect_used, reason = "a test panics, and says why"))]

mod address;
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

use address::Class;
pub use call::Failed;
pub use connector::{Connecting, Connector, Line, Speech};
pub use net::{Allow, Net};
pub use resolve::{Addresses, Resolve, System};
pub use target::Target;
pub use url::Url;

section! {
    /// Whom crore may call: push workers, and whatever else is named by a URL. Public addresses always;
    /// loopback, if crore listens on loopback alone; its own ports, link-local addresses and a cloud's
    /// metadata never.
    pub struct Options: Eq = "outbound" {
        /// What may be called although it is not public: ranges, addresses and hosts, as
        /// `["10.1.0.0/16", "build.lan"]`.
        allow: Vec<Allow> = none,
        /// A PEM file with the authorities whose certificates are believed, besides those that everybody believes.
        ca: Option<PathBuf> = none,
        /// How long a name may take to be resolved, and each address to be reached.
        connect_time: Span = "5s",
        /// The largest answer.
        max_answer: Size = "1MiB",
        /// Where this server listens; filled in by whoever binds the sockets.
        listens: Vec<SocketAddr> => Vec::new(),
        /// The certificates of `ca`; filled in by whoever reads files.
        roots: Vec<CertificateDer<'static>> => Vec::new(),
    }
}

/// Why something is not called. No packet was sent to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied(String);

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What no [`Target`] could be made of is not called either.
impl From<Invalid> for Denied {
    fn from(invalid: Invalid) -> Self {
        Self(invalid.message)
    }
}

impl Denied {
    /// The same, as an answer to whoever gave the URL in this field.
    pub fn into_invalid(self, field: &str) -> Invalid {
        Invalid::new(Code::OutboundDenied, field, self.to_string())
    }
}

/// Calls others, if they may be called. Cloning shares everything.
#[derive(Debug, Clone)]
pub struct Outbound {
    options: Arc<Options>,
    resolver: Arc<dyn Resolve>,
    tls: Arc<rustls::ClientConfig>,
}

impl Outbound {
    /// With the resolver of the machine.
    pub fn new(options: Options) -> Self {
        Self::with_resolver(options, Arc::new(System))
    }

    /// With another resolver.
    pub fn with_resolver(options: Options, resolver: Arc<dyn Resolve>) -> Self {
        let tls = Arc::new(call::tls(&options.roots));
        Self { options: Arc::new(options), resolver, tls }
    }

    /// The largest answer that is to be taken from anybody.
    pub fn max_answer(&self) -> Size {
        self.options.max_answer
    }

    /// The addresses that a target stands for, if all of them may be called.
    pub async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, Failed> {
        let resolved = self.resolver.resolve(&target.host, target.port);
        let unreachable = |why: String| Failed::Unreachable(format!("`{}` {why}", target.host));
        let addresses = tokio::time::timeout(self.options.connect_time.into(), resolved)
            .await
            .map_err(|_| unreachable("was not resolved in time".to_owned()))?
            .map_err(|error| unreachable(format!("could not be resolved: {error}")))?;
        if addresses.is_empty() {
            return Err(unreachable("stands for no address".to_owned()));
        }
        for address in &addresses {
            self.check(target, *address)?;
        }
        Ok(addresses)
    }

    /// Whether an address may be called for a target.
    fn check(&self, target: &Target, address: SocketAddr) -> Result<(), Denied> {
        let ip = address.ip().to_canonical();
        let denied = |why: String| Err(Denied(format!("url `{target}` {why}")));
        if self.is_own(ip, address.port()) {
            return denied(format!("leads to {address}, where crore itself listens"));
        }
        let what = match address::class(ip) {
            Class::Public => return Ok(()),
            Class::Never(what) => return denied(format!("leads to {ip}, {what}")),
            _ if self.is_allowed(&target.host, ip) => return Ok(()),
            Class::Loopback if self.is_alone() => return Ok(()),
            Class::Loopback => "a loopback address",
            Class::Inside(what) => what,
        };
        denied(format!("leads to {ip}, {what}; `allow` under `[outbound]` may name it"))
    }

    fn is_allowed(&self, host: &str, ip: IpAddr) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        self.options.allow.iter().any(|allow| match allow {
            Allow::Net(net) => net.holds(ip),
            Allow::Host(name) => host.eq_ignore_ascii_case(name.strip_suffix('.').unwrap_or(name)),
        })
    }

    /// Whether nobody but this machine can ask anything.
    fn is_alone(&self) -> bool {
        let listens = &self.options.listens;
        !listens.is_empty() && listens.iter().all(|at| at.ip().to_canonical().is_loopback())
    }

    fn is_own(&self, ip: IpAddr, port: u16) -> bool {
        self.options.listens.iter().filter(|at| at.port() == port).any(|at| {
            let own = at.ip().to_canonical();
            own == ip || ip.is_loopback() || own.is_unspecified() && is_local(ip)
        })
    }
}

/// Whether an address is this machine's: only then can something be bound to it.
fn is_local(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}
