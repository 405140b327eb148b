//! Permits in use, per limit and key value.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crore_core::limit::{Limit, LimitKey, PauseEnd, Tat};
use crore_core::{Name, Span, Time};

use super::arena::Arena;
use super::lanes::{FairHeads, LaneHead, TurnHead};
use super::side::SideKey;
use crate::bug::planted;
use crate::jobs::MAX_RESUMED;
use crate::views::PausedKey;

/// How long a [`RateReservation`] holds after its time has come: a worker that waits for the job claims it meanwhile.
const RESERVATION_GRACE: Span = Span::from_secs(5);

/// The bucket of a limit for one key value.
#[derive(Debug)]
pub(crate) struct LimitBucket {
    pub(crate) key: LimitKey,
    /// Running deliveries that hold a permit.
    held: u32,
    /// Rate used so far.
    tat: Tat,
    /// No job under the key starts before this time.
    paused_until: Time,
    /// The job that the rate is reserved for, if the limit counts costs.
    pub(crate) reserved: Option<RateReservation>,
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

/// A job whose cost a rate does not have yet. Until the rate has it, and a little longer, jobs of the same or a worse
/// priority get nothing: they would use up what the job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateReservation {
    pub(crate) head: LaneHead,
    /// When all rates of the job have its costs.
    at: Time,
}

impl RateReservation {
    pub(crate) const fn end(&self) -> Time {
        self.at.after(RESERVATION_GRACE)
    }

    fn holds_back(&self, head: LaneHead, now: Time) -> bool {
        self.head.id != head.id && self.head.priority <= head.priority && now < self.end()
    }
}

/// The stored part of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BucketState {
    pub(crate) tat: Tat,
    pub(crate) paused_until: Time,
}

/// Why a bucket has no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PermitRefusal {
    /// Concurrency is exhausted until a permit is returned.
    Concurrency,
    /// The rate is exhausted until this time.
    RateUntil(Time),
    /// The key is paused, or the rate is reserved for another job, until this time.
    HeldUntil(Time),
}

impl PermitRefusal {
    /// When to try again; `None`: when a permit is returned.
    pub(crate) const fn until(self) -> Option<Time> {
        match self {
            Self::Concurrency => None,
            Self::RateUntil(at) | Self::HeldUntil(at) => Some(at),
        }
    }
}

/// Why a lane gets no permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneRefusal {
    /// The bucket that refused.
    pub(crate) bucket: u32,
    pub(crate) why: PermitRefusal,
    /// Whether the rates of the lane that count costs are reserved for its head now.
    pub(crate) is_reserved: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Permits {
    limits: HashMap<Name, Limit>,
    /// Number of limits that count costs.
    costed: usize,
    numbers: HashMap<LimitKey, u32>,
    pub(crate) buckets: Arena<LimitBucket>,
    /// Buckets with parked lanes.
    pub(crate) refusing: BTreeSet<u32>,
    pub(crate) touched: Vec<SideKey>,
}

