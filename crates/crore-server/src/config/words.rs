//! Durations, sizes and addresses, as people write them.

use std::net::{Ipv4Addr, SocketAddr};

use crore_core::Span;
use crore_wire::words::{Period, Size};

/// `250ms`, `30s`, `1h30m`, `180d`.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    let read = text.parse::<Period>().map(|period| period.0);
    read.map_err(|_| "write numbers with units (d, h, m, s, ms), as in `30s` or `1h30m`".to_owned())
}

/// `512B`, `64KiB`, `1MiB`, `2GiB`, and `KB`, `MB`, `GB` for powers of ten.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let read = text.parse::<Size>().map(|size| size.0);
    read.map_err(|_| "write a number and a unit (B, KiB, MiB, GiB), as in `64MiB`".to_owned())
}

/// `127.0.0.1:9000`, `[::1]:9000`, `localhost:9000`, `:9000` for every address of the machine.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong = || "write an address and a port, as in `127.0.0.1:9000`".to_owned();
    if let Some(port) = text.strip_prefix(':') {
        let port = port.parse().map_err(|_| wrong())?;
        return Ok(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    }
    let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    local.as_deref().unwrap_or(text).parse().map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port() {
        assert_eq!(address("localhost:80"), Ok(SocketAddr::from(([127, 0, 0, 1], 80))));
        assert_eq!(address(":80"), Ok(SocketAddr::from(([0, 0, 0, 0], 80))));
        assert!(address("[::1]:80").is_ok_and(|address| address.is_ipv6()));
        for wrong in ["", "127.0.0.1", "127.0.0.1:99999", "example.com:80"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
