//! Fresh seeds.

/// Draws a seed from the operating system's random source.
///
/// # Errors
///
/// The operating system has no random source.
pub fn fresh_seed() -> Result<u64, String> {
    getrandom::u64().map_err(|error| format!("no random source: {error}"))
}
