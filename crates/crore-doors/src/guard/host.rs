//! Host names of a server.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use crore_core::code::excerpt;

/// A name by which a server may be addressed: `jobs.example.com` with any port, `jobs.example.com:8443` with that
/// port only, or `*` for every name, which turns off the protection against DNS rebinding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHost(HostPattern);

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPattern {
    Any,
    One(HostAuthority),
}

impl AllowedHost {
    /// Whether this is the host of an origin. `*` never is: it does not tell which pages belong to the server.
    pub(super) fn is_origin(&self, origin: &HostAuthority) -> bool {
        self.0 != HostPattern::Any && self.matches(origin)
    }

    /// Whether the pattern matches this authority.
    pub(super) fn matches(&self, authority: &HostAuthority) -> bool {
        match &self.0 {
            HostPattern::Any => true,
            HostPattern::One(one) => {
                let has_port = one.port.is_none() || one.port == authority.port;
                has_port && one.name == authority.name
            }
        }
    }
}

impl FromStr for AllowedHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self(HostPattern::Any));
        }
        let wrong = || {
            let text = excerpt(text);
            format!(
                "`{text}` is not a host; expected one such as `jobs.example.com` or `jobs.example.com:8443`"
            )
        };
        HostAuthority::parse(text).map(HostPattern::One).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            HostPattern::Any => f.write_str("*"),
            HostPattern::One(authority) => authority.fmt(f),
        }
    }
}

/// A host and an optional port, as in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostAuthority {
    pub(super) name: HostName,
    pub(super) port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HostName {
    Address(IpAddr),
    /// Lower case, without a trailing dot.
    Name(String),
}

impl HostAuthority {
    /// `None`: not a valid authority. Names consist of letters, digits, `-`, `_` and `.`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix('[') {
            let (address, rest) = rest.split_once(']')?;
            let address: Ipv6Addr = address.parse().ok()?;
            let port = match rest {
                "" => None,
                rest => Some(port(rest.strip_prefix(':')?)?),
            };
            return Some(Self { name: HostName::Address(address.into()), port });
        }
        let (name, port) = match text.split_once(':') {
            None => (text, None),
            Some((name, digits)) => (name, Some(port(digits)?)),
        };
        if let Ok(address) = name.parse::<std::net::Ipv4Addr>() {
            return Some(Self { name: HostName::Address(address.into()), port });
        }
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = (1..=253).contains(&name.len()) && name.bytes().all(is_good);
        is_name.then_some(Self { name: HostName::Name(name), port })
    }

    /// Whether this names the machine that a connection to `local` has reached.
    pub(super) fn is_this_machine(&self, local: IpAddr) -> bool {
        match &self.name {
            HostName::Name(name) => name == "localhost",
            HostName::Address(address) => {
                let address = address.to_canonical();
                address.is_loopback() || address == local.to_canonical()
            }
        }
    }

    /// Whether both mean the same port of the same host. Ports 80 and 443 count as absent: a client may leave out the
    /// default port, and a reverse proxy may have changed the scheme.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let plain = |port: Option<u16>| port.filter(|port| *port != 80 && *port != 443);
        self.name == other.name && plain(self.port) == plain(other.port)
    }
}

fn port(digits: &str) -> Option<u16> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

impl fmt::Display for HostAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            HostName::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            HostName::Address(address) => write!(f, "{address}")?,
            HostName::Name(name) => f.write_str(name)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_and_written_alike() {
        for text in ["*", "jobs.example.com", "jobs.example.com:8443", "10.0.0.1", "[::1]:9000"] {
            assert_eq!(text.parse::<AllowedHost>().expect("a host").to_string(), text);
        }
        assert_eq!(
            "Jobs.Example.COM.".parse::<AllowedHost>().expect("a host").to_string(),
            "jobs.example.com"
        );
        for text in [
            "",
            "a b",
            "a/b",
            "user@host",
            "http://a",
            "a:b",
            "a:",
            "a:99999",
            "[::1",
            "[::1]x",
            "ä",
            "*.a",
        ] {
            assert!(text.parse::<AllowedHost>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_without_a_port_means_any_port() {
        let names = |host: &str, text: &str| {
            let authority = HostAuthority::parse(text).expect("an authority");
            host.parse::<AllowedHost>().expect("a host").matches(&authority)
        };
        assert!(names("a.b", "A.b:1") && names("a.b", "a.b") && names("*", "x:1"));
        assert!(names("a.b:1", "a.b:1") && !names("a.b:1", "a.b:2") && !names("a.b:1", "a.b"));
        assert!(!names("a.b", "x.a.b") && !names("a.b", "a.b.x"));
    }

    #[test]
    fn only_names_that_always_resolve_to_loopback_are_local() {
        let local: IpAddr = "192.0.2.7".parse().expect("an address");
        let is_ours =
            |text: &str| HostAuthority::parse(text).is_some_and(|one| one.is_this_machine(local));
        for text in [
            "localhost",
            "LOCALHOST.",
            "127.0.0.1",
            "127.1.2.3",
            "[::1]",
            "192.0.2.7",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(is_ours(text), "{text}");
        }
        for text in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "0.0.0.0",
            "192.0.2.8",
            "127.1",
            "2130706433",
            "[::]",
            "x.localhost",
        ] {
            assert!(!is_ours(text), "{text}");
        }
    }
}
