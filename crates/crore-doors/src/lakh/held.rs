//! The jobs that a worker has, by the names under which it knows them.

use std::collections::HashMap;
use std::sync::Arc;

use crore_core::job::DEFAULT_LEASE;
use crore_core::{Delivery, Job, JobId};
use tokio::time::Instant;

use super::translate::id;

/// A job as its worker names it: by its name and its id.
pub(super) type Key = (Arc<str>, Arc<str>);

/// A delivery that a worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) job: JobId,
    pub(super) delivery: Delivery,
    /// Whether its worker is to report; a job without a reservation is done when it is handed over.
    pub(super) is_reserved: bool,
    /// Whether it was given to the connection.
    pub(super) is_sent: bool,
    /// It is another's from here on.
    pub(super) until: Instant,
}

impl Hold {
    fn of(job: &Job, now: Instant) -> Self {
        Self {
            job: job.id,
            delivery: job.live.delivery,
            is_reserved: job.spec.lease.is_some(),
            is_sent: false,
            until: now + job.spec.lease.unwrap_or(DEFAULT_LEASE).into(),
        }
    }
}

/// How a worker names a job.
pub(super) fn key(job: &Job) -> Key {
    (job.spec.queue.as_str().into(), id(job))
}

/// When there are so many, those whose time is over are looked for.
const TIDY_FROM: usize = 64;

/// The jobs that a worker has.
#[derive(Debug)]
pub(super) struct Held {
    all: HashMap<Key, Hold>,
    tidy_at: usize,
    /// Whether reports are on their way to the disk.
    pub(super) is_reporting: bool,
}

impl Default for Held {
    fn default() -> Self {
        Self { all: HashMap::new(), tidy_at: TIDY_FROM, is_reporting: false }
    }
}

impl Held {
    /// Whether nothing of it has yet to be reported, or to be written.
    pub(super) fn is_settled(&self) -> bool {
        self.all.is_empty() && !self.is_reporting
    }

    /// A job was taken for it.
    pub(super) fn take(&mut self, job: &Job, now: Instant) {
        if self.all.len() >= self.tidy_at {
            // Nobody reported them, and they are others' now.
            self.all.retain(|_, hold| hold.until > now);
            self.tidy_at = (self.all.len() * 2).max(TIDY_FROM);
        }
        self.all.insert(key(job), Hold::of(job, now));
    }

    /// A job is about to be sent to it; `None`: it is another's by now, and is not sent.
    pub(super) fn send(&mut self, job: &Job, now: Instant) -> Option<Hold> {
        let key = key(job);
        let hold = self.all.get_mut(&key)?;
        if hold.delivery != job.live.delivery || hold.until <= now {
            self.all.remove(&key);
            return None;
        }
        hold.is_sent = true;
        Some(*hold)
    }

    pub(super) fn get(&self, key: &Key) -> Option<Hold> {
        self.all.get(key).copied()
    }

    /// It has this delivery no more.
    pub(super) fn drop_one(&mut self, key: &Key, delivery: Delivery) {
        if self.all.get(key).is_some_and(|hold| hold.delivery == delivery) {
            self.all.remove(key);
        }
    }

    /// Takes everything away from it.
    pub(super) fn clear(&mut self) -> Vec<Hold> {
        std::mem::take(&mut self.all).into_values().collect()
    }
}
