//! Ids and counters. The store allocates them and never reuses one.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use serde::{Deserialize, Serialize};

macro_rules! numbers {
    ($($(#[$doc:meta])+ $name:ident($short:literal),)+) => {$(
        $(#[$doc])+
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($short, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )+};
}

numbers! {
    /// Id of a job: 1..=2⁶³−1, increasing in push order (within a shard, where a store has several).
    JobId("#"),
    /// Id of a group, from the same sequence as job ids.
    GroupId("g"),
    /// Id of an event, from the same sequence as job ids: an event is for the waiting jobs with smaller ids.
    EventId("e"),
    /// Number of one delivery of a job to a worker, and the fencing token of its lease. Zero: never
    /// delivered.
    Delivery("d"),
    /// Version of a record. Incremented by every applied change, claim and promotion; not by renewals
    /// and notes.
    Revision("r"),
    /// Fingerprint of the name of the token that pushed a job or created a group.
    OwnerId("o"),
}

/// A map keyed by job id.
pub type JobMap<T> = HashMap<JobId, T, BuildHasherDefault<IdHasher>>;

/// Fast hasher for job ids. Not resistant to chosen keys; ids are allocated by the store, so no caller
/// can force collisions.
#[derive(Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl JobId {
    /// The id, if the number is in the range of allocated ids.
    pub const fn new(number: u64) -> Option<Self> {
        if number == 0 || number > i64::MAX as u64 { None } else { Some(Self(number)) }
    }
}

impl Delivery {
    /// The delivery of a job that was never delivered.
    pub const NONE: Self = Self(0);
}

impl Revision {
    /// The revision after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}
