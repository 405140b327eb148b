//! Disks that take nothing more: full ones, and broken ones.

use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::sync::Arc;

use crore_core::Job;
use crore_core::machine::{Event, Outcome, decide};
use crore_store::embedded::{Embedded, Options};
use crore_store::jobs::{Applied, Claim, Order, Pushed, Write};
use crore_store::{Error, Jobs, SystemClock, Upkeep};
use crore_testkit::eventually;

use super::draft::{QUEUES, Sort, Tag, name};
use super::dump::Dump;
use super::ledger::{Broken, Ledger, Tally};
use super::said::Said;
use super::wait::{LIMIT, wait};
use crore_testkit::mount::Mounts;

/// More than any disk here holds.
const MOST: u32 = 100_000;

/// Why a verb has no answer.
#[derive(Debug)]
enum Failed {
    Store(Error),
    Broken(Broken),
}

/// Fills a small disk, ends everything while it is full, and fills it again; the store is opened anew
/// all the time.
pub(crate) fn fill(dir: &Path, segment_bytes: u64, sort: Sort) -> Result<Tally, Broken> {
    let mut desk = Desk::open(dir, segment_bytes, sort)?;
    for fill in 0..2 {
        expect_full(desk.push_until_refused()?)?;
        for _ in 0..5 {
            desk.reopen()?;
        }
        desk.end_all().map_err(|why| format!("fill {fill}, with the disk full: {why}"))?;
        desk.reopen()?;
    }
    // Room comes back when the keeper has given up what is not needed any more.
    eventually(LIMIT, || desk.push().map_err(|why| why.to_string()));
    Ok(desk.ledger.tally)
}

fn expect_full(error: Error) -> Result<(), Broken> {
    match error {
        Error::Full { .. } => Ok(()),
        other => Err(format!("a full disk gave {other:?}")),
    }
}

/// Pushes until the disk fails: nothing is answered well from then on, and on a disk that works again
/// all that was is there.
pub(crate) fn wear_out(mounts: &Mounts) -> Result<Tally, Broken> {
    let dir = mounts.inner().join("store");
    let mut desk = Desk::open(&dir, 1 << 20, Sort::Member)?;
    let failed = desk.push_until_refused()?;
    if !matches!(failed, Error::Poisoned | Error::Unavailable(_)) {
        return Err(format!("a broken disk gave {failed:?}"));
    }
    for _ in 0..100 {
        match desk.push() {
            Err(Failed::Store(Error::Poisoned)) => {}
            Err(Failed::Broken(broken)) => return Err(broken),
            other => return Err(format!("a store that has given up answers {other:?} (I23)")),
        }
    }
    match desk.claim(1) {
        Err(Failed::Store(Error::Poisoned)) => {}
        other => return Err(format!("a store that has given up answers {other:?} (I23)")),
    }
    drop(desk.store.take());
    mounts.unmount()?;
    mounts.grow(128 << 10)?;
    mounts.mount()?;
    desk.reopen()?;
    desk.end_all().map_err(|why| why.to_string())?;
    desk.reopen()?;
    Ok(desk.ledger.tally)
}

/// A store in one hand, and what it was told.
struct Desk<'a> {
    dir: &'a Path,
    options: Options,
    store: Option<Embedded>,
    ledger: Ledger,
    next: Tag,
    writes: u64,
}

impl<'a> Desk<'a> {
    fn open(dir: &'a Path, segment_bytes: u64, sort: Sort) -> Result<Self, Broken> {
        let options = Options { segment_bytes, ..Options::default() };
        let (ledger, next) = (Ledger::default(), Tag::first(1, 0, sort));
        let mut desk = Self { dir, options, store: None, ledger, next, writes: 0 };
        desk.reopen()?;
        Ok(desk)
    }

    fn store(&self) -> &Embedded {
        self.store.as_ref().expect("open")
    }

