use crore_core::Span;

use crate::config::section::section;
use crate::config::setting::Addresses;

section! {
    /// Where crore listens, and how it leaves.
    Listen = "listen" {
        /// The address and port for everything: the API in JSON and MessagePack, over HTTP/1.1 and HTTP/2.
        /// Port 0 takes a free one; several addresses make a list.
        address: Addresses = "127.0.0.1:9000",
        /// Listen beyond this machine although everybody who can reach the port may then do everything.
        insecure: bool = "false",
        /// How long workers may still finish or hand back their jobs when crore is told to stop.
        drain_for: Span = "25s",
    }
}
