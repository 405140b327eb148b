//! Name resolution.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

/// Resolves host names.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// Resolves a host to addresses with the given port.
    fn resolve(&self, host: &str, port: u16) -> ResolveFuture;
}

/// A pending resolution.
pub type ResolveFuture = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// The resolver of the operating system.
#[derive(Debug, Clone, Copy)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, host: &str, port: u16) -> ResolveFuture {
        let host = host.to_owned();
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}
