//! Full and failing disks.

use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::sync::Arc;

use crore_core::Job;
use crore_core::machine::{JobEvent, Outcome, decide};
use crore_core::version::KindVersions;
use crore_store::embedded::{Embedded, Options};
use crore_store::jobs::{Applied, Claim, Pushed, QueueOrder, StoreWrite};
use crore_store::{Error, Jobs, SystemClock, Upkeep};
use crore_testkit::eventually;

use super::draft::{DraftKind, QUEUES, Tag, name};
use super::dump::Dump;
use super::ledger::{BrokenPromise, EventTally, JobLedger};
use super::message::ChildMessage;
use super::wait::{LIMIT, wait};
use crore_testkit::mount::Mounts;

/// More pushes than any disk here can hold.
const MOST: u32 = 100_000;

/// Why an operation failed.
#[derive(Debug)]
enum OperationFailed {
    Store(Error),
    Broken(BrokenPromise),
}

/// Fills a small disk, ends all jobs while it is full, and fills it again, reopening the store
/// often.
pub(crate) fn fill(
    dir: &Path,
    segment_bytes: u64,
    kind: DraftKind,
) -> Result<EventTally, BrokenPromise> {
    let mut filled = FilledStore::open(dir, segment_bytes, kind)?;
    for fill in 0..2 {
        expect_full(filled.push_until_refused()?)?;
        for _ in 0..5 {
            filled.reopen()?;
        }
        filled.end_all().map_err(|why| format!("fill {fill}, with the disk full: {why}"))?;
        filled.reopen()?;
    }
    // Space returns after the keeper has released unneeded segments.
    eventually(LIMIT, || filled.push().map_err(|why| why.to_string()));
    Ok(filled.ledger.tally)
}

fn expect_full(error: Error) -> Result<(), BrokenPromise> {
    match error {
        Error::Full { .. } => Ok(()),
        other => Err(format!("a full disk gave {other:?}")),
    }
}

/// Pushes until the disk fails: nothing is acknowledged afterwards, and once the disk works again,
/// the store has every acknowledged push.
pub(crate) fn push_until_disk_fails(mounts: &Mounts) -> Result<EventTally, BrokenPromise> {
    let dir = mounts.inner().join("store");
    let mut filled = FilledStore::open(&dir, 1 << 20, DraftKind::Member)?;
    let failed = filled.push_until_refused()?;
    if !matches!(failed, Error::Poisoned | Error::Unavailable(_)) {
        return Err(format!("a broken disk gave {failed:?}"));
    }
    for _ in 0..100 {
        match filled.push() {
            Err(OperationFailed::Store(Error::Poisoned)) => {}
            Err(OperationFailed::Broken(broken)) => return Err(broken),
            other => return Err(format!("a store that has given up answers {other:?} (I23)")),
        }
    }
    match filled.claim(1) {
        Err(OperationFailed::Store(Error::Poisoned)) => {}
        other => return Err(format!("a store that has given up answers {other:?} (I23)")),
    }
    drop(filled.store.take());
    mounts.unmount()?;
    mounts.grow(128 << 10)?;
    mounts.mount()?;
    filled.reopen()?;
    filled.end_all().map_err(|why| why.to_string())?;
    filled.reopen()?;
    Ok(filled.ledger.tally)
}

/// A store used by one thread, and the ledger of its responses.
struct FilledStore<'a> {
    dir: &'a Path,
    options: Options,
    store: Option<Embedded>,
    ledger: JobLedger,
    next: Tag,
    writes: u64,
}

impl<'a> FilledStore<'a> {
    fn open(dir: &'a Path, segment_bytes: u64, kind: DraftKind) -> Result<Self, BrokenPromise> {
        let options = Options { segment_bytes, ..Options::default() };
        let (ledger, next) = (JobLedger::default(), Tag::first(1, 0, kind));
        let mut filled = Self { dir, options, store: None, ledger, next, writes: 0 };
        filled.reopen()?;
        Ok(filled)
    }

    fn store(&self) -> &Embedded {
        self.store.as_ref().expect("open")
    }

    /// Reopens the store and checks its content.
    fn reopen(&mut self) -> Result<(), BrokenPromise> {
        drop(self.store.take());
        let store = Embedded::open(self.dir, Arc::new(SystemClock), self.options.clone());
        let store = store.map_err(|error| format!("the store does not open: {error:?}"))?;
        let dump = Dump::of(&store).map_err(|error| format!("no look: {error:?}"))?;
        self.ledger.check(&dump)?;
        self.store = Some(store);
        Ok(())
    }

