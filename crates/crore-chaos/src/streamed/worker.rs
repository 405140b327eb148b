//! Who a worker is, what it has between two streams, and how it comes back.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crore_testkit::Dice;
use crore_testkit::history::op::Noticed;
use crore_testkit::history::{LEFT, Op, Pending};
use crore_wire::grpc::v1;

use super::stream::Stream;
use crate::client::Away;
use crate::desk::{Desk, Held};
use crate::draft::name;

/// The most slots that a worker says it has.
pub(super) const SLOTS: u64 = 4;
/// What is handed over on a stream is no answer to a question. In the history its worker always asks, for so many more
/// jobs than it has slots that one of its questions is older than anything that the server may be about to send.
const QUESTIONS: usize = 8;

/// So many streams may be open of one worker, besides the one that it uses.
const LIMBO: usize = 2;

/// Which jobs a worker wants, in all its lives.
#[derive(Debug, Clone)]
pub(super) struct Wants {
    pub(super) queues: Vec<&'static str>,
    pub(super) kind: Option<&'static str>,
    pub(super) strict: bool,
}

/// How a worker behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Badly in every way.
    Badly,
    /// It does its work well, and comes and goes as it likes: in order, or killed.
    Restless,
    /// Well.
    Well,
}

/// A worker, which outlives its streams.
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) desk: Arc<Desk>,
    pub(super) dice: Dice,
    pub(super) manner: Manner,
    wants: Wants,
    incarnation: String,
    /// What it has, and no stream for it.
    pub(super) held: Vec<Held>,
    /// What it asks, in the history.
    questions: VecDeque<Pending>,
    /// Streams that it does not look at any more, and that are open still.
    pub(super) limbo: Vec<Stream>,
}

impl Worker {
    pub(super) fn new(name: String, wants: Wants, desk: &Arc<Desk>, dice: Dice) -> Self {
        let manner = Manner::Badly;
        let (held, questions, limbo) = (Vec::new(), VecDeque::new(), Vec::new());
        let incarnation = format!("{name}/{:x}", dice.0);
        let desk = Arc::clone(desk);
        Self { name, desk, dice, manner, wants, incarnation, held, questions, limbo }
    }

    /// Works, on one stream after the other, until there is nobody to speak to.
    pub(super) async fn work_on(&mut self, address: SocketAddr) {
        while let Ok(()) = self.stream(address).await {
            let rest = match self.dice.below(10) {
                // Longer than its jobs are kept for it.
                0 => 600,
                1..=2 => self.dice.below(100),
                _ => self.dice.below(4),
            };
            self.desk.rest(Duration::from_millis(rest)).await;
        }
        self.limbo.clear();
    }

    async fn stream(&mut self, address: SocketAddr) -> Result<(), Away> {
        let (hello, named) = self.returns();
        self.ask();
        let opened = Stream::open(self, address, hello, named).await;
        if let Ok(Some(mut stream)) = opened {
            if self.limbo.len() > LIMBO {
                self.limbo.remove(0);
            }
            let ending = self.listen(&mut stream).await;
            self.leave(stream, ending);
            return Ok(());
        }
        self.ask_no_more();
        opened.map(drop)
    }

    /// How it introduces itself, and which of its deliveries it names.
    fn returns(&mut self) -> (v1::Hello, Vec<Held>) {
        let held = std::mem::take(&mut self.held);
        let (named, forgotten) = match self.dice.below(20) {
            _ if self.manner == Manner::Well => (held, Vec::new()),
            0..=11 => (held, Vec::new()),
            12..=14 => held.into_iter().partition(|_| self.dice.percent(50)),
            _ => {
                self.incarnation = format!("{}/{:x}", self.name, self.dice.roll());
                (Vec::new(), held)
            }
        };
        forgotten.into_iter().for_each(|held| self.forget(held));
        let slots = 1 + self.dice.below(SLOTS) as u32;
        let Wants { queues, kind, strict } = &self.wants;
        let said = |held: &Held| v1::Held { id: held.id.0, delivery: held.delivery.0 };
        let hello = v1::Hello {
            queues: queues.iter().map(|queue| (*queue).to_owned()).collect(),
            kinds: kind.iter().map(|kind| (*kind).to_owned()).collect(),
            slots,
            name: self.name.clone(),
            incarnation: self.incarnation.clone(),
            version: "chaos".to_owned(),
            strict: *strict,
            held: named.iter().map(said).collect(),
            runs_handlers: false,
            runners: Vec::new(),
        };
        (hello, named)
    }

    /// The server may give this to others from now on, and tells nobody: a call without an end.
    pub(super) fn left(&self, held: Held) {
        let (id, delivery, what) = (held.id, Some(held.delivery), Noticed::Left);
        drop(self.desk.recorder.invoke(self.name.as_str(), Op::Notice { id, delivery, what }));
    }

    /// It has this no more; somebody may come back with it later.
    fn forget(&mut self, held: Held) {
        self.left(held);
        if self.manner == Manner::Badly && self.dice.percent(50) {
            self.desk.hold(held);
        }
    }

    /// It may be given jobs from now on.
    fn ask(&mut self) {
        self.questions = (0..QUESTIONS).map(|_| self.question()).collect();
    }

    /// It is seen to leave. What the server took for it, and did not come to send, nobody knows.
    pub(super) fn ask_no_more(&mut self) {
        for question in self.questions.drain(..) {
            self.desk.recorder.info(question, LEFT);
        }
    }

    /// The question that is answered by a job, and another one in its place.
    pub(super) fn answered(&mut self) -> Option<Pending> {
        let another = self.question();
        self.questions.push_back(another);
        self.questions.pop_front()
    }

    fn question(&self) -> Pending {
        let Wants { queues, kind, strict } = &self.wants;
        let queues = queues.iter().copied().map(name).collect();
        let kinds = kind.map(|kind| vec![name(kind)]);
        let fetch = Op::Fetch { queues, kinds, n: 1, strict: *strict };
        self.desk.recorder.invoke(self.name.as_str(), fetch)
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("name", &self.name).finish_non_exhaustive()
    }
}
