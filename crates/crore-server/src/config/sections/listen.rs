use crore_core::Span;
use crore_core::settings::section;
use crore_doors::listen;

use crate::config::address::Addresses;

section! {
    /// Where crore listens, and how it leaves.
    pub(crate) struct Listen = "listen" {
        /// The address and port for everything: the API in JSON and MessagePack, over HTTP/1.1 and HTTP/2, and gRPC.
        /// Port 0 takes a free one; several addresses make a list.
        address: Addresses = "127.0.0.1:9000",
        /// Listen beyond this machine without a token or client certificates, although everybody who can reach
        /// the port may then do everything.
        insecure: bool = "false",
        /// How long workers may still finish or hand back their jobs when crore is told to stop.
        drain_for: Span = "25s",
        /// Each connection.
        ..connections: listen::Options,
    }
    shown address, insecure, hosts, drain_for, max_connections, max_connections_per_address, first_bytes_time,
        head_time, max_head, write_time, ping_every, ping_time, max_streams, max_age;
}
