//! The user at the other end of a loopback connection. The kernel has both sockets of such a connection, and tells
//! the owner of each by netlink (`sock_diag`).

use std::net::{IpAddr, SocketAddr};

use crore_api::access::PeerUser;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use tokio::net::TcpStream;

/// The user who owns the peer's socket. `None`: the peer is on another machine, has closed its socket, or the kernel
/// does not tell.
pub(super) fn peer_user(
    stream: &TcpStream,
    peer: SocketAddr,
    local: SocketAddr,
) -> Option<PeerUser> {
    if !peer.ip().to_canonical().is_loopback() {
        return None;
    }
    let ends = SocketEnds { source: canonical(peer), target: canonical(local) };
    let user = parse_response(&ask_kernel(&ends.request()?)?, ends)?;
    // Fails if the peer has reset this connection. The socket found may then belong to a newer connection from the
    // same port, perhaps of another user.
    stream.peer_addr().ok()?;
    Some(user)
}

/// Addresses of a socket, as its owner sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SocketEnds {
    source: SocketAddr,
    target: SocketAddr,
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Sends one request; the kernel has answered when the send returns.
fn ask_kernel(request: &[u8]) -> Option<Vec<u8>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let protocol = Some(netlink::SOCK_DIAG);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol).ok()?;
    send(&socket, request, SendFlags::empty()).ok()?;
    let mut response = vec![0; 1024];
    let (length, _) = recv(&socket, response.as_mut_slice(), RecvFlags::empty()).ok()?;
    response.truncate(length);
    Some(response)
}

/// `SOCK_DIAG_BY_FAMILY`, `NLM_F_REQUEST`.
const MESSAGE_TYPE: u16 = 20;
const IS_REQUEST: u16 = 1;
const HEADER_BYTES: usize = 16;
/// Length of `inet_diag_req_v2` and of `inet_diag_msg`.
const REQUEST_BYTES: usize = 56;
const RESPONSE_BYTES: usize = 72;
const TCP: u8 = 6;
const IPV4: u8 = 2;
const IPV6: u8 = 10;

