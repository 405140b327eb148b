//! Binds the listeners: the main addresses, and those of doors with their own port.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::anyhow;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

use crate::config::{Config, DoorName};
use crate::exit::{CliError, FailureCode};

/// Backlog of pending connections.
const BACKLOG: i32 = 1024;

/// A listener and its door; `None` is the main listener, which serves all doors.
pub(crate) struct BoundListener {
    pub(crate) door: Option<DoorName>,
    pub(crate) address: SocketAddr,
    pub(crate) listener: TcpListener,
}

/// Binds all listeners.
pub(crate) async fn bind(config: &Config) -> anyhow::Result<Vec<BoundListener>> {
    let mut listeners = Vec::new();
    for address in &config.listen.address.0 {
        let listener = TcpListener::bind(address).await;
        listeners.push(bound(None, *address, listener)?);
    }
    let main = listeners.first().map(|one: &BoundListener| one.address);
    for (door, port) in config.doors.open() {
        let Some(main) = main else { break };
        let address = port.resolve(main);
        if !config.doors.is_dual_stack(door) {
            let listener = TcpListener::bind(address).await;
            listeners.push(bound(Some(door), address, listener)?);
            continue;
        }
        let first = bound(Some(door), address, bind_one_version(address))?;
        let other = other_ip_version(first.address);
        listeners.push(first);
        match other.map(|other| (other, bind_one_version(other))) {
            // The machine may lack IPv4 or IPv6.
            Some((other, Err(error))) if error.kind() != io::ErrorKind::AddrInUse => {
                tracing::warn!(%error, address = %other, door, "cannot listen on this address; skipping it");
            }
            Some((other, listener)) => listeners.push(bound(Some(door), other, listener)?),
            None => {}
        }
    }
    Ok(listeners)
}

/// The corresponding loopback or unspecified address of the other IP version.
pub(crate) const fn other_ip_version(address: SocketAddr) -> Option<SocketAddr> {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::LOCALHOST) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        IpAddr::V6(Ipv6Addr::LOCALHOST) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        _ => return None,
    };
    Some(SocketAddr::new(ip, address.port()))
}

/// Binds a listener to one IP version only, so that the other can be bound separately.
fn bind_one_version(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn bound(
    door: Option<DoorName>,
    address: SocketAddr,
    listener: io::Result<TcpListener>,
) -> anyhow::Result<BoundListener> {
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let flag = door.map_or("--listen".to_owned(), |door| format!("--door {door}=PORT"));
            let message = format!(
                "address {address} is already in use, perhaps by another crore; choose another \
                 address with `{flag}`"
            );
            return Err(CliError::new(FailureCode::Conflict, message).into());
        }
        Err(error) => return Err(anyhow!(error).context(format!("cannot listen on {address}"))),
    };
    let address = listener.local_addr()?;
    Ok(BoundListener { door, address, listener })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_unspecified_have_another_version() {
        let twin = |text: &str| {
            other_ip_version(text.parse().expect("an address")).map(|one| one.to_string())
        };
        assert_eq!(twin("127.0.0.1:50051").as_deref(), Some("[::1]:50051"));
        assert_eq!(twin("[::]:50051").as_deref(), Some("0.0.0.0:50051"));
        for (one, other) in [("[::1]:5", "127.0.0.1:5"), ("0.0.0.0:5", "[::]:5")] {
            assert_eq!(twin(one).as_deref(), Some(other));
        }
        assert_eq!((twin("10.0.0.1:5"), twin("[fe80::1]:5")), (None, None));
    }

    #[tokio::test]
    async fn a_port_can_be_bound_in_both_ip_versions() {
        let every = bind_one_version("0.0.0.0:0".parse().expect("an address")).expect("bound");
        let port = every.local_addr().expect("an address").port();
        let other = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
        match bind_one_version(other) {
            Ok(other) => assert_eq!(other.local_addr().expect("an address").port(), port),
            Err(error) => assert_ne!(error.kind(), io::ErrorKind::AddrInUse),
        }
    }
}
