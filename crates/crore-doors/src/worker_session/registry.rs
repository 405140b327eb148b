//! All connected workers, and those that may reconnect.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crore::Engine;
use crore::observer::ObservedChange;
use crore_api::{ConnectedWorker, ConnectedWorkers, WorkerRequest};
use crore_core::job::DeliveryEnd;
use crore_core::{Name, Span, State};
use crore_wire::worker::DeliveryRef;
use tokio::time::{Instant, sleep_until};

use super::incarnation::{DeliveryNotice, Incarnation, IncarnationKey};
use super::lock;

/// Time to reconnect after a broken connection, before the worker's jobs go to others.
pub(super) const GRACE_MS: u64 = 500;
const GRACE: Duration = Duration::from_millis(GRACE_MS);

/// All connected workers, by incarnation, and those within their grace period. Clones share the registry.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionRegistry(Arc<Mutex<HashMap<IncarnationKey, Arc<Incarnation>>>>);

impl SessionRegistry {
    /// Adds a worker. If its incarnation is known, the leases move to the new entry, and the old one is marked as
    /// replaced.
    pub(super) fn register(&self, incarnation: &Arc<Incarnation>) {
        let replaced = lock(&self.0).insert(incarnation.key(), Arc::clone(incarnation));
        if let Some(replaced) = replaced {
            incarnation.inherit_requests(&replaced);
            incarnation.replace_leases(replaced.clear());
            // After the move, so that its session ends without its leases.
            replaced.replace();
        }
    }

    /// Records that the connection of a worker is closed. Unless it reconnects within the grace period, its jobs go to
    /// others.
    pub(super) fn disconnect(&self, engine: Engine, incarnation: Arc<Incarnation>) {
        if incarnation.len() == 0 {
            return self.remove(&incarnation);
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let registry = self.clone();
        let grace = if incarnation.is_replaced() { Duration::ZERO } else { GRACE };
        incarnation
            .presence()
            .record_disconnect(engine.status().now().after(Span::from_millis(GRACE_MS)));
        let until = Instant::now() + grace;
        runtime.spawn(async move {
            sleep_until(until).await;
            registry.remove(&incarnation);
            let held = incarnation.clear().into_leases().map(|(held, _)| (held.id, held.delivery));
            // A delivery that cannot be written now lapses when its lease expires.
            let _ = engine.deliveries().lapse(held.collect()).await;
        });
    }

    /// Removes a worker, unless another connection has replaced it.
    fn remove(&self, incarnation: &Arc<Incarnation>) {
        let mut all = lock(&self.0);
        let key = incarnation.key();
        if all.get(&key).is_some_and(|now| Arc::ptr_eq(now, incarnation)) {
            all.remove(&key);
        }
    }
}

impl ConnectedWorkers for SessionRegistry {
    fn list(&self) -> Vec<ConnectedWorker> {
        let all = lock(&self.0);
        let connected = all.values().map(|one| ConnectedWorker {
            name: one.worker().to_string(),
            stream: one.shown(),
            until: one.presence().until(),
            is_local: one.presence().is_local(),
        });
        connected.collect()
    }

    fn request(&self, incarnation: &str, request: WorkerRequest) {
        // Incarnations are unique for each token only; callers select them from the list.
        let all = lock(&self.0);
        let meant = all.iter().filter(|((_, id), _)| **id == *incarnation);
        meant.for_each(|(_, one)| one.request(request));
    }

    fn version_of(&self, worker: &Name) -> Option<String> {
        let all = lock(&self.0);
        let version = all.values().find(|one| one.worker() == worker)?.presence().version();
        (!version.is_empty()).then(|| version.to_owned())
    }

    /// Notifies the worker of a job that its delivery was lost or that the job is asked to stop.
    fn changed(&self, change: &ObservedChange<'_>) {
        let held = DeliveryRef { id: change.job.id, delivery: change.job.live.delivery };
        let notice = match (change.ended, change.state) {
            (Some(DeliveryEnd::Lapsed | DeliveryEnd::TimedOut), _) => DeliveryNotice::Lost(held),
            (None, Some(State::Running)) => DeliveryNotice::Stop(held),
            _ => return,
        };
        let worker = change.job.live.worker.as_ref();
        let all = lock(&self.0);
        let of_worker = all.values().filter(|one| Some(one.worker()) == worker);
        of_worker.for_each(|one| one.notify(notice));
    }
}
