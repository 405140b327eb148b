//! A store that is as durable as its disk, in the plainest way: it remembers every call, the disk
//! holds which of them count, and an opening makes them all again. It shows that the simulator can
//! be passed; and with a lie told, that it can be failed.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use crore_conformance::simulation::{Config, Loops, Running, Subject};
use crore_core::{Batch, Clock, Delivery, Job, Name, Span, Time};
use crore_store::embedded::disk::{Disk, File, Open};
use crore_store::jobs::{Claim, Claimed, Renew, Write};
use crore_store::registry::Define;
use crore_store::views::Note;
use crore_store::{Answer, Committed, Error, Jobs, Memory, Registry, Upkeep, Views};
use crore_testkit::FakeClock;

/// What a journal does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lie {
    Nothing,
    /// Answers before anything is durable.
    AnswersEarly,
    /// Writes, but does not sync.
    NeverSyncs,
    /// After a crash, deliveries that were forgotten are given out again.
    RepeatsDeliveries,
    /// Goes on after an error of the disk as if nothing had been.
    ForgivesErrors,
    /// An opening drops the last call that counts.
    DropsTheLast,
    /// Of a batch that is made again by an opening, the first job is left out.
    TearsBatches,
}

/// A call that changes something.
#[derive(Debug, Clone)]
pub(super) enum Verb {
    Push(Batch),
    Claim(Claim),
    Renew(Vec<Renew>),
    Apply(Vec<Write>),
    Promote(usize),
    Prune(usize),
    Lead(Name, u64, Span),
    Note(Vec<Note>),
    Define(Vec<Define>),
}

/// The calls, in order; kept over crashes, as far as the disk says that they count.
#[derive(Debug, Default)]
struct Tape {
    calls: Vec<(Time, Verb)>,
    /// From which delivery on which opening counts.
    epochs: Vec<(u64, u64)>,
    openings: u64,
}

/// The store as a subject.
#[derive(Debug)]
pub(super) struct Journal {
    tape: Arc<Mutex<Tape>>,
    lie: Lie,
}

impl Journal {
    pub(super) fn new(lie: Lie) -> Self {
        Self { tape: Arc::default(), lie }
    }
}

/// The open store.
#[derive(Debug)]
pub(super) struct Journaled {
    pub(super) memory: Memory,
    /// The memory store's own clock, which is set to the time of each call.
    time: FakeClock,
    clock: Arc<dyn Clock>,
    tape: Arc<Mutex<Tape>>,
    file: Arc<dyn File>,
    pub(super) progress: Mutex<Progress>,
    epoch: u64,
    lie: Lie,
}

#[derive(Debug, Default)]
pub(super) struct Progress {
    durable: usize,
    last_id: u64,
    durable_id: u64,
    gave_up: bool,
}

const ENTRY: usize = 16;

impl Subject for Journal {
    fn open(
        &mut self,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        _: &Config,
    ) -> Result<Running, Error> {
        let broken = |error| Error::Unavailable(Box::new(error));
        let file = disk.open("journal", Open::Create).map_err(broken)?;
        let mut tape = lock(&self.tape);
        let mut count = count(&*file, tape.calls.len()).map_err(broken)?;
        // After a failed sync what is read may not be on the disk, and a sync alone does not bring it
        // there, since it counts as clean.
        let mut bytes = vec![0; count * ENTRY];
        let read = file.read(0, &mut bytes).and_then(|_| file.write(0, &bytes));
        read.and_then(|()| file.sync()).map_err(broken)?;
        if self.lie == Lie::DropsTheLast {
            count = count.saturating_sub(1);
        }
        tape.calls.truncate(count);
        tape.openings += 1;
        let time = FakeClock::at(Time::ZERO);
        let memory = Memory::new(Arc::new(time.clone()));
        let mut last = (0, 0);
        for (at, verb) in &tape.calls {
            time.set(*at);
            last = redo(&memory, verb.clone(), self.lie, last);
        }
        let (last_id, last_delivery) = last;
        tape.epochs.retain(|(first, _)| *first <= last_delivery);
        let epoch = if self.lie == Lie::RepeatsDeliveries { 1 } else { tape.openings };
        tape.epochs.push((last_delivery + 1, epoch));
        let progress = Progress { durable: count, last_id, durable_id: last_id, gave_up: false };
        let (tape, lie) = (Arc::clone(&self.tape), self.lie);
        let progress = Mutex::new(progress);
        let store = Arc::new(Journaled { memory, time, clock, tape, file, progress, epoch, lie });
        Ok(Running::new(Arc::clone(&store) as _, store))
    }

    fn survives(&self) -> bool {
        true
    }
}

/// How many calls count: entries in a row, none of an earlier opening than the one before it.
fn count(file: &dyn File, most: usize) -> std::io::Result<usize> {
    let mut bytes = vec![0; most * ENTRY];
    let there = file.read(0, &mut bytes)?;
    let mut before = 1;
    let entries = bytes[..there].chunks_exact(ENTRY).enumerate();
    let good = entries.take_while(|(place, entry)| {
        let number = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().expect("eight"));
        let (index, opening) = (number(0), number(8));
        let holds = index == *place as u64 + 1 && opening >= before;
        before = opening;
        holds
    });
    Ok(good.count())
}

