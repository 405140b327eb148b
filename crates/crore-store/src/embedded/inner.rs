//! What the store, its committer and its keeper share.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use crore_core::{Clock, Name, Time};

use super::commit::Pen;
use super::disk::Disk;
use super::durable::Durable;
use super::keep::{Keeper, side_bytes};
use super::log::Log;
use super::needs::Needs;
use super::options::Options;
use super::record::Meta;
use crate::local::Local;
use crate::vitals::Pulse;
use crate::{Error, WakeHook};

/// The shared part of an embedded store.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: Options,
    pub(crate) state: Mutex<State>,
    pub(crate) pen: Mutex<Pen>,
    pub(crate) keeper: Mutex<Keeper>,
    /// Told when the committer has something to do.
    pub(crate) to_commit: Condvar,
    /// Told when the keeper may have something to do.
    pub(crate) to_keep: Condvar,
    pub(crate) durable: Durable,
    pub(crate) hooks: Hooks,
    pub(crate) pulse: Pulse,
}

/// What is under the lock.
pub(crate) struct State {
    pub(crate) local: Local<Log>,
    /// The store's time, which never runs backwards.
    pub(crate) last: Time,
    /// Why the keeper could not make a file ready.
    pub(crate) full: Option<String>,
    /// Whether the threads are to end.
    pub(crate) stopping: bool,
    pub(crate) committer: Sleep,
    /// Whether anybody waits for the commit that is being gathered.
    pub(crate) waited: bool,
    /// The commit that takes nothing more, because somebody waits for its end to have room: whoever comes
    /// later does not overtake him.
    pub(crate) closed: Option<u64>,
    pub(crate) keeper: Sleep,
}

/// What a thread does. To tell one that is awake costs a system call for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Sleep {
    #[default]
    Awake,
    /// Until there is anything to do.
    Idle,
    /// Until somebody waits, or for a short while.
    Lazy,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("last", &self.last).finish_non_exhaustive()
    }
}

/// Whom to tell of something new to claim.
#[derive(Default)]
pub(crate) struct Hooks(RwLock<Vec<WakeHook>>);

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

impl Hooks {
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

/// Whether a verb's answer waits for its commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    Yes,
    No,
}

/// What a verb gave, and the commit that it is part of.
#[derive(Debug)]
pub(crate) struct Did<T> {
    pub(crate) answer: T,
    /// The newest commit that has anything which the verb has changed or may have seen.
    pub(crate) commit: u64,
}

