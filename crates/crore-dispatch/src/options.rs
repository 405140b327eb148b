use crore_core::Span;
use crore_wire::words::Period;
use serde::{Deserialize, Serialize};

use crate::signature::Secret;

/// Settings of push workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Options {
    /// First pause of a worker that does not answer; each further one doubles it.
    pub rest: Period,
    /// Longest such pause.
    pub max_rest: Period,
    /// A worker that does not answer for this long is removed, and has to register again.
    pub gone_after: Period,
    /// How long a worker is not asked again about a kind that it does not know.
    pub unknown_for: Period,
    /// Interval at which the registry is read again, for changes by other servers.
    pub refresh_every: Period,
    /// How long a shutdown waits for pending responses.
    pub drain_time: Period,
    /// Secrets that sign jobs, the newest first. Without any, jobs are not signed.
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
