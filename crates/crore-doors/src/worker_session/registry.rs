//! All connected workers, and those that may reconnect.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crore::Engine;
use crore::watch::Changed;
use crore_api::{ConnectedWorker, ConnectedWorkers};
use crore_core::job::Ended;
use crore_core::{Span, State};
use crore_wire::worker::Held;
use tokio::time::{Instant, sleep_until};

use super::incarnation::{Incarnation, Notice};
use super::lock;

/// Time to reconnect after a broken connection, before the jobs of a worker are handed to others.
pub(super) const GRACE_MS: u64 = 500;
const GRACE: Duration = Duration::from_millis(GRACE_MS);

/// All connected workers, by incarnation, and those within their grace period. Clones share the registry.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry(Arc<Mutex<HashMap<Arc<str>, Arc<Incarnation>>>>);

impl Registry {
    /// Adds a worker. If its incarnation was known, the leases move to the new entry, and the old one is replaced.
    pub(super) fn enter(&self, entered: &Arc<Incarnation>) {
        let before = lock(&self.0).insert(Arc::clone(entered.id()), Arc::clone(entered));
        if let Some(before) = before {
            entered.replace_leases(before.clear());
            // Nobody would take what comes to the old one from now on.
            before.replace();
        }
    }

    /// The connection of a worker is closed. Unless it reconnects within the grace period, its jobs go to others.
    pub(super) fn leave(&self, engine: Engine, left: Arc<Incarnation>) {
        if left.len() == 0 {
            return self.forget(&left);
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let registry = self.clone();
        let grace = if left.is_replaced() { Duration::ZERO } else { GRACE };
        left.presence().left(engine.status().now().after(Span::from_millis(GRACE_MS)));
        let until = Instant::now() + grace;
        runtime.spawn(async move {
            sleep_until(until).await;
            registry.forget(&left);
            let held = left.clear().into_leases().map(|(held, _)| (held.id, held.delivery));
            // A delivery that cannot be written now lapses when its lease ends.
            let _ = engine.deliveries().lapse(held.collect()).await;
        });
    }

    /// Removes a worker, unless another connection has replaced it.
    fn forget(&self, left: &Arc<Incarnation>) {
        let mut all = lock(&self.0);
        if all.get(left.id()).is_some_and(|now| Arc::ptr_eq(now, left)) {
            all.remove(left.id());
        }
    }
}

impl ConnectedWorkers for Registry {
    fn list(&self) -> Vec<ConnectedWorker> {
        let all = lock(&self.0);
        let connected = all.values().map(|one| ConnectedWorker {
            name: one.worker().to_string(),
            stream: one.shown(),
            until: one.presence().until(),
        });
        connected.collect()
    }

    /// Passes a change of a job on to the worker that runs it, if that has to know.
    fn changed(&self, change: &Changed<'_>) {
        let held = Held { id: change.job.id, delivery: change.job.live.delivery };
        let notice = match (change.ended, change.state) {
            (Some(Ended::Lapsed | Ended::TimedOut), _) => Notice::Lost(held),
            (None, Some(State::Running)) => Notice::Stop(held),
            _ => return,
        };
        let worker = change.job.live.worker.as_ref();
        let all = lock(&self.0);
        let of_worker = all.values().filter(|one| Some(one.worker()) == worker);
        of_worker.for_each(|one| one.notify(notice));
    }
}
