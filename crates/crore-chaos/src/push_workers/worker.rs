//! A push worker: its address, its registrations, its deliveries and pending reports.

use crore_core::version::KindVersions;
use std::collections::VecDeque;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crore_testkit::history::{PendingCall, RecordedOp};
use crore_testkit::{Error, SeededRng};
use tokio::net::TcpSocket;

use super::QUEUE;
use super::report::PendingReport;
use crate::context::{ChaosContext, NOTHING_POSTED};
use crate::draft::name;

/// Open fetches per worker in the history. Jobs are posted without a fetch, but the checker matches every delivery to
/// one. The number exceeds the concurrent jobs so far that one fetch is older than any job about to be posted.
const OPEN_FETCHES: usize = 16;

/// A push worker.
pub(crate) struct ChaosPushWorker {
    name: String,
    pub(super) context: Arc<ChaosContext>,
    pub(super) address: SocketAddr,
    /// Reserves the port while nothing listens there, so that a restarted server cannot be given it.
    _port: TcpSocket,
    inner: Mutex<PushWorkerState>,
}

#[derive(Debug)]
pub(super) struct PushWorkerState {
    pub(super) rng: SeededRng,
    /// Whether it behaves correctly.
    pub(super) honest: bool,
    /// `None`: nothing listens at its address.
    pub(super) listener: Option<TcpListener>,
    /// The id of each registration, once the server has returned it. Each registration has a path of its own, so that
    /// the worker sees which one is called.
    pub(super) ids: Vec<Option<String>>,
    /// The registrations that have not ended.
    pub(super) registered: Vec<String>,
    /// Its open fetches in the history.
    open_fetches: VecDeque<PendingCall>,
    /// Reports that it has to send.
    pub(super) pending_reports: VecDeque<PendingReport>,
}

impl ChaosPushWorker {
    pub(super) fn new(
        name: String,
        context: &Arc<ChaosContext>,
        rng: SeededRng,
    ) -> Result<Arc<Self>, Error> {
        let failed = |error| Error::Failed(format!("a push worker has no port: {error}"));
        let port = TcpSocket::new_v4().map_err(failed)?;
        port.set_reuseaddr(true).map_err(failed)?;
        port.bind(SocketAddr::from(([127, 0, 0, 1], 0))).map_err(failed)?;
        let address = port.local_addr().map_err(failed)?;
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let inner = PushWorkerState {
            rng,
            honest: false,
            listener: Some(listener),
            ids: Vec::new(),
            registered: Vec::new(),
            open_fetches: VecDeque::new(),
            pending_reports: VecDeque::new(),
        };
        let context = Arc::clone(context);
        Ok(Arc::new(Self { name, context, address, _port: port, inner: Mutex::new(inner) }))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Closes its listener.
    pub(super) fn stop_listening(&self) {
        self.inner().listener = None;
    }

    pub(super) fn behave(&self) {
        self.inner().honest = true;
    }

    pub(super) fn registered_ids(&self) -> Vec<String> {
        self.inner().registered.clone()
    }

    pub(super) fn forget(&self, ids: &[String]) {
        self.inner().registered.retain(|id| !ids.contains(id));
    }

    /// Opens fetches in the history: it may be given jobs from now on.
    pub(super) fn open_fetches(&self) {
        let mut inner = self.inner();
        while inner.open_fetches.len() < OPEN_FETCHES {
            let fetch = self.begin_fetch();
            inner.open_fetches.push_back(fetch);
        }
    }

    /// Takes the oldest open fetch, which a posted job answers, and opens another.
    pub(super) fn next_open_fetch(&self) -> PendingCall {
        let another = self.begin_fetch();
        let mut inner = self.inner();
        inner.open_fetches.push_back(another);
        inner.open_fetches.pop_front().expect("one was just pushed")
    }

    /// Ends all open fetches without an answer: the server may have taken jobs for it that it did not post.
    pub(super) fn close_fetches(&self) {
        let fetches = std::mem::take(&mut self.inner().open_fetches);
        for fetch in fetches {
            self.context.recorder.info(fetch, NOTHING_POSTED);
        }
    }

    fn begin_fetch(&self) -> PendingCall {
        let fetch = RecordedOp::Fetch {
            queues: vec![name(QUEUE)],
            kinds: None,
            versions: KindVersions::default(),
            n: 1,
            strict: false,
        };
        self.context.recorder.invoke(self.name.as_str(), fetch)
    }

    /// A poisoned lock is usable: every change inserts or removes whole entries.
    pub(super) fn inner(&self) -> MutexGuard<'_, PushWorkerState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ChaosPushWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[tokio::test]
    async fn a_worker_that_stops_listening_keeps_its_port() {
        let context = Arc::new(ChaosContext::new(crate::fault::ChaosFault::Fill));
        let worker =
            ChaosPushWorker::new("w".to_owned(), &context, SeededRng(1)).expect("a worker");
        worker.stop_listening();
        let refused = std::net::TcpStream::connect(worker.address).expect_err("nothing listens");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let other = TcpSocket::new_v4().expect("a socket");
        let taken = other.bind(worker.address).expect_err("the port is held");
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    }
}