    /// Opens the store anew, and looks at everything in it.
    fn reopen(&mut self) -> Result<(), Broken> {
        drop(self.store.take());
        let store = Embedded::open(self.dir, Arc::new(SystemClock), self.options);
        let store = store.map_err(|error| format!("the store does not open: {error:?}"))?;
        let dump = Dump::of(&store).map_err(|error| format!("no look: {error:?}"))?;
        self.ledger.check(&dump)?;
        self.store = Some(store);
        Ok(())
    }

    /// Pushes one job.
    fn push(&mut self) -> Result<(), Failed> {
        let tag = self.next;
        self.next = tag.plus(1);
        self.ledger.hear(&Said::Push(tag, 1))?;
        match wait(self.store().push(tag.draft().into())) {
            Ok(pushed) => {
                let id = |pushed: &Pushed| pushed.id().map(|id| (id.0, true));
                let ids = pushed.get().jobs.iter().filter_map(id).collect();
                Ok(self.ledger.hear(&Said::Pushed(tag, ids))?)
            }
            Err(error @ Error::Full { .. }) => {
                self.ledger.hear(&Said::Refused(tag))?;
                Err(Failed::Store(error))
            }
            Err(error) => Err(Failed::Store(error)),
        }
    }

    /// Pushes until it is refused, and gives why.
    fn push_until_refused(&mut self) -> Result<Error, Broken> {
        for _ in 0..MOST {
            match self.push() {
                Ok(()) => {}
                Err(Failed::Store(error)) => return Ok(error),
                Err(Failed::Broken(broken)) => return Err(broken),
            }
        }
        Err(format!("{MOST} pushes found room where there is none"))
    }

    fn claim(&mut self, n: usize) -> Result<Vec<Job>, Failed> {
        let queues = QUEUES.map(name).to_vec();
        let ask = Claim { queues, kinds: None, n, order: Order::Merged, worker: name("desk") };
        let claim = || match wait(self.store().claim(ask.clone())) {
            Err(Error::Full { what }) => Err(what),
            answer => Ok(answer),
        };
        let claimed = eventually(LIMIT, claim)?;
        for job in &claimed.jobs {
            let tag = Tag::of(job).ok_or_else(|| "a job has lost its tag".to_owned())?;
            let (delivery, attempt) = (job.live.delivery.0, job.live.attempt);
            self.ledger.hear(&Said::Grant(tag, job.id.0, delivery, attempt))?;
        }
        Ok(claimed.jobs)
    }

    /// Ends a job, and it is gone.
    fn end(&mut self, job: &Job, event: &Event) -> Result<(), Failed> {
        let tag = Tag::of(job).ok_or_else(|| "a job has lost its tag".to_owned())?;
        let change = decide(job, event, 0).map_err(|why| format!("{tag:?}: {why:?}"))?;
        let to = super::hand::leads_to(&change);
        self.writes += 1;
        self.ledger.hear(&Said::Write(self.writes, tag, change.seen.delivery.0, to))?;
        let write = || match wait(self.store().apply(vec![Write::Job(change.clone())])) {
            // The keeper is behind, and will make room.
            Err(Error::Full { what }) => Err(what),
            answer => Ok(answer),
        };
        let applied = eventually(LIMIT, write)?;
        let applied = applied.get().iter().all(|applied| matches!(applied, Applied::Yes(_)));
        Ok(self.ledger.hear(&Said::Wrote(self.writes, applied))?)
    }

    /// Ends every job that there is: some are done, some are deleted.
    fn end_all(&mut self) -> Result<(), Failed> {
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
                let done = Event::Finished { delivery: Some(job.live.delivery), report };
                self.end(job, &done)?;
                let left = wait(self.store().get(vec![job.id.into()]))?;
                for job in left.iter().flatten() {
                    self.end(job, &Event::Delete)?;
                }
            }
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<Broken> for Failed {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl Display for Failed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "{error:?}"),
            Self::Broken(broken) => f.write_str(broken),
        }
    }
}
