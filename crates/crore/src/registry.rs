//! Workers: who is there.

use std::sync::Arc;

use crore_core::{Code, Invalid, Name, Span};
use crore_store::registry::{Define, Entry, Table, Value};

use crate::engine::Engine;
use crate::error::Error;

impl Engine {
    /// A worker is there, and will say so again within the span; otherwise it is forgotten.
    pub async fn set_worker(
        &self,
        worker: Name,
        says: impl Into<Arc<str>>,
        within: Span,
    ) -> Result<(), Error> {
        let says = self.checked("worker", says.into())?;
        let define = Define::set(worker, Value::Worker(says));
        let define = Define { expires_after: Some(within), ..define };
        self.inner.define(define).await.map(drop)
    }

    /// What is kept and not looked into is no longer than a payload.
    pub(crate) fn checked(&self, field: &str, says: Arc<str>) -> Result<Arc<str>, Invalid> {
        let most = self.inner.caps.payload_bytes;
        if says.len() > most {
            let message = format!("{} bytes, at most {most} are allowed", says.len());
            return Err(Invalid::new(Code::PayloadTooLarge, field, message));
        }
        Ok(says)
    }

    /// A worker has left.
    pub async fn remove_worker(&self, worker: Name) -> Result<(), Error> {
        self.inner.define(Define::remove(Table::Workers, worker)).await.map(drop)
    }

    /// All workers that are there, by name.
    pub async fn workers(&self) -> Result<Vec<Entry>, Error> {
        self.inner.entries(Table::Workers).await
    }
}
