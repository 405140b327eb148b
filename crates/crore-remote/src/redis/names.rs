//! Names in Redis: shards, slots, lanes and locks.
//!
//! External names are escaped before they become part of a key, so that no brace, slash or line break can
//! move a key to another slot or make two names equal.

use crore_core::job::ClientId;
use crore_core::limit::LimitKey;
use crore_core::{Delivery, GroupId, JobId, NewJob, Spec};

/// A slot: one of the shards, or, after the last of them, the registry.
pub(super) type SlotIndex = usize;

/// The layout: the prefix of all keys and the number of shards.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    prefix: String,
    pub(super) shards: usize,
}

impl Layout {
    pub(super) fn new(prefix: &str, shards: usize) -> Self {
        Self { prefix: escape(prefix), shards }
    }

    /// The hash tag of a slot, which prefixes all of its keys.
    pub(super) fn tag(&self, slot: SlotIndex) -> String {
        if slot < self.shards {
            format!("{{{}:s{slot}}}", self.prefix)
        } else {
            format!("{{{}:r}}", self.prefix)
        }
    }

    /// The hash tag of a bucket's ledger.
    pub(super) fn ledger(&self, bucket: &str) -> String {
        format!("{{{}:l:{bucket}}}", self.prefix)
    }

    pub(super) const fn registry(&self) -> SlotIndex {
        self.shards
    }

    pub(super) fn of_number(&self, number: u64) -> SlotIndex {
        usize::try_from(number % self.shards.max(1) as u64).unwrap_or(0)
    }

    pub(super) fn of_job(&self, id: JobId) -> SlotIndex {
        self.of_number(id.0)
    }

    pub(super) fn of_group(&self, id: GroupId) -> SlotIndex {
        self.of_number(id.0)
    }

    pub(super) fn of_text(&self, text: &str) -> SlotIndex {
        self.of_number(self.stable_hash(text))
    }

    /// A stable hash. It must never change, because stored keys depend on it.
    pub(super) fn stable_hash(&self, text: &str) -> u64 {
        let fnv = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (fnv ^ (fnv >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
    }

    /// The slot of a job that has a unique key or a client id.
    pub(super) fn slot_of_key(&self, job: &NewJob) -> Option<SlotIndex> {
        let unique = job.spec.unique.as_ref().map(|unique| unique_lock(&unique.key));
        let name = unique.or_else(|| job.spec.client_id.as_deref().map(client_lock))?;
        Some(self.of_text(&name))
    }

    /// The delivery number for a tick of the shard's clock.
    pub(super) fn delivery(&self, slot: SlotIndex, tick: u64) -> Delivery {
        match tick {
            0 => Delivery::NONE,
            _ => Delivery(tick.saturating_mul(self.shards as u64).saturating_add(slot as u64)),
        }
    }

    /// The tick of a delivery number; -1, which no script matches, if it belongs to another slot.
    pub(super) fn tick(&self, slot: SlotIndex, delivery: Delivery) -> i64 {
        let shards = self.shards.max(1) as u64;
        if delivery == Delivery::NONE {
            0
        } else if delivery.0 % shards == slot as u64 {
            i64::try_from(delivery.0 / shards).unwrap_or(-1)
        } else {
            -1
        }
    }
}

/// Keeps letters, digits, `-`, `_` and `.`; encodes any other byte as `%` and two hex digits.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out
}

/// The lane of a job: `queue/kind`, and a bucket for each of its limit keys.
pub(super) fn lane(spec: &Spec) -> String {
    let mut lane = format!("{}/{}", escape(spec.queue.as_str()), escape(spec.kind.as_str()));
    for key in &spec.limits {
        lane.push('/');
        lane.push_str(&bucket(key));
    }
    lane
}

fn bucket(key: &LimitKey) -> String {
    let limit = escape(key.limit.as_str());
    match &key.value {
        Some(value) => format!("{limit}={}", escape(value)),
        None => limit,
    }
}

/// The buckets of a lane, in the order of the job's limit keys.
pub(super) fn buckets(lane: &str) -> impl Iterator<Item = &str> {
    lane.split('/').skip(2)
}

/// The name of a bucket's limit, still escaped.
pub(super) fn limit_of(bucket: &str) -> &str {
    bucket.split('=').next().unwrap_or(bucket)
}

pub(super) fn unique_lock(key: &str) -> String {
    format!("u:{key}")
}

pub(super) fn client_lock(client: &ClientId) -> String {
    format!("c:{}:{}", escape(client.door.as_str()), client.id)
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a panic fails the test")]
mod tests {
    use super::*;
    use crore_core::{Name, Payload};
    use std::sync::Arc;

    fn name(text: &str) -> Name {
        Name::new("name", text).expect("a valid name")
    }

    #[test]
    fn different_lanes_have_different_names() {
        let of = |queue: &str, kind: &str, limits: &[(&str, Option<&str>)]| {
            let mut spec = Spec::new(name(queue), name(kind), Payload::json("1"));
            let key = |(limit, value): &(&str, Option<&str>)| LimitKey {
                limit: name(limit),
                value: value.map(Arc::from),
            };
            spec.limits = limits.iter().map(key).collect();
            lane(&spec)
        };
        let lanes = [
            of("a", "b", &[]),
            of("a/b", "b", &[]),
            of("a", "b/b", &[]),
            of("a", "b", &[("c", None)]),
            of("a", "b", &[("c", Some(""))]),
            of("a", "b", &[("c=d", None)]),
            of("a", "b", &[("c", Some("d"))]),
            of("a", "b", &[("c", Some("d/e"))]),
            of("a", "b", &[("c", Some("d")), ("e", None)]),
            of("a}", "{b}", &[]),
            of("a%7d", "{b}", &[]),
        ];
        let distinct: std::collections::BTreeSet<_> = lanes.iter().collect();
        assert_eq!(distinct.len(), lanes.len());
        assert!(lanes.iter().all(|lane| !lane.contains(['{', '}', ':', ','])));
    }

    #[test]
    fn a_delivery_identifies_its_slot() {
        let layout = Layout::new("p", 8);
        assert_eq!(layout.delivery(3, 0), Delivery::NONE);
        assert_eq!(layout.tick(3, Delivery::NONE), 0);
        let delivery = layout.delivery(3, 1_767_225_600_000_001);
        assert_eq!(layout.tick(3, delivery), 1_767_225_600_000_001);
        assert_eq!(layout.tick(2, delivery), -1);
    }

    #[test]
    fn keys_are_spread_over_the_shards() {
        let layout = Layout::new("p", 8);
        let mut counts = [0; 8];
        for n in 0..8000 {
            if let Some(count) = counts.get_mut(layout.of_text(&format!("u:key-{n}"))) {
                *count += 1;
            }
        }
        assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
    }
}
