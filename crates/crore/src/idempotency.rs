//! Idempotent pushes: a batch that is pushed again under the same key is stored once.
//!
//! The key, with the job's index in the batch, becomes the unique key of each job for 24 hours. The store keeps it,
//! so it survives a restart and holds on every node. A job has only one unique key, so a job with its own is
//! refused. The most recent keys are cached with a digest of their batch. For any other key the store is asked
//! first: it can compare single jobs, but would store the extra jobs of a different, longer batch.

mod key_locks;
mod recent_keys;

use std::sync::Arc;

use crore_core::job::{ResultRetention, Spec};
use crore_core::push::{GroupRef, RESERVED_PREFIX};
use crore_core::unique::{IDEMPOTENCY_PREFIX, Unique, UniqueHold};
use crore_core::{Batch, Code, Invalid, Job, JobId, NewJob, Span};
use crore_store::jobs::JobSelector;

use crate::engine::{Engine, EngineInner};
use crate::error::Error;
use crate::push::{BatchResult, PushResult};
use key_locks::KeyLocks;
use recent_keys::RecentKeys;

/// A unique key has at most 256 bytes; the rest is for the prefix and the index.
const MAX_KEY_BYTES: usize = 200;
/// How long a key is remembered.
const KEY_LIFETIME: Span = Span::from_secs(24 * 60 * 60);

/// A caller's key for one push, under which the push can be repeated safely; see [`Engine::push_once`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(Arc<str>);

/// State of idempotent pushes.
#[derive(Debug, Default)]
pub(crate) struct Idempotency {
    recent_keys: RecentKeys,
    /// Serializes pushes under the same key.
    key_locks: KeyLocks,
}

impl Engine {
    /// Pushes jobs and groups under an idempotency key. Within 24 hours, the same batch under the same key is not
    /// stored again and returns the first result; a different batch under the same key fails with
    /// [`Error::KeyReused`]. A job that has a unique key of its own is refused individually. In all other respects
    /// this is [`Engine::push_all`].
    ///
    /// The key survives restarts and holds for all nodes on one store. If two nodes push different batches under
    /// one key at the same instant, each may store a part, and one of them fails.
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
    pub async fn push_once(
        &self,
        key: &IdempotencyKey,
        batch: Batch,
    ) -> Result<BatchResult, Error> {
        self.inner.push_once(key, batch).await
    }
}

impl IdempotencyKey {
    /// Checks a key: 1 to 200 bytes of ASCII, without control characters other than tabs. `field` is the name of
    /// the field for the error.
    pub fn new(field: &str, text: &str) -> Result<Self, Invalid> {
        let invalid = |code, why: &str| Err(Invalid::new(code, field, why));
        match text {
            "" => invalid(Code::KeyEmpty, "a key must not be empty"),
            text if text.len() > MAX_KEY_BYTES => {
                invalid(Code::KeyTooLong, "at most 200 bytes are allowed")
            }
            text if text.chars().any(|c| !c.is_ascii() || (c.is_ascii_control() && c != '\t')) => {
                invalid(Code::KeyControl, "only printable ASCII characters and tabs are allowed")
            }
            text => Ok(Self(text.into())),
        }
    }

    /// The unique key of the job at this index of the batch.
    fn unique_key(&self, index: usize) -> Arc<str> {
        format!("{IDEMPOTENCY_PREFIX}{}:{index}", self.0).into()
    }

    fn is_key_of(&self, spec: &Spec, index: usize) -> bool {
        spec.unique.as_ref().is_some_and(|unique| unique.key == self.unique_key(index))
    }

    fn reused(&self, first: Option<JobId>) -> Error {
        Error::KeyReused { key: self.0.as_ref().to_owned(), first }
    }

    /// Sets the unique key of each job. Returns for each whether it has a key of its own instead and must be
    /// refused.
    fn set_unique_keys(&self, batch: &mut Batch) -> Vec<bool> {
        let set_key = |(index, job): (usize, &mut NewJob)| {
            let has_own = job.spec.unique.is_some();
            if !has_own {
                let (key, window) = (self.unique_key(index), Some(KEY_LIFETIME));
                job.spec.unique = Some(Box::new(Unique { key, hold: UniqueHold::Window, window }));
            }
            has_own
        };
        batch.jobs.iter_mut().enumerate().map(set_key).collect()
    }
}

impl EngineInner {
    async fn push_once(
        &self,
        key: &IdempotencyKey,
        mut batch: Batch,
    ) -> Result<BatchResult, Error> {
        let Idempotency { recent_keys, key_locks } = &self.idempotency;
        let digest = recent_keys.digest(&batch);
        let _lock = key_locks.acquire(&key.0).await;
        recent_keys.check(key, digest)?;
        let has_own = key.set_unique_keys(&mut batch);
        let is_refused = |index: usize| has_own.get(index).copied().unwrap_or_default();
        self.check_first_use(key, &batch, is_refused).await?;
        let requested = batch.jobs.clone();
        let refuse =
            |index: usize| if is_refused(index) { Err(has_own_key_error()) } else { Ok(()) };
        let mut pushes = self.push_filtered(batch, refuse).await?;
        self.replay_first_result(key, &requested, &mut pushes).await?;
        // If every job had a key of its own, the idempotency key was not used.
        if has_own.contains(&false) {
            recent_keys.remember(key, digest, pushes.jobs.iter().find_map(PushResult::id));
        }
        Ok(pushes)
    }

