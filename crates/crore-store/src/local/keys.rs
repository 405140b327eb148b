//! Unique keys and client ids, and the jobs that have them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crore_core::job::ClientId;
use crore_core::unique::Unique;
use crore_core::{JobId, Time};

use super::side::SideKey;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyLock {
    pub(crate) job: JobId,
    /// The key is free from this instant on, whatever happens to the job.
    pub(crate) until: Option<Time>,
}

#[derive(Debug, Default)]
pub(crate) struct JobKeys {
    locks: HashMap<Arc<str>, KeyLock>,
    expiries: BTreeSet<(Time, Arc<str>)>,
    clients: HashMap<ClientId, JobId>,
    pub(crate) touched: Vec<SideKey>,
}

impl JobKeys {
    /// The job that holds a key.
    pub(crate) fn holder(&self, key: &str, now: Time) -> Option<JobId> {
        let lock = self.locks.get(key)?;
        lock.until.is_none_or(|until| now < until).then_some(lock.job)
    }

    pub(crate) fn client(&self, client: &ClientId) -> Option<JobId> {
        self.clients.get(client).copied()
    }

    pub(crate) fn lock(&mut self, unique: &Unique, job: JobId, due: Time) {
        let until = unique.window.map(|window| due.after(window));
        self.touched.push(SideKey::Lock(Arc::clone(&unique.key)));
        self.set(Arc::clone(&unique.key), KeyLock { job, until });
    }

    pub(crate) fn set(&mut self, key: Arc<str>, lock: KeyLock) {
        let old = self.locks.insert(Arc::clone(&key), lock);
        if let Some(old) = old.and_then(|lock| lock.until) {
            self.expiries.remove(&(old, Arc::clone(&key)));
        }
        self.expiries.extend(lock.until.map(|until| (until, key)));
    }

    pub(crate) fn lock_of(&self, key: &str) -> Option<KeyLock> {
        self.locks.get(key).copied()
    }

    pub(crate) fn locks(&self) -> usize {
        self.locks.len()
    }

    /// Releases a key if this job holds it.
    pub(crate) fn release(&mut self, unique: &Unique, job: JobId) {
        let Some(lock) = self.locks.get(&unique.key).filter(|lock| lock.job == job) else { return };
        if let Some(until) = lock.until {
            self.expiries.remove(&(until, Arc::clone(&unique.key)));
        }
        self.locks.remove(&unique.key);
        self.touched.push(SideKey::Lock(Arc::clone(&unique.key)));
    }

    pub(crate) fn add_client(&mut self, client: &ClientId, job: JobId) {
        self.clients.insert(client.clone(), job);
    }

    pub(crate) fn drop_client(&mut self, client: &ClientId) {
        self.clients.remove(client);
    }

    /// Removes up to `n` expired locks, and returns how many.
    pub(crate) fn prune(&mut self, n: usize, now: Time) -> usize {
        let mut dropped = 0;
        while dropped < n
            && let Some((until, key)) = self.expiries.first().cloned()
            && until <= now
        {
            self.expiries.pop_first();
            self.locks.remove(&key);
            self.touched.push(SideKey::Lock(key));
            dropped += 1;
        }
        dropped
    }
}
