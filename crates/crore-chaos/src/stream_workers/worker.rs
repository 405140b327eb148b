//! A streaming worker: its identity, the deliveries it holds between two streams, and how it returns.

use crore_core::version::KindVersions;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crore_testkit::SeededRng;
use crore_testkit::history::op::UpkeepDecision;
use crore_testkit::history::{CALLER_LEFT, PendingCall, RecordedOp};
use crore_wire::grpc::v1;

use super::stream::Stream;
use crate::client::Unreachable;
use crate::context::{ChaosContext, HeldDelivery};
use crate::draft::name;

/// The most slots that a worker announces.
pub(super) const MAX_SLOTS: u64 = 4;
/// Open fetches per worker in the history. Jobs are streamed without a fetch, but the checker matches every delivery to
/// one. The number exceeds the slots so far that one fetch is older than any job about to be sent.
const OPEN_FETCHES: usize = 8;

/// Maximum number of abandoned streams that a worker leaves open.
const MAX_ABANDONED: usize = 2;

/// Which jobs a worker asks for, in all its incarnations.
#[derive(Debug, Clone)]
pub(super) struct StreamFilter {
    pub(super) queues: Vec<&'static str>,
    pub(super) kind: Option<&'static str>,
    pub(super) strict: bool,
}

/// How a worker behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behavior {
    /// Misbehaves in every way.
    Faulty,
    /// Reports correctly, but disconnects at random, gracefully or not.
    Churning,
    /// Behaves correctly.
    Correct,
}

/// A worker, which outlives its streams.
pub(super) struct StreamWorker {
    pub(super) name: String,
    pub(super) context: Arc<ChaosContext>,
    pub(super) rng: SeededRng,
    pub(super) behavior: Behavior,
    filter: StreamFilter,
    incarnation: String,
    /// Deliveries that it holds without a stream.
    pub(super) held: Vec<HeldDelivery>,
    /// Its open fetches in the history.
    open_fetches: VecDeque<PendingCall>,
    /// Streams that it has abandoned and left open.
    pub(super) abandoned: Vec<Stream>,
}

impl StreamWorker {
    pub(super) fn new(
        name: String,
        filter: StreamFilter,
        context: &Arc<ChaosContext>,
        rng: SeededRng,
    ) -> Self {
        let incarnation = format!("{name}/{:x}", rng.0);
        let context = Arc::clone(context);
        Self {
            name,
            context,
            rng,
            behavior: Behavior::Faulty,
            filter,
            incarnation,
            held: Vec::new(),
            open_fetches: VecDeque::new(),
            abandoned: Vec::new(),
        }
    }

    /// Works on one stream after the other until the server is unreachable.
    pub(super) async fn run(&mut self, address: SocketAddr) {
        while let Ok(()) = self.run_one_stream(address).await {
            let rest = match self.rng.below(10) {
                // Longer than the server reserves its jobs.
                0 => 600,
                1..=2 => self.rng.below(100),
                _ => self.rng.below(4),
            };
            self.context.sleep_while_running(Duration::from_millis(rest)).await;
        }
        self.abandoned.clear();
    }

    async fn run_one_stream(&mut self, address: SocketAddr) -> Result<(), Unreachable> {
        let (hello, named) = self.hello();
        self.open_fetches();
        let opened = Stream::open(self, address, hello, named).await;
        if let Ok(Some(mut stream)) = opened {
            if self.abandoned.len() > MAX_ABANDONED {
                self.abandoned.remove(0);
            }
            let ending = self.run_stream(&mut stream).await;
            self.end_stream(stream, ending);
            return Ok(());
        }
        self.close_fetches();
        opened.map(drop)
    }

    /// Its hello message, and the deliveries that the message names.
    fn hello(&mut self) -> (v1::Hello, Vec<HeldDelivery>) {
        let held = std::mem::take(&mut self.held);
        let (named, forgotten) = match self.rng.below(20) {
            _ if self.behavior == Behavior::Correct => (held, Vec::new()),
            0..=11 => (held, Vec::new()),
            12..=14 => held.into_iter().partition(|_| self.rng.percent(50)),
            _ => {
                self.incarnation = format!("{}/{:x}", self.name, self.rng.next_u64());
                (Vec::new(), held)
            }
        };
        forgotten.into_iter().for_each(|held| self.forget(held));
        let slots = 1 + self.rng.below(MAX_SLOTS) as u32;
        let StreamFilter { queues, kind, strict } = &self.filter;
        let to_wire = |held: &HeldDelivery| v1::Held { id: held.id.0, delivery: held.delivery.0 };
        let hello = v1::Hello {
            queues: queues.iter().map(|queue| (*queue).to_owned()).collect(),
            kinds: kind.iter().map(|kind| (*kind).to_owned()).collect(),
            slots,
            name: self.name.clone(),
            incarnation: self.incarnation.clone(),
            version: "chaos".to_owned(),
            strict: *strict,
            held: named.iter().map(to_wire).collect(),
            runs_handlers: false,
            runners: Vec::new(),
            versions: BTreeMap::new(),
        };
        (hello, named)
    }

    /// Records, as a call without an answer, that the server may give this delivery to another worker.
    pub(super) fn record_left(&self, held: HeldDelivery) {
        let (id, delivery, what) = (held.id, Some(held.delivery), UpkeepDecision::Left);
        drop(
            self.context
                .recorder
                .invoke(self.name.as_str(), RecordedOp::Notice { id, delivery, what }),
        );
    }

    /// Drops a delivery; another worker may report it later.
    fn forget(&mut self, held: HeldDelivery) {
        self.record_left(held);
        if self.behavior == Behavior::Faulty && self.rng.percent(50) {
            self.context.hold_delivery(held);
        }
    }

    /// Opens fetches in the history: it may be given jobs from now on.
    fn open_fetches(&mut self) {
        self.open_fetches = (0..OPEN_FETCHES).map(|_| self.begin_fetch()).collect();
    }

    /// Ends all open fetches because the worker left: the server may have taken jobs for it that it did not send.
    pub(super) fn close_fetches(&mut self) {
        for fetch in self.open_fetches.drain(..) {
            self.context.recorder.info(fetch, CALLER_LEFT);
        }
    }

    /// Takes the oldest open fetch, which a delivered job answers, and opens another.
    pub(super) fn next_open_fetch(&mut self) -> Option<PendingCall> {
        let another = self.begin_fetch();
        self.open_fetches.push_back(another);
        self.open_fetches.pop_front()
    }

    fn begin_fetch(&self) -> PendingCall {
        let StreamFilter { queues, kind, strict } = &self.filter;
        let queues = queues.iter().copied().map(name).collect();
        let kinds = kind.map(|kind| vec![name(kind)]);
        let fetch = RecordedOp::Fetch {
            queues,
            kinds,
            versions: KindVersions::default(),
            n: 1,
            strict: *strict,
        };
        self.context.recorder.invoke(self.name.as_str(), fetch)
    }
}

impl fmt::Debug for StreamWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("name", &self.name).finish_non_exhaustive()
    }
}
