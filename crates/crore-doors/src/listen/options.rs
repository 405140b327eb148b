use crore_core::settings::section;
use crore_core::{Size, Span};

use crate::guard::AllowedHost;

section! {
    /// Connection limits and timeouts of the listeners.
    pub struct Options: Eq = "listen" {
        /// Host names by which clients address the server, besides `localhost` and this machine's addresses with the
        /// listening port: `jobs.example.com` for any port, or `jobs.example.com:8443` for that port. A list is
        /// allowed. `*` allows every name and turns off the protection against DNS rebinding; pages of other origins
        /// are still refused.
        hosts: Vec<AllowedHost> = none,
        /// Maximum number of connections; the server closes further ones at once.
        max_connections: usize = "20_000",
        /// Maximum number of connections from one address.
        max_connections_per_address: usize = "12_000",
        /// Timeout for the first bytes of a connection, by which the server distinguishes HTTP/1.1 from HTTP/2.
        first_bytes_time: Span = "10s",
        /// Timeout for a complete request head; also the idle timeout between two requests.
        head_time: Span = "30s",
        /// Maximum size of a request head.
        max_head: Size = "16KiB",
        /// Write timeout: a connection whose peer reads nothing for this long is closed.
        write_time: Span = "30s",
        /// Interval of keep-alive pings on an idle HTTP/2 connection.
        ping_every: Span = "20s",
        /// Timeout for the answer to a ping.
        ping_time: Span = "10s",
        /// Maximum number of concurrent requests on one HTTP/2 connection.
        max_streams: u32 = "256",
        /// Maximum age of a connection; the server then closes it gracefully, after its open requests and streams.
        max_age: Span = "1h",
        /// Time that connections have to finish when the server stops.
        drain_time: Span => Span::from_secs(30),
    }
}
