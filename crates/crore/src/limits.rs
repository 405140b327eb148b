//! Limits: how many jobs may start or run, and which ones.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crore_core::job::Spec;
use crore_core::limit::{Limit, LimitKey, keys_for};
use crore_core::{Name, Revision};
use crore_store::registry::{Define, Entry, Table, Value};

use crate::bug::planted;
use crate::doubt::Doubt;
use crate::engine::Inner;
use crate::error::Error;

/// The limits as this engine knows them: what a pushed job counts against is worked out from them.
#[derive(Debug, Default)]
pub(crate) struct LimitCache {
    known: RwLock<Known>,
    /// How many changes were asked for, whatever became of them.
    changes: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    all: Arc<Vec<(Name, Limit)>>,
    /// How many changes had been asked for when the store was asked for these.
    changes: u64,
}

impl LimitCache {
    pub(crate) fn all(&self) -> Arc<Vec<(Name, Limit)>> {
        Arc::clone(&self.known().all)
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody has asked for a change since these were read.
    fn are_sure(&self) -> bool {
        self.known().changes == self.changes.load(Ordering::Acquire)
    }

    /// The buckets that a job counts against.
    pub(crate) fn keys(&self, spec: &Spec) -> Vec<LimitKey> {
        let all = self.all();
        if all.is_empty() {
            return Vec::new();
        }
        let limits = all.iter().map(|(name, limit)| (name, limit));
        keys_for(limits, spec.queue.as_str(), spec.kind.as_str(), &spec.payload)
    }

    /// The store has these. An answer that was asked for before another one is the older of the two.
    fn set(&self, changes: u64, limits: Vec<(Name, Limit)>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if changes < known.changes {
            return;
        }
        known.changes = changes;
        // Whoever sees another list takes it for another set of limits.
        if *known.all != limits {
            known.all = Arc::new(limits);
        }
    }
}

/// Rate and concurrency limits; see [`Engine::limits`](crate::Engine::limits).
#[derive(Debug, Clone, Copy)]
pub struct Limits<'a> {
    pub(crate) inner: &'a Inner,
}

impl Limits<'_> {
    /// Sets a limit, whether there was one of this name or not. It holds from the next claim on; jobs
    /// that wait already are brought under it within moments.
    ///
    /// ```
    /// use crore::core::Name;
    /// use crore::core::limit::Limit;
    /// use crore::{Engine, block_on};
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// let limit = Limit::parse(r#"where kind = "mail" rate 2/1h"#)?;
    /// block_on(engine.limits().set(Name::new("limit", "mail")?, limit))?;
    ///
    /// for _ in 0..3 {
    ///     engine.push("mail", "hello").wait()?;
    /// }
    /// let send = || engine.pop_blocking("mail", |_| Ok::<(), String>(()));
    /// assert_eq!((send()?, send()?), (Some(Ok(())), Some(Ok(()))));
    /// // The third has to wait for its permit.
    /// assert_eq!(send()?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set(self, name: Name, limit: Limit) -> Result<Revision, Error> {
        limit.check()?;
        self.inner.change_limits(Define::set(name, Value::Limit(limit))).await
    }

    /// Removes a limit, if it is there.
    pub async fn remove(self, name: Name) -> Result<(), Error> {
        self.inner.change_limits(Define::remove(Table::Limits, name)).await.map(drop)
    }

    /// A limit, if it is there.
    pub async fn get(self, name: &Name) -> Result<Option<Entry>, Error> {
        self.inner.entry(Table::Limits, name).await
    }

    /// All limits, by name.
    pub async fn list(self) -> Result<Vec<Entry>, Error> {
        self.inner.entries(Table::Limits).await
    }
}

impl Inner {
    /// Changes the limits, reads them again, and brings what waits under them.
    async fn change_limits(&self, define: Define) -> Result<Revision, Error> {
        // Even after an error: whether it took effect is open, and whoever needs them next reads them
        // again.
        let sweep = Doubt::new(|| {
            self.limits.changes.fetch_add(1, Ordering::AcqRel);
            self.sweep_anew();
        });
        let revision = self.define(define).await?;
        drop(sweep);
        if !planted!("bug-28") {
            self.load_limits().await?;
        }
        Ok(revision)
    }

    /// Reads the limits again if they may be others than those that are known.
    pub(crate) async fn sure_limits(&self) -> Result<(), Error> {
        if self.limits.are_sure() || planted!("bug-28") {
            return Ok(());
        }
        self.load_limits().await
    }

    /// Reads the limits again.
    pub(crate) async fn load_limits(&self) -> Result<(), Error> {
        let changes = self.limits.changes.load(Ordering::Acquire);
        let entries = self.entries(Table::Limits).await?.into_iter();
        let limits = entries.filter_map(|entry| match entry.value {
            Value::Limit(limit) => Some((entry.name, limit)),
            _ => None,
        });
        self.limits.set(changes, limits.collect());
        Ok(())
    }
}
