use crore_core::Span;
use crore_core::settings::{Given, Setting, Shape, section};
use crore_doors::lightjq::{self, push};
use crore_wire::words::Period;

section! {
    /// LightJQ, and the push workers that crore calls.
    pub(crate) struct Lightjq = "lightjq" {
        /// How long a result waits for somebody to read it. It should be less than `retention.done`.
        keep_results: Span = "12h",
        /// The port of a push worker that registers without one.
        worker_port: u64 = "8080",
        /// What jobs are signed with when they are posted to a worker (Standard Webhooks): `whsec_…`.
        secret: Option<Webhook> = none,
        /// Another one, while the first takes its place; both sign.
        old_secret: Option<Webhook> = none,
        /// How long a push worker that does not answer is left alone at first; each time doubles it.
        rest: Span = "1s",
        /// How long at most.
        max_rest: Span = "30s",
        /// How long a push worker may not answer before it is gone, and has to register again.
        gone_after: Span = "5m",
        /// How long it is remembered that a push worker does not know a name.
        unknown_for: Span = "1m",
    }
}

/// A secret in the form of Standard Webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Webhook(push::Secret);

impl Setting for Webhook {
    const SHAPE: Shape = Shape::Secret;

    fn read(given: &Given) -> Result<Self, String> {
        given.one()?.to_owned().try_into().map(Self).map_err(str::to_owned)
    }
}

impl Lightjq {
    /// How the door of a server is set up that drains for so long: push workers may answer as long as others may.
    pub(crate) fn options(&self, drain_for: Span) -> lightjq::Options {
        let secrets = [&self.secret, &self.old_secret].into_iter().flatten();
        lightjq::Options {
            keep_results: Period(self.keep_results),
            worker_port: u16::try_from(self.worker_port).unwrap_or(u16::MAX),
            workers: push::Options {
                rest: Period(self.rest),
                max_rest: Period(self.max_rest),
                gone_after: Period(self.gone_after),
                unknown_for: Period(self.unknown_for),
                drain_time: Period(drain_for),
                secrets: secrets.map(|Webhook(secret)| secret.clone()).collect(),
                ..push::Options::default()
            },
        }
    }
}
