//! What happened, as a hash over all of it and the last lines of it.

use std::collections::VecDeque;
use std::fmt::Arguments;

/// How many of the last lines are kept to be shown.
const TAIL: usize = 100000;

/// The trace of a run. Two runs of one seed must have the same hash: if not, something that was not
/// drawn from the seed had a say.
#[derive(Debug, Clone)]
pub struct Trace {
    hash: u64,
    lines: u64,
    tail: VecDeque<String>,
}

impl Default for Trace {
    fn default() -> Self {
        Self { hash: FNV_START, lines: 0, tail: VecDeque::new() }
    }
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// The 64-bit FNV-1a hash, over some more bytes.
fn more(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

impl Trace {
    /// Adds a line.
    pub fn line(&mut self, line: Arguments<'_>) {
        let line = line.to_string();
        self.hash = more(more(self.hash, line.as_bytes()), b"\n");
        self.lines += 1;
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    /// The hash over all lines so far.
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// How many lines there were.
    pub const fn lines(&self) -> u64 {
        self.lines
    }

    /// The last lines, oldest first.
    pub fn tail(&self) -> Vec<String> {
        self.tail.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_over_every_line_and_the_tail_over_the_last() {
        let trace = |n: u64| {
            let mut trace = Trace::default();
            (0..n).for_each(|i| trace.line(format_args!("line {i}")));
            trace
        };
        let (one, other) = (trace(100), trace(101));
        assert_eq!(one.hash(), trace(100).hash());
        assert_ne!(one.hash(), other.hash());
        assert_eq!(one.tail().len(), TAIL);
        assert_eq!(one.tail().last().map(String::as_str), Some("line 99"));
    }
}
