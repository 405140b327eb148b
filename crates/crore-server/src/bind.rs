//! Where a server listens: the main addresses, and those of doors with a port of their own.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::anyhow;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

use crate::config::{Config, DoorName};
use crate::exit::{Failure, Why};

/// How many connections may wait to be taken.
const BACKLOG: i32 = 1024;

/// A listener, and the door it is for; the main one is for all.
pub(crate) struct Bound {
    pub(crate) door: Option<DoorName>,
    pub(crate) address: SocketAddr,
    pub(crate) listener: TcpListener,
}

/// Binds all of them.
pub(crate) async fn bind(config: &Config) -> anyhow::Result<Vec<Bound>> {
    let mut bound = Vec::new();
    for address in &config.listen.address.0 {
        let listener = TcpListener::bind(address).await;
        bound.push(one(None, *address, listener)?);
    }
    let main = bound.first().map(|one: &Bound| one.address);
    for (door, port) in config.doors.open() {
        let Some(main) = main else { break };
        let address = port.resolve(main);
        if !config.doors.is_twofold(door) {
            let listener = TcpListener::bind(address).await;
            bound.push(one(Some(door), address, listener)?);
            continue;
        }
        let first = one(Some(door), address, alone(address))?;
        let other = twin(first.address);
        bound.push(first);
        match other.map(|other| (other, alone(other))) {
            // A machine may have addresses of one sort only.
            Some((other, Err(error))) if error.kind() != io::ErrorKind::AddrInUse => {
                tracing::warn!(%error, address = %other, door, "not listening there");
            }
            Some((other, listener)) => bound.push(one(Some(door), other, listener)?),
            None => {}
        }
    }
    Ok(bound)
}

/// The same place among the addresses of the other sort.
pub(crate) const fn twin(address: SocketAddr) -> Option<SocketAddr> {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::LOCALHOST) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        IpAddr::V6(Ipv6Addr::LOCALHOST) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        _ => return None,
    };
    Some(SocketAddr::new(ip, address.port()))
}

/// A listener that leaves the same port of the other sort to another.
fn alone(address: SocketAddr) -> io::Result<TcpListener> {
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

fn one(
    door: Option<DoorName>,
    address: SocketAddr,
    listener: io::Result<TcpListener>,
) -> anyhow::Result<Bound> {
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let flag = door.map_or("--listen".to_owned(), |door| format!("--door {door}=PORT"));
            let message = format!(
                "another program listens on {address}, perhaps another crore; choose another \
                 address with `{flag}`"
            );
            return Err(Failure::new(Why::Conflict, message).into());
        }
        Err(error) => return Err(anyhow!(error).context(format!("cannot listen on {address}"))),
    };
    let address = listener.local_addr()?;
    Ok(Bound { door, address, listener })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_and_the_own_machine_have_a_twin_and_a_single_address_has_none() {
        let twin = |text: &str| twin(text.parse().expect("an address")).map(|one| one.to_string());
        assert_eq!(twin("127.0.0.1:50051").as_deref(), Some("[::1]:50051"));
        assert_eq!(twin("[::]:50051").as_deref(), Some("0.0.0.0:50051"));
        for (one, other) in [("[::1]:5", "127.0.0.1:5"), ("0.0.0.0:5", "[::]:5")] {
            assert_eq!(twin(one).as_deref(), Some(other));
        }
        assert_eq!((twin("10.0.0.1:5"), twin("[fe80::1]:5")), (None, None));
    }

    #[tokio::test]
    async fn one_port_of_both_sorts_can_be_listened_on() {
        let every = alone("0.0.0.0:0".parse().expect("an address")).expect("bound");
        let port = every.local_addr().expect("an address").port();
        let other = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
        match alone(other) {
            Ok(other) => assert_eq!(other.local_addr().expect("an address").port(), port),
            Err(error) => assert_ne!(error.kind(), io::ErrorKind::AddrInUse),
        }
    }
}
