//! Idempotency keys: a push that is said twice is one push.
//!
//! A key becomes the unique key of each of its jobs, held for a day: so the store keeps it, and it holds across
//! a restart and on every node. A job has room for one such key, so one with a `unique` of its own is refused
//! under an idempotency key. What a key was first used for is also remembered here, for some thousands of keys.
//! For a batch under a key that is not remembered the store is asked before anything is pushed: it can tell
//! whether a job is the same, but would store what another batch has more than the first one.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crore::Engine;
use crore::push::{Pushes, Taken};
use crore_core::job::Spec;
use crore_core::push::GroupRef;
use crore_core::unique::{Hold, Unique};
use crore_core::{Batch, Code, GroupId, Invalid, Job, JobId, NewJob, Span};
use http::HeaderMap;

use crate::bug::planted;
use crate::{Api, Fault};

const HEADER: &str = "idempotency-key";
/// What stands for a header that has other characters.
const NOT_ASCII: &str = "\u{fffd}";
/// A unique key has 256 bytes, and the place in the batch is said behind ours.
const MOST_BYTES: usize = 200;
const HELD_FOR: Span = Span::from_secs(24 * 60 * 60);
const REMEMBERED: usize = 10_000;
const TURNS: usize = 1024;

/// A key that a caller gave to a push.
#[derive(Debug, Clone)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The key that the headers name, if they name one.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, Fault> {
        let Some(value) = headers.get(HEADER) else { return Ok(None) };
        Ok(Some(Self::new("Idempotency-Key", value.to_str().unwrap_or(NOT_ASCII))?))
    }

    /// The key that stands in a field.
    pub fn new(field: &str, text: &str) -> Result<Self, Invalid> {
        let wrong = |code, why: &str| Err(Invalid::new(code, field, why));
        match text {
            "" => wrong(Code::KeyEmpty, "a key must not be empty"),
            text if text.len() > MOST_BYTES => {
                wrong(Code::KeyTooLong, "at most 200 bytes are allowed")
            }
            text if text.chars().any(|c| !c.is_ascii() || (c.is_ascii_control() && c != '\t')) => {
                wrong(Code::KeyControl, "only ASCII characters are allowed")
            }
            text => Ok(Self(text.to_owned())),
        }
    }

    /// Makes a job the only one at its place under this key, if it has no key of its own.
    pub fn mark(&self, place: usize, spec: &mut Spec) -> Result<(), Invalid> {
        if spec.unique.is_some() {
            let why = "a job that is pushed under an idempotency key is unique by that: give it one of the two";
            return Err(Invalid::new(Code::Malformed, "unique", why));
        }
        if planted!("bug-33") {
            return Ok(());
        }
        let key = self.at(place).into();
        spec.unique = Some(Unique { key, hold: Hold::Window, window: Some(HELD_FOR) });
        Ok(())
    }

    /// Refuses a batch that is not the one that this key was first used for. Nothing is stored by it.
    pub(crate) async fn ask_for(&self, engine: &Engine, batch: &Batch) -> Result<(), Fault> {
        let jobs = &batch.jobs;
        // One place more: where the first batch was longer, that is taken. A single job is only compared with
        // its own, and whoever stores one can store no more than that.
        let places = (jobs.len() + 1).min(engine.caps().batch_jobs);
        if jobs.len() < 2 {
            return Ok(());
        }
        let keys: Vec<Arc<str>> = (0..places).map(|place| self.at(place).into()).collect();
        let holders = engine.holders(&keys).await?;
        let Some(first) = holders.iter().flatten().min().copied() else { return Ok(()) };
        let now = engine.now();
        for (place, holder) in holders.iter().enumerate() {
            let is_so = match (jobs.get(place), holder) {
                (Some(_), Some(_)) | (None, None) => true,
                (None, Some(_)) => false,
                // It was refused then, or it was not there.
                (Some(job), None) => {
                    let may_break = !job.after.is_empty() || job.group.is_some();
                    may_break
                        || job.spec.client_id.is_some()
                        || job.check(engine.caps(), now).is_err()
                }
            };
            if !is_so {
                return Err(self.reused(Some(first)));
            }
        }
        Ok(())
    }

    fn at(&self, place: usize) -> String {
        format!("idempotency:{}:{place}", self.0)
    }

    /// Whether a job has its key from us.
    pub(crate) fn is_of(&self, spec: &Spec, place: usize) -> bool {
        spec.unique.as_ref().is_some_and(|unique| *unique.key == *self.at(place))
    }

    /// The key was used before, for something else.
    pub(crate) fn reused(&self, first: Option<JobId>) -> Fault {
        let detail = format!("the key `{}` was used before, for another push", self.0);
        let fault = Fault::new(Code::KeyReused, detail);
        first.map_or(fault.clone(), |first| fault.about(first))
    }
}

/// Whether two jobs are the same, but for what the engine fills in and what only its first push knows.
pub(crate) fn is_same(one: &Spec, other: &Spec) -> bool {
    let plain = |spec: &Spec| Spec {
        limits: Vec::new(),
        group: None,
        after: Vec::new(),
        parent: None,
        trace: None,
        ..spec.clone()
    };
    plain(one) == plain(other)
}

