use crore_core::Span;
use crore_core::settings::section;
use crore_doors::listen;

use crate::config::address::ListenAddresses;

section! {
    /// Listen addresses, connection limits and shutdown.
    pub(crate) struct ListenConfig = "listen" {
        /// Listen address for HTTP/1.1, HTTP/2 and gRPC, or a list of addresses. Port 0 picks a free port.
        address: ListenAddresses = "127.0.0.1:9000",
        /// Allow non-local listen addresses without access tokens or client certificates. Until a token exists, anyone
        /// who can connect has full access, unless `runners.allow` names a runner: then only the server's own user and
        /// root have access without a token.
        insecure: bool = "false",
        /// Drain timeout: time for workers to finish or return their jobs on shutdown.
        drain_for: Span = "25s",
        /// Options of each connection.
        ..connections: listen::Options,
    }
    shown address, insecure, hosts, drain_for, max_connections, max_connections_per_address, first_bytes_time,
        head_time, max_head, write_time, ping_every, ping_time, max_streams, max_age;
}
