//! The memo: which batch each of the newest keys was used for.
//!
//! A store can tell whether a job is the same, but not whether a batch is; the memo can.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crore_core::{Batch, JobId};

use super::{IdempotencyKey, stripped};
use crate::error::Error;

/// How many keys are remembered; older ones make room.
const REMEMBERED: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Memo {
    hasher: RandomState,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    /// The digest of the batch, and the first job that it stored.
    by_key: HashMap<Arc<str>, (u64, Option<JobId>)>,
    oldest: VecDeque<Arc<str>>,
}

impl Memo {
    /// A digest of what the caller asks for, without what only this call knows.
    pub(super) fn digest(&self, batch: &Batch) -> u64 {
        let jobs = batch
            .jobs
            .iter()
            .map(|job| (stripped(&job.spec), job.due, job.group, job.after.as_slice(), job.unsaid));
        self.hasher.hash_one((&batch.groups, jobs.collect::<Vec<_>>()))
    }

    /// Refuses a key that was used for another batch.
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
        while used.oldest.len() > REMEMBERED {
            if let Some(oldest) = used.oldest.pop_front() {
                used.by_key.remove(&oldest);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_keys_are_forgotten() {
        let memo = Memo::default();
        let key = |n: usize| IdempotencyKey(n.to_string().into());
        (0..=REMEMBERED).for_each(|n| memo.remember(&key(n), 1, None));
        assert!(memo.check(&key(0), 2).is_ok());
        assert!(memo.check(&key(1), 2).is_err() && memo.check(&key(1), 1).is_ok());
        assert_eq!(memo.lock().by_key.len(), REMEMBERED);
    }
}
