//! Planted bugs, which prove that the chaos tests can fail.
//!
//! Each feature `bug-N` plants one bug in this crate or in the doors. With `bug-drill` all of them are compiled in,
//! and the environment variable `CRORE_BUG` arms one (`cargo xtask chaos drill`). Builds without these features
//! contain none of this.

/// Whether a planted bug is armed.
#[cfg(feature = "bug-drill")]
pub fn is_armed(bug: &str) -> bool {
    static ARMED: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "no build of the product has this feature")]
    let armed = ARMED.get_or_init(|| std::env::var("CRORE_BUG").unwrap_or_default());
    armed == bug
}

/// Whether a planted bug is armed: one that is compiled in alone always is.
#[cfg(not(feature = "bug-drill"))]
pub const fn is_armed(_: &str) -> bool {
    true
}

/// Whether to trigger a planted bug here. The feature belongs to the calling crate.
#[macro_export]
macro_rules! planted {
    ($bug:literal) => {
        cfg!(feature = $bug) && $crate::bug::is_armed($bug)
    };
}
