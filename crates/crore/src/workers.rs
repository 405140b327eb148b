//! The register of workers elsewhere.

use std::sync::Arc;

use crore_core::{Name, Span};
use crore_store::registry::{Define, Entry, Table, Value};

use crate::engine::Inner;
use crate::error::Error;

/// The register of workers elsewhere; see [`Engine::workers`](crate::Engine::workers).
#[derive(Debug, Clone, Copy)]
pub struct Workers<'a> {
    pub(crate) inner: &'a Inner,
}

impl Workers<'_> {
    /// Registers a worker, or renews its entry, which expires after this span. The engine keeps what the
    /// worker says about itself, and does not read it.
    pub async fn set(
        self,
        worker: Name,
        says: impl Into<Arc<str>>,
        within: Span,
    ) -> Result<(), Error> {
        let says = self.inner.checked("worker", says.into())?;
        let define = Define::set(worker, Value::Worker(says));
        let define = Define { expires_after: Some(within), ..define };
        self.inner.define(define).await.map(drop)
    }

    /// Removes a worker, if it is registered.
    pub async fn remove(self, worker: Name) -> Result<(), Error> {
        self.inner.define(Define::remove(Table::Workers, worker)).await.map(drop)
    }

    /// All registered workers, by name.
    pub async fn list(self) -> Result<Vec<Entry>, Error> {
        self.inner.entries(Table::Workers).await
    }
}
