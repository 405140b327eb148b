/// A result that is as durable as its store makes it.
///
/// Acknowledging a push, a finish or an admin change requires this type, and only a store creates
/// it, after its sync: code that acknowledges before that does not compile. `clippy.toml` and
/// `cargo xtask layers` enforce that only stores call [`Committed::synced`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a result that is not returned to the caller was not needed"]
pub struct Committed<T>(T);

impl<T> Committed<T> {
    /// Wraps a durable result. For stores only.
    pub const fn synced(value: T) -> Self {
        Self(value)
    }

    /// Returns the result.
    pub fn into_inner(self) -> T {
        self.0
    }

    /// Returns a reference to the result.
    pub const fn get(&self) -> &T {
        &self.0
    }
}
