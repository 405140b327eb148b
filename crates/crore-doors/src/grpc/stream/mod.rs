//! The stream of a worker: jobs one way, reports the other, and the leases that live with it.
//!
//! [`Session`] is the stream itself; what of it outlives a broken connection is its [`Desk`](desk::Desk), and
//! [`Sessions`] knows all of those.

mod at_work;
mod desk;
mod enter;
mod hello;
mod looking;
mod session;
mod sessions;

pub(crate) use looking::Looking;
pub(crate) use session::Session;
pub(crate) use sessions::Sessions;