fn redo(memory: &Memory, verb: Verb, lie: Lie, last: (u64, u64)) -> (u64, u64) {
    let (mut id, mut delivery) = last;
    match verb {
        Verb::Push(mut batch) => {
            if lie == Lie::TearsBatches && batch.jobs.len() > 1 && batch.groups.is_empty() {
                batch.jobs.remove(0);
            }
            let pushes = now(memory.push(batch)).map(Committed::into_inner);
            let ids = pushes.iter().flat_map(|pushes| &pushes.jobs).filter_map(|job| job.id());
            id = ids.map(|id| id.0).max().unwrap_or(id).max(id);
        }
        Verb::Claim(ask) => {
            let claimed = now(memory.claim(ask));
            let jobs = claimed.iter().flat_map(|claimed| &claimed.jobs);
            delivery = jobs.map(|job| job.live.delivery.0).max().unwrap_or(delivery);
        }
        Verb::Renew(leases) => drop(now(memory.renew(leases))),
        Verb::Apply(writes) => drop(now(memory.apply(writes))),
        Verb::Promote(n) => drop(now(memory.promote(n))),
        Verb::Prune(n) => drop(now(memory.prune(n))),
        Verb::Lead(duty, node, span) => drop(now(memory.lead(duty, node, span))),
        Verb::Note(notes) => drop(now(memory.note(notes))),
        Verb::Define(definitions) => drop(now(memory.define(definitions))),
    }
    (id, delivery)
}

/// The answer of a store that never makes one wait.
pub(super) fn now<T>(mut answer: Answer<'_, T>) -> Result<T, Error> {
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the memory store answers at once"),
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics with it")
}

impl Journaled {
    /// Makes a call, and gives its place among all.
    pub(super) fn call<'a, T>(
        &'a self,
        verb: Verb,
        make: impl FnOnce(&'a Memory) -> Answer<'a, T>,
    ) -> Result<(usize, T), Error> {
        if lock(&self.progress).gave_up {
            return Err(Error::Poisoned);
        }
        self.set_time();
        let mut tape = lock(&self.tape);
        tape.calls.push((self.time.now(), verb));
        let place = tape.calls.len();
        drop(tape);
        Ok((place, now(make(&self.memory))?))
    }

    /// The store's time never runs backwards.
    pub(super) fn set_time(&self) {
        let last = lock(&self.tape).calls.last().map(|(at, _)| *at).unwrap_or_default();
        self.time.set(self.clock.now().max(last).max(self.time.now()));
    }

    /// Waits until the call at a place is durable.
    pub(super) async fn durable(&self, place: usize) -> Result<(), Error> {
        std::future::poll_fn(|context| {
            let progress = lock(&self.progress);
            if progress.durable >= place || self.lie == Lie::AnswersEarly {
                Poll::Ready(Ok(()))
            } else if progress.gave_up {
                Poll::Ready(Err(Error::Poisoned))
            } else {
                // It has no list of those who wait: each looks whenever he is let.
                context.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await
    }

    pub(super) fn heard_of(&self, id: u64) {
        let mut progress = lock(&self.progress);
        progress.last_id = progress.last_id.max(id);
    }

    /// A claim waits only for jobs that are not durable themselves.
    pub(super) async fn claimed(&self, claimed: &Claimed, place: usize) -> Result<(), Error> {
        let durable = lock(&self.progress).durable_id;
        if claimed.jobs.iter().all(|job| job.id.0 <= durable) {
            return Ok(());
        }
        self.durable(place).await
    }

    /// A delivery as others see it: no two openings give out the same.
    pub(super) fn outward(&self, inner: Delivery) -> Delivery {
        let tape = lock(&self.tape);
        let epoch = tape.epochs.iter().rev().find(|(first, _)| *first <= inner.0);
        Delivery(if inner.0 == 0 { 0 } else { epoch.map_or(0, |(_, epoch)| epoch << 32) | inner.0 })
    }

    pub(super) fn inward(&self, outer: Delivery) -> Delivery {
        let inner = Delivery(outer.0 & 0xffff_ffff);
        if self.outward(inner) == outer { inner } else { Delivery(u64::MAX) }
    }

    pub(super) fn shown(&self, mut job: Job) -> Job {
        job.live.delivery = self.outward(job.live.delivery);
        for attempt in &mut job.live.history {
            attempt.delivery = self.outward(attempt.delivery);
        }
        job
    }
}

impl Loops for Journaled {
    fn commit_once(&self) -> Result<bool, Error> {
        let made = lock(&self.tape).calls.len();
        let mut progress = lock(&self.progress);
        if progress.gave_up || progress.durable == made {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        for place in progress.durable..made {
            bytes.extend((place as u64 + 1).to_le_bytes());
            bytes.extend(self.epoch.to_le_bytes());
        }
        let written = self.file.write((progress.durable * ENTRY) as u64, &bytes);
        let synced = written.and_then(|()| match self.lie {
            Lie::NeverSyncs => Ok(()),
            _ => self.file.sync(),
        });
        if synced.is_err() && self.lie != Lie::ForgivesErrors {
            progress.gave_up = true;
            return Err(Error::Poisoned);
        }
        (progress.durable, progress.durable_id) = (made, progress.last_id);
        Ok(true)
    }

    fn keep_once(&self) -> Result<bool, Error> {
        Ok(false)
    }
}
