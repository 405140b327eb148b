//! Listen addresses.

use std::net::{Ipv4Addr, SocketAddr};

use crore_core::settings::{Setting, SettingValue, Shape};

/// Listen addresses; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListenAddresses(pub(crate) Vec<SocketAddr>);

impl Setting for ListenAddresses {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &SettingValue) -> Result<Self, String> {
        let texts = given.texts();
        if texts.is_empty() {
            return Err("at least one address is needed".to_owned());
        }
        texts.into_iter().map(address).collect::<Result<_, _>>().map(Self)
    }
}

/// Address of an extra listener: a port on the main IP address, or a full address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenPort {
    OnMainAddress(u16),
    Address(SocketAddr),
}

impl ListenPort {
    /// The full address, given the main one.
    pub(crate) const fn resolve(self, main: SocketAddr) -> SocketAddr {
        match self {
            Self::OnMainAddress(port) => SocketAddr::new(main.ip(), port),
            Self::Address(address) => address,
        }
    }
}

impl Setting for ListenPort {
    const SHAPE: Shape = Shape::Port;

    fn read(given: &SettingValue) -> Result<Self, String> {
        let text = given.one()?;
        match text.parse() {
            Ok(port) => Ok(Self::OnMainAddress(port)),
            Err(_) => address(text).map(Self::Address),
        }
    }
}

/// Parses `127.0.0.1:9000`, `[::1]:9000`, `localhost:9000`, or `:9000` for all IPv4 addresses.
fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong = || "expected an address and a port, such as `127.0.0.1:9000`".to_owned();
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
