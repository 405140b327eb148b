//! What the store, its committer and its keeper share.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use crore_core::{Clock, Name, Time};

use super::commit::Pen;
use super::disk::Disk;
use super::durable::Durable;
use super::keep::Keeper;
use super::log::Log;
use super::options::Options;
use super::record::Meta;
use crate::local::Local;
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
}

/// What is under the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) local: Local<Log>,
    /// The store's time, which never runs backwards.
    pub(crate) last: Time,
    /// Why the keeper could not make a file ready.
    pub(crate) full: Option<String>,
    /// Whether the threads are to end.
    pub(crate) stopping: bool,
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

/// What a verb does to the room on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// It brings something new, and is refused first.
    Room,
    /// It goes on with what is there, or ends it, and has a reserve.
    Reserve,
    /// It changes nothing.
    Nothing,
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
        if self.durable.is_poisoned() {
            return Err(Error::Poisoned);
        }
        self.state.lock().map_err(|_| Error::Poisoned)
    }

    /// Does a verb at once, when there is room in the commit that is being gathered, and appends all
    /// that it has touched.
    pub(crate) async fn verb<T>(
        &self,
        needs: Needs,
        verb: impl FnOnce(&mut Local<Log>, Time) -> Result<T, Error>,
    ) -> Result<Did<T>, Error> {
        loop {
            let commit = {
                let mut state = self.lock()?;
                let tail = &state.local.records().tail;
                if tail.len() < self.options.buffer_bytes {
                    return self.verb_now(&mut state, needs, verb);
                }
                tail.commit
            };
            self.durable.wait(commit).await?;
        }
    }

    fn verb_now<T>(
        &self,
        state: &mut State,
        needs: Needs,
        verb: impl FnOnce(&mut Local<Log>, Time) -> Result<T, Error>,
    ) -> Result<Did<T>, Error> {
        self.admit(state, needs)?;
        state.last = state.last.max(self.clock.now());
        let was_empty = state.local.records().tail.is_empty();
        let answer = verb(&mut state.local, state.last);
        state.write_sides();
        let woken = state.local.woken();
        let log = state.local.records_mut();
        log.tail.woken.extend(woken);
        let is_empty = log.tail.is_empty();
        let commit = log.tail.commit - u64::from(is_empty);
        if was_empty && !is_empty {
            self.to_commit.notify_one();
        }
        // A verb that could not read what it needs may be half done, and halves are not committed.
        let half_done = matches!(answer, Err(Error::Unavailable(_))) && needs != Needs::Nothing;
        if half_done || matches!(answer, Err(Error::Poisoned)) {
            self.poison();
        }
        Ok(Did { answer: answer?, commit })
    }

    /// Refuses what there is no room for. While files can be made ready there always is.
    fn admit(&self, state: &State, needs: Needs) -> Result<(), Error> {
        let Some(what) = &state.full else { return Ok(()) };
        let reserve = match needs {
            Needs::Room => self.options.segment_bytes / 4,
            Needs::Reserve => self.options.segment_bytes / 64,
            Needs::Nothing => return Ok(()),
        };
        if state.local.records().room() < reserve {
            return Err(Error::Full { what: what.clone() });
        }
        Ok(())
    }

    /// Nothing more is promised: whatever was not answered may or may not have happened.
    pub(crate) fn poison(&self) {
        self.durable.poison();
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
