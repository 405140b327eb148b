//! Cache of the most recent idempotency keys, each with a digest of its batch. The store can compare single jobs,
//! but not whole batches.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crore_core::{Batch, JobId};

use super::{IdempotencyKey, comparable_spec};
use crate::error::Error;

/// Maximum cached keys; the oldest are dropped.
const MAX_KEYS: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct RecentKeys {
    hasher: RandomState,
    used: Mutex<UsedKeys>,
}

#[derive(Debug, Default)]
struct UsedKeys {
    /// The digest of the batch, and its first stored job.
    by_key: HashMap<Arc<str>, (u64, Option<JobId>)>,
    oldest: VecDeque<Arc<str>>,
}

impl RecentKeys {
    /// A digest of the batch, without what differs between calls.
    pub(super) fn digest(&self, batch: &Batch) -> u64 {
        let jobs = batch.jobs.iter().map(|job| {
            (comparable_spec(&job.spec), job.due, job.group, job.after.as_slice(), job.unset)
        });
        let groups = batch.groups.iter().map(|group| group.open);
        self.hasher.hash_one((groups.collect::<Vec<_>>(), jobs.collect::<Vec<_>>()))
    }

    /// Refuses a key that was used for a different batch.
    pub(super) fn check(&self, key: &IdempotencyKey, digest: u64) -> Result<(), Error> {
        match self.lock().by_key.get(&key.0) {
            Some((used, first)) if *used != digest => Err(key.reused(*first)),
            _ => Ok(()),
        }
    }

    pub(super) fn remember(&self, key: &IdempotencyKey, digest: u64, first: Option<JobId>) {
        let mut used = self.lock();
        if used.by_key.insert(Arc::clone(&key.0), (digest, first)).is_none() {
            used.oldest.push_back(Arc::clone(&key.0));
        }
        while used.oldest.len() > MAX_KEYS {
            if let Some(oldest) = used.oldest.pop_front() {
                used.by_key.remove(&oldest);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, UsedKeys> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_keys_are_evicted() {
        let keys = RecentKeys::default();
        let key = |n: usize| IdempotencyKey(n.to_string().into());
        (0..=MAX_KEYS).for_each(|n| keys.remember(&key(n), 1, None));
        assert!(keys.check(&key(0), 2).is_ok());
        assert!(keys.check(&key(1), 2).is_err() && keys.check(&key(1), 1).is_ok());
        assert_eq!(keys.lock().by_key.len(), MAX_KEYS);
    }
}
