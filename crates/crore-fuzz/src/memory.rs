//! Bounds the memory of a reader: an allocator that counts, for each thread, the bytes that are allocated.
#![expect(
    unsafe_code,
    reason = "implements the allocator interface; each block says why it is sound"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with counters.
#[derive(Debug)]
pub struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

thread_local! {
    // Without a destructor and initialized by a constant: access allocates nothing.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    let _ = HELD.try_with(|held| {
        let now = held.get().saturating_add(change);
        held.set(now);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now)));
    });
}

fn bytes(size: usize) -> isize {
    isize::try_from(size).unwrap_or(isize::MAX)
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting neither allocates nor panics.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(bytes(layout.size()));
        // SAFETY: the caller keeps the contract of this function, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(bytes(layout.size()));
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-bytes(layout.size()));
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(bytes(size) - bytes(layout.size()));
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// The memory that a reader may hold at once.
#[derive(Debug, Clone, Copy)]
pub struct MemoryBound {
    /// For any input, in bytes.
    pub base: usize,
    /// For each byte of the input.
    pub per_byte: usize,
}

impl MemoryBound {
    /// Runs a function; panics if this thread allocates more than the bound for an input of this length.
    pub fn check<T>(self, length: usize, run: impl FnOnce() -> T) -> T {
        let before = HELD.get();
        let outer_peak = PEAK.replace(before);
        let result = run();
        let peak = PEAK.get();
        PEAK.set(peak.max(outer_peak));
        let used = usize::try_from(peak.saturating_sub(before)).unwrap_or_default();
        let bound = self.per_byte.saturating_mul(length).saturating_add(self.base);
        assert!(
            used <= bound,
            "{used} bytes were allocated for an input of {length}, above {bound}"
        );
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_bounded_even_if_the_memory_is_freed() {
        let bound = MemoryBound { base: 1000, per_byte: 10 };
        bound.check(100, || drop(vec![1_u8; 1500]));
        let above = std::panic::catch_unwind(|| bound.check(100, || drop(vec![1_u8; 3000])));
        assert!(above.is_err());
        let zeroed = std::panic::catch_unwind(|| bound.check(0, || drop(vec![0_u8; 2000])));
        assert!(zeroed.is_err());
        let grown = std::panic::catch_unwind(|| {
            bound.check(0, || {
                let mut grown: Vec<u8> = Vec::with_capacity(10);
                grown.reserve_exact(5000);
                grown.capacity()
            })
        });
        assert!(grown.is_err());
    }

    #[test]
    fn bounds_nest() {
        let (outer, inner) =
            (MemoryBound { base: 5000, per_byte: 0 }, MemoryBound { base: 100, per_byte: 0 });
        outer.check(0, || {
            let block = vec![1_u8; 4000];
            inner.check(0, || drop(vec![1_u8; 50]));
            drop(block);
        });
        let above = std::panic::catch_unwind(|| {
            outer.check(0, || {
                drop(vec![1_u8; 6000]);
                inner.check(0, || ());
            });
        });
        assert!(above.is_err());
    }
}
