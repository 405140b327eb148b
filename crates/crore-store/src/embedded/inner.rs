//! State shared by the store, its committer and its keeper, and how operations are admitted and
//! run.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use crore_core::{Clock, Name, Time};

use super::commit::CommitWriter;
use super::disk::Disk;
use super::durable::DurabilityTracker;
use super::keeper::{Keeper, side_bytes};
use super::log::Log;
use super::options::Options;
use super::record::Meta;
use super::space_needs::SpaceNeeds;
use crate::local::LocalIndex;
use crate::metrics::CommitCounters;
use crate::{Error, StoreId, WakeHook};

/// The shared part of an embedded store.
#[derive(Debug)]
pub(crate) struct EmbeddedInner {
    pub(crate) id: StoreId,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: Options,
    pub(crate) state: Mutex<EmbeddedState>,
    pub(crate) commit_writer: Mutex<CommitWriter>,
    pub(crate) keeper: Mutex<Keeper>,
    /// Notified when the committer has work.
    pub(crate) committer_wakeup: Condvar,
    /// Notified when the keeper may have work.
    pub(crate) keeper_wakeup: Condvar,
    pub(crate) durable: DurabilityTracker,
    pub(crate) hooks: WakeHooks,
    pub(crate) counters: CommitCounters,
}

/// State under the store's lock.
pub(crate) struct EmbeddedState {
    pub(crate) local: LocalIndex<Log>,
    /// The store's time; never goes back.
    pub(crate) last_time: Time,
    /// Why the keeper could not prepare a file.
    pub(crate) full: Option<String>,
    /// Whether the threads should stop.
    pub(crate) stopping: bool,
    pub(crate) committer: ThreadState,
    /// Whether a caller waits for the pending commit.
    pub(crate) has_waiters: bool,
    /// A commit that admits nothing more, because a caller waits for it to make room: later callers
    /// must not overtake that caller.
    pub(crate) closed_commit: Option<u64>,
    pub(crate) keeper: ThreadState,
}

/// Whether a thread sleeps, and what wakes it. Notifying an awake thread would waste a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ThreadState {
    #[default]
    Awake,
    /// Sleeping until there is work.
    Idle,
    /// Sleeping until a caller waits, or for a short time.
    Lazy,
}

impl std::fmt::Debug for EmbeddedState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedState").field("last_time", &self.last_time).finish_non_exhaustive()
    }
}

/// Callbacks for new claimable jobs.
#[derive(Default)]
pub(crate) struct WakeHooks(RwLock<Vec<WakeHook>>);

impl std::fmt::Debug for WakeHooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WakeHooks").finish_non_exhaustive()
    }
}

impl WakeHooks {
    pub(crate) fn add(&self, hook: WakeHook) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(hook);
    }

    pub(crate) fn call(&self, woken: &[Name]) {
        if woken.is_empty() {
            return;
        }
        let hooks = self.0.read().unwrap_or_else(PoisonError::into_inner);
        hooks.iter().for_each(|hook| hook(woken));
    }
}

/// Whether the caller waits for the commit of its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitsForCommit {
    Yes,
    No,
}

/// Result of an operation, and its commit.
#[derive(Debug)]
pub(crate) struct OperationResult<T> {
    pub(crate) value: T,
    /// The newest commit that the operation changed or may have read.
    pub(crate) commit: u64,
}

impl EmbeddedInner {
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, EmbeddedState>, Error> {
        let state = self.state.lock().map_err(|_| {
            // A panic under the lock may leave the index inconsistent.
            self.poison("a thread panicked during an operation");
            Error::Poisoned
        })?;
        // Checked under the lock: the previous holder may have failed halfway through an operation.
        if self.durable.is_poisoned() { Err(Error::Poisoned) } else { Ok(state) }
    }

    /// Runs an operation as soon as the pending commit has room, and appends its changes.
    pub(crate) async fn run<T>(
        &self,
        needs: SpaceNeeds,
        waits: WaitsForCommit,
        operation: impl FnOnce(&mut LocalIndex<Log>, Time) -> Result<T, Error>,
    ) -> Result<OperationResult<T>, Error> {
        loop {
            // Read before taking the lock, to keep the critical section short.
            let now = self.clock.now();
            let commit = {
                let mut state = self.lock()?;
                if state.stopping {
                    return Err(Error::Unavailable("the store is closed".into()));
                }
                let pending = &state.local.records().pending;
                let is_closed =
                    needs != SpaceNeeds::Nothing && state.closed_commit == Some(pending.commit);
                if is_closed || pending.len() >= self.max_frame_bytes(&state) {
                    Some(pending.commit)
                } else if needs != SpaceNeeds::Nothing && self.lacks_next(&state, needs.bytes()) {
                    None
                } else if let Some(commit) = self.commit_to_wait_for(&mut state, needs) {
                    state.closed_commit = Some(commit);
                    self.wake_committer(&mut state, WaitsForCommit::Yes);
                    Some(commit)
                } else {
                    state.last_time = state.last_time.max(now);
                    return self.run_now(&mut state, (needs, waits), operation);
                }
            };
            match commit {
                Some(commit) => self.durable.wait(commit).await?,
                None => self.prepare_next_now()?,
            }
        }
    }

