use crore_core::Span;
use crore_core::settings::{Given, Setting, Shape, section};

use crate::signature::Secret;

section! {
    /// Settings of push workers.
    pub struct Options: Eq = "lightjq" {
        /// What jobs are signed with when they are posted to a worker (Standard Webhooks): `whsec_…`.
        secret: Option<Secret> = none,
        /// Another one, while the first takes its place; both sign.
        old_secret: Option<Secret> = none,
        /// How long a push worker that does not answer is left alone at first; each time doubles it.
        rest: Span = "1s",
        /// How long at most.
        max_rest: Span = "30s",
        /// How long a push worker may not answer before it is gone, and has to register again.
        gone_after: Span = "5m",
        /// How long it is remembered that a push worker does not know a name.
        unknown_for: Span = "1m",
        /// Interval at which the registry is read again, for changes by other servers.
        refresh_every: Span => Span::from_secs(10),
        /// How long a shutdown waits for pending responses.
        drain_time: Span => Span::from_secs(10),
    }
}

impl Options {
    /// The secrets that sign jobs, the newest first. Without any, jobs are not signed.
    pub fn secrets(&self) -> Vec<Secret> {
        [&self.secret, &self.old_secret].into_iter().flatten().cloned().collect()
    }
}

impl Setting for Secret {
    const SHAPE: Shape = Shape::Secret;

    fn read(given: &Given) -> Result<Self, String> {
        given.one()?.to_owned().try_into().map_err(str::to_owned)
    }
}
