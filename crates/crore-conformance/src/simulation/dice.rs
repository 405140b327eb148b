//! The one source of chance of a run: everything that is drawn comes from the seed.

/// Random numbers from a seed (splitmix64): the same seed gives the same numbers, on every machine
/// and in every version.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Numbers that follow from `seed` alone.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Numbers of one step of a run for one purpose: no other step and no other purpose has a say.
    pub const fn of_step(seed: u64, step: u32, purpose: u64) -> Self {
        let mut mixed =
            Self(seed ^ ((step as u64) << 32) ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self(mixed.roll())
    }

    /// 64 random bits.
    pub const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `n`; zero if there is none.
    pub const fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.roll() % n }
    }

    /// A place in something of length `n`.
    pub const fn place(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub const fn from(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Whether something happens that does in so many of a thousand cases.
    pub const fn in_thousand(&mut self, n: u32) -> bool {
        self.below(1000) < n as u64
    }

    /// Whether something happens that does in one of `n` cases.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these, if there are any.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.place(from.len())).cloned()
    }

    /// One of these.
    pub const fn choose<T: Copy, const N: usize>(&mut self, from: [T; N]) -> T {
        const { assert!(N > 0, "there is something to choose from") }
        from[self.place(N)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_another_seed_others() {
        let rolls = |seed| {
            std::iter::repeat_with({
                let mut dice = Dice::new(seed);
                move || dice.roll()
            })
            .take(8)
            .collect::<Vec<_>>()
        };
        assert_eq!(rolls(7), rolls(7));
        assert_ne!(rolls(7), rolls(8));
        assert_eq!(Dice::new(0).roll(), 0xe220_a839_7b1d_cdaf, "splitmix64, for ever");
    }

    #[test]
    fn draws_stay_in_their_range() {
        let mut dice = Dice::new(1);
        assert!((0..1000).all(|_| (3..=5).contains(&dice.from(3, 5))));
        assert!((0..1000).all(|_| dice.in_thousand(1000) && !dice.in_thousand(0)));
        assert_eq!(dice.pick::<u8>(&[]), None);
        assert_eq!(dice.below(0), 0);
    }
}
