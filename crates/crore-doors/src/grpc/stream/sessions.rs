//! All workers with a stream, and those that may come back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crore::Engine;
use crore::watch::Changed;
use crore_api::{ConnectedWorker, ConnectedWorkers};
use crore_core::job::Ended;
use crore_core::{Span, State};
use tokio::time::{Instant, sleep_until};

use super::desk::{Desk, Notice};

/// How long the jobs of a broken stream wait for their worker.
pub(super) const GRACE_MS: u64 = 500;
const GRACE: Duration = Duration::from_millis(GRACE_MS);

/// All workers with a stream, by their incarnation. Cloning gives another handle to the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sessions(Arc<Mutex<HashMap<Arc<str>, Arc<Desk>>>>);

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Desk>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker is here: what it had before, if it was, lies on its new desk.
    pub(super) fn enter(&self, incarnation: &Arc<str>, desk: &Arc<Desk>) {
        let before = self.lock().insert(Arc::clone(incarnation), Arc::clone(desk));
        if let Some(before) = before {
            desk.hold(before.clear());
            // What comes to the old one from now on nobody will ever ask for.
            before.replace();
        }
    }

    /// A stream has ended. If its worker does not come back in time, its jobs are given to others.
    pub(super) fn leave(&self, engine: Engine, incarnation: Arc<str>, desk: Arc<Desk>) {
        if desk.len() == 0 {
            return self.forget(&incarnation, &desk);
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let sessions = self.clone();
        let grace = if desk.is_replaced() { Duration::ZERO } else { GRACE };
        desk.left(engine.now().after(Span::from_millis(GRACE_MS)));
        let until = Instant::now() + grace;
        runtime.spawn(async move {
            sleep_until(until).await;
            sessions.forget(&incarnation, &desk);
            let held = desk.clear();
            let held = held.into_iter().map(|(id, hold)| (id, hold.delivery)).collect();
            // What cannot be written now is taken back when its lease ends.
            let _ = engine.lapse(held).await;
        });
    }

    /// Forgets a worker, unless another has come in its place.
    fn forget(&self, incarnation: &Arc<str>, desk: &Arc<Desk>) {
        let mut sessions = self.lock();
        if sessions.get(incarnation).is_some_and(|now| Arc::ptr_eq(now, desk)) {
            sessions.remove(incarnation);
        }
    }
}

impl ConnectedWorkers for Sessions {
    fn list(&self) -> Vec<ConnectedWorker> {
        let sessions = self.lock();
        let connected = sessions.iter().map(|(incarnation, desk)| ConnectedWorker {
            name: desk.worker.to_string(),
            stream: desk.shown(incarnation),
            until: desk.until(),
        });
        connected.collect()
    }

    /// Something became of a job: if it runs with a stream, its worker may have to know.
    fn changed(&self, change: &Changed<'_>) {
        let (id, delivery) = (change.job.id, change.job.live.delivery);
        let notice = match (change.ended, change.state) {
            (Some(Ended::Lapsed | Ended::TimedOut), _) => Notice::Lost(id, delivery),
            (None, Some(State::Running)) => Notice::Stop(id, delivery),
            _ => return,
        };
        let worker = change.job.live.worker.as_ref();
        let sessions = self.lock();
        let desks = sessions.values().filter(|desk| Some(&desk.worker) == worker);
        desks.for_each(|desk| desk.tell(notice));
    }
}
