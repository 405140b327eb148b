//! Planted mistakes: the proof that the conformance suite can fail.
//!
//! Each feature `bug-N` plants one mistake in the local stores. With `bug-drill` all of them are
//! compiled in and one at a time is armed, so that a single build shows that each is caught
//! (`tests/bugs.rs`). Without these features nothing of this exists in a build.

#[cfg(feature = "bug-drill")]
mod drill {
    use std::cell::Cell;

    thread_local! {
        static ARMED: Cell<&'static str> = const { Cell::new("") };
    }

    /// Arms one planted mistake on this thread, and disarms any other.
    pub fn arm(bug: &'static str) {
        ARMED.set(bug);
    }

    /// Whether this planted mistake is armed on this thread. Crates above the store ask it for their own.
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

/// Whether a planted mistake is to be made here.
macro_rules! planted {
    ($bug:literal) => {
        cfg!(feature = $bug) && $crate::bug::is_armed($bug)
    };
}

pub(crate) use planted;
