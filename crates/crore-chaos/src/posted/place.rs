//! A worker: where it is called, what it was given, and what it has to say.

use std::collections::VecDeque;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crore_testkit::history::{Op, Pending};
use crore_testkit::{Dice, Error};
use tokio::net::TcpSocket;

use super::QUEUE;
use super::report::Due;
use crate::desk::{Desk, UNANSWERED};
use crate::draft::name;

/// What a push worker is given it has not asked for. In the history it always asks, for so many more jobs than it takes
/// that one of its questions is older than anything that the server may be about to post.
const QUESTIONS: usize = 16;

/// A push worker.
pub(crate) struct Worker {
    name: String,
    pub(super) desk: Arc<Desk>,
    pub(super) address: SocketAddr,
    /// Holds the port while nothing listens there: a server that restarts must not be given it.
    _port: TcpSocket,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) dice: Dice,
    /// Whether it does well, and nothing else.
    pub(super) honest: bool,
    /// Where calls come in; none: nobody is there.
    pub(super) listener: Option<TcpListener>,
    /// Under which id it is known by each of its registrations, if it was told. Each has a path of its own, so that it
    /// is seen whom the server calls.
    pub(super) ids: Vec<Option<String>>,
    /// Those of which nothing says that they are over.
    pub(super) standing: Vec<String>,
    /// What it asks, in the history.
    questions: VecDeque<Pending>,
    /// What it has to say.
    pub(super) due: VecDeque<Due>,
}

impl Worker {
    pub(super) fn new(name: String, desk: &Arc<Desk>, dice: Dice) -> Result<Arc<Self>, Error> {
        let failed = |error| Error::Failed(format!("a push worker has no port: {error}"));
        let port = TcpSocket::new_v4().map_err(failed)?;
        port.set_reuseaddr(true).map_err(failed)?;
        port.bind(SocketAddr::from(([127, 0, 0, 1], 0))).map_err(failed)?;
        let address = port.local_addr().map_err(failed)?;
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let inner = Inner {
            dice,
            honest: false,
            listener: Some(listener),
            ids: Vec::new(),
            standing: Vec::new(),
            questions: VecDeque::new(),
            due: VecDeque::new(),
        };
        let desk = Arc::clone(desk);
        Ok(Arc::new(Self { name, desk, address, _port: port, inner: Mutex::new(inner) }))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Nobody is where it says that it is.
    pub(super) fn hang_up(&self) {
        self.inner().listener = None;
    }

    pub(super) fn reform(&self) {
        self.inner().honest = true;
    }

    pub(super) fn known(&self) -> Vec<String> {
        self.inner().standing.clone()
    }

    pub(super) fn forget(&self, ids: &[String]) {
        self.inner().standing.retain(|id| !ids.contains(id));
    }

    /// It may be given jobs from now on.
    pub(super) fn ask(&self) {
        let mut inner = self.inner();
        while inner.questions.len() < QUESTIONS {
            let question = self.question();
            inner.questions.push_back(question);
        }
    }

    /// The question that is answered by a job, and another one in its place.
    pub(super) fn answered(&self) -> Pending {
        let another = self.question();
        let mut inner = self.inner();
        inner.questions.push_back(another);
        inner.questions.pop_front().expect("one was just asked")
    }

    /// Nobody will answer any more. What the server took for it, and did not come to post, nobody knows.
    pub(super) fn ask_no_more(&self) {
        let questions = std::mem::take(&mut self.inner().questions);
        for question in questions {
            self.desk.recorder.info(question, UNANSWERED);
        }
    }

    fn question(&self) -> Pending {
        let fetch = Op::Fetch { queues: vec![name(QUEUE)], kinds: None, n: 1, strict: false };
        self.desk.recorder.invoke(self.name.as_str(), fetch)
    }

    /// A panic of another task leaves whole entries behind.
    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[tokio::test]
    async fn a_worker_that_hangs_up_keeps_its_port() {
        let desk = Arc::new(Desk::new(crate::harm::Harm::Fill));
        let worker = Worker::new("w".to_owned(), &desk, Dice(1)).expect("a worker");
        worker.hang_up();
        let refused = std::net::TcpStream::connect(worker.address).expect_err("nothing listens");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let other = TcpSocket::new_v4().expect("a socket");
        let taken = other.bind(worker.address).expect_err("the port is held");
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    }
}
