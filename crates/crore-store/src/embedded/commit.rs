//! The committer: one commit after the other, each with one write and one sync.

use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crore_core::Time;

use super::disk::File;
use super::inner::{Inner, Sleep, State};
use super::options::Durability;
use super::recover::hint_name;
use super::segment;
use super::tail::Flight;
use crate::Error;
use crate::bug::planted;

/// How long what nobody waits for may wait for company.
const LAZY_FOR: Duration = Duration::from_millis(2);

/// What only a person will ever look at: nothing is decided by it.
#[expect(clippy::disallowed_methods, reason = "how long a disk takes is no business of the clock")]
fn now_for_people() -> Instant {
    Instant::now()
}

/// What only the committer knows.
#[derive(Debug, Default)]
pub(crate) struct Pen {
    /// The file in which something is not synced, and the newest commit in it.
    dirty: Option<(Arc<dyn File>, u32, u64)>,
    synced_at: Time,
}

/// A thread that panics ends the store, or callers would wait for it for ever.
#[derive(Debug)]
pub(crate) struct Fuse<'a>(pub(crate) &'a Inner);

impl Drop for Fuse<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison("a thread of the store panicked");
        }
    }
}

fn not_written(error: &io::Error) -> String {
    format!("the log cannot be written: {}", whole(error))
}

/// An error with all that caused it.
pub(crate) fn whole(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Whether a commit waits for its time to be synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    AsUsual,
    Now,
}

impl Inner {
    /// Writes and syncs what was gathered so far; says whether there was anything to do.
    ///
    /// A write or a sync that fails ends the store: what the disk holds is not known then, and a
    /// second sync that succeeds would prove nothing.
    pub(crate) fn commit_once(&self, sync: Sync) -> Result<bool, Error> {
        let mut pen = self.pen.lock().map_err(|_| Error::Poisoned)?;
        let (flight, now) = self.launch()?;
        let begun = now_for_people();
        let did = flight.as_deref().map_or(Ok(()), |flight| self.write(&mut pen, flight));
        let did = did.and_then(|()| self.sync_if_due(&mut pen, sync, now));
        let synced = did.map_err(|error| {
            self.poison(&not_written(&error));
            Error::Unavailable(Box::new(error))
        })?;
        let Some(flight) = flight else { return Ok(synced) };
        self.pulse.beat(begun.elapsed(), flight.bytes.len());
        self.durable.publish(flight.commit);
        self.hooks.call(&flight.woken);
        Ok(true)
    }

    fn launch(&self) -> Result<(Option<Arc<Flight>>, Time), Error> {
        let mut state = self.lock()?;
        let last = state.last;
        let is_full = state.full.is_some();
        let flight = state.launch(self.durable.synced(), last, is_full);
        state.waited = false;
        if state.keeper == Sleep::Idle && self.has_keeping(&state) {
            state.keeper = Sleep::Awake;
            self.to_keep.notify_one();
        }
        Ok((flight, last))
    }

    fn write(&self, pen: &mut Pen, flight: &Flight) -> io::Result<()> {
        // What is in a later file is only there if the earlier ones are whole.
        if pen.dirty.as_ref().is_some_and(|(_, segment, _)| *segment != flight.segment) {
            self.sync(pen)?;
        }
        if let Err(error) = flight.file.write(flight.at, &flight.bytes) {
            self.shed_reserve(error)?;
            flight.file.write(flight.at, &flight.bytes)?;
        }
        pen.dirty = Some((Arc::clone(&flight.file), flight.segment, flight.commit));
        Ok(())
    }

    /// Gives the reserve back to the file system, if a file had to grow and others have filled the disk.
    /// Files are left before they have to: this is for the verb that wrote far more than could be seen
    /// before. Nothing is synced yet, so that the frame may be written again.
    fn shed_reserve(&self, error: io::Error) -> io::Result<()> {
        if error.kind() != io::ErrorKind::StorageFull {
            return Err(error);
        }
        let reserve = {
            let mut state = self.lock().map_err(|_| error.kind())?;
            state.full = Some(error.to_string());
            state.local.records_mut().reserve.take()
        };
        let Some(reserve) = reserve else { return Err(error) };
        self.disk.remove(&segment::name(reserve.name))?;
        self.disk.remove(&hint_name(reserve.segment))
    }

