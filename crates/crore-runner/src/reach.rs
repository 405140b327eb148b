//! Whom runners may call, and for how long.

use crore_core::{Code, Invalid, Span};
use crore_outbound::{Failed, Outbound, Url};
use crore_wire::words::Period;

use crate::context::Context;
use crate::runner::{Failure, Task};
use crate::urls::Urls;

/// How long a call may take if nobody says so.
const USUAL: Span = Span::from_secs(60);

/// The longest that any call is waited for; gRPC could not say much more.
const LONGEST: Span = Span::from_secs(365 * 24 * 60 * 60);

/// Whom runners may call: which addresses, and which of their URLs. Cloning shares everything.
#[derive(Debug, Clone)]
pub struct Reach {
    outbound: Outbound,
    urls: Urls,
}

impl Reach {
    /// Addresses that `outbound` lets through, at URLs that one of the patterns matches.
    pub fn new(outbound: Outbound, urls: Urls) -> Self {
        Self { outbound, urls }
    }

    pub(crate) fn outbound(&self) -> &Outbound {
        &self.outbound
    }

    /// Whether the operator allows a URL; `field` is where it stands.
    pub(crate) fn check(&self, field: &str, url: &Url) -> Result<(), Invalid> {
        if self.urls.allows(url) {
            return Ok(());
        }
        let message =
            format!("no pattern of `runners.urls` in the configuration allows `{}`", url.origin());
        Err(Invalid::new(Code::OutboundDenied, field, message))
    }
}

/// How long a call may take: as its handler says, or its job.
pub(crate) fn time_for(task: &Task, said: Option<Period>) -> Span {
    said.map(|period| period.0).or(task.timeout).unwrap_or(USUAL).min(LONGEST)
}

/// What a call gives, unless its time is over before, or it is to stop: then the call is dropped, and
/// its connection with it.
pub(crate) async fn bounded<T>(
    context: &Context,
    time: Span,
    call: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        () = context.stopped() => Err(Failure::stopped()),
        called = tokio::time::timeout(time.into(), call) => called.unwrap_or_else(|_| {
            let error = format!("no answer within {}", Period(time));
            Err(Failure::again(error).with("reason", "timeout"))
        }),
    }
}

/// A URL that may not be called: no packet was sent.
pub(crate) fn denied(why: impl std::fmt::Display) -> Failure {
    let code = Code::OutboundDenied.as_str();
    Failure::fatal(format!("{code}: {why}")).with("reason", code)
}

/// Why nobody answered. `origin` is who should have; not more of a URL, which may be a secret.
pub(crate) fn unanswered(origin: &str, error: &(dyn std::error::Error + 'static)) -> Failure {
    match Failed::within(error) {
        Some(Failed::Denied(why)) => denied(why),
        Some(why) => Failure::again(why).with("reason", "unreachable"),
        None => {
            let causes = std::iter::successors(Some(error), |error| error.source());
            let cause = causes.last().map_or_else(String::new, ToString::to_string);
            Failure::again(format!("`{origin}` hung up: {cause}")).with("reason", "broken")
        }
    }
}
