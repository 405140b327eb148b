//! The versions that connected workers run: explains why a job that requires a version is not handed out.
//!
//! A worker is connected while it has a stream or a fetch in progress, and for [`LINGER`] after a fetch: it runs what it
//! fetched. Only workers that name versions are recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crore_core::version::{Version, VersionRequirement};
use crore_core::{Name, Span, Time};
use crore_store::views::RequiredVersion;

use crate::deliveries::Deliveries;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::fetch::Fetch;

/// How long the versions of a fetch count after its end.
const LINGER: Span = Span::from_secs(300);
/// Maximum number of recorded versions, over all queues and kinds. Further ones are not recorded.
const MAX_VERSIONS: usize = 10_000;

/// A version of a kind in a queue.
type ServedVersion = (Name, Name, Version);

/// The versions of all connected workers.
#[derive(Debug, Default)]
pub(crate) struct ConnectedVersions(Mutex<BTreeMap<ServedVersion, VersionUse>>);

#[derive(Debug, Clone, Copy, Default)]
struct VersionUse {
    /// Streams and fetches in progress.
    workers: usize,
    /// Without any of them, it is forgotten at this time.
    until: Time,
}

impl VersionUse {
    fn is_connected(self, now: Time) -> bool {
        self.workers > 0 || now < self.until
    }
}

impl ConnectedVersions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ServedVersion, VersionUse>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the versions of a worker; returns those that were recorded.
    fn add(&self, served: Vec<ServedVersion>, now: Time) -> Vec<ServedVersion> {
        let mut all = self.lock();
        if all.len() + served.len() > MAX_VERSIONS {
            all.retain(|_, used| used.is_connected(now));
        }
        let mut add = |key: &ServedVersion| {
            if all.len() >= MAX_VERSIONS && !all.contains_key(key) {
                return false;
            }
            all.entry(key.clone()).or_default().workers += 1;
            true
        };
        served.into_iter().filter(|key| add(key)).collect()
    }

    fn remove(&self, served: &[ServedVersion], until: Time) {
        let mut all = self.lock();
        for key in served {
            let Some(used) = all.get_mut(key) else { continue };
            used.workers = used.workers.saturating_sub(1);
            used.until = used.until.max(until);
            if used.workers == 0 && used.until == Time::ZERO {
                all.remove(key);
            }
        }
    }

    /// The versions of a kind that connected workers of a queue run.
    fn of(&self, queue: &Name, kind: &Name, now: Time) -> BTreeSet<Version> {
        let from = (queue.clone(), kind.clone(), Version::ZERO);
        let all = self.lock();
        let of_kind = all.range(from..).take_while(|((q, k, _), _)| q == queue && k == kind);
        let connected = of_kind.filter(|(_, used)| used.is_connected(now));
        connected.map(|((.., version), _)| *version).collect()
    }
}

impl Fetch {
    /// The versions that the fetch names, in each of its queues.
    fn served_versions(&self) -> Vec<ServedVersion> {
        let served = |queue: &Name, kind: &Name, version| (queue.clone(), kind.clone(), version);
        let versions = self.versions.among(self.kinds.as_deref());
        let of_queues = self.queues.iter().flat_map(|queue| {
            versions.iter().map(move |(kind, version)| served(queue, kind, *version))
        });
        let also = self
            .also
            .iter()
            .filter_map(|(queue, kind)| Some(served(queue, kind, self.versions.of(kind)?)));
        of_queues.chain(also).take(MAX_VERSIONS).collect()
    }
}

/// The versions of a connected worker, until it is dropped.
#[derive(Debug)]
pub struct WorkerVersions {
    versions: Arc<ConnectedVersions>,
    served: Vec<ServedVersion>,
}

impl Drop for WorkerVersions {
    fn drop(&mut self) {
        self.versions.remove(&self.served, Time::ZERO);
    }
}

impl Deliveries<'_> {
    /// Records the versions of a connected worker, which fetches with this template whenever it is free. They are known
    /// to [`Engine::explain`](crate::Engine::explain) until the result is dropped. `None`: it names none.
    pub fn connect_versions(self, template: &Fetch) -> Option<WorkerVersions> {
        self.inner.connect_versions(template)
    }

    /// The number of ready jobs that require a version which no connected worker runs, by queue, kind and requirement.
    pub async fn unrunnable(self) -> Result<Vec<RequiredVersion>, Error> {
        self.inner.unrunnable().await
    }
}

/// The versions of a fetch in progress; they linger after it.
pub(crate) struct FetchVersions<'a> {
    inner: &'a EngineInner,
    served: Vec<ServedVersion>,
}

impl Drop for FetchVersions<'_> {
    fn drop(&mut self) {
        let until = self.inner.now().after(LINGER);
        self.inner.connected_versions.remove(&self.served, until);
    }
}

impl EngineInner {
    /// Records the versions of a connected worker.
    pub(crate) fn connect_versions(&self, template: &Fetch) -> Option<WorkerVersions> {
        if template.versions.is_empty() {
            return None;
        }
        let versions = Arc::clone(&self.connected_versions);
        let served = versions.add(template.served_versions(), self.now());
        Some(WorkerVersions { versions, served })
    }

    /// Records the versions of a fetch while it runs, and for a while after that.
    pub(crate) fn fetch_versions(&self, fetch: &Fetch) -> Option<FetchVersions<'_>> {
        if fetch.versions.is_empty() {
            return None;
        }
        let served = self.connected_versions.add(fetch.served_versions(), self.now());
        Some(FetchVersions { inner: self, served })
    }

    /// The versions of a kind that connected workers of a queue run, if none of them satisfies a requirement.
    pub(crate) fn unsatisfying_versions(
        &self,
        queue: &Name,
        kind: &Name,
        required: &VersionRequirement,
    ) -> Option<BTreeSet<Version>> {
        let connected = self.connected_versions.of(queue, kind, self.now());
        let is_satisfied = connected.iter().any(|version| required.is_satisfied_by(*version));
        (!is_satisfied).then_some(connected)
    }

    /// Ready jobs that require a version which no connected worker runs.
    pub(crate) async fn unrunnable(&self) -> Result<Vec<RequiredVersion>, Error> {
        let mut required = self.store.required_versions(None).await?;
        required.retain(|RequiredVersion { queue, kind, version, .. }| {
            self.unsatisfying_versions(queue, kind, version).is_some()
        });
        Ok(required)
    }
}
