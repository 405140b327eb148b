//! What the calls of LightJQ and the loop share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crore::Engine;
use crore::store::registry::Value;
use crore::watch::Watch;
use crore_api::telemetry;
use crore_core::{Delivery, Job, JobId, Name, Span};
use crore_outbound::Outbound;
use http::HeaderMap;
use tokio::sync::Notify;

use super::options::Options;
use super::registered::Registered;
use super::roster::{Patience, Roster};

/// How many workers there may be.
const MOST: usize = 10_000;
/// A registration has an end, as every worker's has; one of a push worker is as good as none.
const FOR_EVER: Span = Span::from_secs(10 * 365 * 24 * 60 * 60);

/// Registers workers, and tells the loop what it needs to know. Cloning gives another handle.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) engine: Engine,
    pub(super) outbound: Outbound,
    pub(super) options: Options,
    /// Knows the trace context of a run; without it, that of the push is sent.
    observer: Option<Arc<dyn Watch>>,
    roster: Mutex<Roster>,
    /// Somebody may be free who was not.
    pub(super) changed: Notify,
}

impl Handle {
    /// The door's end of a loop that does not run yet.
    pub fn new(engine: Engine, outbound: Outbound, options: Options) -> Self {
        Self::observed(engine, outbound, options, None)
    }

    /// The same with an observer, which knows the trace context of each run.
    pub fn observed(
        engine: Engine,
        outbound: Outbound,
        options: Options,
        observer: Option<Arc<dyn Watch>>,
    ) -> Self {
        let patience = Patience {
            first: options.rest.into(),
            most: options.max_rest.into(),
            gone_after: options.gone_after.into(),
        };
        let (roster, changed) = (Mutex::new(Roster::new(patience)), Notify::new());
        Self { shared: Arc::new(Shared { engine, outbound, options, observer, roster, changed }) }
    }

    /// The addresses that crore may call.
    pub(crate) fn outbound(&self) -> &Outbound {
        &self.shared.outbound
    }

    /// A worker is there from now on, in place of one that was called at the same URL: it has started again,
    /// and knows nothing of its former id. Durable when answered. `false`: there are too many already.
    pub(crate) async fn join(&self, id: Name, worker: Registered) -> Result<bool, crore::Error> {
        if self.shared.roster().len() >= MOST {
            return Ok(false);
        }
        self.shared.engine.set_worker(id.clone(), worker.to_text()?, FOR_EVER).await?;
        let former = {
            let mut roster = self.shared.roster();
            let mut former = roster.called_at(&worker.target);
            // The loop may have read of it before we heard that it is kept.
            former.retain(|one| *one != id);
            for id in &former {
                roster.leave(id);
            }
            roster.join(id, worker);
            former
        };
        self.shared.changed.notify_one();
        for id in former {
            self.shared.engine.remove_worker(id).await?;
        }
        Ok(true)
    }

    /// A worker leaves: it is given nothing more, and may still report what it has. `false`: it is not
    /// there.
    pub(crate) async fn leave(&self, id: &Name) -> Result<bool, crore::Error> {
        let workers = self.shared.engine.workers().await?;
        let is_there =
            workers.iter().any(|entry| entry.name == *id && ours(&entry.value).is_some());
        if is_there {
            self.shared.engine.remove_worker(id.clone()).await?;
        }
        Ok(self.shared.roster().leave(id) || is_there)
    }

    /// A delivery was reported.
    pub(crate) fn reported(&self, job: JobId, delivery: Delivery) {
        self.shared.release(job, delivery);
    }
}

impl Shared {
    /// The trace context of a run, as headers.
    pub(super) fn trace_headers(&self, job: &Job) -> HeaderMap {
        let context = match &self.observer {
            Some(observer) => observer.trace_of(job),
            None => job.spec.trace.as_deref().map(ToOwned::to_owned),
        };
        context.map(|context| telemetry::headers(&context)).unwrap_or_default()
    }

    pub(super) fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place is free again.
    pub(super) fn release(&self, job: JobId, delivery: Delivery) {
        self.roster().release(job, delivery);
        self.changed.notify_one();
    }
}

/// One of the workers of this door, as the registry knows it.
pub(super) fn ours(value: &Value) -> Option<Registered> {
    match value {
        Value::Worker(text) => Registered::from_text(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crore_outbound::Target;

    use super::*;

    #[tokio::test]
    async fn a_worker_that_was_read_before_its_registration_was_heard_stays() {
        let engine = Engine::memory();
        let handle =
            Handle::new(engine.clone(), Outbound::new(Default::default()), Options::default());
        let target = Target::parse("url", "http://worker:8080").expect("good");
        let worker = Registered { name: "w".to_owned(), target, max_jobs: 1 };
        let id = Name::new("worker", "one").expect("a name");
        handle.shared.roster().join(id.clone(), worker.clone());
        assert!(handle.join(id.clone(), worker).await.expect("joined"));
        let workers = engine.workers().await.expect("read");
        assert_eq!(workers.iter().map(|entry| &entry.name).collect::<Vec<_>>(), [&id]);
        assert!(handle.shared.roster().get(&id).is_some());
    }
}
