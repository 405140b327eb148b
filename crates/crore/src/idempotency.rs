//! Idempotent pushes: a batch that is pushed twice under one key is pushed once.
//!
//! A key becomes the unique key of each job of its batch, held for a day: the store keeps it, so it holds
//! across a restart and on every node. A job has room for one unique key, so one that brings its own is
//! refused. What the newest keys were used for is remembered besides, and for a batch under any other key
//! the store is asked first: it can tell whether a job is the same, but would store what this batch has
//! more than the first one.

mod memo;
mod turns;

use std::sync::Arc;

use crore_core::job::{Keep, Spec};
use crore_core::push::{GroupRef, OWN};
use crore_core::unique::{Hold, Unique};
use crore_core::{Batch, Code, Invalid, Job, JobId, NewJob, Span};
use crore_store::jobs::Which;

use crate::engine::{Engine, Inner};
use crate::error::Error;
use crate::push::{Pushes, Taken};
use memo::Memo;
use turns::Turns;

/// A unique key has 256 bytes, and the place in the batch follows this one.
const MOST_BYTES: usize = 200;
/// How long a key is held.
const HELD_FOR: Span = Span::from_secs(24 * 60 * 60);

/// A caller's name for one push, under which it may be repeated: see [`Engine::push_once`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(Arc<str>);

/// What the engine keeps for idempotent pushes.
#[derive(Debug, Default)]
pub(crate) struct Idempotency {
    memo: Memo,
    /// Pushes under one key go one after the other.
    turns: Turns,
}

impl Engine {
    /// Pushes jobs and groups under a key. The same batch under the same key, within 24 hours, is not
    /// stored again, and is answered as it was the first time; another batch under the same key is
    /// refused with [`Error::KeyReused`]. A job that has a unique key of its own is refused singly, and
    /// otherwise a batch is pushed as [`Engine::push_all`] does.
    ///
    /// The key holds across restarts, and for all nodes on one store. Two nodes that are given different
    /// batches under one key at the same instant may each store a part; one of them is refused.
    ///
    /// ```
    /// use crore::core::{Name, NewJob, Payload, Spec};
    /// use crore::{Engine, Error, IdempotencyKey, block_on};
    ///
    /// # fn main() -> Result<(), Error> {
    /// let engine = Engine::memory();
    /// let mail = |to: &str| -> Result<NewJob, Error> {
    ///     let queue = Name::new("queue", "mail")?;
    ///     Ok(Spec::new(queue.clone(), queue, Payload::json(to)).into())
    /// };
    /// let key = IdempotencyKey::new("key", "order 17")?;
    /// let batch = vec![mail("\"ada\"")?, mail("\"bob\"")?];
    ///
    /// let first = block_on(engine.push_once(&key, batch.clone().into()))?;
    /// let again = block_on(engine.push_once(&key, batch.into()))?;
    /// assert_eq!(first.jobs, again.jobs);
    ///
    /// let other = vec![mail("\"eve\"")?];
    /// let refused = block_on(engine.push_once(&key, other.into()));
    /// assert!(matches!(refused, Err(Error::KeyReused { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn push_once(&self, key: &IdempotencyKey, batch: Batch) -> Result<Pushes, Error> {
        self.inner.push_once(key, batch).await
    }
}

impl IdempotencyKey {
    /// A key: 1 to 200 bytes of ASCII without control characters other than tabs. `field` is where it
    /// stands, for the error.
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
            text => Ok(Self(text.into())),
        }
    }

    /// The unique key of the job at a place.
    fn at(&self, place: usize) -> Arc<str> {
        format!("idempotency:{}:{place}", self.0).into()
    }

    fn is_of(&self, spec: &Spec, place: usize) -> bool {
        spec.unique.as_ref().is_some_and(|unique| unique.key == self.at(place))
    }

    fn reused(&self, first: Option<JobId>) -> Error {
        Error::KeyReused { key: self.0.as_ref().to_owned(), first }
    }

    /// Gives each job the unique key of its place. Says of each whether it has one of its own instead,
    /// for which it is to be refused.
    fn mark(&self, batch: &mut Batch) -> Vec<bool> {
        let mark = |(place, job): (usize, &mut NewJob)| {
            let has_own = job.spec.unique.is_some();
            if !has_own {
                let (key, window) = (self.at(place), Some(HELD_FOR));
                job.spec.unique = Some(Unique { key, hold: Hold::Window, window });
            }
            has_own
        };
        batch.jobs.iter_mut().enumerate().map(mark).collect()
    }
}

