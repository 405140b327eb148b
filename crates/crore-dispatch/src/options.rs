//! Options of push workers.

use crore_core::Span;
use crore_core::settings::{Setting, SettingValue, Shape, section};

use crate::signature::SigningSecret;

section! {
    /// Settings of push workers.
    pub struct Options: Eq = "lightjq" {
        /// Secret that signs jobs posted to push workers (Standard Webhooks): `whsec_…`.
        secret: Option<SigningSecret> = none,
        /// Previous secret, for rotation: both sign.
        old_secret: Option<SigningSecret> = none,
        /// Pause of a push worker after its first failure; doubled with each further one.
        rest: Span = "1s",
        /// Maximum pause of a failing push worker.
        max_rest: Span = "30s",
        /// A push worker that fails for this long is removed, and has to register again.
        gone_after: Span = "5m",
        /// How long a push worker gets no jobs of a name that it answered with 404.
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