    /// Pushes one job.
    fn push(&mut self) -> Result<(), OperationFailed> {
        let tag = self.next;
        self.next = tag.plus(1);
        self.ledger.record(&ChildMessage::Push(tag, 1))?;
        match wait(self.store().push(tag.draft().into())) {
            Ok(pushed) => {
                let id = |pushed: &Pushed| pushed.id().map(|id| (id.0, true));
                let ids = pushed.get().jobs.iter().filter_map(id).collect();
                Ok(self.ledger.record(&ChildMessage::Pushed(tag, ids))?)
            }
            Err(error @ Error::Full { .. }) => {
                self.ledger.record(&ChildMessage::Refused(tag))?;
                Err(OperationFailed::Store(error))
            }
            Err(error) => Err(OperationFailed::Store(error)),
        }
    }

    /// Pushes until a push fails, and returns the error.
    fn push_until_refused(&mut self) -> Result<Error, BrokenPromise> {
        for _ in 0..MOST {
            match self.push() {
                Ok(()) => {}
                Err(OperationFailed::Store(error)) => return Ok(error),
                Err(OperationFailed::Broken(broken)) => return Err(broken),
            }
        }
        Err(format!("{MOST} pushes found room where there is none"))
    }

    fn claim(&mut self, n: usize) -> Result<Vec<Job>, OperationFailed> {
        let queues = QUEUES.map(name).to_vec();
        let ask = Claim {
            queues,
            kinds: None,
            versions: KindVersions::default(),
            n,
            order: QueueOrder::Merged,
            worker: name("filled"),
        };
        let claim = || match wait(self.store().claim(ask.clone())) {
            Err(Error::Full { what }) => Err(what),
            answer => Ok(answer),
        };
        let claimed = eventually(LIMIT, claim)?;
        for job in &claimed.jobs {
            let tag = Tag::of(job).ok_or_else(|| "a job has lost its tag".to_owned())?;
            let (delivery, attempt) = (job.live.delivery.0, job.live.attempt);
            self.ledger.record(&ChildMessage::Grant(tag, job.id.0, delivery, attempt))?;
        }
        Ok(claimed.jobs)
    }

    /// Applies an event that ends or deletes a job, and records it.
    fn end(&mut self, job: &Job, event: &JobEvent) -> Result<(), OperationFailed> {
        let tag = Tag::of(job).ok_or_else(|| "a job has lost its tag".to_owned())?;
        let change = decide(job, event, 0).map_err(|why| format!("{tag:?}: {why:?}"))?;
        let to = super::worker::write_target(&change);
        self.writes += 1;
        self.ledger.record(&ChildMessage::Write(self.writes, tag, change.seen.delivery.0, to))?;
        let write = || match wait(self.store().apply(vec![StoreWrite::Job(change.clone())])) {
            // The keeper has fallen behind and will make room.
            Err(Error::Full { what }) => Err(what),
            answer => Ok(answer),
        };
        let applied = eventually(LIMIT, write)?;
        let applied = applied.get().iter().all(|applied| matches!(applied, Applied::Yes(_)));
        Ok(self.ledger.record(&ChildMessage::Wrote(self.writes, applied))?)
    }

    /// Ends every job: some are done, some deleted.
    fn end_all(&mut self) -> Result<(), OperationFailed> {
        loop {
            let jobs = self.claim(10)?;
            if jobs.is_empty() {
                let promoted = wait(self.store().promote(1000))?;
                if promoted.count == 0 && promoted.next_at.is_none() {
                    return Ok(());
                }
            }
            for job in &jobs {
                let outcome = Outcome::Done { result: Tag::of(job).map(Tag::result) };
                let report = outcome.into();
                let done = JobEvent::Finished { delivery: Some(job.live.delivery), report };
                self.end(job, &done)?;
                let left = wait(self.store().get(vec![job.id.into()]))?;
                for job in left.iter().flatten() {
                    self.end(job, &JobEvent::Delete)?;
                }
            }
        }
    }
}

impl From<Error> for OperationFailed {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<BrokenPromise> for OperationFailed {
    fn from(broken: BrokenPromise) -> Self {
        Self::Broken(broken)
    }
}

impl Display for OperationFailed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "{error:?}"),
            Self::Broken(broken) => f.write_str(broken),
        }
    }
}
