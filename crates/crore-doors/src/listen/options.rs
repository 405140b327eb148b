use crore_core::settings::section;
use crore_core::{Size, Span};

use crate::guard::Host;

section! {
    /// How connections are treated.
    pub struct Options: Eq = "listen" {
        /// Names by which callers address the server, besides `localhost` and the addresses of this machine
        /// with the port that it listens on: `jobs.example.com`, or `jobs.example.com:8443` for this port
        /// alone. Several make a list; `*` allows every name, and lets pages of other sites in whose names
        /// lead here.
        hosts: Vec<Host> = none,
        /// How many connections there may be in all; more are closed at once.
        max_connections: usize = "20_000",
        /// How many there may be from one address.
        max_connections_per_address: usize = "12_000",
        /// How long a new connection may take to say which protocol it speaks.
        first_bytes_time: Span = "10s",
        /// How long a connection may take until the head of its next request is whole, also when it is idle
        /// between two.
        head_time: Span = "30s",
        /// The largest head of a request.
        max_head: Size = "16KiB",
        /// How long a peer may not take what is written to it.
        write_time: Span = "30s",
        /// How often a silent HTTP/2 peer is asked whether it is there.
        ping_every: Span = "20s",
        /// How long it may take to answer that.
        ping_time: Span = "10s",
        /// How many requests one HTTP/2 connection may have under way.
        max_streams: u32 = "256",
        /// After this long a connection is told to come back anew.
        max_age: Span = "1h",
        /// How long connections may take to end when the server stops.
        drain_time: Span => Span::from_secs(30),
    }
}
