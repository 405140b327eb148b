//! Access of runners to the network: allowed URLs, timeouts, and failures of calls.

use crore_core::{Code, Invalid, Span};
use crore_outbound::{CallError, Outbound, Url};
use crore_wire::units::Period;

use crate::context::RunContext;
use crate::runner::{RunFailure, Task};
use crate::urls::Urls;

/// Timeout of a call if neither its handler nor its job sets one.
const DEFAULT_TIMEOUT: Span = Span::from_secs(60);

/// Maximum timeout of a call; gRPC's timeout header cannot express much more.
const MAX_TIMEOUT: Span = Span::from_secs(365 * 24 * 60 * 60);

/// Restricts the addresses and URLs that runners may call. Clones share everything.
#[derive(Debug, Clone)]
pub struct NetworkAccess {
    outbound: Outbound,
    urls: Urls,
}

impl NetworkAccess {
    /// Allows addresses that `outbound` permits, at URLs that one of the patterns matches.
    pub fn new(outbound: Outbound, urls: Urls) -> Self {
        Self { outbound, urls }
    }

    pub(crate) fn outbound(&self) -> &Outbound {
        &self.outbound
    }

    /// Whether the operator allows a URL; an error names `field`.
    pub(crate) fn check(&self, field: &str, url: &Url) -> Result<(), Invalid> {
        if self.urls.allows(url) {
            return Ok(());
        }
        let message =
            format!("no pattern of `runners.urls` in the configuration allows `{}`", url.origin());
        Err(Invalid::new(Code::OutboundDenied, field, message))
    }
}

/// The timeout of a call: from its handler, else from its job, else the default.
pub(crate) fn call_timeout(task: &Task, configured: Option<Period>) -> Span {
    configured.map(|period| period.0).or(task.timeout).unwrap_or(DEFAULT_TIMEOUT).min(MAX_TIMEOUT)
}

/// Awaits a call until its timeout or the stop signal. Then it drops the call, which closes its
/// connection.
pub(crate) async fn with_timeout<T>(
    context: &RunContext,
    time: Span,
    call: impl Future<Output = Result<T, RunFailure>>,
) -> Result<T, RunFailure> {
    tokio::select! {
        biased;
        () = context.stopped() => Err(RunFailure::stopped()),
        called = tokio::time::timeout(time.into(), call) => called.unwrap_or_else(|_| {
            let error = format!("no response within {}", Period(time));
            Err(RunFailure::temporary(error).with("reason", "timeout"))
        }),
    }
}

/// The failure for a URL that may not be called. No packet was sent.
pub(crate) fn denied(why: impl std::fmt::Display) -> RunFailure {
    let code = Code::OutboundDenied.as_str();
    RunFailure::fatal(format!("{code}: {why}")).with("reason", code)
}

/// The failure of a call without a response. Names only the `origin`: the rest of a URL may be a
/// secret.
pub(crate) fn no_response(origin: &str, error: &(dyn std::error::Error + 'static)) -> RunFailure {
    match CallError::find_in(error) {
        Some(CallError::Denied(why)) => denied(why),
        Some(why) => RunFailure::temporary(why).with("reason", "unreachable"),
        None => {
            let causes = std::iter::successors(Some(error), |error| error.source());
            let cause = causes.last().map_or_else(String::new, ToString::to_string);
            RunFailure::temporary(format!("`{origin}` broke the connection: {cause}"))
                .with("reason", "broken")
        }
    }
}