    fn sync(&self, pen: &mut Pen) -> io::Result<()> {
        if let Some((file, _, commit)) = &pen.dirty {
            if !planted!("bug-11") {
                file.sync()
                    .or_else(|error| if planted!("bug-18") { Ok(()) } else { Err(error) })?;
            }
            self.durable.note_synced(*commit);
        }
        pen.dirty = None;
        Ok(())
    }

    /// Makes everything durable that was gathered before this call, and looks at the log while nothing
    /// is on its way to the disk.
    pub(crate) fn settled<T>(&self, look: impl FnOnce(&mut State) -> T) -> Result<T, Error> {
        self.commit_once(Sync::Now)?;
        let mut pen = self.pen.lock().map_err(|_| Error::Poisoned)?;
        self.sync(&mut pen).map_err(|error| {
            self.poison(&not_written(&error));
            Error::Unavailable(Box::new(error))
        })?;
        let mut state = self.lock()?;
        Ok(look(&mut state))
    }

    /// Syncs if it is time to; says whether it was.
    fn sync_if_due(&self, pen: &mut Pen, sync: Sync, now: Time) -> io::Result<bool> {
        let due = match (sync, self.options.durability) {
            (Sync::Now, _) | (_, Durability::Always) => true,
            (_, Durability::Interval) => {
                pen.synced_at.after(self.options.sync_every) <= self.clock.now().max(now)
            }
            (_, Durability::None) => false,
        };
        if !due || pen.dirty.is_none() {
            return Ok(false);
        }
        pen.synced_at = now;
        self.sync(pen).map(|()| true)
    }

    /// The committer's thread.
    pub(crate) fn commit_until_stopped(&self) {
        let _fuse = Fuse(self);
        while self.wait_for_commit().is_some() {
            // Whoever has something to add and could run does so first: groups are larger then.
            std::thread::yield_now();
            if let Err(error) = self.commit_once(Sync::AsUsual) {
                return self.poison(&whole(&error));
            }
        }
    }

    /// Waits until there is something to commit; `None`: the store is to end.
    fn wait_for_commit(&self) -> Option<()> {
        let mut state = self.lock().ok()?;
        // Another may have taken what one was woken for: whoever goes on sleeping says so each time.
        let idle = |state: &mut State| {
            let idle = !state.stopping && state.local.records().tail.is_empty();
            state.committer = if idle { Sleep::Idle } else { Sleep::Awake };
            idle
        };
        // What was written has to be synced after a while; otherwise an idle store has no timer.
        state = match self.options.durability {
            Durability::Interval => self.sleep(state, self.options.sync_every.into(), idle),
            Durability::Always | Durability::None => {
                self.to_commit.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner)
            }
        };
        if !state.local.records().tail.is_empty() {
            state = self.sleep(state, LAZY_FOR, |state| {
                let lazy = !state.stopping && !state.waited;
                state.committer = if lazy { Sleep::Lazy } else { Sleep::Awake };
                lazy
            });
        }
        state.committer = Sleep::Awake;
        (!state.stopping || !state.local.records().tail.is_empty()).then_some(())
    }

    fn sleep<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        span: Duration,
        idle: impl FnMut(&mut State) -> bool,
    ) -> MutexGuard<'a, State> {
        let slept = self.to_commit.wait_timeout_while(state, span, idle);
        slept.map_or_else(|error| error.into_inner().0, |(state, _)| state)
    }
}

impl State {
    /// Closes the commit that is being gathered, if it has anything.
    fn launch(&mut self, synced: u64, at: Time, is_full: bool) -> Option<Arc<Flight>> {
        if self.local.records().tail.is_empty() {
            return None;
        }
        let woken = self.local.woken();
        self.local.records_mut().launch((synced, at), woken, is_full)
    }
}
