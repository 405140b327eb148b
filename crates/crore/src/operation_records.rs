//! Records of bulk operations. The engine stores an opaque text for each, written by the API.

use std::sync::Arc;

use crore_core::{Name, Span};
use crore_store::registry::{
    Define, DefineAction, DefineGuard, RegistryEntry, RegistryTable, RegistryValue,
};

use crate::engine::EngineInner;
use crate::error::Error;

/// Retention of a record after its last change.
const KEPT_FOR: Span = Span::from_secs(7 * 86_400);

/// Records of bulk operations; see [`Engine::operations`](crate::Engine::operations). A record is removed a week after
/// its last change.
#[derive(Debug, Clone, Copy)]
pub struct OperationRecords<'a> {
    pub(crate) inner: &'a EngineInner,
}

impl OperationRecords<'_> {
    /// Adds the record of a new operation. An existing one is not replaced.
    pub async fn add(self, id: Name, text: impl Into<Arc<str>>) -> Result<(), Error> {
        self.put(id, text.into(), DefineGuard::Absent).await
    }

    /// Replaces the record of an operation.
    pub async fn set(self, id: Name, text: impl Into<Arc<str>>) -> Result<(), Error> {
        self.put(id, text.into(), DefineGuard::Any).await
    }

    /// Removes a record, if it exists.
    pub async fn remove(self, id: Name) -> Result<(), Error> {
        self.inner.define(Define::remove(RegistryTable::Operations, id)).await.map(drop)
    }

    /// All records, by id.
    pub async fn list(self) -> Result<Vec<RegistryEntry>, Error> {
        self.inner.entries(RegistryTable::Operations).await
    }

    async fn put(self, name: Name, text: Arc<str>, guard: DefineGuard) -> Result<(), Error> {
        let text = self.inner.check_text("operation", text)?;
        let action = DefineAction::Set(RegistryValue::Operation(text));
        let expires_after = Some(KEPT_FOR);
        let define = Define { name, action, guard, expires_after, joint: false };
        self.inner.define(define).await.map(drop)
    }
}
