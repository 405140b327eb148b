//! Seeds that nobody has seen.

/// Draws a seed from the randomness of the system.
///
/// # Errors
///
/// The system has no randomness, in words.
pub fn fresh_seed() -> Result<u64, String> {
    getrandom::u64().map_err(|error| format!("no randomness: {error}"))
}
