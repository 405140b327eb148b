//! The registry of remote workers.

use std::sync::Arc;

use crore_core::{Name, Span};
use crore_store::registry::{Define, RegistryEntry, RegistryTable, RegistryValue};

use crate::engine::EngineInner;
use crate::error::Error;

/// The registry of remote workers; see [`Engine::workers`](crate::Engine::workers).
#[derive(Debug, Clone, Copy)]
pub struct Workers<'a> {
    pub(crate) inner: &'a EngineInner,
}

impl Workers<'_> {
    /// Registers a worker, or renews its entry, which expires after `lifetime`. `text` is an opaque description of
    /// the worker.
    pub async fn set(
        self,
        worker: Name,
        text: impl Into<Arc<str>>,
        lifetime: Span,
    ) -> Result<(), Error> {
        let text = self.inner.check_text("worker", text.into())?;
        let define = Define::set(worker, RegistryValue::Worker(text));
        let define = Define { expires_after: Some(lifetime), ..define };
        self.inner.define(define).await.map(drop)
    }

    /// Removes a worker, if it is registered.
    pub async fn remove(self, worker: Name) -> Result<(), Error> {
        self.inner.define(Define::remove(RegistryTable::Workers, worker)).await.map(drop)
    }

    /// All registered workers, by name.
    pub async fn list(self) -> Result<Vec<RegistryEntry>, Error> {
        self.inner.entries(RegistryTable::Workers).await
    }
}
