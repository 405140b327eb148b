//! How a push worker responds to a job: it finishes, fails, declines, crashes, or reports later.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crore_core::Payload;
use crore_testkit::SeededRng;
use crore_testkit::history::op::{RecordedOutcome, RecordedRetry};
use crore_testkit::history::{PayloadHash, PendingCall, RecordedOp};
use crore_wire::Format;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, LOCATION};
use hyper::{Response, StatusCode};
use serde::Serialize;

use super::report::PendingReport;
use super::worker::ChaosPushWorker;
use crate::context::HeldDelivery;
use crate::draft::value;
use crate::time::{instant, sleep};

/// The worker crashes while it holds a job, and its connection breaks.
#[derive(Debug)]
pub(super) struct WorkerCrash;

impl fmt::Display for WorkerCrash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the worker has crashed")
    }
}

impl std::error::Error for WorkerCrash {}

/// The body of a LightJQ report.
#[derive(Debug, Clone, Serialize)]
pub(super) struct LightjqReport {
    job_id: String,
    #[serde(rename = "type")]
    ended: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    should_retry: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
    delivery: String,
}

impl LightjqReport {
    /// A report about a delivery, and the outcome that the history records.
    pub(super) fn about(
        held: HeldDelivery,
        rng: &mut SeededRng,
        honest: bool,
    ) -> (Self, RecordedOutcome) {
        let (job_id, delivery) = (held.id.to_string(), held.delivery.0.to_string());
        let report = Self {
            job_id,
            ended: "success",
            result: None,
            reason: None,
            should_retry: None,
            message: None,
            delivery,
        };
        if honest || rng.percent(70) {
            let text = format!("{}:{}:{}", held.id, held.delivery.0, rng.next_u64());
            // Results are stored as MessagePack, whatever encoding they arrive in.
            let result: Payload = value(&text, Format::Msgpack);
            let outcome = RecordedOutcome::Done { result: Some(PayloadHash::of(&result)) };
            return (Self { result: Some(text), ..report }, outcome);
        }
        let retry = rng.percent(70);
        let again = if retry { RecordedRetry::ByPolicy } else { RecordedRetry::Never };
        let (reason, message) = (Some("other"), Some("it went wrong"));
        let report =
            Self { ended: "failure", reason, should_retry: Some(retry), message, ..report };
        (report, RecordedOutcome::Failed { again, detail: None })
    }
}

impl ChaosPushWorker {
    /// Responds to a job that was posted to one of its registrations.
    pub(super) async fn respond(
        self: &Arc<Self>,
        registration: usize,
        held: HeldDelivery,
    ) -> Result<Response<Full<Bytes>>, WorkerCrash> {
        let (honest, action, late, id) = {
            let mut inner = self.inner();
            let id = inner.ids.get(registration).cloned().flatten();
            (inner.honest, inner.rng.below(40), inner.rng.below(100), id)
        };
        let action = if honest { 20 + action % 20 } else { action };
        match action {
            0..=1 => {
                self.record_report(held, FAILED);
                Err(WorkerCrash)
            }
            2 => {
                let lease = held.lease.unwrap_or_default().as_millis();
                sleep(Duration::from_millis(lease.min(1_000) + late)).await;
                Ok(self.respond_with_report(held, honest))
            }
            // It accepts the job and crashes.
            3..=4 => Ok(empty_response(StatusCode::ACCEPTED)),
            5 => Ok(self.decline(held, StatusCode::NOT_FOUND)),
            6 => Ok(self.decline(held, StatusCode::SERVICE_UNAVAILABLE)),
            7 => {
                let mut redirect = self.decline(held, StatusCode::FOUND);
                let metadata = "http://169.254.169.254/latest/meta-data";
                redirect.headers_mut().insert(LOCATION, metadata.parse().map_err(|_| WorkerCrash)?);
                Ok(redirect)
            }
            8 => {
                self.record_report(held, FAILED);
                Ok(empty_response(StatusCode::INTERNAL_SERVER_ERROR))
            }
            9 => {
                self.record_report(held, FAILED);
                Ok(Response::new(Full::new(Bytes::from_static(b"<html>not a report"))))
            }
            // A worker that does not know its id cannot report later.
            n if n % 2 == 0 || id.is_none() => Ok(self.respond_with_report(held, honest)),
            n => {
                // Some report after their lease has ended, as if it had not.
                let lease = held.lease.unwrap_or_default().as_millis();
                let delay = if n < 15 { lease + late } else { 0 };
                self.report_later(held, id.unwrap_or_default(), Duration::from_millis(delay));
                Ok(empty_response(StatusCode::ACCEPTED))
            }
        }
    }

    /// Reports in the response. The server does not confirm whether the report was accepted.
    fn respond_with_report(&self, held: HeldDelivery, honest: bool) -> Response<Full<Bytes>> {
        let (report, outcome) = LightjqReport::about(held, &mut self.inner().rng, honest);
        self.record_report(held, outcome);
        let mut response = Response::new(Full::new(Format::Msgpack.encode(&report).into()));
        let kind = hyper::header::HeaderValue::from_static(Format::Msgpack.media_type());
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }

    /// Schedules a report by a call of its own.
    fn report_later(&self, held: HeldDelivery, id: String, delay: Duration) {
        let honest = self.inner().honest;
        let (report, outcome) = LightjqReport::about(held, &mut self.inner().rng, honest);
        let call = self.begin_report(held, outcome);
        let at = instant() + delay;
        self.inner().pending_reports.push_back(PendingReport {
            call,
            id,
            held,
            report,
            at,
            sent: false,
        });
    }

    /// Declines the job; this costs no attempt.
    fn decline(&self, held: HeldDelivery, status: StatusCode) -> Response<Full<Bytes>> {
        self.record_report(held, RecordedOutcome::Interrupted);
        empty_response(status)
    }

    /// Records a report without an answer: the server does not confirm whether it was accepted.
    fn record_report(&self, held: HeldDelivery, outcome: RecordedOutcome) {
        drop(self.begin_report(held, outcome));
    }

    pub(super) fn begin_report(&self, held: HeldDelivery, outcome: RecordedOutcome) -> PendingCall {
        let (id, delivery) = (held.id, Some(held.delivery));
        let (on_done, on_dead) = (Vec::new(), Vec::new());
        let report = RecordedOp::Report { id, delivery, outcome, on_done, on_dead };
        self.context.recorder.invoke(self.name(), report)
    }
}

const FAILED: RecordedOutcome =
    RecordedOutcome::Failed { again: RecordedRetry::ByPolicy, detail: None };

fn empty_response(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = status;
    response
}
