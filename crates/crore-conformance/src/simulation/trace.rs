//! The trace of a run: its lines, and a hash over them.

use std::fmt::Arguments;

/// The trace of a run. Two runs of one seed must have the same hash; otherwise something besides the seed
/// influenced the run.
#[derive(Debug, Clone)]
pub struct Trace {
    hash: u64,
    lines: Vec<String>,
}

impl Default for Trace {
    fn default() -> Self {
        Self { hash: FNV_START, lines: Vec::new() }
    }
}

/// A simulated day of ticks produces about ten thousand lines.
const MAX_LINES: usize = 2_000_000;

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Continues a 64-bit FNV-1a hash.
fn extend_hash(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

impl Trace {
    /// Adds a line.
    ///
    /// # Panics
    /// If there are more lines than any terminating run has: the run is in an endless loop.
    pub fn line(&mut self, line: Arguments<'_>) {
        assert!(self.lines.len() < MAX_LINES, "endless run: {line}");
        let line = line.to_string();
        self.hash = extend_hash(extend_hash(self.hash, line.as_bytes()), b"\n");
        self.lines.push(line);
    }

    /// The hash over all lines so far.
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// All lines, oldest first.
    pub fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_over_every_line() {
        let trace = |n: u64| {
            let mut trace = Trace::default();
            (0..n).for_each(|i| trace.line(format_args!("line {i}")));
            trace
        };
        let (mut one, other) = (trace(100), trace(101));
        assert_eq!(one.hash(), trace(100).hash());
        assert_ne!(one.hash(), other.hash());
        let lines = one.take_lines();
        assert_eq!((lines.len(), lines.last().map(String::as_str)), (100, Some("line 99")));
    }
}
