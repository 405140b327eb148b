//! Access tokens. The engine keeps what the doors say about each, and does not read it; no secret is
//! among it.

use std::sync::Arc;

use crore_core::Name;
use crore_store::registry::{Define, Definition, Entry, Guard, Table, Value};

use crate::engine::Inner;
use crate::error::Error;

/// Access tokens; see [`Engine::tokens`](crate::Engine::tokens).
#[derive(Debug, Clone, Copy)]
pub struct Tokens<'a> {
    pub(crate) inner: &'a Inner,
}

impl Tokens<'_> {
    /// Adds a token under its public part; one that is there already is not replaced. The engine removes
    /// no token by itself: while there is one, even an expired one, doors ask for one.
    pub async fn add(self, id: Name, says: impl Into<Arc<str>>) -> Result<(), Error> {
        let says = self.inner.checked("token", says.into())?;
        let to = Definition::Set(Value::Token(says));
        let define = Define { name: id, to, guard: Guard::Absent, expires_after: None };
        self.inner.define(define).await.map(drop)
    }

    /// Removes a token, if it is there.
    pub async fn remove(self, id: Name) -> Result<(), Error> {
        self.inner.define(Define::remove(Table::Tokens, id)).await.map(drop)
    }

    /// All tokens, by their public part.
    pub async fn list(self) -> Result<Vec<Entry>, Error> {
        self.inner.entries(Table::Tokens).await
    }
}
