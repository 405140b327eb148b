//! The suite that every store passes.

pub mod model;

use std::sync::Arc;

use crore_testkit::FakeClock;

/// A fresh store, and the clock that it takes its time from.
#[derive(Debug)]
pub struct Subject<S: ?Sized> {
    /// The store. Nobody else uses it.
    pub store: Arc<S>,
    /// Its clock. A store in another server is told the time with every call.
    pub clock: Arc<FakeClock>,
}
