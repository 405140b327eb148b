//! Identity of a store.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// Identity of a store: 128 random bits, drawn when the store is created and kept as long as it
/// exists. Job ids count from 1 in every store, so a name for a job that must differ between
/// servers contains this.
///
/// A copy of the files has the same identity: a backup that is restored continues its store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub u128);

impl StoreId {
    /// Draws an identity for a new store.
    pub fn draw() -> Self {
        // Each state has random keys of the operating system, and the keys of two states differ.
        let half = || u128::from(RandomState::new().hash_one(()));
        Self(half() << 64 | half())
    }
}

impl fmt::Display for StoreId {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_identities_differ_in_both_halves() {
        let (a, b) = (StoreId::draw(), StoreId::draw());
        assert_ne!(a.0 >> 64, b.0 >> 64);
        assert_ne!(a.0 as u64, b.0 as u64);
        assert_ne!(a.0 >> 64, u128::from(a.0 as u64));
    }

    #[test]
    fn an_identity_is_printed_with_all_its_digits() {
        assert_eq!(StoreId(0xab).to_string(), "000000000000000000000000000000ab");
    }
}
