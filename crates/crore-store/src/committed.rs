/// An answer that is as durable as its store makes things.
///
/// Whoever tells a caller that a push, a finish or an admin change was accepted needs one of these,
/// and only a store makes them, after its sync: "acknowledged before durable" does not compile.
/// (`clippy.toml` and `cargo xtask layers` see to it that nobody else calls [`Committed::synced`].)
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an answer that is not passed on was not needed"]
pub struct Committed<T>(T);

impl<T> Committed<T> {
    /// For stores only: what is now durable.
    pub const fn synced(value: T) -> Self {
        Self(value)
    }

    /// The answer.
    pub fn into_inner(self) -> T {
        self.0
    }

    /// The answer, to look at.
    pub const fn get(&self) -> &T {
        &self.0
    }
}
