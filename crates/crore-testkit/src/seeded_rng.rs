//! A seeded random number generator.

/// Deterministic pseudo-random numbers (SplitMix64).
#[derive(Debug, Clone, Copy)]
pub struct SeededRng(pub u64);

impl SeededRng {
    /// The next number.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not zero.
    pub const fn below(&mut self, n: u64) -> u64 {
        self.next_u64() % n
    }

    /// True in `n` percent of calls.
    pub const fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }

    /// A separate generator, seeded from this one, for another component.
    pub const fn fork(&mut self) -> Self {
        Self(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_gives_others() {
        let rolls = |seed: u64| {
            let mut rng = SeededRng(seed);
            [rng.next_u64(), rng.below(10), u64::from(rng.percent(50)), rng.fork().next_u64()]
        };
        assert_eq!(rolls(7), rolls(7));
        assert_ne!(rolls(7), rolls(8));
        assert!((0..100).all(|seed| SeededRng(seed).below(3) < 3));
    }
}
