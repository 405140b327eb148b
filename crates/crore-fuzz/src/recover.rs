//! Opens a store from arbitrary bytes.

use crate::memory::MemoryBound;

/// A store of an empty input has its buffers; the contents of a log are held several times.
const MEMORY: MemoryBound = MemoryBound { base: 8 << 20, per_byte: 256 };

pub(crate) fn run(input: &[u8]) {
    MEMORY.check(input.len(), || crore_conformance::fuzz::recover(input));
}