    /// Refuses a batch that differs from the one first pushed under this key, as far as the store can tell. Stores
    /// nothing.
    async fn check_first_use(
        &self,
        key: &IdempotencyKey,
        batch: &Batch,
        is_refused: impl Fn(usize) -> bool,
    ) -> Result<(), Error> {
        let jobs = &batch.jobs;
        // A single job can store no extra jobs; its own index is compared after the push.
        if jobs.len() < 2 {
            return Ok(());
        }
        // Ask for one index more: a holder there means that the first batch was longer.
        let count = (jobs.len() + 1).min(self.caps.batch_jobs);
        let holders =
            self.store.holders((0..count).map(|index| key.unique_key(index)).collect()).await?;
        let Some(first) = holders.iter().flatten().min().copied() else { return Ok(()) };
        let now = self.now();
        // An index that no job holds was refused the first time, or did not exist.
        let may_be_refused = |index: usize, job: &NewJob| {
            let may_break = !job.after.is_empty() || job.group.is_some();
            may_break
                || job.spec.client_id.is_some()
                || is_refused(index)
                || job.check_from_caller(&self.caps, now).is_err()
        };
        let is_consistent =
            |(index, holder): (usize, &Option<JobId>)| match (jobs.get(index), holder) {
                (Some(_), Some(_)) | (None, None) => true,
                (None, Some(_)) => false,
                (Some(job), None) => may_be_refused(index, job),
            };
        if holders.iter().enumerate().all(is_consistent) {
            Ok(())
        } else {
            Err(key.reused(Some(first)))
        }
    }

    /// Makes the result of a repeated push equal to the first one.
    async fn replay_first_result(
        &self,
        key: &IdempotencyKey,
        requested: &[NewJob],
        pushes: &mut BatchResult,
    ) -> Result<(), Error> {
        let is_ours = |(index, (job, taken)): (usize, (&NewJob, &PushResult))| match taken {
            PushResult::Duplicate(id) if key.is_key_of(&job.spec, index) => Some((index, *id)),
            _ => None,
        };
        let repeated = requested.iter().zip(&pushes.jobs).enumerate().filter_map(is_ours);
        let repeated: Vec<(usize, JobId)> = repeated.collect();
        if repeated.is_empty() {
            return Ok(());
        }
        let which = repeated.iter().map(|(_, id)| JobSelector::Id(*id)).collect();
        let stored = self.store.get(which).await?;
        for ((index, id), stored) in repeated.into_iter().zip(stored) {
            let job = &requested[index];
            match &stored {
                // A duplicate by client id, not by this key.
                Some(stored) if !key.is_key_of(&stored.spec, index) => continue,
                Some(stored) if !is_same(&stored.spec, job) => return Err(key.reused(Some(id))),
                // The job was removed after it ended; the store still holds its key.
                None if job.spec.client_id.is_some() => continue,
                Some(_) | None => pushes.jobs[index] = PushResult::New(id),
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

fn has_own_key_error() -> Invalid {
    let why =
        "a job pushed under an idempotency key cannot have a unique key; remove one of the two";
    Invalid::new(Code::Malformed, "unique", why)
}

fn group_of(job: Option<&Job>) -> Option<crore_core::GroupId> {
    job.and_then(|job| job.spec.group)
}

/// Whether a stored job equals the requested one, ignoring what the engine filled in.
fn is_same(stored: &Spec, requested: &NewJob) -> bool {
    let (mut stored, mut spec) = (comparable_spec(stored), comparable_spec(&requested.spec));
    for spec in [&mut stored, &mut spec] {
        if requested.unset.queue {
            spec.queue = spec.kind.clone();
        }
        if requested.unset.retry {
            spec.retry = Default::default();
        }
        if requested.unset.timeout {
            spec.timeout = None;
        }
        if requested.unset.keep {
            spec.keep = ResultRetention::Discard;
        }
    }
    stored == spec
}

/// A spec without what the engine and the store fill in, and without what differs between calls.
fn comparable_spec(spec: &Spec) -> Spec {
    let mut labels = spec.labels.clone();
    labels.retain(|name, _| !name.starts_with(RESERVED_PREFIX));
    let on_expired = spec.on_expired.clone().map(|mut next| {
        next.spec.pusher = None;
        next
    });
    Spec {
        on_expired,
        limits: Vec::new(),
        costs: None,
        fair: None,
        index: None,
        group: None,
        after: Vec::new(),
        parent: None,
        trace: None,
        pusher: None,
        labels,
        ..spec.clone()
    }
}
