//! Limits: how many jobs may start or run, and which ones.

use std::sync::{Arc, PoisonError, RwLock};

use crore_core::job::Spec;
use crore_core::limit::{Limit, LimitKey, keys_for};
use crore_core::name::MAX_NAME;
use crore_core::{Name, Revision};
use crore_store::registry::{Define, Defined, Entry, Table, Value};

use crate::doubt::Doubt;
use crate::engine::{Engine, Inner};
use crate::error::Error;

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
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Whoever sees another list takes it for another set of limits.
        if **known != limits {
            *known = Arc::new(limits);
        }
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
        self.inner.change_limits(Define::set(name, Value::Limit(limit))).await
    }

    /// Removes a limit, if it is there.
    pub async fn remove_limit(&self, name: Name) -> Result<(), Error> {
        self.inner.change_limits(Define::remove(Table::Limits, name)).await.map(drop)
    }

    /// A limit, if it is there.
    pub async fn limit(&self, name: &Name) -> Result<Option<Entry>, Error> {
        self.inner.entry(Table::Limits, name).await
    }

    /// All limits, by name.
    pub async fn limits(&self) -> Result<Vec<Entry>, Error> {
        self.inner.entries(Table::Limits).await
    }
}

impl Inner {
    /// Changes the limits, reads them again, and brings what waits under them.
    async fn change_limits(&self, define: Define) -> Result<Revision, Error> {
        // Even after an error: whether it took effect is open, and the sweep reads them again.
        let sweep = Doubt::new(|| self.sweep_anew());
        let revision = self.define(define).await?;
        drop(sweep);
        self.load_limits().await?;
        Ok(revision)
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

    /// The entry of this name, if it is there.
    pub(crate) async fn entry(&self, table: Table, name: &Name) -> Result<Option<Entry>, Error> {
        const PAGE: usize = 2;
        let mut after = just_before(name);
        loop {
            let page = self.store.entries(table, after, PAGE).await?;
            after = page.last().map(|entry| entry.name.clone());
            let is_last = page.len() < PAGE;
            let found = page.into_iter().find(|entry| entry.name >= *name);
            if is_last || found.is_some() {
                return Ok(found.filter(|entry| entry.name == *name));
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

/// A name that comes before this one, and with hardly any other in between; `None`: this is the first.
fn just_before(name: &Name) -> Option<Name> {
    let mut text = name.as_str().to_owned();
    let last = text.pop()?;
    let before = (' '..last).rev().find(|before| !before.is_control());
    text.extend(before);
    while before.is_some() && text.len() + char::MAX.len_utf8() <= MAX_NAME {
        text.push(char::MAX);
    }
    Name::new("name", &text).ok()
}