    /// Returns the commit to wait for until a file has room for the operation; `None` if there is
    /// room. A file that has to grow may find the disk filled by others, which would poison the
    /// store; so the end of the file is left empty if the next one is ready.
    fn commit_to_wait_for(&self, state: &mut EmbeddedState, needs: SpaceNeeds) -> Option<u64> {
        let bytes = match needs {
            SpaceNeeds::Nothing => return None,
            SpaceNeeds::Optional(bytes) => bytes,
            // On a full disk frames are short and files are left early.
            SpaceNeeds::NewData(_) | SpaceNeeds::Reserve(_) if state.full.is_some() => return None,
            SpaceNeeds::NewData(bytes) | SpaceNeeds::Reserve(bytes) => {
                // The first files are small, and a file that grew is large.
                let least =
                    state.local.records().current_size().min(self.options.segment_bytes) / 32;
                bytes.clamp(least, self.max_slice_bytes())
            }
        };
        state.local.records_mut().commit_to_wait_for(bytes)
    }

    /// On a full disk frames are short, so that each fits into the rest of its file.
    fn max_frame_bytes(&self, state: &EmbeddedState) -> u64 {
        let short = state.full.as_ref().map_or(u64::MAX, |_| self.options.segment_bytes / 16);
        self.options.buffer_bytes.min(short)
    }

    /// Maximum bytes per slice of an operation that runs in slices; the last file or the next one
    /// always has room for it.
    pub(crate) const fn max_slice_bytes(&self) -> u64 {
        self.options.segment_bytes / 8
    }

    fn run_now<T>(
        &self,
        state: &mut EmbeddedState,
        (needs, waits): (SpaceNeeds, WaitsForCommit),
        operation: impl FnOnce(&mut LocalIndex<Log>, Time) -> Result<T, Error>,
    ) -> Result<OperationResult<T>, Error> {
        self.admit(state, needs)?;
        if state.full.is_some() {
            state.local.records_mut().ensure_room(self.options.segment_bytes / 8);
        }
        let before = state.local.records().pending.len();
        let result = operation(&mut state.local, state.last_time);
        state.append_touched();
        let log = state.local.records();
        let is_empty = log.pending.is_empty();
        let commit = log.pending.commit - u64::from(is_empty);
        let changed = log.pending.len() != before;
        if result.is_err() && changed {
            // The index has half of an operation, which must never be written.
            self.poison("an operation failed after changing the index");
        } else if !is_empty {
            self.wake_committer(state, waits);
        }
        Ok(OperationResult { value: result?, commit })
    }

    /// Wakes the committer if it sleeps and there is reason to.
    pub(crate) fn wake_committer(&self, state: &mut EmbeddedState, waits: WaitsForCommit) {
        let wake = match state.committer {
            ThreadState::Awake => false,
            ThreadState::Idle => true,
            ThreadState::Lazy => waits == WaitsForCommit::Yes,
        };
        state.has_waiters |= waits == WaitsForCommit::Yes;
        if wake {
            state.committer = ThreadState::Awake;
            self.committer_wakeup.notify_one();
        }
    }

    /// Refuses operations for which there is no space. Only a full disk refuses anything.
    ///
    /// Operations that add jobs leave more than a whole segment, so that the oldest segment can be
    /// compacted. Operations that continue or end jobs may use everything beyond what compaction
    /// needs, and optional operations leave a part of that.
    fn admit(&self, state: &EmbeddedState, needs: SpaceNeeds) -> Result<(), Error> {
        let Some(what) = &state.full else { return Ok(()) };
        let (log, size) = (state.local.records(), self.options.segment_bytes);
        let to_move = Self::bytes_to_move(state);
        let left = match needs {
            SpaceNeeds::NewData(_) => to_move.max(size) + size / 2,
            SpaceNeeds::Reserve(_) => to_move + size / 16,
            SpaceNeeds::Optional(bytes) if log.bytes_left() < bytes => u64::MAX,
            SpaceNeeds::Optional(_) => to_move + size / 8,
            SpaceNeeds::Nothing => return Ok(()),
        };
        if log.usable(size) < left {
            return Err(Error::Full { what: what.clone() });
        }
        Ok(())
    }

    /// Bytes needed to compact the oldest segment.
    fn bytes_to_move(state: &EmbeddedState) -> u64 {
        let log = state.local.records();
        log.bytes_to_move(log.oldest(), side_bytes(&state.local))
    }

    /// Poisons the store. Operations not yet acknowledged may or may not have taken effect.
    pub(crate) fn poison(&self, why: &str) {
        self.durable.poison(why);
        self.committer_wakeup.notify_all();
        self.keeper_wakeup.notify_all();
    }
}

impl EmbeddedState {
    /// Appends the current value of every touched side record.
    pub(crate) fn append_touched(&mut self) {
        let touched = self.local.take_touched();
        let defined = touched.iter().any(crate::local::SideKey::is_definition);
        for key in touched {
            let value = self.local.side_value(&key);
            self.local.records_mut().append_side(&key, value.as_ref());
        }
        let log = self.local.records();
        if defined || log.meta_due && !log.pending.is_empty() {
            let meta = self.local.meta();
            self.local.records_mut().append_meta(meta);
        }
    }
}

impl LocalIndex<Log> {
    pub(crate) fn meta(&self) -> Meta {
        let (last_id, last_delivery, revision) = self.numbers();
        Meta { last_id, last_delivery, revision }
    }
}
