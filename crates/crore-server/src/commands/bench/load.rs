//! What all who push and work share in a run, and what each of them keeps for itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::doors::Door;
use super::ledger::Ledger;
use super::line::Line;
use super::payload;
use super::plan::Plan;
use super::source::{Batch, Clock, Flow, Source};
use super::times::Times;

/// A run.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) plan: Plan,
    pub(super) line: Line,
    /// What all jobs of this run are called, and no others.
    pub(super) name: String,
    pub(super) clock: Clock,
    pub(super) source: Source,
    pub(super) ledger: Ledger,
    /// One for everybody who is connected.
    pub(super) ready: Semaphore,
    /// Pushing may begin.
    pub(super) go: CancellationToken,
    /// Workers take nothing more.
    pub(super) stop: CancellationToken,
    pub(super) pushed: Count,
    pub(super) handed: Count,
    pub(super) finished: Count,
}

/// How often something has happened, and when it did last.
#[derive(Debug, Default)]
pub(super) struct Count {
    n: AtomicU64,
    last: AtomicU64,
}

impl Count {
    fn add(&self, n: u64, at: u64) {
        self.n.fetch_add(n, Relaxed);
        self.last.fetch_max(at, Relaxed);
    }

    pub(super) fn n(&self) -> u64 {
        self.n.load(Relaxed)
    }

    pub(super) fn last(&self) -> u64 {
        self.last.load(Relaxed)
    }
}

impl Load {
    pub(super) fn new(plan: Plan, line: Line, name: String) -> Self {
        let clock = Clock::start();
        let flow =
            Flow { batch: plan.batch, most: plan.most(), rate: plan.rate, backlog: plan.backlog };
        Self {
            line,
            name,
            clock,
            source: Source::new(flow, clock),
            ledger: Ledger::new(plan.door.lease()),
            ready: Semaphore::new(0),
            go: CancellationToken::new(),
            stop: CancellationToken::new(),
            pushed: Count::default(),
            handed: Count::default(),
            finished: Count::default(),
            plan,
        }
    }

    pub(super) fn door(&self) -> Door {
        self.plan.door
    }

    /// Is connected, and waits until everybody is.
    pub(super) async fn until_all_are_ready(&self) {
        self.ready.add_permits(1);
        self.go.cancelled().await;
    }
}

/// One who pushes.
#[derive(Debug)]
pub(super) struct Producer {
    pub(super) load: Arc<Load>,
    pub(super) answered: Times,
}

impl Producer {
    pub(super) fn new(load: &Arc<Load>) -> Self {
        Self { load: Arc::clone(load), answered: Times::default() }
    }

    /// A push was answered: all its jobs are on the disk.
    pub(super) fn pushed(&mut self, batch: &Batch) {
        let now = self.load.clock.now();
        self.answered.add(now.saturating_sub(batch.begun), batch.len());
        self.load.ledger.pushed(batch.numbers.clone());
        self.load.pushed.add(batch.len(), now);
    }
}

/// A job that a worker has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    number: u64,
    begun: u64,
}

/// One who works.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) load: Arc<Load>,
    pub(super) index: usize,
    pub(super) handed: Times,
    pub(super) finished: Times,
}

impl Worker {
    pub(super) fn new(load: &Arc<Load>, index: usize) -> Self {
        let (handed, finished) = (Times::default(), Times::default());
        Self { load: Arc::clone(load), index, handed, finished }
    }

    /// A name that no other worker has.
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.load.name, self.index)
    }

    /// Jobs were handed over, with these texts. `None`: one is none of ours.
    pub(super) fn handed<'a>(
        &mut self,
        texts: impl IntoIterator<Item = Option<&'a [u8]>>,
        to: &mut Vec<Option<Held>>,
    ) {
        let (now, before) = (self.load.clock.now(), to.len());
        for text in texts {
            let held = text.and_then(payload::read).map(|(number, begun)| Held { number, begun });
            match held {
                Some(held) => {
                    self.load.ledger.handed(held.number, now);
                    self.handed.add(now.saturating_sub(held.begun), 1);
                }
                None => self.load.ledger.stranger(),
            }
            to.push(held);
        }
        self.load.handed.add((to.len() - before) as u64, now);
    }

    /// Reports were taken: the server has said so.
    pub(super) fn finished(&mut self, held: impl IntoIterator<Item = Held>) {
        let now = self.load.clock.now();
        let mut n = 0;
        for held in held {
            self.finished.add(now.saturating_sub(held.begun), 1);
            self.load.ledger.finished(held.number);
            n += 1;
        }
        self.end(n, now);
    }

    /// Reports were made to which the server has nothing to say.
    pub(super) fn reported(&mut self, held: impl IntoIterator<Item = Held>) {
        let mut n = 0;
        for held in held {
            self.load.ledger.finished(held.number);
            n += 1;
        }
        self.end(n, self.load.clock.now());
    }

    fn end(&self, n: usize, now: u64) {
        self.load.finished.add(n as u64, now);
        self.load.source.make_room(n);
    }
}
