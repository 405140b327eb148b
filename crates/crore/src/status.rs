//! The state of the engine and its store.

use crore_core::{Caps, Time};
use crore_store::{Ailment, Durability};

use crate::engine::Inner;

/// The state of the engine and its store; see [`Engine::status`](crate::Engine::status).
#[derive(Debug, Clone, Copy)]
pub struct Status<'a> {
    pub(crate) inner: &'a Inner,
}

impl<'a> Status<'a> {
    /// What the answers of this engine survive.
    pub fn durability(self) -> Durability {
        self.inner.store.durability()
    }

    /// What is wrong with the engine's store, as far as is known; `None`: nothing.
    pub fn ailment(self) -> Option<Ailment> {
        self.inner.store.ailment()
    }

    /// Completes when the engine's store gives up, because what it wrote is perhaps not on the disk, with the
    /// reason. Everything that was answered is kept; nothing more is promised until the engine is opened
    /// again. A store that does not give up never completes it.
    pub async fn gave_up(self) -> String {
        self.inner.store.gave_up().await
    }

    /// The limits on what callers may bring.
    pub fn caps(self) -> &'a Caps {
        &self.inner.caps
    }

    /// The time by the engine's clock.
    pub fn now(self) -> Time {
        self.inner.now()
    }
}
