//! The committer: one commit after another, each with one write and one sync.

use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crore_core::Time;

use super::disk::DiskFile;
use super::inner::{EmbeddedInner, EmbeddedState, ThreadState};
use super::options::DurabilityMode;
use super::pending_commit::InFlightCommit;
use super::recover::hint_name;
use super::segment;
use crate::Error;
use crate::bug::planted;

/// How long a commit without waiting callers is delayed to collect more operations.
const LAZY_COMMIT_DELAY: Duration = Duration::from_millis(2);

/// Time for metrics only; no decision depends on it.
#[expect(clippy::disallowed_methods, reason = "durations for metrics are not decisions")]
fn now_for_metrics() -> Instant {
    Instant::now()
}

/// State that only the committer uses.
#[derive(Debug, Default)]
pub(crate) struct CommitWriter {
    /// The file with unsynced data, its segment, and the newest commit in it.
    dirty: Option<(Arc<dyn DiskFile>, u32, u64)>,
    synced_at: Time,
}

/// Poisons the store when its thread panics; callers would otherwise wait forever.
#[derive(Debug)]
pub(crate) struct PanicGuard<'a>(pub(crate) &'a EmbeddedInner);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison("a thread of the store panicked");
        }
    }
}

fn not_written(error: &io::Error) -> String {
    format!("the log cannot be written: {}", with_causes(error))
}

/// Formats an error with all its causes.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Whether a commit is synced at once or as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncMode {
    AsConfigured,
    Now,
}

impl EmbeddedInner {
    /// Writes and syncs the pending commit; returns whether there was anything to do.
    ///
    /// A failed write or sync poisons the store: the content of the disk is unknown then, and a
    /// later successful sync would prove nothing.
    pub(crate) fn commit_once(&self, sync: SyncMode) -> Result<bool, Error> {
        let mut writer = self.commit_writer.lock().map_err(|_| Error::Poisoned)?;
        let (flight, now) = self.take_commit()?;
        let begun = now_for_metrics();
        let written = flight.as_deref().map_or(Ok(()), |flight| self.write(&mut writer, flight));
        let written = written.and_then(|()| self.sync_if_due(&mut writer, sync, now));
        let synced = written.map_err(|error| {
            self.poison(&not_written(&error));
            Error::Unavailable(Box::new(error))
        })?;
        let Some(flight) = flight else { return Ok(synced) };
        self.counters.record_commit(begun.elapsed(), flight.bytes.len());
        self.durable.publish(flight.commit);
        self.hooks.call(&flight.woken);
        Ok(true)
    }

    fn take_commit(&self) -> Result<(Option<Arc<InFlightCommit>>, Time), Error> {
        let mut state = self.lock()?;
        let last = state.last_time;
        let is_full = state.full.is_some();
        let flight = state.close_commit(self.durable.synced(), last, is_full);
        state.has_waiters = false;
        if state.keeper == ThreadState::Idle && self.has_keeper_work(&state) {
            state.keeper = ThreadState::Awake;
            self.keeper_wakeup.notify_one();
        }
        Ok((flight, last))
    }

    fn write(&self, writer: &mut CommitWriter, flight: &InFlightCommit) -> io::Result<()> {
        // A frame in a later file is valid only if the earlier files are complete.
        if writer.dirty.as_ref().is_some_and(|(_, segment, _)| *segment != flight.segment) {
            self.sync(writer)?;
        }
        if let Err(error) = flight.file.write(flight.at, &flight.bytes) {
            self.release_reserve(error)?;
            flight.file.write(flight.at, &flight.bytes)?;
        }
        writer.dirty = Some((Arc::clone(&flight.file), flight.segment, flight.commit));
        Ok(())
    }

