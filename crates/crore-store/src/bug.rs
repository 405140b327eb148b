//! Planted bugs, which prove that the conformance suite can fail.
//!
//! Each feature `bug-N` plants one mistake in the local stores. `bug-drill` compiles all of them in
//! and arms one at a time, so that one build shows that each is caught (`tests/bugs.rs`). Builds
//! without these features contain none of this.

#[cfg(feature = "bug-drill")]
mod drill {
    use std::cell::Cell;

    thread_local! {
        static ARMED: Cell<&'static str> = const { Cell::new("") };
    }

    /// Arms one planted mistake on this thread and disarms any other.
    pub fn arm(bug: &'static str) {
        ARMED.set(bug);
    }

    /// Whether this planted mistake is armed on this thread. Crates above the store use it for
    /// theirs.
    pub fn is_armed(bug: &str) -> bool {
        ARMED.get() == bug
    }
}

#[cfg(feature = "bug-drill")]
pub use drill::{arm, is_armed};

#[cfg(not(feature = "bug-drill"))]
pub(crate) const fn is_armed(_: &str) -> bool {
    true
}

/// Whether to make a planted mistake here.
macro_rules! planted {
    ($bug:literal) => {
        cfg!(feature = $bug) && $crate::bug::is_armed($bug)
    };
}

pub(crate) use planted;
