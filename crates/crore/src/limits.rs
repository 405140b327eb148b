//! Rate and concurrency limits, and the engine's cache of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crore_core::fair::{FairKey, FairShare};
use crore_core::job::Spec;
use crore_core::limit::{JobCharges, Limit, LimitKey, charges_for};
use crore_core::{IndexKey, Invalid, Name, NewJob, QueueIndex, Revision};
use crore_store::jobs::{Applied, StoreWrite};
use crore_store::registry::{Define, DefineGuard, RegistryEntry, RegistryTable, RegistryValue};
use crore_store::views::{HeldBack, PausedKey};

use crate::bug::planted;
use crate::drop_guard::DropGuard;
use crate::engine::EngineInner;
use crate::error::Error;

/// Cache of all limits, shared queues and indexed fields. A pushed job gets its limit keys, its fair key and its index keys
/// from it.
#[derive(Debug, Default)]
pub(crate) struct LimitCache {
    cached: RwLock<CachedLimits>,
    /// Number of changes requested so far, whether or not they succeeded.
    changes: AtomicU64,
}

/// The definitions that decide about the keys of a job.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct KeyRules {
    limits: Vec<(Name, Limit)>,
    /// Whether a limit counts costs.
    has_costs: bool,
    shares: BTreeMap<Name, Arc<FairShare>>,
    indexes: BTreeMap<Name, Arc<QueueIndex>>,
}

impl KeyRules {
    fn charges(&self, spec: &Spec) -> JobCharges {
        if self.limits.is_empty() {
            return JobCharges::default();
        }
        let limits = self.limits.iter().map(|(name, limit)| (name, limit));
        charges_for(limits, spec.queue.as_str(), spec.kind.as_str(), &spec.payload)
    }

    fn fair_key(&self, spec: &Spec) -> Option<FairKey> {
        self.shares.get(&spec.queue).map(|share| share.key(spec))
    }

    fn index_keys(&self, spec: &Spec) -> Option<Arc<[IndexKey]>> {
        self.indexes.get(&spec.queue).and_then(|index| index.keys(spec))
    }

    /// The queues with indexed fields.
    pub(crate) const fn indexes(&self) -> &BTreeMap<Name, Arc<QueueIndex>> {
        &self.indexes
    }
}

#[derive(Debug, Default)]
struct CachedLimits {
    all: Arc<KeyRules>,
    /// Value of `changes` before the definitions were read from the store.
    changes: u64,
}

impl LimitCache {
    pub(crate) fn all(&self) -> Arc<KeyRules> {
        Arc::clone(&self.cached().all)
    }

    fn cached(&self) -> RwLockReadGuard<'_, CachedLimits> {
        self.cached.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no change was requested since the definitions were read.
    fn is_current(&self) -> bool {
        self.cached().changes == self.changes.load(Ordering::Acquire)
    }

    /// Sets the limit keys, the costs and the fair key of a job, which is stored already. A cost that a push would be
    /// refused with becomes one that lets the job run.
    pub(crate) fn set_keys(&self, spec: &mut Spec) {
        _ = self.set_checked_keys(spec);
    }

    /// Whether a limit counts costs.
    fn has_costs(&self) -> bool {
        self.cached().all.has_costs
    }

    /// As [`set_keys`](Self::set_keys); returns a cost that is missing or out of range.
    fn set_checked_keys(&self, spec: &mut Spec) -> Result<(), Invalid> {
        let all = self.all();
        let JobCharges { keys, costs, fault } = all.charges(spec);
        (spec.limits, spec.costs, spec.fair) = (keys, costs, all.fair_key(spec));
        spec.index = all.index_keys(spec);
        fault.map_or(Ok(()), Err)
    }

    /// Whether a job has the keys that [`set_keys`](Self::set_keys) would set.
    pub(crate) fn has_keys(&self, spec: &Spec) -> bool {
        let all = self.all();
        let JobCharges { keys, costs, .. } = all.charges(spec);
        keys == spec.limits
            && costs == spec.costs
            && all.fair_key(spec) == spec.fair
            && all.index_keys(spec) == spec.index
    }

    /// The index keys of a job, if it has others.
    pub(crate) fn new_index_keys(&self, spec: &Spec) -> Option<Option<Arc<[IndexKey]>>> {
        let keys = self.all().index_keys(spec);
        (keys != spec.index).then_some(keys)
    }

    /// The index of a queue.
    pub(crate) fn index(&self, queue: &Name) -> Option<Arc<QueueIndex>> {
        self.cached().all.indexes.get(queue).cloned()
    }

    /// How a queue is shared.
    pub(crate) fn share(&self, queue: &Name) -> Option<Arc<FairShare>> {
        self.cached().all.shares.get(queue).cloned()
    }

    /// Caches definitions that were read from the store, unless a read that started later has been cached already.
    fn set(&self, changes: u64, rules: KeyRules) {
        let mut cached = self.cached.write().unwrap_or_else(PoisonError::into_inner);
        if changes < cached.changes {
            return;
        }
        cached.changes = changes;
        // Callers compare the `Arc` to detect a change.
        if *cached.all != rules {
            cached.all = Arc::new(rules);
        }
    }
}

/// Rate and concurrency limits; see [`Engine::limits`](crate::Engine::limits).
#[derive(Debug, Clone, Copy)]
pub struct Limits<'a> {
    pub(crate) inner: &'a EngineInner,
}

