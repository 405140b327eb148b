//! The origin and path of a URL to call, parsed strictly: a URL that parsers could interpret differently is
//! refused.

use std::net::Ipv6Addr;

use crore_core::{Code, Invalid, code::excerpt};
use http::Uri;
use http::uri::Scheme;

use crate::net::is_host;

/// Scheme, host, port and path of a URL to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Whether TLS is used.
    pub(crate) tls: bool,
    /// A name or an address as written, without the brackets of IPv6.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Begins with `/` or is empty; does not end with `/`.
    pub(crate) path: String,
}

impl Target {
    /// Parses a URL; errors name `field`.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let wrong = |why: &str| {
            let message = format!("url `{}` {why}", excerpt(text));
            Invalid::new(Code::OutboundDenied, field, message)
        };
        if text.len() > 2048 || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("is too long, or has characters other than printable ASCII"));
        }
        if text.contains(['\\', '#', '?', '@']) {
            return Err(wrong("has parts other than a scheme, a host, a port and a path"));
        }
        let uri: Uri = text.parse().map_err(|_| wrong("is invalid"))?;
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(wrong("does not begin with `http://` or `https://`")),
        };
        let written = uri.host().unwrap_or_default();
        let host = match written.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(v6) if v6.parse::<Ipv6Addr>().is_ok() => v6,
            None if is_host(written) => written,
            _ => return Err(wrong("has no valid host")),
        };
        // Not `Uri::port`, which ignores an invalid port.
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let port = match authority.strip_prefix(written).map(|rest| rest.strip_prefix(':')) {
            Some(None) if tls => 443,
            Some(None) => 80,
            Some(Some(digits)) => digits.parse().unwrap_or(0),
            None => 0,
        };
        if !matches!(port, 80 | 443 | 1024..) {
            return Err(wrong("has a port that is not 80, 443, or 1024 and above"));
        }
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { tls, host: host.to_owned(), port, path })
    }

    /// Whether the URL has a path.
    pub fn has_path(&self) -> bool {
        !self.path.is_empty()
    }

    /// Appends a path.
    #[must_use]
    pub fn join_path(&self, path: &str) -> Self {
        Self { path: format!("{}/{path}", self.path), ..self.clone() }
    }

    /// Host and port; the port is always included.
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_a_port_and_a_path() {
        for (text, shown) in [
            ("http://worker", "http://worker:80"),
            ("https://worker/", "https://worker:443"),
            ("http://worker:8080/jobs//", "http://worker:8080/jobs"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            ("http://0x7f.1:8080", "http://0x7f.1:8080"),
        ] {
            let target = Target::parse("url", text).expect(text);
            assert_eq!(target.to_string(), shown);
        }
        let target = Target::parse("url", "http://worker/a").expect("good");
        assert_eq!(target.join_path("worker-job").to_string(), "http://worker:80/a/worker-job");
    }

    #[test]
    fn ambiguous_urls_are_refused_with_their_field() {
        for bad in [
            "",
            "worker:8080",
            "/worker",
            "file:///etc/passwd",
            "gopher://worker",
            "unix:/run/docker.sock",
            "ftp://worker",
            "http://",
            "http:///path",
            "http://user@allowed@evil",
            "http://user:secret@worker",
            "http://allowed#@evil",
            "http://evil\\@allowed",
            "http://worker/?next=http://evil",
            "http://worker:22",
            "http://worker:25",
            "http://worker:1023",
            "http://worker:99999",
            "http://worker:0",
            "http://worker:",
            "http://wörker",
            "http://wоrker",
            "http://worker/a\r\nHost: evil",
            "http://wor ker",
            "http://worker/\0",
            "http://[::1",
            "http://[fe80::1%25eth0]",
            "http://[worker]",
            "http://a..b",
        ] {
            let error = Target::parse("url", bad).expect_err(bad);
            assert_eq!((error.code, error.field.as_str()), (Code::OutboundDenied, "url"), "{bad}");
        }
    }
}
