//! The simplest durable store: it keeps every call in memory, records on the disk which of them are durable,
//! and replays those when it is opened. It shows that a correct store passes the simulator, and that each
//! planted bug fails it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use crore_conformance::simulation::{OpenStore, SimConfig, SimulatedStore, StoreLoops};
use crore_core::{Batch, Clock, Delivery, EventCaps, Job, Name, NewEvent, Span, Time};
use crore_store::embedded::disk::{Disk, DiskFile, OpenMode};
use crore_store::jobs::{Claim, Claimed, Renew, StoreWrite};
use crore_store::registry::Define;
use crore_store::views::Note;
use crore_store::{Committed, Error, Events, Jobs, Memory, Registry, StoreFuture, Upkeep, Views};
use crore_testkit::FakeClock;

/// The bug of a journal store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JournalBug {
    Nothing,
    /// Responds before anything is durable.
    AnswersEarly,
    /// Writes, but does not sync.
    NeverSyncs,
    /// Reuses delivery numbers that a crash lost.
    RepeatsDeliveries,
    /// Continues after a disk error.
    ForgivesErrors,
    /// Drops the last durable call when it opens.
    DropsTheLast,
    /// Omits the first job of a replayed batch.
    TearsBatches,
}

/// A call that changes the store.
#[derive(Debug, Clone)]
pub(super) enum Verb {
    Push(Batch),
    Claim(Claim),
    Renew(Vec<Renew>),
    Apply(Vec<StoreWrite>),
    Promote(usize),
    Prune(usize),
    Lead(Name, u64, Span),
    Note(Vec<Note>),
    Define(Vec<Define>),
    Send(NewEvent, EventCaps),
    Release(usize),
    RemoveEvent(Name),
}

/// The calls, in order. After a crash, only those that the disk records as durable are kept.
#[derive(Debug, Default)]
struct JournalCalls {
    calls: Vec<(Time, Verb)>,
    /// For each opening, its first delivery number.
    epochs: Vec<(u64, u64)>,
    openings: u64,
}

/// The store as the simulator opens it.
#[derive(Debug)]
pub(super) struct JournalStore {
    journal: Arc<Mutex<JournalCalls>>,
    bug: JournalBug,
}

impl JournalStore {
    pub(super) fn new(bug: JournalBug) -> Self {
        Self { journal: Arc::default(), bug }
    }
}

/// The open store.
#[derive(Debug)]
pub(super) struct OpenJournal {
    pub(super) memory: Memory,
    /// The memory store's clock, set to the time of each call.
    time: FakeClock,
    clock: Arc<dyn Clock>,
    journal: Arc<Mutex<JournalCalls>>,
    file: Arc<dyn DiskFile>,
    pub(super) progress: Mutex<Progress>,
    epoch: u64,
    bug: JournalBug,
}

#[derive(Debug, Default)]
pub(super) struct Progress {
    durable: usize,
    last_id: u64,
    durable_id: u64,
    gave_up: bool,
}

const ENTRY: usize = 16;

impl SimulatedStore for JournalStore {
    fn open(
        &mut self,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        _: &SimConfig,
    ) -> Result<OpenStore, Error> {
        let broken = |error| Error::Unavailable(Box::new(error));
        let file = disk.open("journal", OpenMode::Create).map_err(broken)?;
        let mut journal = lock(&self.journal);
        let mut count = count(&*file, journal.calls.len()).map_err(broken)?;
        // After a failed sync, data that can be read may not be on the disk. Another sync would not write it,
        // because its pages count as clean. So it is written again first.
        let mut bytes = vec![0; count * ENTRY];
        let read = file.read(0, &mut bytes).and_then(|_| file.write(0, &bytes));
        read.and_then(|()| file.sync()).map_err(broken)?;
        if self.bug == JournalBug::DropsTheLast {
            count = count.saturating_sub(1);
        }
        journal.calls.truncate(count);
        journal.openings += 1;
        let time = FakeClock::at(Time::ZERO);
        let memory = Memory::new(Arc::new(time.clone()));
        let mut last = (0, 0);
        for (at, verb) in &journal.calls {
            time.set(*at);
            last = replay(&memory, verb.clone(), self.bug, last);
        }
        let (last_id, last_delivery) = last;
        journal.epochs.retain(|(first, _)| *first <= last_delivery);
        let epoch = if self.bug == JournalBug::RepeatsDeliveries { 1 } else { journal.openings };
        journal.epochs.push((last_delivery + 1, epoch));
        let progress = Progress { durable: count, last_id, durable_id: last_id, gave_up: false };
        let (journal, bug) = (Arc::clone(&self.journal), self.bug);
        let progress = Mutex::new(progress);
        let store =
            Arc::new(OpenJournal { memory, time, clock, journal, file, progress, epoch, bug });
        Ok(OpenStore::new(Arc::clone(&store) as _, store))
    }

    fn survives_crash(&self) -> bool {
        true
    }
}

/// Number of durable calls: consecutive entries, none from an earlier opening than its predecessor.
fn count(file: &dyn DiskFile, max: usize) -> std::io::Result<usize> {
    let mut bytes = vec![0; max * ENTRY];
    let length = file.read(0, &mut bytes)?;
    let mut before = 1;
    let entries = bytes[..length].chunks_exact(ENTRY).enumerate();
    let good = entries.take_while(|(position, entry)| {
        let number = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().expect("eight"));
        let (index, opening) = (number(0), number(8));
        let holds = index == *position as u64 + 1 && opening >= before;
        before = opening;
        holds
    });
    Ok(good.count())
}

