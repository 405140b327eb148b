//! Planted bugs: they prove that the engine's simulator can fail.
//!
//! Each feature `bug-N` plants one bug in the engine. With `bug-drill` all of them are compiled in and
//! `crore_store::bug::arm` arms one at a time, so that a single build shows that each is found
//! (`tests/it/sim/bugs.rs`). Without these features a build has none of them.

#[cfg(feature = "bug-drill")]
pub(crate) use crore_store::bug::is_armed;

#[cfg(not(feature = "bug-drill"))]
pub(crate) const fn is_armed(_: &str) -> bool {
    true
}

/// Whether a planted bug is active here.
macro_rules! planted {
    ($bug:literal) => {
        cfg!(feature = $bug) && $crate::bug::is_armed($bug)
    };
}

pub(crate) use planted;
