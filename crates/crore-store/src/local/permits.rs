//! Permits in use, per limit and key value.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crore_core::limit::{Limit, LimitKey, Tat};
use crore_core::{Name, Time};

use super::arena::Arena;
use super::lanes::{FairHeads, LaneHead, TurnHead};
use super::side::SideKey;

/// The bucket of a limit for one key value.
#[derive(Debug)]
pub(crate) struct LimitBucket {
    pub(crate) key: LimitKey,
    /// Running deliveries that hold a permit.
    held: u32,
    /// Rate used so far.
    tat: Tat,
    /// Number of lanes that refer to this bucket.
    lanes: u32,
    /// Lanes parked here, by partition. When a permit becomes free, the first lane of each partition
    /// is tried.
    pub(crate) parked: BTreeMap<u32, ParkedLanes>,
}

/// The lanes of one partition that are parked at a bucket.
#[derive(Debug, Default)]
pub(crate) struct ParkedLanes {
    /// Lanes without a share.
    pub(crate) plain: BTreeSet<LaneHead>,
    /// Lanes with a share.
    pub(crate) fair: Option<Box<FairHeads>>,
    /// Position of the bucket among the armed buckets of the partition.
    pub(crate) armed: Option<TurnHead>,
}

impl ParkedLanes {
    pub(crate) fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.fair.as_ref().is_none_or(|fair| fair.is_empty())
    }
}

/// Why a bucket has no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PermitRefusal {
    /// Concurrency is exhausted until a permit is returned.
    Concurrency,
    /// The rate is exhausted until this time.
    RateUntil(Time),
}

#[derive(Debug, Default)]
pub(crate) struct Permits {
    limits: HashMap<Name, Limit>,
    numbers: HashMap<LimitKey, u32>,
    pub(crate) buckets: Arena<LimitBucket>,
    pub(crate) touched: Vec<SideKey>,
}

impl Permits {
    /// Sets or removes a limit.
    pub(crate) fn define(&mut self, name: &Name, limit: Option<Limit>) {
        match limit {
            Some(limit) => self.limits.insert(name.clone(), limit),
            None => self.limits.remove(name),
        };
    }

    /// Returns the bucket of a key and adds a lane to its count.
    pub(crate) fn add_lane(&mut self, key: &LimitKey) -> u32 {
        let number = self.bucket(key);
        self.buckets.at_mut(number).lanes += 1;
        number
    }

    fn bucket(&mut self, key: &LimitKey) -> u32 {
        if let Some(number) = self.numbers.get(key) {
            return *number;
        }
        let bucket = LimitBucket {
            key: key.clone(),
            held: 0,
            tat: Tat::default(),
            lanes: 0,
            parked: BTreeMap::new(),
        };
        let number = self.buckets.add(bucket);
        self.numbers.insert(key.clone(), number);
        number
    }

    /// Rate used under a key, if any was ever requested.
    pub(crate) fn tat(&self, key: &LimitKey) -> Option<Tat> {
        let tat = self.numbers.get(key).map(|number| self.buckets.at(*number).tat);
        tat.filter(|tat| *tat != Tat::default())
    }

    pub(crate) fn set_tat(&mut self, key: &LimitKey, tat: Tat) {
        let number = self.bucket(key);
        self.buckets.at_mut(number).tat = tat;
    }

    /// Counts the permits of a delivery that was running when the store was last open.
    pub(crate) fn restore_held(&mut self, buckets: &[u32]) {
        buckets.iter().for_each(|number| self.buckets.at_mut(*number).held += 1);
    }

    pub(crate) fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Removes a lane from a bucket's count.
    pub(crate) fn remove_lane(&mut self, number: u32) {
        let bucket = self.buckets.at_mut(number);
        bucket.lanes = bucket.lanes.saturating_sub(1);
    }

    /// Removes unused buckets, and returns how many.
    pub(crate) fn prune(&mut self, now: Time) -> usize {
        let idle = |bucket: &LimitBucket| {
            // Under any rate, even one defined later, the bucket equals an unused one.
            let earned = bucket.tat.as_micros() <= now.as_millis().saturating_mul(1000);
            bucket.lanes == 0 && bucket.held == 0 && earned
        };
        let idle: Vec<u32> = self
            .buckets
            .iter()
            .filter(|(_, bucket)| idle(bucket))
            .map(|(number, _)| number)
            .collect();
        for number in &idle {
            self.numbers.remove(&self.buckets.at(*number).key);
            self.buckets.remove(*number);
        }
        idle.len()
    }

    /// Why a bucket cannot grant a permit now.
    pub(crate) fn blocked(&self, number: u32, now: Time) -> Option<PermitRefusal> {
        let bucket = self.buckets.at(number);
        let limit = self.limits.get(&bucket.key.limit)?;
        if limit.concurrency.is_some_and(|max| bucket.held >= max) {
            return Some(PermitRefusal::Concurrency);
        }
        let rate = limit.rate.as_ref()?;
        let none = rate.take(bucket.tat, now, 1).granted == 0;
        none.then(|| PermitRefusal::RateUntil(rate.next_at(bucket.tat, now)))
    }

    /// Like [`Permits::blocked`], for a claim: also saves the `tat` of a refusal by a rate (see
    /// `crore_core::limit::bucket`).
    pub(crate) fn check(&mut self, number: u32, now: Time) -> Option<PermitRefusal> {
        let blocked = self.blocked(number, now)?;
        if let PermitRefusal::RateUntil(_) = blocked {
            self.take_rate(number, now);
        }
        Some(blocked)
    }

    /// Takes a permit from every bucket, or from none and returns the first blocked bucket.
    pub(crate) fn take(&mut self, buckets: &[u32], now: Time) -> Result<(), (u32, PermitRefusal)> {
        for number in buckets {
            if let Some(blocked) = self.check(*number, now) {
                return Err((*number, blocked));
            }
        }
        for number in buckets {
            self.buckets.at_mut(*number).held += 1;
            self.take_rate(*number, now);
        }
        Ok(())
    }

    fn take_rate(&mut self, number: u32, now: Time) {
        let bucket = self.buckets.at_mut(number);
        let rate = self.limits.get(&bucket.key.limit).and_then(|limit| limit.rate.as_ref());
        if let Some(rate) = rate {
            bucket.tat = rate.take(bucket.tat, now, 1).tat;
            self.touched.push(SideKey::Bucket(bucket.key.clone()));
        }
    }

    /// Returns the permit of a delivery.
    pub(crate) fn return_permit(&mut self, number: u32) {
        let bucket = self.buckets.at_mut(number);
        bucket.held = bucket.held.saturating_sub(1);
    }
}