fn replay(memory: &Memory, verb: Verb, bug: JournalBug, last: (u64, u64)) -> (u64, u64) {
    let (mut id, mut delivery) = last;
    match verb {
        Verb::Push(mut batch) => {
            if bug == JournalBug::TearsBatches && batch.jobs.len() > 1 && batch.groups.is_empty() {
                batch.jobs.remove(0);
            }
            let pushes = poll_once(memory.push(batch)).map(Committed::into_inner);
            let ids = pushes.iter().flat_map(|pushes| &pushes.jobs).filter_map(|job| job.id());
            id = ids.map(|id| id.0).max().unwrap_or(id).max(id);
        }
        Verb::Claim(request) => {
            let claimed = poll_once(memory.claim(request));
            let jobs = claimed.iter().flat_map(|claimed| &claimed.jobs);
            delivery = jobs.map(|job| job.live.delivery.0).max().unwrap_or(delivery);
        }
        Verb::Renew(leases) => drop(poll_once(memory.renew(leases))),
        Verb::Apply(writes) => drop(poll_once(memory.apply(writes))),
        Verb::Promote(n) => drop(poll_once(memory.promote(n))),
        Verb::Prune(n) => drop(poll_once(memory.prune(n))),
        Verb::Lead(duty, node, span) => drop(poll_once(memory.lead(duty, node, span))),
        Verb::Note(notes) => drop(poll_once(memory.note(notes))),
        Verb::Define(definitions) => drop(poll_once(memory.define(definitions))),
        Verb::Send(event, caps) => drop(poll_once(memory.send(event, caps))),
        Verb::Release(n) => drop(poll_once(memory.release(n))),
        Verb::RemoveEvent(name) => drop(poll_once(memory.remove_event(name))),
    }
    (id, delivery)
}

/// The response of a store that never waits.
pub(super) fn poll_once<T>(mut future: StoreFuture<'_, T>) -> Result<T, Error> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the memory store responds at once"),
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no code panics under this lock")
}

impl OpenJournal {
    /// Makes a call, and returns its position.
    pub(super) fn call<'a, T>(
        &'a self,
        verb: Verb,
        make: impl FnOnce(&'a Memory) -> StoreFuture<'a, T>,
    ) -> Result<(usize, T), Error> {
        if lock(&self.progress).gave_up {
            return Err(Error::Poisoned);
        }
        self.set_time();
        let mut journal = lock(&self.journal);
        journal.calls.push((self.time.now(), verb));
        let position = journal.calls.len();
        drop(journal);
        Ok((position, poll_once(make(&self.memory))?))
    }

    /// The store's time never goes back.
    pub(super) fn set_time(&self) {
        let last = lock(&self.journal).calls.last().map(|(at, _)| *at).unwrap_or_default();
        self.time.set(self.clock.now().max(last).max(self.time.now()));
    }

    /// Waits until the call at a position is durable.
    pub(super) async fn durable(&self, position: usize) -> Result<(), Error> {
        std::future::poll_fn(|context| {
            let progress = lock(&self.progress);
            if progress.durable >= position || self.bug == JournalBug::AnswersEarly {
                Poll::Ready(Ok(()))
            } else if progress.gave_up {
                Poll::Ready(Err(Error::Poisoned))
            } else {
                // The store has no list of waiters: each polls again.
                context.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await
    }

    pub(super) fn note_id(&self, id: u64) {
        let mut progress = lock(&self.progress);
        progress.last_id = progress.last_id.max(id);
    }

    /// A claim waits only for jobs that are not durable themselves.
    pub(super) async fn claimed(&self, claimed: &Claimed, position: usize) -> Result<(), Error> {
        let durable = lock(&self.progress).durable_id;
        if claimed.jobs.iter().all(|job| job.id.0 <= durable) {
            return Ok(());
        }
        self.durable(position).await
    }

    /// A delivery as callers see it: no two openings use the same number.
    pub(super) fn outward(&self, inner: Delivery) -> Delivery {
        let journal = lock(&self.journal);
        let epoch = journal.epochs.iter().rev().find(|(first, _)| *first <= inner.0);
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

impl StoreLoops for OpenJournal {
    fn commit_once(&self) -> Result<bool, Error> {
        let calls = lock(&self.journal).calls.len();
        let mut progress = lock(&self.progress);
        if progress.gave_up || progress.durable == calls {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        for index in progress.durable..calls {
            bytes.extend((index as u64 + 1).to_le_bytes());
            bytes.extend(self.epoch.to_le_bytes());
        }
        let written = self.file.write((progress.durable * ENTRY) as u64, &bytes);
        let synced = written.and_then(|()| match self.bug {
            JournalBug::NeverSyncs => Ok(()),
            _ => self.file.sync(),
        });
        if synced.is_err() && self.bug != JournalBug::ForgivesErrors {
            progress.gave_up = true;
            return Err(Error::Poisoned);
        }
        (progress.durable, progress.durable_id) = (calls, progress.last_id);
        Ok(true)
    }

    fn keep_once(&self) -> Result<bool, Error> {
        Ok(false)
    }
}
