//! The meaning of a worker's response to a job.

use std::time::Duration;

use bytes::Bytes;
use crore_core::Code;
use crore_core::machine::{Outcome, Report, RetryDirective};
use crore_outbound::CallError;
use http::header::RETRY_AFTER;
use http::{Response, StatusCode};

use crate::protocol::Protocol;

/// Pause of a busy worker that sends no `Retry-After`; also the minimum pause.
const BUSY_FOR: Duration = Duration::from_secs(1);
/// Maximum pause of a busy worker.
const BUSY_AT_MOST: Duration = Duration::from_secs(300);

/// A worker's response to a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WorkerResponse {
    /// 202: the worker runs the job, and will report.
    Accepted,
    /// The delivery is over: 200 with a report, or 200 or 204 without a body. A status that no variant lists, and a
    /// connection that broke after the job was sent, count as a failed attempt, because the job may be the cause.
    Ended(Report),
    /// 404: the worker does not know jobs of this kind. Another worker may.
    UnknownKind,
    /// 429 or 503: the worker takes no jobs for this long.
    Busy(Duration),
    /// The worker cannot be reached, may not be called, or redirects. The job is not at fault.
    Unavailable(String),
}

/// Reads the response to a request.
pub(crate) fn read(
    protocol: &dyn Protocol,
    response: Result<Response<Bytes>, CallError>,
) -> WorkerResponse {
    use WorkerResponse::{Accepted, Busy, Ended, Unavailable, UnknownKind};
    let response = match response {
        Ok(response) => response,
        Err(CallError::Broken(why)) => return failed(why),
        Err(CallError::Denied(denied)) => {
            return Unavailable(format!("{}: {denied}", Code::OutboundDenied));
        }
        Err(CallError::Unreachable(why)) => return Unavailable(why),
    };
    let status = response.status();
    match status {
        StatusCode::ACCEPTED => Accepted,
        StatusCode::OK if !response.body().is_empty() => {
            protocol.report(response.headers(), response.body()).map_or_else(failed, Ended)
        }
        StatusCode::OK | StatusCode::NO_CONTENT => Ended(Outcome::Done { result: None }.into()),
        StatusCode::NOT_FOUND => UnknownKind,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            Busy(retry_after(&response))
        }
        _ if status.is_redirection() => {
            Unavailable(format!("the worker answered with a redirect: {status}"))
        }
        _ => failed(format!("the worker answered {status}")),
    }
}

fn retry_after(response: &Response<Bytes>) -> Duration {
    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let seconds = seconds.and_then(|text| text.parse().ok()).map(Duration::from_secs);
    seconds.unwrap_or(BUSY_FOR).clamp(BUSY_FOR, BUSY_AT_MOST)
}

fn failed(why: String) -> WorkerResponse {
    let (error, again) = (why.into(), RetryDirective::ByPolicy);
    WorkerResponse::Ended(Outcome::Failed { error, detail: None, again }.into())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::protocol::JobRequest;
    use crore_core::{Encoding, Job, Payload};
    use http::HeaderMap;

    /// The only valid report is the text `done`.
    #[derive(Debug)]
    pub(crate) struct Plain;

    impl Protocol for Plain {
        fn name(&self) -> &'static str {
            "plain"
        }

        fn queue(&self) -> &'static str {
            "plain"
        }

        fn request(&self, _: &Job) -> JobRequest {
            JobRequest { path: "run", headers: HeaderMap::new(), body: Bytes::new() }
        }

        fn report(&self, _: &HeaderMap, body: &Bytes) -> Result<Report, String> {
            match &**body {
                b"done" => {
                    let result = Some(Payload::new(Encoding::Text, *b"done"));
                    Ok(Outcome::Done { result }.into())
                }
                other => Err(format!("no report: {}", String::from_utf8_lossy(other))),
            }
        }
    }

    fn response(status: u16, body: &'static str) -> WorkerResponse {
        let response = Response::builder().status(status).header(RETRY_AFTER, "7");
        read(&Plain, Ok(response.body(Bytes::from_static(body.as_bytes())).expect("good")))
    }

    fn is_failure(response: &WorkerResponse, text: &str) -> bool {
        let WorkerResponse::Ended(report) = response else { return false };
        matches!(&report.outcome, Outcome::Failed { error, again: RetryDirective::ByPolicy, .. }
            if error.contains(text))
    }

    #[test]
    fn the_status_determines_the_outcome() {
        assert_eq!(response(202, "anything"), WorkerResponse::Accepted);
        let done = WorkerResponse::Ended(Outcome::Done { result: None }.into());
        assert_eq!(response(200, ""), done);
        assert_eq!(response(204, ""), done);
        assert_eq!(response(404, ""), WorkerResponse::UnknownKind);
        assert_eq!(response(429, ""), WorkerResponse::Busy(Duration::from_secs(7)));
        assert_eq!(response(503, ""), WorkerResponse::Busy(Duration::from_secs(7)));
        for status in [301, 302, 307, 308] {
            let response = response(status, "");
            assert!(matches!(response, WorkerResponse::Unavailable(_)), "{status}");
        }
        for status in [400, 403, 418, 500, 502] {
            let text = format!("the worker answered {status}");
            assert!(is_failure(&response(status, ""), &text), "{status}");
        }
    }

    #[test]
    fn the_protocol_reads_reports_and_an_unreadable_one_fails_the_job() {
        let done = response(200, "done");
        let WorkerResponse::Ended(done) = done else { panic!("{done:?}") };
        assert!(matches!(done.outcome, Outcome::Done { result: Some(_) }));
        assert!(is_failure(&response(200, "<html>"), "no report: <html>"));
    }

    #[test]
    fn an_unreachable_worker_costs_no_attempt_but_a_broken_connection_may() {
        let unreachable = read(&Plain, Err(CallError::Unreachable("nobody".to_owned())));
        assert_eq!(unreachable, WorkerResponse::Unavailable("nobody".to_owned()));
        let broken = read(&Plain, Err(CallError::Broken("it hung up".to_owned())));
        assert!(is_failure(&broken, "it hung up"));
    }
}