impl Permits {
    /// Sets or removes a limit.
    pub(crate) fn define(&mut self, name: &Name, limit: Option<Limit>) {
        match limit {
            Some(limit) => self.limits.insert(name.clone(), limit),
            None => self.limits.remove(name),
        };
        let is_costed = |limit: &&Limit| limit.cost.is_some();
        let before = self.costed;
        self.costed = self.limits.values().filter(is_costed).count();
        if before > 0 {
            self.buckets.each_mut(|bucket| {
                bucket.reserved.take_if(|_| bucket.key.limit == *name);
            });
        }
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
            paused_until: Time::ZERO,
            reserved: None,
            lanes: 0,
            parked: BTreeMap::new(),
        };
        let number = self.buckets.add(bucket);
        self.numbers.insert(key.clone(), number);
        number
    }

    /// The stored part of a bucket, if it was ever used.
    pub(crate) fn state(&self, key: &LimitKey) -> Option<BucketState> {
        let LimitBucket { tat, paused_until, .. } = *self.buckets.at(*self.numbers.get(key)?);
        let state = BucketState { tat, paused_until };
        (state != BucketState::default()).then_some(state)
    }

    pub(crate) fn set_state(&mut self, key: &LimitKey, state: BucketState) {
        let number = self.bucket(key);
        let bucket = self.buckets.at_mut(number);
        (bucket.tat, bucket.paused_until) = (state.tat, state.paused_until);
    }

    /// Counts the permits of a delivery that was running when the store was last open.
    pub(crate) fn restore_held(&mut self, buckets: &[u32]) {
        buckets.iter().for_each(|number| self.buckets.at_mut(*number).held += 1);
    }

    pub(crate) fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Number of running deliveries that hold a permit of a bucket.
    pub(crate) fn held(&self, number: u32) -> u32 {
        self.buckets.at(number).held
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
            bucket.lanes == 0 && bucket.held == 0 && earned && bucket.paused_until <= now
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
            self.refusing.remove(number);
        }
        idle.len()
    }

    /// Why a bucket cannot grant a permit now. If its rate counts costs, this depends on the job: see
    /// [`Permits::refusal`].
    pub(crate) fn blocked(&self, number: u32, now: Time) -> Option<PermitRefusal> {
        let bucket = self.buckets.at(number);
        let limit = self.limits.get(&bucket.key.limit)?;
        if let Some(held) = held_back(bucket, limit, now) {
            return Some(held);
        }
        let rate = limit.rate.as_ref().filter(|_| limit.cost.is_none())?;
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

    /// Whether the rate of a bucket counts costs.
    pub(crate) fn is_costed(&self, number: u32) -> bool {
        self.costed > 0 && self.costed_limit(number).is_some()
    }

    fn costed_limit(&self, number: u32) -> Option<&Limit> {
        let limit = self.limits.get(&self.buckets.at(number).key.limit);
        limit.filter(|limit| limit.cost.is_some() && limit.rate.is_some())
    }

    /// Why a bucket whose rate counts costs refuses this head, which costs this much.
    pub(crate) fn refusal(
        &self,
        number: u32,
        (head, cost): (LaneHead, u32),
        now: Time,
    ) -> Option<PermitRefusal> {
        let bucket = self.buckets.at(number);
        let limit = self.limits.get(&bucket.key.limit)?;
        let held = held_back(bucket, limit, now).or_else(|| reserved(bucket, head, now));
        held.or_else(|| {
            let rate = limit.rate.as_ref()?;
            let is_granted = rate.take_cost(bucket.tat, now, cost).is_granted;
            (!is_granted)
                .then(|| PermitRefusal::RateUntil(rate.next_at_cost(bucket.tat, now, cost)))
        })
    }

    /// Takes the permits of a head from every bucket, or from none. `costs` are what it takes from each; `None`: one.
    pub(crate) fn take(
        &mut self,
        buckets: &[u32],
        (head, costs): (LaneHead, Option<&[u32]>),
        now: Time,
    ) -> Result<(), LaneRefusal> {
        if buckets.iter().any(|number| self.is_costed(*number)) {
            return self.take_costs(buckets, (head, costs), now);
        }
        for number in buckets {
            if let Some(why) = self.check(*number, now) {
                return Err(LaneRefusal { bucket: *number, why, is_reserved: false });
            }
        }
        for number in buckets {
            self.buckets.at_mut(*number).held += 1;
            self.take_rate(*number, now);
        }
        Ok(())
    }

    /// Takes the costs of a head, or reserves the rates for it if nothing else keeps it from starting.
    fn take_costs(
        &mut self,
        buckets: &[u32],
        (head, costs): (LaneHead, Option<&[u32]>),
        now: Time,
    ) -> Result<(), LaneRefusal> {
        for number in buckets {
            let bucket = self.buckets.at(*number);
            let limit = self.limits.get(&bucket.key.limit);
            let held = limit.and_then(|limit| held_back(bucket, limit, now));
            let held = held.or_else(|| limit.and_then(|_| reserved(bucket, head, now)));
            if let Some(why) = held {
                return Err(LaneRefusal { bucket: *number, why, is_reserved: false });
            }
        }
        let mut short: Option<(u32, Time)> = None;
        for (nth, number) in buckets.iter().enumerate() {
            let cost = cost_at(costs, nth);
            if let Some(at) = self.short_until(*number, cost, now) {
                self.take_cost(*number, cost, now);
                let (first, before) = short.unwrap_or((*number, at));
                short = Some((first, before.max(at)));
            }
        }
        if let Some((bucket, at)) = short {
            self.reserve(buckets, RateReservation { head, at });
            let why = PermitRefusal::RateUntil(at);
            return Err(LaneRefusal { bucket, why, is_reserved: true });
        }
        for (nth, number) in buckets.iter().enumerate() {
            self.buckets.at_mut(*number).held += 1;
            self.take_cost(*number, cost_at(costs, nth), now);
        }
        Ok(())
    }

    /// When the rate of a bucket has a cost that it does not have now.
    fn short_until(&self, number: u32, cost: u32, now: Time) -> Option<Time> {
        let bucket = self.buckets.at(number);
        let limit = self.limits.get(&bucket.key.limit)?;
        let (rate, tat) = (limit.rate.as_ref()?, bucket.tat);
        if limit.cost.is_none() {
            return (rate.take(tat, now, 1).granted == 0).then(|| rate.next_at(tat, now));
        }
        let is_granted = rate.take_cost(tat, now, cost).is_granted;
        (!is_granted).then(|| rate.next_at_cost(tat, now, cost))
    }

    fn reserve(&mut self, buckets: &[u32], reservation: RateReservation) {
        for number in buckets {
            if self.is_costed(*number) && !planted!("bug-57") {
                self.buckets.at_mut(*number).reserved = Some(reservation);
            }
        }
    }

    /// Takes a cost from the rate of a bucket, or saves its `tat` if the rate does not have it.
    fn take_cost(&mut self, number: u32, cost: u32, now: Time) {
        let Some(rate) = self.costed_limit(number).and_then(|limit| limit.rate) else {
            return self.take_rate(number, now);
        };
        let bucket = self.buckets.at_mut(number);
        bucket.tat = rate.take_cost(bucket.tat, now, cost).tat;
        self.touched.push(SideKey::Bucket(bucket.key.clone()));
    }

    /// Corrects what a start has taken, if the rate counts costs; returns the bucket.
    pub(crate) fn correct_cost(
        &mut self,
        key: &LimitKey,
        (charged, real): (u32, u32),
        now: Time,
    ) -> Option<u32> {
        let number = *self.numbers.get(key)?;
        let rate = self.costed_limit(number)?.rate?;
        let bucket = self.buckets.at_mut(number);
        bucket.tat = rate.settle(bucket.tat, now, charged, real);
        self.touched.push(SideKey::Bucket(key.clone()));
        Some(number)
    }

    /// Pauses a key; an earlier pause that ends later stays.
    pub(crate) fn pause(&mut self, key: &LimitKey, until: PauseEnd, now: Time) {
        let number = self.bucket(key);
        let bucket = self.buckets.at_mut(number);
        let until = until.resolve(now);
        if until > now && until > bucket.paused_until {
            bucket.paused_until = until;
            self.touched.push(SideKey::Bucket(key.clone()));
        }
    }

    /// Ends the pauses of a limit's keys, or of one of them; returns the buckets.
    pub(crate) fn resume(&mut self, limit: &Name, key: Option<&LimitKey>, now: Time) -> Vec<u32> {
        let is_meant = |bucket: &LimitBucket| {
            bucket.paused_until > now
                && bucket.key.limit == *limit
                && key.is_none_or(|key| bucket.key == *key)
        };
        let meant = self.buckets.iter().filter(|(_, bucket)| is_meant(bucket));
        let meant: Vec<u32> = meant.map(|(number, _)| number).take(MAX_RESUMED).collect();
        for number in &meant {
            let bucket = self.buckets.at_mut(*number);
            bucket.paused_until = Time::ZERO;
            self.touched.push(SideKey::Bucket(bucket.key.clone()));
        }
        meant
    }

    /// The paused keys of a limit, or of all limits, in order, and when each pause ends.
    pub(crate) fn paused(&self, limit: Option<&Name>, now: Time) -> Vec<PausedKey> {
        let is_meant = |bucket: &LimitBucket| {
            bucket.paused_until > now && limit.is_none_or(|limit| bucket.key.limit == *limit)
        };
        let paused =
            self.buckets.iter().map(|(_, bucket)| bucket).filter(|bucket| is_meant(bucket));
        let mut paused: Vec<_> =
            paused.map(|it| PausedKey { key: it.key.clone(), until: it.paused_until }).collect();
        paused.sort_unstable();
        paused
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

/// The cost under the nth bucket of a lane.
pub(super) fn cost_at(costs: Option<&[u32]>, nth: usize) -> u32 {
    if planted!("bug-58") {
        return 1;
    }
    costs.and_then(|costs| costs.get(nth)).copied().unwrap_or(1)
}

/// Why a bucket grants nothing, whatever its rate.
fn held_back(bucket: &LimitBucket, limit: &Limit, now: Time) -> Option<PermitRefusal> {
    if limit.concurrency.is_some_and(|max| bucket.held >= max) {
        return Some(PermitRefusal::Concurrency);
    }
    (now < bucket.paused_until).then_some(PermitRefusal::HeldUntil(bucket.paused_until))
}

/// Whether the rate of a bucket is reserved for another job.
fn reserved(bucket: &LimitBucket, head: LaneHead, now: Time) -> Option<PermitRefusal> {
    let reserved = bucket.reserved.as_ref()?;
    reserved.holds_back(head, now).then(|| PermitRefusal::HeldUntil(reserved.end()))
}