impl Limits<'_> {
    /// Creates or replaces a limit, and ends the pauses of its keys. It applies from the next claim on; upkeep shortly
    /// applies it to jobs that are already waiting.
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
        let set = Define::set(name.clone(), RegistryValue::Limit(limit));
        let revision = self.inner.change_limits(set).await?;
        self.resume_all(name).await?;
        Ok(revision)
    }

    /// Ends the pauses of the keys of a limit that was set. A store that cannot pause keys has none.
    async fn resume_all(self, name: Name) -> Result<(), Error> {
        if !self.paused_keys(Some(name.clone()), 1).await?.is_empty() {
            self.resume(name, None).await?;
        }
        Ok(())
    }

    /// Sets a limit if `accepts` holds for its current entry (`None`: there is none); `false`: it does not. `accepts`
    /// may be called more than once.
    pub async fn set_if(
        self,
        name: Name,
        limit: Limit,
        accepts: impl Fn(Option<&RegistryEntry>) -> bool + Send + Sync,
    ) -> Result<bool, Error> {
        limit.check()?;
        loop {
            let entry = self.get(&name).await?;
            if !accepts(entry.as_ref()) {
                return Ok(false);
            }
            let guard = entry.map_or(DefineGuard::Absent, |entry| DefineGuard::At(entry.revision));
            let set = Define::set(name.clone(), RegistryValue::Limit(limit.clone()));
            match self.inner.change_limits(Define { guard, ..set }).await {
                // Another caller changed it meanwhile: check the new one.
                Err(Error::Refused { .. }) => {}
                set => {
                    set?;
                    self.resume_all(name).await?;
                    return Ok(true);
                }
            }
        }
    }

    /// Removes a limit, if it exists.
    pub async fn remove(self, name: Name) -> Result<(), Error> {
        self.inner.change_limits(Define::remove(RegistryTable::Limits, name)).await.map(drop)
    }

    /// A limit by name; `None`: it does not exist.
    pub async fn get(self, name: &Name) -> Result<Option<RegistryEntry>, Error> {
        self.inner.entry(RegistryTable::Limits, name).await
    }

    /// The keys of a limit, or of all limits, that reports have paused, up to `n`, in order.
    pub async fn paused_keys(self, limit: Option<Name>, n: usize) -> Result<Vec<PausedKey>, Error> {
        Ok(self.inner.store.paused_keys(limit, n).await?)
    }

    /// The keys of limits that hold back ready jobs now, of one queue or of all: up to `n`, most jobs first.
    pub async fn held_back(self, queue: Option<Name>, n: usize) -> Result<Vec<HeldBack>, Error> {
        Ok(self.inner.store.held_back(queue, n).await?)
    }

    /// Ends the pauses of a limit's keys, or of one of them; returns whether there were any.
    pub async fn resume(self, limit: Name, key: Option<LimitKey>) -> Result<bool, Error> {
        let mut is_resumed = false;
        loop {
            let write = StoreWrite::ResumeKeys { limit: limit.clone(), key: key.clone() };
            let applied = self.inner.store.apply(vec![write]).await?.into_inner();
            if applied.iter().all(|applied| *applied == Applied::Stale) {
                return Ok(is_resumed);
            }
            is_resumed = true;
        }
    }

    /// All limits, by name.
    pub async fn list(self) -> Result<Vec<RegistryEntry>, Error> {
        self.inner.entries(RegistryTable::Limits).await
    }
}

impl EngineInner {
    /// Refuses a job from a caller whose cost under a limit is missing or out of range.
    pub(crate) fn check_costs(&self, job: &NewJob) -> Result<(), Invalid> {
        if !self.limits.has_costs() {
            return Ok(());
        }
        let mut job = job.clone();
        self.fill_in_from_handler(&mut job);
        self.limits.set_checked_keys(&mut job.spec)
    }

    /// Changes a limit or how a queue is shared, reloads the definitions, and starts to update the waiting jobs.
    pub(crate) async fn change_limits(&self, define: Define) -> Result<Revision, Error> {
        // Also on error: the change may have taken effect, so the cache is outdated.
        let sweep = DropGuard::new(|| {
            self.limits.changes.fetch_add(1, Ordering::AcqRel);
            self.restart_limit_sweep();
        });
        let revision = self.define(define).await?;
        drop(sweep);
        if !planted!("bug-28") {
            self.load_limits().await?;
        }
        Ok(revision)
    }

    /// Reloads the limits and shared queues if they may have changed.
    pub(crate) async fn ensure_limits_current(&self) -> Result<(), Error> {
        if self.limits.is_current() || planted!("bug-28") {
            return Ok(());
        }
        self.load_limits().await
    }

    /// Reloads the definitions after a change that was not made by [`Self::change_limits`].
    pub(crate) async fn reload_limits(&self) -> Result<(), Error> {
        self.limits.changes.fetch_add(1, Ordering::AcqRel);
        self.load_limits().await
    }

    /// Reloads the limits, shared queues and indexed fields from the store.
    pub(crate) async fn load_limits(&self) -> Result<(), Error> {
        let changes = self.limits.changes.load(Ordering::Acquire);
        let entries = self.entries(RegistryTable::Limits).await?.into_iter();
        let limits = entries.filter_map(|entry| match entry.value {
            RegistryValue::Limit(limit) => Some((entry.name, limit)),
            _ => None,
        });
        let queues = self.entries(RegistryTable::Queues).await?.into_iter();
        let (mut shares, mut indexes) = (BTreeMap::new(), BTreeMap::new());
        for entry in queues {
            let RegistryValue::Queue(settings) = entry.value else { continue };
            shares.extend(settings.fair.map(|share| (entry.name.clone(), share)));
            indexes.extend(settings.index.map(|index| (entry.name, index)));
        }
        let limits: Vec<(Name, Limit)> = limits.collect();
        let has_costs = limits.iter().any(|(_, limit)| limit.cost.is_some());
        self.limits.set(changes, KeyRules { limits, has_costs, shares, indexes });
        Ok(())
    }
}
