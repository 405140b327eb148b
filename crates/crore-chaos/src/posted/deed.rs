//! What a worker makes of a job.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crore_core::Payload;
use crore_testkit::Dice;
use crore_testkit::history::op::{Again, Outcome};
use crore_testkit::history::{Hash, Op, Pending};
use crore_wire::Format;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, LOCATION};
use hyper::{Response, StatusCode};
use serde::Serialize;

use super::place::Worker;
use super::report::Due;
use crate::desk::Held;
use crate::draft::value;
use crate::pause::{instant, pause};

/// A worker dies with a job in its hands, and with it the connection.
#[derive(Debug)]
pub(super) struct Crash;

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the worker has crashed")
    }
}

impl std::error::Error for Crash {}

/// What a worker says of a job.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Said {
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

impl Said {
    /// Something about a delivery, and what it means.
    pub(super) fn about(held: Held, dice: &mut Dice, honest: bool) -> (Self, Outcome) {
        let (job_id, delivery) = (held.id.to_string(), held.delivery.0.to_string());
        let said = Self {
            job_id,
            ended: "success",
            result: None,
            reason: None,
            should_retry: None,
            message: None,
            delivery,
        };
        if honest || dice.percent(70) {
            let text = format!("{}:{}:{}", held.id, held.delivery.0, dice.roll());
            // Results are kept as MessagePack, however they come.
            let result: Payload = value(&text, Format::Msgpack);
            let outcome = Outcome::Done { result: Some(Hash::of(&result)) };
            return (Self { result: Some(text), ..said }, outcome);
        }
        let retry = dice.percent(70);
        let again = if retry { Again::ByPolicy } else { Again::Never };
        let (reason, message) = (Some("other"), Some("it went wrong"));
        let said = Self { ended: "failure", reason, should_retry: Some(retry), message, ..said };
        (said, Outcome::Failed { again, detail: None })
    }
}

impl Worker {
    /// Deals with a job that came by one of its registrations.
    pub(super) async fn deal(
        self: &Arc<Self>,
        registration: usize,
        held: Held,
    ) -> Result<Response<Full<Bytes>>, Crash> {
        let (honest, deed, late, id) = {
            let mut inner = self.inner();
            let id = inner.ids.get(registration).cloned().flatten();
            (inner.honest, inner.dice.below(40), inner.dice.below(100), id)
        };
        let deed = if honest { 20 + deed % 20 } else { deed };
        match deed {
            0..=1 => {
                self.filed(held, FAILED);
                Err(Crash)
            }
            2 => {
                let lease = held.lease.unwrap_or_default().as_millis();
                pause(Duration::from_millis(lease.min(1_000) + late)).await;
                Ok(self.at_once(held, honest))
            }
            // It takes it, and dies.
            3..=4 => Ok(plain(StatusCode::ACCEPTED)),
            5 => Ok(self.handed_back(held, StatusCode::NOT_FOUND)),
            6 => Ok(self.handed_back(held, StatusCode::SERVICE_UNAVAILABLE)),
            7 => {
                let mut elsewhere = self.handed_back(held, StatusCode::FOUND);
                let metadata = "http://169.254.169.254/latest/meta-data";
                elsewhere.headers_mut().insert(LOCATION, metadata.parse().map_err(|_| Crash)?);
                Ok(elsewhere)
            }
            8 => {
                self.filed(held, FAILED);
                Ok(plain(StatusCode::INTERNAL_SERVER_ERROR))
            }
            9 => {
                self.filed(held, FAILED);
                Ok(Response::new(Full::new(Bytes::from_static(b"<html>not a report"))))
            }
            // A worker that was not told who it is cannot report later.
            n if n % 2 == 0 || id.is_none() => Ok(self.at_once(held, honest)),
            n => {
                // Some are silent until their lease is over, and report as if nothing had happened.
                let lease = held.lease.unwrap_or_default().as_millis();
                let silent = if n < 15 { lease + late } else { 0 };
                self.later(held, id.unwrap_or_default(), Duration::from_millis(silent));
                Ok(plain(StatusCode::ACCEPTED))
            }
        }
    }

    /// A report as the answer. Whether it counts nobody is told.
    fn at_once(&self, held: Held, honest: bool) -> Response<Full<Bytes>> {
        let (said, outcome) = Said::about(held, &mut self.inner().dice, honest);
        self.filed(held, outcome);
        let mut answer = Response::new(Full::new(Format::Msgpack.encode(&said).into()));
        let kind = hyper::header::HeaderValue::from_static(Format::Msgpack.media_type());
        answer.headers_mut().insert(CONTENT_TYPE, kind);
        answer
    }

    /// A report that is made by a call of its own.
    fn later(&self, held: Held, id: String, silent: Duration) {
        let honest = self.inner().honest;
        let (said, outcome) = Said::about(held, &mut self.inner().dice, honest);
        let call = self.begin(held, outcome);
        let at = instant() + silent;
        self.inner().due.push_back(Due { call, id, held, said, at, sent: false });
    }

    /// Not for this worker, or not now: it costs no attempt.
    fn handed_back(&self, held: Held, status: StatusCode) -> Response<Full<Bytes>> {
        self.filed(held, Outcome::Interrupted);
        plain(status)
    }

    /// The server takes this for a report, and tells nobody whether it counts: a call without an end.
    fn filed(&self, held: Held, outcome: Outcome) {
        drop(self.begin(held, outcome));
    }

    pub(super) fn begin(&self, held: Held, outcome: Outcome) -> Pending {
        let (id, delivery) = (held.id, Some(held.delivery));
        let (on_done, on_dead) = (Vec::new(), Vec::new());
        let report = Op::Report { id, delivery, outcome, on_done, on_dead };
        self.desk.recorder.invoke(self.name(), report)
    }
}

const FAILED: Outcome = Outcome::Failed { again: Again::ByPolicy, detail: None };

fn plain(status: StatusCode) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::new()));
    *answer.status_mut() = status;
    answer
}
