//! Addresses to listen on, as people write them.

use std::net::{Ipv4Addr, SocketAddr};

use crore_core::settings::{Given, Setting, Shape};

/// Addresses to listen on: at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addresses(pub(crate) Vec<SocketAddr>);

impl Setting for Addresses {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &Given) -> Result<Self, String> {
        let texts = given.texts();
        if texts.is_empty() {
            return Err("at least one address is needed".to_owned());
        }
        texts.into_iter().map(address).collect::<Result<_, _>>().map(Self)
    }
}

/// Where an extra listener is: a port beside the main address, or an address of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    Beside(u16),
    At(SocketAddr),
}

impl Port {
    /// The address, where the main one is at `main`.
    pub(crate) const fn resolve(self, main: SocketAddr) -> SocketAddr {
        match self {
            Self::Beside(port) => SocketAddr::new(main.ip(), port),
            Self::At(address) => address,
        }
    }
}

impl Setting for Port {
    const SHAPE: Shape = Shape::Port;

    fn read(given: &Given) -> Result<Self, String> {
        let text = given.one()?;
        match text.parse() {
            Ok(port) => Ok(Self::Beside(port)),
            Err(_) => address(text).map(Self::At),
        }
    }
}

/// `127.0.0.1:9000`, `[::1]:9000`, `localhost:9000`, `:9000` for every address of the machine.
fn address(text: &str) -> Result<SocketAddr, String> {
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
