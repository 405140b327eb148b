//! What a worker's answer to a job means.

use std::fmt::Display;
use std::time::Duration;

use bytes::Bytes;
use crore_core::Code;
use crore_core::machine::{Again, Outcome};
use crore_outbound::Failed;
use http::header::RETRY_AFTER;
use http::{Response, StatusCode};

use crate::lightjq::{body, translate};

/// How long a worker is left alone that says that it is busy, unless it says how long itself.
const BUSY_FOR: Duration = Duration::from_secs(1);
const BUSY_AT_MOST: Duration = Duration::from_secs(300);

/// What a worker made of a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// 202: it works on it, and will report.
    Accepted,
    /// 200 with a report, or 200 or 204 with nothing: it is done with it. Also any answer that is none
    /// of these, and a connection that broke after the job was sent: the job may be the reason, so that
    /// counts as a failure of the job.
    Over(Outcome),
    /// 404: it does not know jobs of this name. Another one may.
    Unknown,
    /// 429 or 503: not now.
    Busy(Duration),
    /// Nobody is there, or somebody who sends us elsewhere, or where we may not call. That is no fault of
    /// the job.
    Absent(String),
}

/// What an answer means.
pub(super) fn read(answered: Result<Response<Bytes>, Failed>) -> Answer {
    let response = match answered {
        Ok(response) => response,
        Err(Failed::Broken(why)) => return failed(why),
        Err(Failed::Denied(denied)) => {
            return Answer::Absent(format!("{}: {denied}", Code::OutboundDenied));
        }
        Err(Failed::Unreachable(why)) => return Answer::Absent(why),
    };
    let said = |what: &str| format!("the worker {what} {}", response.status());
    match response.status() {
        StatusCode::ACCEPTED => Answer::Accepted,
        StatusCode::OK if !response.body().is_empty() => report(&response),
        StatusCode::OK | StatusCode::NO_CONTENT => Answer::Over(Outcome::Done { result: None }),
        StatusCode::NOT_FOUND => Answer::Unknown,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            Answer::Busy(retry_after(&response))
        }
        status if status.is_redirection() => Answer::Absent(said("sends jobs elsewhere:")),
        _ => failed(said("answered")),
    }
}

fn report(response: &Response<Bytes>) -> Answer {
    let no_report = |why: &dyn Display| failed(format!("the worker's answer is no report: {why}"));
    let format = match body::of_body(response.headers()) {
        Ok(format) => format,
        Err(fault) => return no_report(&fault.problem().detail),
    };
    match format.decode(response.body()).and_then(translate::outcome) {
        Ok(outcome) => Answer::Over(outcome),
        Err(invalid) => no_report(&invalid),
    }
}

fn retry_after(response: &Response<Bytes>) -> Duration {
    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let seconds = seconds.and_then(|text| text.parse().ok()).map(Duration::from_secs);
    seconds.unwrap_or(BUSY_FOR).clamp(BUSY_FOR, BUSY_AT_MOST)
}

fn failed(why: String) -> Answer {
    let (error, again) = (why.into(), Again::ByPolicy);
    Answer::Over(Outcome::Failed { error, detail: None, again })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

    fn answer(status: u16, media_type: &str, body: &'static [u8]) -> Answer {
        let response = Response::builder().status(status).header(CONTENT_TYPE, media_type);
        read(Ok(response.header(RETRY_AFTER, "7").body(Bytes::from_static(body)).expect("good")))
    }

    fn is_failure(answer: &Answer, words: &str) -> bool {
        matches!(answer, Answer::Over(Outcome::Failed { error, again: Again::ByPolicy, .. })
            if error.contains(words))
    }

    #[test]
    fn a_status_says_what_becomes_of_the_job() {
        let json = "application/json";
        assert_eq!(answer(202, json, b"anything"), Answer::Accepted);
        let done = Answer::Over(Outcome::Done { result: None });
        assert_eq!(answer(200, json, b""), done);
        assert_eq!(answer(204, json, b""), done);
        assert_eq!(answer(404, json, b""), Answer::Unknown);
        assert_eq!(answer(429, json, b""), Answer::Busy(Duration::from_secs(7)));
        assert_eq!(answer(503, json, b""), Answer::Busy(Duration::from_secs(7)));
        for status in [301, 302, 307, 308] {
            assert!(matches!(answer(status, json, b""), Answer::Absent(_)), "{status}");
        }
        for status in [400, 403, 418, 500, 502] {
            let words = format!("the worker answered {status}");
            assert!(is_failure(&answer(status, json, b""), &words), "{status}");
        }
    }

    #[test]
    fn a_report_may_be_the_answer_and_garbage_is_a_failure() {
        let json = "application/json; charset=utf-8";
        let done = answer(200, json, br#"{"type":"success","result":[1]}"#);
        assert!(matches!(done, Answer::Over(Outcome::Done { result: Some(_) })));
        let fatal = answer(
            200,
            json,
            br#"{"type":"failure","reason":"other","should_retry":false,"message":"no"}"#,
        );
        assert!(matches!(
            fatal,
            Answer::Over(Outcome::Failed { again: Again::Never, ref error, .. }) if &**error == "no"
        ));
        for (media_type, body) in [
            (json, &b"OK"[..]),
            (json, br#"{"type":"failure"}"#),
            ("application/msgpack", b"\x81"),
            ("text/html", b"<html>"),
        ] {
            let garbage = answer(200, media_type, body);
            assert!(is_failure(&garbage, "is no report"), "{garbage:?}");
        }
        // Nobody unpacks it, so that nothing small becomes large.
        let packed = Response::builder().header(CONTENT_ENCODING, "gzip");
        let packed = packed.body(Bytes::from_static(b"\x1f\x8b")).expect("good");
        assert!(is_failure(&read(Ok(packed)), "content-encoding"));
    }

    #[test]
    fn nobody_there_is_no_fault_of_the_job_but_a_broken_line_may_be() {
        let absent = read(Err(Failed::Unreachable("nobody".to_owned())));
        assert_eq!(absent, Answer::Absent("nobody".to_owned()));
        assert!(is_failure(&read(Err(Failed::Broken("it hung up".to_owned()))), "it hung up"));
    }
}
