//! From names to addresses.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

/// Says which addresses a name stands for.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// The addresses, each with the port.
    fn resolve(&self, host: &str, port: u16) -> Addresses;
}

/// The answer of a resolver.
pub type Addresses = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// The resolver of the machine: its hosts file and its name servers.
#[derive(Debug, Clone, Copy)]
pub struct System;

impl Resolve for System {
    fn resolve(&self, host: &str, port: u16) -> Addresses {
        let host = host.to_owned();
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}
