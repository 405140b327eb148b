//! The protocol of push workers: the request that carries a job, and the report in its response.

use std::sync::Arc;

use bytes::Bytes;
use crore_api::Observer;
use crore_core::Job;
use crore_core::machine::Report;
use crore_dispatch::{JobRequest, Protocol};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};

use super::messages::{LightJqReport, LightJqWorkerJob};
use super::{body, translate};

/// Protocol name of this door's registrations.
const NAME: &str = "lightjq";
/// Path below a worker's URL to which jobs are posted.
const PATH: &str = "worker-job";

/// LightJQ's push workers.
#[derive(Debug)]
pub(crate) struct LightJq {
    /// Has the trace context of each run.
    observer: Arc<Observer>,
}

impl LightJq {
    pub(crate) fn new(observer: Arc<Observer>) -> Self {
        Self { observer }
    }
}

impl Protocol for LightJq {
    fn name(&self) -> &'static str {
        NAME
    }

    fn queue(&self) -> &'static str {
        translate::QUEUE
    }

    fn request(&self, job: &Job) -> JobRequest {
        let msgpack = HeaderValue::from_static("application/msgpack");
        let either = HeaderValue::from_static("application/msgpack, application/json");
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, msgpack), (ACCEPT, either)]);
        headers.extend(self.observer.trace_headers(job));
        JobRequest { path: PATH, headers, body: translate::worker_job(job).into() }
    }

    fn report(&self, headers: &HeaderMap, body: &Bytes) -> Result<Report, String> {
        report(headers, body)
            .map_err(|why| format!("the worker's response is not a valid report: {why}"))
    }
}

fn report(headers: &HeaderMap, body: &Bytes) -> Result<Report, String> {
    let format = body::request_format(headers).map_err(|fault| fault.problem().detail.clone())?;
    let report = format.decode(body).and_then(translate::report);
    report.map_err(|invalid| invalid.to_string())
}

/// Describes the call that a push worker serves.
#[utoipa::path(
    post, path = "/worker-job", operation_id = "lightjqWorkerJob", tag = "lightjq",
    description = "A job for a push worker, posted to `worker-job` below its URL. With a secret it is signed \
        as in Standard Webhooks.",
    params(
        ("crore-delivery" = String, Header, description = "The delivery, as in the body."),
        ("traceparent" = Option<String>, Header, description = "W3C trace context of the job; `b3` has it in Zipkin's format."),
        ("webhook-id" = Option<String>, Header, description = "Signed: id of the message."),
        ("webhook-timestamp" = Option<String>, Header, description = "Signed: time in seconds since 1970."),
        ("webhook-signature" = Option<String>, Header, description = "`v1,` and the HMAC-SHA256 in base64."),
    ),
    request_body(content = LightJqWorkerJob, content_type = "application/msgpack"),
    responses(
        (
            status = 200, description = "The job has ended: as the report says, or done without a result.",
            content((LightJqReport = "application/msgpack"), (LightJqReport = "application/json")),
        ),
        (status = 202, description = "The worker has accepted the job and will report it by `/done`."),
        (status = 404, description = "The worker does not know jobs of this name; another worker is tried."),
        (status = 503, description = "The worker is busy; another worker is tried."),
    ),
)]
#[expect(dead_code, reason = "the worker serves this call; only its description is used")]
fn worker_job() {}

pub(super) use __path_worker_job as WorkerJobCall;

#[cfg(test)]
mod tests {
    use super::*;
    use crore_core::machine::{Outcome, RetryDirective};
    use http::header::CONTENT_ENCODING;

    fn read(media_type: &'static str, body: &'static [u8]) -> Result<Outcome, String> {
        let media_type = HeaderValue::from_static(media_type);
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, media_type)]);
        report(&headers, &Bytes::from_static(body)).map(|report| report.outcome)
    }

    #[test]
    fn a_response_may_carry_a_report_and_garbage_is_refused() {
        let json = "application/json; charset=utf-8";
        let done = read(json, br#"{"type":"success","result":[1]}"#);
        assert!(matches!(done, Ok(Outcome::Done { result: Some(_) })), "{done:?}");
        let fatal = read(
            json,
            br#"{"type":"failure","reason":"other","should_retry":false,"message":"no"}"#,
        );
        assert!(matches!(
            fatal,
            Ok(Outcome::Failed { again: RetryDirective::Never, ref error, .. }) if &**error == "no"
        ));
        for (media_type, body) in [
            (json, &b"OK"[..]),
            (json, br#"{"type":"failure"}"#),
            ("application/msgpack", b"\x81"),
            ("text/html", b"<html>"),
        ] {
            assert!(read(media_type, body).is_err(), "{media_type}");
        }
    }

    /// A compressed body is refused: a small one could expand to a huge one.
    #[test]
    fn a_compressed_report_is_refused() {
        let headers = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static("gzip"))]);
        let refused = report(&headers, &Bytes::from_static(b"\x1f\x8b"));
        assert!(refused.is_err_and(|why| why.contains("content-encoding")));
    }
}