    /// Returns the reserve file to the file system when a file had to grow on a full disk. Files
    /// are normally left before they grow; this is for an operation that wrote far more than
    /// estimated. Nothing of the frame is synced yet, so it can be written again.
    fn release_reserve(&self, error: io::Error) -> io::Result<()> {
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

    fn sync(&self, writer: &mut CommitWriter) -> io::Result<()> {
        if let Some((file, _, commit)) = &writer.dirty {
            if !planted!("bug-11") {
                file.sync()
                    .or_else(|error| if planted!("bug-18") { Ok(()) } else { Err(error) })?;
            }
            self.durable.note_synced(*commit);
        }
        writer.dirty = None;
        Ok(())
    }

    /// Makes all earlier operations durable, then runs `look` while nothing is being written.
    pub(crate) fn with_settled_log<T>(
        &self,
        inspect: impl FnOnce(&mut EmbeddedState) -> T,
    ) -> Result<T, Error> {
        self.commit_once(SyncMode::Now)?;
        let mut writer = self.commit_writer.lock().map_err(|_| Error::Poisoned)?;
        self.sync(&mut writer).map_err(|error| {
            self.poison(&not_written(&error));
            Error::Unavailable(Box::new(error))
        })?;
        let mut state = self.lock()?;
        Ok(inspect(&mut state))
    }

    /// Syncs if it is due; returns whether it did.
    fn sync_if_due(
        &self,
        writer: &mut CommitWriter,
        sync: SyncMode,
        now: Time,
    ) -> io::Result<bool> {
        let due = match (sync, self.options.durability) {
            (SyncMode::Now, _) | (_, DurabilityMode::Always) => true,
            (_, DurabilityMode::Interval) => {
                writer.synced_at.after(self.options.sync_every) <= self.clock.now().max(now)
            }
            (_, DurabilityMode::None) => false,
        };
        if !due || writer.dirty.is_none() {
            return Ok(false);
        }
        writer.synced_at = now;
        self.sync(writer).map(|()| true)
    }

    /// Main loop of the committer thread.
    pub(crate) fn run_committer(&self) {
        let _guard = PanicGuard(self);
        while self.wait_for_commit().is_some() {
            // Lets callers that are ready to run add to this commit: larger groups.
            std::thread::yield_now();
            if let Err(error) = self.commit_once(SyncMode::AsConfigured) {
                return self.poison(&with_causes(&error));
            }
        }
    }

    /// Waits until there is something to commit; `None` when the store stops.
    fn wait_for_commit(&self) -> Option<()> {
        let mut state = self.lock().ok()?;
        // The state is set on every wake-up: another thread may have committed already.
        let idle = |state: &mut EmbeddedState| {
            let idle = !state.stopping && state.local.records().pending.is_empty();
            state.committer = if idle { ThreadState::Idle } else { ThreadState::Awake };
            idle
        };
        // Only `interval` needs a timer while idle, to sync what was written.
        state = match self.options.durability {
            DurabilityMode::Interval => self.sleep(state, self.options.sync_every.into(), idle),
            DurabilityMode::Always | DurabilityMode::None => self
                .committer_wakeup
                .wait_while(state, idle)
                .unwrap_or_else(PoisonError::into_inner),
        };
        if !state.local.records().pending.is_empty() {
            state = self.sleep(state, LAZY_COMMIT_DELAY, |state| {
                let lazy = !state.stopping && !state.has_waiters;
                state.committer = if lazy { ThreadState::Lazy } else { ThreadState::Awake };
                lazy
            });
        }
        state.committer = ThreadState::Awake;
        (!state.stopping || !state.local.records().pending.is_empty()).then_some(())
    }

    fn sleep<'a>(
        &'a self,
        state: MutexGuard<'a, EmbeddedState>,
        span: Duration,
        idle: impl FnMut(&mut EmbeddedState) -> bool,
    ) -> MutexGuard<'a, EmbeddedState> {
        let slept = self.committer_wakeup.wait_timeout_while(state, span, idle);
        slept.map_or_else(|error| error.into_inner().0, |(state, _)| state)
    }
}

impl EmbeddedState {
    /// Closes the pending commit if it has records.
    fn close_commit(
        &mut self,
        synced: u64,
        at: Time,
        is_full: bool,
    ) -> Option<Arc<InFlightCommit>> {
        if self.local.records().pending.is_empty() {
            return None;
        }
        let woken = self.local.take_woken();
        self.local.records_mut().close_commit((synced, at), woken, is_full)
    }
}
