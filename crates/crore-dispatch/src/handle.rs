//! The handle of a door: registers workers and passes on their reports. It shares its state with the service.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crore::Engine;
use crore::store::registry::RegistryEntry;
use crore_core::{Delivery, JobId, Name, Span};
use crore_outbound::Outbound;
use tokio::sync::Notify;

use crate::options::Options;
use crate::protocol::Protocol;
use crate::registration::Registration;
use crate::roster::{FailureBackoff, Roster};
use crate::signature::SigningSecret;

/// Maximum workers of one dispatcher.
pub(crate) const MAX_WORKERS: usize = 10_000;
/// Lifetime of a registration. Worker entries in the registry always expire, and a push worker stays until it is
/// removed: ten years are long enough.
const REGISTRATION_LIFETIME: Span = Span::from_secs(10 * 365 * 24 * 60 * 60);

/// Registers workers, and passes their reports on to the service. Clones share one dispatcher.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) state: Arc<DispatcherState>,
}

#[derive(Debug)]
pub(crate) struct DispatcherState {
    pub(crate) engine: Engine,
    pub(crate) outbound: Outbound,
    pub(crate) protocol: Box<dyn Protocol>,
    pub(crate) options: Options,
    pub(crate) secrets: Vec<SigningSecret>,
    roster: Mutex<Roster>,
    /// Signals that a worker may have become free.
    pub(crate) changed: Notify,
}

impl Handle {
    /// A dispatcher. It gives no jobs to workers until
    /// [`DispatchService::run`](crate::DispatchService::run) is called.
    pub fn new(
        engine: Engine,
        outbound: Outbound,
        protocol: impl Protocol + 'static,
        options: Options,
    ) -> Self {
        let backoff = FailureBackoff {
            first: options.rest.into(),
            max: options.max_rest.into(),
            gone_after: options.gone_after.into(),
        };
        let state = DispatcherState {
            engine,
            outbound,
            protocol: Box::new(protocol),
            secrets: options.secrets(),
            options,
            roster: Mutex::new(Roster::new(backoff)),
            changed: Notify::new(),
        };
        Self { state: Arc::new(state) }
    }

    /// The addresses that crore may call.
    pub fn outbound(&self) -> &Outbound {
        &self.state.outbound
    }

    /// Registers a worker. It replaces a worker with the same URL, which has restarted and does not know its former id.
    /// Durable when this returns. `false`: there are too many workers.
    pub async fn join(&self, id: Name, worker: Registration) -> Result<bool, crore::Error> {
        if self.state.roster().len() >= MAX_WORKERS {
            return Ok(false);
        }
        let text = worker.to_text(self.state.protocol.name())?;
        self.state.engine.workers().set(id.clone(), text, REGISTRATION_LIFETIME).await?;
        let replaced = {
            let mut roster = self.state.roster();
            let mut replaced = roster.called_at(&worker.target);
            // The service may have read this worker from the registry before the write was answered.
            replaced.retain(|one| *one != id);
            for id in &replaced {
                roster.leave(id);
            }
            roster.join(id, worker);
            replaced
        };
        self.state.changed.notify_one();
        for id in replaced {
            self.state.engine.workers().remove(id).await?;
        }
        Ok(true)
    }

    /// Removes a worker: it is given no more jobs, and may still report those that it has. `false`: it is not
    /// registered.
    pub async fn leave(&self, id: &Name) -> Result<bool, crore::Error> {
        let workers = self.state.engine.workers().list().await?;
        let entry = workers.iter().find(|entry| entry.name == *id);
        let is_registered = entry.is_some_and(|entry| self.state.read(entry).is_some());
        if is_registered {
            self.state.engine.workers().remove(id.clone()).await?;
        }
        Ok(self.state.roster().leave(id) || is_registered)
    }

    /// Frees the slot of a delivery whose report was accepted.
    pub fn reported(&self, job: JobId, delivery: Delivery) {
        self.state.release(job, delivery);
    }
}

impl DispatcherState {
    pub(crate) fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees the slot of a delivery.
    pub(crate) fn release(&self, job: JobId, delivery: Delivery) {
        self.roster().release(job, delivery);
        self.changed.notify_one();
    }

    /// Reads an entry of the registry; `None` for workers of other protocols.
    pub(crate) fn read(&self, entry: &RegistryEntry) -> Option<Registration> {
        Registration::from_value(&entry.value, self.protocol.name())
    }
}

#[cfg(test)]
mod tests {
    use crore_outbound::Target;

    use super::*;
    use crate::response::tests::Plain;

    #[tokio::test]
    async fn a_worker_listed_before_its_registration_response_stays_registered() {
        let engine = Engine::memory();
        let outbound = Outbound::new(Default::default());
        let handle = Handle::new(engine.clone(), outbound, Plain, Options::default());
        let target = Target::parse("url", "http://worker:8080").expect("good");
        let worker = Registration { name: "w".to_owned(), target, max_jobs: 1 };
        let id = Name::new("worker", "one").expect("a name");
        handle.state.roster().join(id.clone(), worker.clone());
        assert!(handle.join(id.clone(), worker).await.expect("joined"));
        let workers = engine.workers().list().await.expect("read");
        assert_eq!(workers.iter().map(|entry| &entry.name).collect::<Vec<_>>(), [&id]);
        assert!(handle.state.roster().get(&id).is_some());
    }
}
