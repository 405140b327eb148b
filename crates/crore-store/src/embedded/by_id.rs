//! Things by the id of a job.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crore_core::JobId;

/// Things by the id of a job.
pub(crate) type ById<T> = HashMap<JobId, T, BuildHasherDefault<Spread>>;

/// Spreads ids, which the store gives out itself, so that nobody can choose them to collide.
#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

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
