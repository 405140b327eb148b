//! The only source of randomness of a run: everything is drawn from the seed.

/// A seeded random number generator (SplitMix64): the same seed gives the same numbers, on every machine and
/// in every version.
#[derive(Debug, Clone)]
pub struct SimRng(u64);

impl SimRng {
    /// Numbers that follow from `seed` alone.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Numbers of one step of a run for one purpose, independent of all other steps and purposes.
    pub const fn of_step(seed: u64, step: u32, purpose: u64) -> Self {
        let mut mixed =
            Self(seed ^ ((step as u64) << 32) ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self(mixed.next_u64())
    }

    /// 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `n`; zero if `n` is zero.
    pub const fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.next_u64() % n }
    }

    /// An index into a sequence of length `n`.
    pub const fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// A number from `low` to `high`, inclusive.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True with probability `n` / 1000.
    pub const fn in_thousand(&mut self, n: u32) -> bool {
        self.below(1000) < n as u64
    }

    /// True with probability 1 / `n`.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A random element, if there is any.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.index(from.len())).cloned()
    }

    /// A random element.
    pub const fn choose<T: Copy, const N: usize>(&mut self, from: [T; N]) -> T {
        const { assert!(N > 0, "there is at least one choice") }
        from[self.index(N)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_another_seed_others() {
        let rolls = |seed| {
            std::iter::repeat_with({
                let mut rng = SimRng::new(seed);
                move || rng.next_u64()
            })
            .take(8)
            .collect::<Vec<_>>()
        };
        assert_eq!(rolls(7), rolls(7));
        assert_ne!(rolls(7), rolls(8));
        assert_eq!(
            SimRng::new(0).next_u64(),
            0xe220_a839_7b1d_cdaf,
            "the generator must never change"
        );
    }

    #[test]
    fn draws_stay_in_their_range() {
        let mut rng = SimRng::new(1);
        assert!((0..1000).all(|_| (3..=5).contains(&rng.between(3, 5))));
        assert!((0..1000).all(|_| rng.in_thousand(1000) && !rng.in_thousand(0)));
        assert_eq!(rng.pick::<u8>(&[]), None);
        assert_eq!(rng.below(0), 0);
    }
}
