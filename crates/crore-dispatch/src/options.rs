//! Options of push workers.

use crore_core::Span;
use crore_core::settings::{Setting, SettingValue, Shape, section};

use crate::signature::SigningSecret;

section! {
    /// Settings of push workers.
    pub struct Options: Eq = "lightjq" {
        /// Reference to the secret with which jobs posted to push workers are signed (Standard Webhooks), `env:NAME` or
        /// `file:PATH`; the secret itself begins with `whsec_`.
        secret: Option<SigningSecret> = none,
        /// Reference to the previous secret, during a rotation: jobs are signed with both.
        old_secret: Option<SigningSecret> = none,
        /// Back-off: time for which an unreachable push worker gets no jobs after its first failure; doubled with each
        /// further failure.
        rest: Span = "1s",
        /// Maximum back-off of an unreachable push worker.
        max_rest: Span = "30s",
        /// Time after which an unreachable push worker is removed; it then has to register again.
        gone_after: Span = "5m",
        /// Time for which a push worker gets no jobs of a name that it refused with 404.
        unknown_for: Span = "1m",
        /// Interval at which the registry is read again, for changes by other servers.
        refresh_every: Span => Span::from_secs(10),
        /// How long a shutdown waits for pending responses.
        drain_time: Span => Span::from_secs(10),
    }
}

impl Options {
    /// The secrets that sign jobs, the newest first. Without any, jobs are not signed.
    pub fn secrets(&self) -> Vec<SigningSecret> {
        [&self.secret, &self.old_secret].into_iter().flatten().cloned().collect()
    }
}

impl Setting for SigningSecret {
    const SHAPE: Shape = Shape::Secret;

    fn read(given: &SettingValue) -> Result<Self, String> {
        given.one()?.to_owned().try_into().map_err(str::to_owned)
    }
}