impl Inner {
    async fn push_once(&self, key: &IdempotencyKey, mut batch: Batch) -> Result<Pushes, Error> {
        let Idempotency { memo, turns } = &self.idempotency;
        let digest = memo.digest(&batch);
        let _turn = turns.take(&key.0).await;
        memo.check(key, digest)?;
        let has_own = key.mark(&mut batch);
        let is_refused = |place: usize| has_own.get(place).copied().unwrap_or_default();
        self.check_first_use(key, &batch, is_refused).await?;
        let asked = batch.jobs.clone();
        let refuse = |place: usize| if is_refused(place) { Err(own_key()) } else { Ok(()) };
        let mut pushes = self.push_unless(batch, refuse).await?;
        self.answer_as_first(key, &asked, &mut pushes).await?;
        // A key that no job got is not used.
        if has_own.contains(&false) {
            memo.remember(key, digest, pushes.jobs.iter().find_map(Taken::id));
        }
        Ok(pushes)
    }

    /// Refuses a batch that is not the one that this key was first used for, as far as the store can
    /// tell. Stores nothing.
    async fn check_first_use(
        &self,
        key: &IdempotencyKey,
        batch: &Batch,
        is_refused: impl Fn(usize) -> bool,
    ) -> Result<(), Error> {
        let jobs = &batch.jobs;
        // A single job is only compared with its own place: it can store no more than that.
        if jobs.len() < 2 {
            return Ok(());
        }
        // One place more: it is held if the first batch was longer.
        let places = (jobs.len() + 1).min(self.caps.batch_jobs);
        let holders = self.store.holders((0..places).map(|place| key.at(place)).collect()).await?;
        let Some(first) = holders.iter().flatten().min().copied() else { return Ok(()) };
        let now = self.now();
        // A place that nobody holds was refused then, or was not there.
        let may_be_refused = |place: usize, job: &NewJob| {
            let may_break = !job.after.is_empty() || job.group.is_some();
            may_break
                || job.spec.client_id.is_some()
                || is_refused(place)
                || job.check_brought(&self.caps, now).is_err()
        };
        let is_so = |(place, holder): (usize, &Option<JobId>)| match (jobs.get(place), holder) {
            (Some(_), Some(_)) | (None, None) => true,
            (None, Some(_)) => false,
            (Some(job), None) => may_be_refused(place, job),
        };
        if holders.iter().enumerate().all(is_so) { Ok(()) } else { Err(key.reused(Some(first))) }
    }

    /// Makes the answer to a repeated push the one that was given to the first.
    async fn answer_as_first(
        &self,
        key: &IdempotencyKey,
        asked: &[NewJob],
        pushes: &mut Pushes,
    ) -> Result<(), Error> {
        let is_ours = |(place, (job, taken)): (usize, (&NewJob, &Taken))| match taken {
            Taken::Duplicate(id) if key.is_of(&job.spec, place) => Some((place, *id)),
            _ => None,
        };
        let repeated = asked.iter().zip(&pushes.jobs).enumerate().filter_map(is_ours);
        let repeated: Vec<(usize, JobId)> = repeated.collect();
        if repeated.is_empty() {
            return Ok(());
        }
        let which = repeated.iter().map(|(_, id)| Which::Id(*id)).collect();
        let stored = self.store.get(which).await?;
        for ((place, id), stored) in repeated.into_iter().zip(stored) {
            let job = &asked[place];
            match &stored {
                // It has its client id in common with another job.
                Some(stored) if !key.is_of(&stored.spec, place) => continue,
                Some(stored) if !is_same(&stored.spec, job) => return Err(key.reused(Some(id))),
                // It has ended and is gone, and only its key is still held.
                None if job.spec.client_id.is_some() => continue,
                Some(_) | None => pushes.jobs[place] = Taken::New(id),
            }
            if let (Some(GroupRef::New(n)), Some(group)) = (job.group, group_of(stored.as_ref()))
                && let Some(made) = pushes.groups.get_mut(n)
            {
                *made = group;
            }
        }
        Ok(())
    }
}

fn own_key() -> Invalid {
    let why =
        "a job that is pushed under an idempotency key is unique by that: give it one of the two";
    Invalid::new(Code::Malformed, "unique", why)
}

fn group_of(job: Option<&Job>) -> Option<crore_core::GroupId> {
    job.and_then(|job| job.spec.group)
}

/// Whether a stored job is the one that is asked for, but for what the engine filled in.
fn is_same(stored: &Spec, asked: &NewJob) -> bool {
    let (mut stored, mut spec) = (stripped(stored), stripped(&asked.spec));
    for spec in [&mut stored, &mut spec] {
        if asked.unsaid.queue {
            spec.queue = spec.kind.clone();
        }
        if asked.unsaid.retry {
            spec.retry = Default::default();
        }
        if asked.unsaid.timeout {
            spec.timeout = None;
        }
        if asked.unsaid.keep {
            spec.keep = Keep::Discard;
        }
    }
    stored == spec
}

/// A spec without what the engine and the store fill in, and without what only one call knows.
fn stripped(spec: &Spec) -> Spec {
    let mut labels = spec.labels.clone();
    labels.retain(|name, _| !name.starts_with(OWN));
    Spec {
        limits: Vec::new(),
        group: None,
        after: Vec::new(),
        parent: None,
        trace: None,
        labels,
        ..spec.clone()
    }
}
