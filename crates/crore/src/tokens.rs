//! Tokens: who may call, as the doors write it down. The engine keeps what they say and does not look
//! into it; no secret is among it.

use std::sync::Arc;

use crore_core::Name;
use crore_store::registry::{Define, Definition, Entry, Guard, Table, Value};

use crate::engine::Engine;
use crate::error::Error;

impl Engine {
    /// Keeps a new token under its public part; one that is there already is not replaced. There is
    /// no such thing as a token that goes by itself: while there is one, even an old one, doors ask
    /// for one.
    pub async fn add_token(&self, id: Name, says: impl Into<Arc<str>>) -> Result<(), Error> {
        let says = self.checked("token", says.into())?;
        let to = Definition::Set(Value::Token(says));
        let define = Define { name: id, to, guard: Guard::Absent, expires_after: None };
        self.inner.define(define).await.map(drop)
    }

    /// Removes a token, if it is there.
    pub async fn remove_token(&self, id: Name) -> Result<(), Error> {
        self.inner.define(Define::remove(Table::Tokens, id)).await.map(drop)
    }

    /// All tokens, by their public part.
    pub async fn tokens(&self) -> Result<Vec<Entry>, Error> {
        self.inner.entries(Table::Tokens).await
    }
}
