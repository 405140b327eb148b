//! Limits: how many jobs may start or run, and which ones.

use std::sync::{Arc, PoisonError, RwLock};

use crore_core::job::Spec;
use crore_core::limit::{Limit, LimitKey, keys_for};
use crore_core::{Name, Revision};
use crore_store::registry::{Define, Defined, Entry, Table, Value};

use crate::engine::{Engine, Inner};
use crate::error::Error;
use crate::upkeep::Duty;

/// The limits as this engine knows them: what a pushed job counts against is worked out from them.
#[derive(Debug, Default)]
pub(crate) struct Limits(RwLock<Arc<Vec<(Name, Limit)>>>);

impl Limits {
    pub(crate) fn all(&self) -> Arc<Vec<(Name, Limit)>> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
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

    fn set(&self, limits: Vec<(Name, Limit)>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(limits);
    }
}

impl Engine {
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
    /// block_on(engine.set_limit(Name::new("limit", "mail")?, limit))?;
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
    pub async fn set_limit(&self, name: Name, limit: Limit) -> Result<Revision, Error> {
        limit.check()?;
        let revision = self.inner.define(Define::set(name, Value::Limit(limit))).await?;
        self.inner.limits_changed().await?;
        Ok(revision)
    }

    /// Removes a limit, if it is there.
    pub async fn remove_limit(&self, name: Name) -> Result<(), Error> {
        self.inner.define(Define::remove(Table::Limits, name)).await?;
        self.inner.limits_changed().await?;
        Ok(())
    }

    /// All limits, by name.
    pub async fn limits(&self) -> Result<Vec<Entry>, Error> {
        self.inner.entries(Table::Limits).await
    }
}

impl Inner {
    /// Reads the limits again, and brings what waits under them.
    async fn limits_changed(&self) -> Result<(), Error> {
        self.load_limits().await?;
        self.sweep_anew();
        self.want(Duty::Lanes, self.now());
        Ok(())
    }

    /// Reads the limits again.
    pub(crate) async fn load_limits(&self) -> Result<(), Error> {
        let entries = self.entries(Table::Limits).await?.into_iter();
        let limits = entries.filter_map(|entry| match entry.value {
            Value::Limit(limit) => Some((entry.name, limit)),
            _ => None,
        });
        self.limits.set(limits.collect());
        Ok(())
    }

    /// All entries of a table, by name.
    pub(crate) async fn entries(&self, table: Table) -> Result<Vec<Entry>, Error> {
        const PAGE: usize = 1000;
        let mut all: Vec<Entry> = Vec::new();
        loop {
            let after = all.last().map(|entry| entry.name.clone());
            let page = self.store.entries(table, after, PAGE).await?;
            let is_last = page.len() < PAGE;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Writes one definition that nothing guards.
    pub(crate) async fn define(&self, define: Define) -> Result<Revision, Error> {
        let name = define.name.clone();
        let defined = self.store.define(vec![define]).await?.into_inner();
        match defined.first() {
            Some(Defined::Yes(revision)) => Ok(*revision),
            _ => Err(Error::Refused { what: format!("`{name}`"), why: "it was changed meanwhile" }),
        }
    }
}
