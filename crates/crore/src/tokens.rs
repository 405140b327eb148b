//! Access tokens. The engine stores an opaque text for each, written by the doors; it contains no secret.

use std::sync::Arc;

use crore_core::Name;
use crore_store::registry::{
    Define, DefineAction, DefineGuard, RegistryEntry, RegistryTable, RegistryValue,
};

use crate::engine::EngineInner;
use crate::error::Error;

/// Access tokens; see [`Engine::tokens`](crate::Engine::tokens).
#[derive(Debug, Clone, Copy)]
pub struct Tokens<'a> {
    pub(crate) inner: &'a EngineInner,
}

impl Tokens<'_> {
    /// Adds a token under its public id, with an opaque description. An existing token is not replaced. Tokens stay
    /// until they are removed: while there is one, even an expired one, doors require a token.
    pub async fn add(self, id: Name, text: impl Into<Arc<str>>) -> Result<(), Error> {
        let text = self.inner.check_text("token", text.into())?;
        let to = DefineAction::Set(RegistryValue::Token(text));
        let define = Define {
            name: id,
            action: to,
            guard: DefineGuard::Absent,
            expires_after: None,
            joint: false,
        };
        self.inner.define(define).await.map(drop)
    }

    /// Removes a token, if it exists.
    pub async fn remove(self, id: Name) -> Result<(), Error> {
        self.inner.define(Define::remove(RegistryTable::Tokens, id)).await.map(drop)
    }

    /// All tokens, by public id.
    pub async fn list(self) -> Result<Vec<RegistryEntry>, Error> {
        self.inner.entries(RegistryTable::Tokens).await
    }
}
