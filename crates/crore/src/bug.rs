//! Planted mistakes: the proof that the engine's simulator can fail.
//!
//! Each feature `bug-N` plants one mistake in the engine. With `bug-drill` all of them are compiled in
//! and one at a time is armed, by `crore_store::bug::arm`, so that a single build shows that each is
//! found (`tests/it/sim/bugs.rs`). Without these features nothing of this exists in a build.

#[cfg(feature = "bug-drill")]
pub(crate) use crore_store::bug::is_armed;

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
