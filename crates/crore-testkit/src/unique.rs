//! Unique names for tests.

use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A name for a schema, database or key prefix that no other test uses, in this process, in
/// another, or in an earlier run: `crore_4711_0_1767225600000000000`.
///
/// The name is a plain identifier in SQL and short enough for PostgreSQL (63 bytes).
///
/// # Panics
///
/// If `prefix` is not 1 to 16 characters of `a-z`, `0-9` and `_` that begin with a letter.
pub fn unique_name(prefix: &str) -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    assert!(
        prefix.len() <= 16
            && prefix.starts_with(|c: char| c.is_ascii_lowercase())
            && prefix.chars().all(plain),
        "prefix `{prefix}` is not a short plain identifier"
    );
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}_{}_{n}_{}", process::id(), nanos())
}

/// Process ids are reused, and containers number theirs from 1; the timestamp distinguishes them.
#[expect(clippy::disallowed_methods, reason = "a name must differ between runs; no rule sees it")]
fn nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_never_repeat_and_fit_in_postgres() {
        let names: BTreeSet<_> = (0..1000).map(|_| unique_name("abcdefghijklmnop")).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| name.len() <= 63));
    }

    #[test]
    #[should_panic(expected = "not a short plain identifier")]
    fn a_prefix_that_would_need_quoting_is_refused() {
        unique_name("a-b");
    }
}
