use crore_core::Span;
use crore_wire::words::Period;
use serde::{Deserialize, Serialize};

use super::sign::Secret;

/// How push workers are treated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Options {
    /// How long one that does not answer is left alone at first; each time doubles it.
    pub rest: Period,
    /// How long at most.
    pub max_rest: Period,
    /// How long one may not answer before it is gone, and has to register again.
    pub gone_after: Period,
    /// How long it is remembered that a worker does not know a name.
    pub unknown_for: Period,
    /// How often the registry is read again, for what others have changed.
    pub refresh_every: Period,
    /// How long a stop waits for answers that are on their way.
    pub drain_time: Period,
    /// What jobs are signed with, the newest first; empty: they are not signed.
    pub secrets: Vec<Secret>,
}

impl Default for Options {
    fn default() -> Self {
        let seconds = |n| Period(Span::from_secs(n));
        Self {
            rest: seconds(1),
            max_rest: seconds(30),
            gone_after: seconds(300),
            unknown_for: seconds(60),
            refresh_every: seconds(10),
            drain_time: seconds(10),
            secrets: Vec::new(),
        }
    }
}
