//! Status of the engine and its store.

use crore_core::{Caps, Time};
use crore_store::{Durability, StoreId, StoreProblem};

use crate::engine::EngineInner;

/// Status of the engine and its store; see [`Engine::status`](crate::Engine::status).
#[derive(Debug, Clone, Copy)]
pub struct Status<'a> {
    pub(crate) inner: &'a EngineInner,
}

impl<'a> Status<'a> {
    /// The identity of the engine's store, which no other store has.
    pub fn store_id(self) -> StoreId {
        self.inner.store.store_id()
    }

    /// The durability of acknowledged writes: which failures they survive.
    pub fn durability(self) -> Durability {
        self.inner.store.durability()
    }

    /// The current fault of the engine's store; `None`: no known fault.
    pub fn store_problem(self) -> Option<StoreProblem> {
        self.inner.store.problem()
    }

    /// Resolves with the reason when a failed write or sync poisons the engine's store. Acknowledged writes are safe,
    /// but the store refuses every call until the engine is opened again. Never resolves for a store that cannot be
    /// poisoned.
    pub async fn store_poisoned(self) -> String {
        self.inner.store.poisoned().await
    }

    /// Maximum sizes and counts that callers may use.
    pub fn caps(self) -> &'a Caps {
        &self.inner.caps
    }

    /// The current time of the engine's clock.
    pub fn now(self) -> Time {
        self.inner.now()
    }
}
