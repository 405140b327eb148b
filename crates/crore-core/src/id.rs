//! Numbers that name things. All are allocated by the store and never used twice.

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
    /// A job: 1..=2⁶³−1, growing in the order of pushes (within a shard, where a store has several).
    JobId("#"),
    /// A group: from the same numbers as jobs.
    GroupId("g"),
    /// One hand-over of a job to a worker, and the fence of its lease. Zero: never handed over.
    Delivery("d"),
    /// How often a record was changed. Grows with every applied change, claim and promotion; not
    /// with renewals and notes.
    Revision("r"),
}

/// Things by the id of a job.
pub type ById<T> = HashMap<JobId, T, BuildHasherDefault<Spread>>;

/// Spreads ids, which a store gives out itself, so that nobody can choose them to collide.
#[derive(Debug, Default)]
pub struct Spread(u64);

impl Hasher for Spread {
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
    /// The id, if the number is one that a store may have allocated.
    pub const fn new(number: u64) -> Option<Self> {
        if number == 0 || number > i64::MAX as u64 { None } else { Some(Self(number)) }
    }
}

impl Delivery {
    /// The delivery of a job that was never handed over.
    pub const NONE: Self = Self(0);
}

impl Revision {
    /// The revision after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}