impl SocketEnds {
    /// A request for the one socket with these addresses. `None`: the addresses are of different IP versions.
    fn request(self) -> Option<Vec<u8>> {
        let family = match (self.source.ip(), self.target.ip()) {
            (IpAddr::V4(_), IpAddr::V4(_)) => IPV4,
            (IpAddr::V6(_), IpAddr::V6(_)) => IPV6,
            _ => return None,
        };
        let mut bytes = Vec::with_capacity(HEADER_BYTES + REQUEST_BYTES);
        bytes.extend(((HEADER_BYTES + REQUEST_BYTES) as u32).to_ne_bytes());
        bytes.extend(MESSAGE_TYPE.to_ne_bytes());
        bytes.extend(IS_REQUEST.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend([family, TCP, 0, 0]);
        // Any state.
        bytes.extend(u32::MAX.to_ne_bytes());
        bytes.extend(self.source.port().to_be_bytes());
        bytes.extend(self.target.port().to_be_bytes());
        for address in [self.source.ip(), self.target.ip()] {
            match address {
                IpAddr::V4(v4) => {
                    bytes.extend(v4.octets());
                    bytes.extend([0; 12]);
                }
                IpAddr::V6(v6) => bytes.extend(v6.octets()),
            }
        }
        // Any interface, and no cookie.
        bytes.extend([0; 4]);
        bytes.extend([0xff; 8]);
        Some(bytes)
    }
}

/// TCP states in which the peer is connected: established, or it has only ended its sending side.
const CONNECTED: [u8; 3] = [1, 4, 5];

/// User id that stands for users who are not mapped into the server's user namespace.
const OVERFLOW_USER: u32 = 65_534;

/// The owner of the socket in a response. The kernel may answer with a listener of the same port, or with a socket that
/// has been closed: that one has no inode, and user id 0.
fn parse_response(response: &[u8], expected: SocketEnds) -> Option<PeerUser> {
    let kind = response.get(4..6)?.try_into().map(u16::from_ne_bytes).ok()?;
    let message = response.get(HEADER_BYTES..HEADER_BYTES + RESPONSE_BYTES)?;
    let (&family, &state) = (message.first()?, message.get(1)?);
    let number =
        |at: usize| Some(u32::from_ne_bytes(message.get(at..at.checked_add(4)?)?.try_into().ok()?));
    let (user, inode) = (number(64)?, number(68)?);
    let source = address(family, message.get(8..24)?, message.get(4..6)?)?;
    let target = address(family, message.get(24..40)?, message.get(6..8)?)?;
    let is_peer = kind == MESSAGE_TYPE
        && SocketEnds { source, target } == expected
        && CONNECTED.contains(&state)
        && inode != 0
        && user != OVERFLOW_USER;
    is_peer.then_some(PeerUser(user))
}

fn address(family: u8, octets: &[u8], port: &[u8]) -> Option<SocketAddr> {
    let ip: IpAddr = match family {
        IPV4 => <[u8; 4]>::try_from(octets.get(..4)?).ok()?.into(),
        IPV6 => <[u8; 16]>::try_from(octets).ok()?.into(),
        _ => return None,
    };
    let port = u16::from_be_bytes(port.try_into().ok()?);
    Some(SocketAddr::new(ip.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crore_testkit::eventually;
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    fn own_user() -> PeerUser {
        PeerUser(rustix::process::geteuid().as_raw())
    }

    /// Both ends of a connection: the client's, and the server's with its addresses.
    async fn connected(
        listen: &str,
        call: &str,
    ) -> Option<(TcpStream, TcpStream, SocketAddr, SocketAddr)> {
        // The machine may have no IPv6.
        let listener = TcpListener::bind(listen).await.ok()?;
        let port = listener.local_addr().expect("bound").port();
        let client = TcpStream::connect((call, port)).await.expect("connected");
        let (server, peer) = listener.accept().await.expect("accepted");
        let local = server.local_addr().expect("an address");
        Some((client, server, peer, local))
    }

    #[tokio::test]
    async fn the_user_of_a_loopback_connection_is_known() {
        for (listen, call) in
            [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"), ("[::]:0", "127.0.0.1")]
        {
            let Some((_client, server, peer, local)) = connected(listen, call).await else {
                continue;
            };
            assert_eq!(peer_user(&server, peer, local), Some(own_user()), "{listen}");
        }
    }

    #[tokio::test]
    async fn a_closed_socket_is_nobodys() {
        let ends = connected("127.0.0.1:0", "127.0.0.1").await.expect("there is IPv4");
        let (client, server, peer, local) = ends;
        drop(client);
        let found = eventually(Duration::from_secs(5), || {
            let ends = SocketEnds { source: peer, target: local };
            let response = ask_kernel(&ends.request().expect("one version")).expect("a response");
            // The kernel says user 0, for a socket without an inode.
            (response.get(84..88) == Some(&[0; 4][..])).then_some(response)
        });
        assert_eq!(found.get(80..84), Some(&[0; 4][..]), "user 0");
        assert_eq!(peer_user(&server, peer, local), None);
    }

    #[tokio::test]
    async fn a_listener_on_the_port_of_a_peer_is_not_the_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let local = listener.local_addr().expect("bound");
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_reuseaddr(true).expect("set");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("bound");
        let client = socket.connect(local).await.expect("connected");
        let (server, peer) = listener.accept().await.expect("accepted");
        client.set_zero_linger().expect("set");
        drop(client);
        eventually(Duration::from_secs(5), || server.peer_addr().is_err());
        let again = TcpSocket::new_v4().expect("a socket");
        again.set_reuseaddr(true).expect("set");
        again.bind(peer).expect("the port is free again");
        let _listens = again.listen(1).expect("listens");
        assert_eq!(peer_user(&server, peer, local), None);
        let ends = SocketEnds { source: peer, target: local };
        let response = ask_kernel(&ends.request().expect("one version")).expect("a response");
        assert_eq!(parse_response(&response, ends), None, "the listener is found instead");
    }

    #[test]
    fn truncated_and_wrong_responses_are_nobodys() {
        let ends = SocketEnds {
            source: "127.0.0.1:4000".parse().expect("an address"),
            target: "127.0.0.1:9000".parse().expect("an address"),
        };
        let mut good = ends.request().expect("one version");
        // The addresses of a response begin four bytes earlier.
        good.drain(20..24);
        good.resize(HEADER_BYTES + RESPONSE_BYTES, 0);
        good[17] = 1;
        good[80..84].copy_from_slice(&1000_u32.to_ne_bytes());
        good[84] = 7;
        assert_eq!(parse_response(&good, ends), Some(PeerUser(1000)));
        for end in 0..good.len() {
            assert_eq!(parse_response(&good[..end], ends), None, "{end}");
        }
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            parse_response(&bytes, ends)
        };
        // The type, the family, the state, a port, the inode.
        for (at, byte) in [(4, 2), (16, 1), (17, 10), (20, 1), (22, 1), (84, 0)] {
            assert_eq!(with(at, byte), None, "{at}");
        }
        let mut unmapped = good.clone();
        unmapped[80..84].copy_from_slice(&OVERFLOW_USER.to_ne_bytes());
        assert_eq!(parse_response(&unmapped, ends), None);
    }
}
