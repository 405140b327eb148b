//! A seeded random number generator, the same on every machine (SplitMix64).

#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `max`, inclusive.
    pub(super) fn up_to(&mut self, max: usize) -> usize {
        let wide = u128::from(self.next()) * (max as u128 + 1);
        usize::try_from(wide >> 64).unwrap_or(max)
    }

    /// True with probability `odds` / 8.
    pub(super) fn chance(&mut self, odds: usize) -> bool {
        self.up_to(7) < odds
    }

    pub(super) fn coin(&mut self) -> bool {
        self.chance(4)
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.up_to(from.len().checked_sub(1)?)).copied()
    }
}
