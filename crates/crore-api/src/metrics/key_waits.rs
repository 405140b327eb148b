//! Waits of the jobs of a shared queue by fair key: median and 99th percentile of the keys with most deliveries.
//!
//! The keys are chosen with the space-saving algorithm: a table of fixed size counts deliveries, and a key that is
//! not in a full table takes the place of the one with the smallest count. A key with more than one delivery in
//! [`MAX_KEYS`] is certainly in the table.

use std::collections::BTreeMap;

use crore_core::Span;
use crore_core::fair::FairKey;

/// Maximum number of keys per queue.
pub(super) const MAX_KEYS: usize = 20;

/// The quantiles that are shown, with their labels.
pub(super) const QUANTILES: [(&str, u64); 2] = [("0.5", 50), ("0.99", 99)];

/// When a key has this many waits, all its counts are halved: recent waits weigh most.
const HALVED_AT: u32 = 1000;

/// Buckets per power of two, so a value is at most a quarter too large.
const STEPS: u32 = 4;
/// Waits from 2³⁸ ms, eight years, on share the last bucket.
const BUCKETS: usize = 148;

/// The waits of the keys of one queue.
#[derive(Debug, Default)]
pub(super) struct KeyWaits(BTreeMap<FairKey, WaitCounts>);

#[derive(Debug)]
struct WaitCounts {
    /// Deliveries, and those of the key whose place it took.
    deliveries: u64,
    waits: u32,
    buckets: Box<[u16; BUCKETS]>,
}

impl KeyWaits {
    /// Counts a delivery.
    pub(super) fn observe(&mut self, key: &FairKey, wait: Span) {
        if let Some(counts) = self.0.get_mut(key) {
            return counts.observe(wait);
        }
        let mut deliveries = 0;
        if self.0.len() >= MAX_KEYS {
            let least = self.0.iter().min_by_key(|(_, counts)| counts.deliveries);
            let least = least.map(|(key, counts)| (key.clone(), counts.deliveries));
            if let Some((key, before)) = least {
                self.0.remove(&key);
                deliveries = before;
            }
        }
        let mut counts = WaitCounts { deliveries, waits: 0, buckets: Box::new([0; BUCKETS]) };
        counts.observe(wait);
        self.0.insert(key.clone(), counts);
    }

    /// The quantiles of all keys in milliseconds, by key, in the order of [`QUANTILES`].
    pub(super) fn quantiles(&self) -> Vec<(FairKey, [u64; 2])> {
        let quantiles =
            |counts: &WaitCounts| QUANTILES.map(|(_, percent)| counts.quantile(percent));
        self.0.iter().map(|(key, counts)| (key.clone(), quantiles(counts))).collect()
    }
}

impl WaitCounts {
    fn observe(&mut self, wait: Span) {
        if self.waits >= HALVED_AT {
            self.buckets.iter_mut().for_each(|n| *n /= 2);
            self.waits = self.buckets.iter().map(|n| u32::from(*n)).sum();
        }
        self.deliveries += 1;
        self.waits += 1;
        if let Some(n) = self.buckets.get_mut(bucket(wait.as_millis())) {
            *n += 1;
        }
    }

    /// The largest value of the bucket that contains the quantile.
    fn quantile(&self, percent: u64) -> u64 {
        let rank = (u64::from(self.waits) * percent).div_ceil(100).max(1);
        let mut before = 0;
        let found = self.buckets.iter().position(|n| {
            before += u64::from(*n);
            before >= rank
        });
        largest(found.unwrap_or_default())
    }
}

/// The bucket of a wait in milliseconds.
fn bucket(ms: u64) -> usize {
    if ms < u64::from(STEPS) {
        return ms as usize;
    }
    let power = ms.ilog2();
    let step = (ms >> (power - 2)) as u32 % STEPS;
    (((power - 1) * STEPS + step) as usize).min(BUCKETS - 1)
}

/// The largest wait of a bucket.
fn largest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < u64::from(STEPS) {
        return bucket;
    }
    let (power, step) = (bucket / u64::from(STEPS) + 1, bucket % u64::from(STEPS));
    ((u64::from(STEPS) + step + 1) << (power - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> FairKey {
        FairKey::new(Some(text.into()))
    }

    #[test]
    fn a_bucket_contains_its_waits_and_is_at_most_a_quarter_wide() {
        for ms in (0..5000).chain([1 << 20, (1 << 30) + 12345, (1 << 36) + 7]) {
            let largest = largest(bucket(ms));
            assert!(largest >= ms && largest <= ms + ms / 4, "{ms}: {largest}");
        }
        assert!((0..5000).all(|ms| bucket(ms) <= bucket(ms + 1)));
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(
            (0..BUCKETS).map(largest).map(bucket).collect::<Vec<_>>(),
            (0..BUCKETS).collect::<Vec<_>>()
        );
    }

    #[test]
    fn quantiles_are_those_of_the_recent_waits() {
        let mut waits = KeyWaits::default();
        for n in 0..100 {
            waits.observe(&key("a"), Span::from_millis(if n < 98 { 10 } else { 5000 }));
        }
        let quantiles = waits.quantiles();
        let waits_of =
            |median: u64, high: u64| (10..=12).contains(&median) && (5000..=6250).contains(&high);
        assert!(
            quantiles.iter().all(|(_, [median, high])| waits_of(*median, *high)),
            "{quantiles:?}"
        );
        for _ in 0..20_000 {
            waits.observe(&key("a"), Span::from_millis(1));
        }
        assert_eq!(waits.quantiles(), [(key("a"), [1, 1])]);
    }

    #[test]
    fn the_keys_with_most_deliveries_are_kept() {
        let mut waits = KeyWaits::default();
        for n in 0..10_000 {
            waits.observe(&key(&format!("rare {n}")), Span::ZERO);
            if n % 3 == 0 {
                waits.observe(&key("often"), Span::ZERO);
                waits.observe(&key("also"), Span::ZERO);
            }
        }
        let keys: Vec<FairKey> = waits.quantiles().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), MAX_KEYS);
        assert!(keys.contains(&key("often")) && keys.contains(&key("also")), "{keys:?}");
    }
}
