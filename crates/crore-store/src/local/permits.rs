//! The ledger of permits: how much of each limit is in use, by the value that it counts by.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crore_core::limit::{Limit, LimitKey, Tat};
use crore_core::{Name, Time};

use super::lanes::Head;
use super::side::Key;
use super::table::Table;

/// One limit at one value.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) key: LimitKey,
    /// Running deliveries that hold a permit.
    held: u32,
    /// How far the rate is used up.
    tat: Tat,
    /// Lanes that refer to it.
    lanes: u32,
    /// Lanes that were found without a permit here, by desk; the best of a desk is tried again when
    /// a permit comes free.
    pub(crate) parked: BTreeMap<u32, BTreeSet<Head>>,
}

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// Until one is returned.
    Held,
    /// Until then.
    Until(Time),
}

#[derive(Debug, Default)]
pub(crate) struct Permits {
    limits: HashMap<Name, Limit>,
    numbers: HashMap<LimitKey, u32>,
    pub(crate) buckets: Table<Bucket>,
    pub(crate) touched: Vec<Key>,
}

impl Permits {
    /// Sets or removes a limit.
    pub(crate) fn define(&mut self, name: &Name, limit: Option<Limit>) {
        match limit {
            Some(limit) => self.limits.insert(name.clone(), limit),
            None => self.limits.remove(name),
        };
    }

    /// The bucket of a key, for one more lane.
    pub(crate) fn enter(&mut self, key: &LimitKey) -> u32 {
        let no = self.bucket(key);
        self.buckets.at_mut(no).lanes += 1;
        no
    }

    fn bucket(&mut self, key: &LimitKey) -> u32 {
        if let Some(no) = self.numbers.get(key) {
            return *no;
        }
        let bucket = Bucket {
            key: key.clone(),
            held: 0,
            tat: Tat::default(),
            lanes: 0,
            parked: BTreeMap::new(),
        };
        let no = self.buckets.add(bucket);
        self.numbers.insert(key.clone(), no);
        no
    }

    /// How far the rate of a key is used up, if it was ever asked for.
    pub(crate) fn tat(&self, key: &LimitKey) -> Option<Tat> {
        let tat = self.numbers.get(key).map(|no| self.buckets.at(*no).tat);
        tat.filter(|tat| *tat != Tat::default())
    }

    pub(crate) fn set_tat(&mut self, key: &LimitKey, tat: Tat) {
        let no = self.bucket(key);
        self.buckets.at_mut(no).tat = tat;
    }

    /// A delivery that was running when the store was open last holds its permits again.
    pub(crate) fn hold(&mut self, buckets: &[u32]) {
        buckets.iter().for_each(|no| self.buckets.at_mut(*no).held += 1);
    }

    pub(crate) fn count(&self) -> usize {
        self.numbers.len()
    }

    /// One lane less refers to a bucket.
    pub(crate) fn leave(&mut self, no: u32) {
        let bucket = self.buckets.at_mut(no);
        bucket.lanes = bucket.lanes.saturating_sub(1);
    }

    /// Drops buckets that nobody needs to remember. Gives how many.
    pub(crate) fn prune(&mut self, now: Time) -> usize {
        let idle = |bucket: &Bucket| {
            // By any rate, also by one that is yet to be set, it is as if it was never used.
            let earned = bucket.tat.as_micros() <= now.as_millis().saturating_mul(1000);
            bucket.lanes == 0 && bucket.held == 0 && earned
        };
        let idle: Vec<u32> =
            self.buckets.iter().filter(|(_, bucket)| idle(bucket)).map(|(no, _)| no).collect();
        for no in &idle {
            self.numbers.remove(&self.buckets.at(*no).key);
            self.buckets.remove(*no);
        }
        idle.len()
    }

    /// What keeps a bucket from giving a permit now.
    pub(crate) fn blocked(&self, no: u32, now: Time) -> Option<Blocked> {
        let bucket = self.buckets.at(no);
        let limit = self.limits.get(&bucket.key.limit)?;
        if limit.concurrency.is_some_and(|most| bucket.held >= most) {
            return Some(Blocked::Held);
        }
        let rate = limit.rate.as_ref()?;
        let none = rate.take(bucket.tat, now, 1).granted == 0;
        none.then(|| Blocked::Until(rate.next_at(bucket.tat, now)))
    }

    /// What keeps a bucket from giving a permit to a claim that has come to it. That a rate was asked
    /// is kept even though nothing is granted: see `crore_core::limit::bucket`.
    pub(crate) fn ask(&mut self, no: u32, now: Time) -> Option<Blocked> {
        let blocked = self.blocked(no, now)?;
        if let Blocked::Until(_) = blocked {
            self.take_rate(no, now);
        }
        Some(blocked)
    }

    /// Takes a permit from each bucket, or from none and says which one is blocked.
    pub(crate) fn take(&mut self, buckets: &[u32], now: Time) -> Result<(), (u32, Blocked)> {
        for no in buckets {
            if let Some(blocked) = self.ask(*no, now) {
                return Err((*no, blocked));
            }
        }
        for no in buckets {
            self.buckets.at_mut(*no).held += 1;
            self.take_rate(*no, now);
        }
        Ok(())
    }

    fn take_rate(&mut self, no: u32, now: Time) {
        let bucket = self.buckets.at_mut(no);
        let rate = self.limits.get(&bucket.key.limit).and_then(|limit| limit.rate.as_ref());
        if let Some(rate) = rate {
            bucket.tat = rate.take(bucket.tat, now, 1).tat;
            self.touched.push(Key::Bucket(bucket.key.clone()));
        }
    }

    /// A delivery gives its permit back.
    pub(crate) fn give_back(&mut self, no: u32) {
        let bucket = self.buckets.at_mut(no);
        bucket.held = bucket.held.saturating_sub(1);
    }
}
