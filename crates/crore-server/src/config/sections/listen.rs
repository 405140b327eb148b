use crate::config::address::Addresses;
use crore_core::settings::{Given, Setting, Shape, section};
use crore_core::{Size, Span};
use crore_doors::{Host, listen};
use crore_wire::words::Period;

/// Names of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hosts(Vec<Host>);

impl Setting for Hosts {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &Given) -> Result<Self, String> {
        given.texts().into_iter().map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

section! {
    /// Where crore listens, and how it leaves.
    pub(crate) struct Listen = "listen" {
        /// The address and port for everything: the API in JSON and MessagePack, over HTTP/1.1 and HTTP/2, and gRPC.
        /// Port 0 takes a free one; several addresses make a list.
        address: Addresses = "127.0.0.1:9000",
        /// Listen beyond this machine without a token or client certificates, although everybody who can reach
        /// the port may then do everything.
        insecure: bool = "false",
        /// Names by which callers address the server, besides `localhost` and the addresses of this machine
        /// with the port that it listens on: `jobs.example.com`, or `jobs.example.com:8443` for this port
        /// alone. Several make a list; `*` allows every name, and lets pages of other sites in whose names
        /// lead here.
        hosts: Option<Hosts> = none,
        /// How long workers may still finish or hand back their jobs when crore is told to stop.
        drain_for: Span = "25s",
        /// How many connections there may be in all; more are closed at once.
        max_connections: u64 = "20_000",
        /// How many there may be from one address.
        max_connections_per_address: u64 = "12_000",
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
        max_streams: u64 = "256",
        /// After this long a connection is told to come back anew.
        max_age: Span = "1h",
    }
}

impl Listen {
    /// How connections are treated.
    pub(crate) fn options(&self) -> listen::Options {
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        listen::Options {
            hosts: self.hosts.clone().map_or_else(Vec::new, |Hosts(hosts)| hosts),
            max_connections: count(self.max_connections),
            max_connections_per_address: count(self.max_connections_per_address),
            first_bytes_time: Period(self.first_bytes_time),
            head_time: Period(self.head_time),
            max_head: self.max_head,
            write_time: Period(self.write_time),
            ping_every: Period(self.ping_every),
            ping_time: Period(self.ping_time),
            max_streams: u32::try_from(self.max_streams).unwrap_or(u32::MAX),
            max_age: Period(self.max_age),
            ..listen::Options::default()
        }
    }
}