impl Inner {
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.state.lock().map_err(|_| {
            // A panic under the lock leaves the index in doubt.
            self.poison("a thread panicked in the middle of a change");
            Error::Poisoned
        })?;
        // Asked under the lock: whoever held it before may have left half a verb behind.
        if self.durable.is_poisoned() { Err(Error::Poisoned) } else { Ok(state) }
    }

    /// Does a verb at once, when there is room in the commit that is being gathered, and appends all
    /// that it has touched.
    pub(crate) async fn verb<T>(
        &self,
        needs: Needs,
        waits: Waits,
        verb: impl FnOnce(&mut Local<Log>, Time) -> Result<T, Error>,
    ) -> Result<Did<T>, Error> {
        loop {
            // Looked at before the lock is taken: whoever waits for it should not wait for that too.
            let now = self.clock.now();
            let commit = {
                let mut state = self.lock()?;
                if state.stopping {
                    return Err(Error::Unavailable("the store is closed".into()));
                }
                let tail = &state.local.records().tail;
                let is_closed = needs != Needs::Nothing && state.closed == Some(tail.commit);
                if is_closed || tail.len() >= self.most_in_a_frame(&state) {
                    Some(tail.commit)
                } else if needs != Needs::Nothing && self.lacks_next(&state) {
                    None
                } else if let Some(commit) = self.in_the_way(&mut state, needs) {
                    state.closed = Some(commit);
                    self.tell_committer(&mut state, Waits::Yes);
                    Some(commit)
                } else {
                    state.last = state.last.max(now);
                    return self.verb_now(&mut state, (needs, waits), verb);
                }
            };
            match commit {
                Some(commit) => self.durable.wait(commit).await?,
                None => self.make_next()?,
            }
        }
    }

    /// The commit after which there is room in one file for what a verb writes, if it has to be waited for.
    /// A file that has to grow may find that others have filled the disk, and that would be the end: so a
    /// little of its end is left empty instead, where the next one is ready.
    fn in_the_way(&self, state: &mut State, needs: Needs) -> Option<u64> {
        let bytes = match needs {
            Needs::Nothing => return None,
            Needs::Fit(bytes) => bytes,
            // There frames are short, and files are left early.
            Needs::Room(_) | Needs::Reserve(_) if state.full.is_some() => return None,
            Needs::Room(bytes) | Needs::Reserve(bytes) => {
                // The first files are small, and one that grew is large.
                let least = state.local.records().size_here().min(self.options.segment_bytes) / 32;
                bytes.clamp(least, self.most_in_a_slice())
            }
        };
        state.local.records_mut().in_the_way(bytes)
    }

    /// On a full disk frames are short, so that each fits into what is left of its file.
    fn most_in_a_frame(&self, state: &State) -> u64 {
        let short = state.full.as_ref().map_or(u64::MAX, |_| self.options.segment_bytes / 16);
        self.options.buffer_bytes.min(short)
    }

    /// A verb that is done in slices writes no more than this in each: as much as there is always room
    /// for in the last file, or in the next one.
    pub(crate) const fn most_in_a_slice(&self) -> u64 {
        self.options.segment_bytes / 8
    }

    fn verb_now<T>(
        &self,
        state: &mut State,
        (needs, waits): (Needs, Waits),
        verb: impl FnOnce(&mut Local<Log>, Time) -> Result<T, Error>,
    ) -> Result<Did<T>, Error> {
        self.admit(state, needs)?;
        if state.full.is_some() {
            state.local.records_mut().make_way(self.options.segment_bytes / 8);
        }
        let before = state.local.records().tail.len();
        let answer = verb(&mut state.local, state.last);
        state.write_sides();
        let log = state.local.records();
        let is_empty = log.tail.is_empty();
        let commit = log.tail.commit - u64::from(is_empty);
        let changed = log.tail.len() != before;
        if answer.is_err() && changed {
            // Half of a verb is in the index, and must never be on the disk.
            self.poison("a change failed half way");
        } else if !is_empty {
            self.tell_committer(state, waits);
        }
        Ok(Did { answer: answer?, commit })
    }

    /// Wakes the committer, if he sleeps and there is reason to.
    pub(crate) fn tell_committer(&self, state: &mut State, waits: Waits) {
        let wake = match state.committer {
            Sleep::Awake => false,
            Sleep::Idle => true,
            Sleep::Lazy => waits == Waits::Yes,
        };
        state.waited |= waits == Waits::Yes;
        if wake {
            state.committer = Sleep::Awake;
            self.to_commit.notify_one();
        }
    }

    /// Refuses what there is no room for. While files can be made ready there always is.
    ///
    /// What brings something new leaves more than a whole segment, so that the oldest one can be given up;
    /// what ends something may use all that this does not need, and what can be left leaves some of it.
    fn admit(&self, state: &State, needs: Needs) -> Result<(), Error> {
        let Some(what) = &state.full else { return Ok(()) };
        let (log, size) = (state.local.records(), self.options.segment_bytes);
        let to_move = Self::to_move(state);
        let left = match needs {
            Needs::Room(_) => to_move.max(size) + size / 2,
            Needs::Reserve(_) => to_move + size / 16,
            Needs::Fit(bytes) if log.rest() < bytes => u64::MAX,
            Needs::Fit(_) => to_move + size / 8,
            Needs::Nothing => return Ok(()),
        };
        if log.usable(size) < left {
            return Err(Error::Full { what: what.clone() });
        }
        Ok(())
    }

    /// How many bytes it takes to give the oldest segment up.
    fn to_move(state: &State) -> u64 {
        let log = state.local.records();
        log.to_move(log.oldest(), side_bytes(&state.local))
    }

    /// Nothing more is promised: whatever was not answered may or may not have happened.
    pub(crate) fn poison(&self, why: &str) {
        self.durable.poison(why);
        self.to_commit.notify_all();
        self.to_keep.notify_all();
    }
}

impl State {
    /// Appends everything besides jobs that was touched, as it is now.
    pub(crate) fn write_sides(&mut self) {
        let touched = self.local.touched();
        let defined = touched.iter().any(crate::local::Key::is_definition);
        for key in touched {
            let value = self.local.side(&key);
            self.local.records_mut().append_side(&key, value.as_ref());
        }
        let log = self.local.records();
        if defined || log.meta_due && !log.tail.is_empty() {
            let meta = self.local.meta();
            self.local.records_mut().append_meta(meta);
        }
    }
}

impl Local<Log> {
    pub(crate) fn meta(&self) -> Meta {
        let (last_id, last_delivery, revision) = self.numbers();
        Meta { last_id, last_delivery, revision }
    }
}
