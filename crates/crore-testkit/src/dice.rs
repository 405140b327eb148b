//! Chance from a seed.

/// Numbers that look random and are the same for the same seed.
#[derive(Debug, Clone, Copy)]
pub struct Dice(pub u64);

impl Dice {
    /// Any number.
    pub const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not zero.
    pub const fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }

    /// True so many times in a hundred.
    pub const fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }

    /// Dice of their own for somebody else, who may then roll as often as he likes.
    pub const fn another(&mut self) -> Self {
        Self(self.roll())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_gives_others() {
        let rolls = |seed: u64| {
            let mut dice = Dice(seed);
            [dice.roll(), dice.below(10), u64::from(dice.percent(50)), dice.another().roll()]
        };
        assert_eq!(rolls(7), rolls(7));
        assert_ne!(rolls(7), rolls(8));
        assert!((0..100).all(|seed| Dice(seed).below(3) < 3));
    }
}
