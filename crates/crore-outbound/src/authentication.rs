//! Facts about the callers of the server that outbound rules need.

use std::fmt;
use std::pin::Pin;

/// Tells whether callers of the server need a token now.
pub trait Authentication: fmt::Debug + Send + Sync {
    /// `true` as soon as a token exists.
    fn needs_token(&self) -> AuthenticationFuture<'_>;
}

/// A pending answer.
pub type AuthenticationFuture<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;
