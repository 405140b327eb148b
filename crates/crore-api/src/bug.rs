//! Planted mistakes: the proof that chaos can fail.
//!
//! Each feature `bug-N` plants one mistake in this crate or in the doors. With `bug-drill` all of them are compiled in,
//! and the variable `CRORE_BUG` arms one of them in the whole process (`cargo xtask chaos drill`). Without these features
//! nothing of this exists in a build.

/// Whether a planted mistake is armed.
#[cfg(feature = "bug-drill")]
pub fn is_armed(bug: &str) -> bool {
    static ARMED: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "no build of the product has this feature")]
    let armed = ARMED.get_or_init(|| std::env::var("CRORE_BUG").unwrap_or_default());
    armed == bug
}

/// Whether a planted mistake is armed: one that is compiled in alone always is.
#[cfg(not(feature = "bug-drill"))]
pub const fn is_armed(_: &str) -> bool {
    true
}

/// Whether a planted mistake is to be made here. The feature is one of the crate that asks.
#[macro_export]
macro_rules! planted {
    ($bug:literal) => {
        cfg!(feature = $bug) && $crate::bug::is_armed($bug)
    };
}
