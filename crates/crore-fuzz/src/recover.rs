//! Opens a store from arbitrary bytes.

use crate::memory::MemoryBound;

/// The base covers the buffers of an empty store; the content of a log is held in memory several times.
const MEMORY: MemoryBound = MemoryBound { base: 8 << 20, per_byte: 256 };

pub(crate) fn run(input: &[u8]) {
    MEMORY.check(input.len(), || crore_conformance::fuzz::recover(input));
}