/// What the newest keys were first used for.
#[derive(Debug)]
pub(crate) struct KeyMemory {
    hasher: RandomState,
    known: Mutex<Known>,
    /// Pushes under one key go one after the other; some keys share a turn.
    turns: Vec<tokio::sync::Mutex<()>>,
}

impl Default for KeyMemory {
    fn default() -> Self {
        let turns = (0..TURNS).map(|_| tokio::sync::Mutex::new(())).collect();
        Self { hasher: RandomState::new(), known: Mutex::default(), turns }
    }
}

#[derive(Debug, Default)]
struct Known {
    by_key: HashMap<String, (u64, Option<JobId>)>,
    oldest: VecDeque<String>,
}

impl KeyMemory {
    /// A body, in short.
    pub(crate) fn digest(&self, body: &[u8]) -> u64 {
        self.hasher.hash_one(body)
    }

    /// Waits until no other push under this key is under way, and keeps others from beginning one.
    pub(crate) async fn turn(
        &self,
        key: &IdempotencyKey,
    ) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let turn = self.hasher.hash_one(&key.0) as usize % TURNS;
        Some(self.turns.get(turn)?.lock().await)
    }

    /// Refuses a key that was used for another body.
    pub(crate) fn check(&self, key: &IdempotencyKey, digest: u64) -> Result<(), Fault> {
        match self.lock().by_key.get(&key.0) {
            Some((known, first)) if *known != digest => Err(key.reused(*first)),
            _ => Ok(()),
        }
    }

    /// Remembers what a key was used for.
    pub(crate) fn remember(&self, key: &IdempotencyKey, digest: u64, first: Option<JobId>) {
        let mut known = self.lock();
        if known.by_key.insert(key.0.clone(), (digest, first)).is_none() {
            known.oldest.push_back(key.0.clone());
        }
        while known.oldest.len() > REMEMBERED {
            if let Some(oldest) = known.oldest.pop_front() {
                known.by_key.remove(&oldest);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Api {
    /// Pushes a batch, under an idempotency key if there is one; `said` is the request as it came.
    pub async fn push(
        &self,
        batch: Batch,
        key: Option<&IdempotencyKey>,
        said: &[u8],
    ) -> Result<Pushes, Fault> {
        let Some(key) = key else { return Ok(self.engine().push_all(batch).await?) };
        let memory = self.keys();
        let digest = memory.digest(said);
        let _turn = memory.turn(key).await;
        memory.check(key, digest)?;
        key.ask_for(self.engine(), &batch).await?;
        let asked = batch.jobs.clone();
        let mut pushes = self.engine().push_all(batch).await?;
        same_answer(self, key, &asked, &mut pushes).await?;
        memory.remember(key, digest, pushes.jobs.iter().find_map(Taken::id));
        Ok(pushes)
    }
}

/// Makes the answer to a push that was said before the one that was given then.
async fn same_answer(
    api: &Api,
    key: &IdempotencyKey,
    asked: &[NewJob],
    pushes: &mut Pushes,
) -> Result<(), Fault> {
    for (place, (job, taken)) in asked.iter().zip(&mut pushes.jobs).enumerate() {
        let Taken::Duplicate(id) = *taken else { continue };
        if !key.is_of(&job.spec, place) {
            continue;
        }
        let stored = api.engine().get(id).await?;
        let is_said_again = match &stored {
            Some(stored) => key.is_of(&stored.spec, place),
            // It has ended and is gone, and only its key is still held.
            None => job.spec.client_id.is_none(),
        };
        if !is_said_again {
            continue;
        }
        if stored.as_ref().is_some_and(|stored| !is_same(&stored.spec, &job.spec)) {
            return Err(key.reused(Some(id)));
        }
        *taken = Taken::New(id);
        if let (Some(GroupRef::New(n)), Some(group)) = (job.group, group_of(stored.as_ref()))
            && let Some(made) = pushes.groups.get_mut(n)
        {
            *made = group;
        }
    }
    Ok(())
}

fn group_of(job: Option<&Job>) -> Option<GroupId> {
    job.and_then(|job| job.spec.group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pushes_under_one_key_go_one_after_the_other() {
        let (memory, key) = (KeyMemory::default(), IdempotencyKey("k".to_owned()));
        let first = memory.turn(&key).await;
        let mut second = std::pin::pin!(memory.turn(&key));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(second.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn the_oldest_keys_are_forgotten() {
        let memory = KeyMemory::default();
        let key = |n: usize| IdempotencyKey(n.to_string());
        (0..=REMEMBERED).for_each(|n| memory.remember(&key(n), 1, None));
        assert!(memory.check(&key(0), 2).is_ok());
        assert!(memory.check(&key(1), 2).is_err() && memory.check(&key(1), 1).is_ok());
        assert_eq!(memory.lock().by_key.len(), REMEMBERED);
    }
}
