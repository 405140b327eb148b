//! Worker side: encodes messages of the worker, decodes messages of the server.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use crore_core::limit::PauseEnd;
use crore_core::machine::{Outcome, RetryDirective};
use crore_core::{Code, Encoding, Invalid, JobId, Name, Payload, Span, Time};

use super::super::v1::{self, exhausted, report};
use super::{convert_all, millis};
use crate::worker::{
    DeliveredEvent, HandlerRevision, Hello, JobDelivery, JobHandler, PushedFollowUp,
    ReportResponse, ReportVerdict, ServerMessage, Welcome, WorkerNote,
};

/// Maximum number of cached handlers; above it the cache is cleared.
const MAX_HANDLERS: usize = 1024;

/// Cache of the handlers received with jobs, so that each revision is parsed once. The handler received with a job
/// always replaces the cached one.
#[derive(Debug, Default)]
pub struct ReceivedHandlers(HashMap<Name, Arc<HandlerRevision>>);

impl ReceivedHandlers {
    /// Decodes a message of the server.
    pub fn read(&mut self, message: v1::ServerSays) -> Result<ServerMessage, Invalid> {
        let jobs =
            message.jobs.into_iter().map(|job| self.delivered(job)).collect::<Result<_, _>>()?;
        Ok(ServerMessage {
            welcome: message.welcome.map(Into::into),
            jobs,
            finished: convert_all(message.finished),
            stop: convert_all(message.stop),
            lost: convert_all(message.lost),
            drain: message.drain,
            exit: message.exit,
        })
    }

    fn delivered(&mut self, job: v1::Delivered) -> Result<JobDelivery, Invalid> {
        let kind = Name::new("kind", &job.kind)?;
        let handler = job.handler.map(|handled| self.handled(&kind, handled));
        Ok(JobDelivery {
            id: JobId(job.id),
            delivery: crore_core::Delivery(job.delivery),
            queue: Name::new("queue", &job.queue)?,
            kind,
            payload: job.payload,
            // An encoding that only a newer server knows is treated as bytes.
            encoding: v1::Encoding::read(job.encoding).unwrap_or(Encoding::Bytes),
            attempt: job.attempt,
            max_attempts: (job.max_attempts > 0).then_some(job.max_attempts),
            priority: job.priority,
            pushed_at: Time::from_millis(job.pushed_at_ms),
            due: Time::from_millis(job.due_ms),
            lease_until: Time::from_millis(job.lease_until_ms),
            timeout: (job.timeout_ms > 0).then(|| Span::from_millis(job.timeout_ms)),
            labels: job.labels,
            trace: (!job.trace.is_empty()).then_some(job.trace),
            handler,
            event: job.event.map(delivered_event).transpose()?,
        })
    }

    fn handled(&mut self, kind: &Name, message: v1::Handled) -> JobHandler {
        let v1::Handled { revision, runner, settings, pooled } = message;
        let is_same = |cached: &&Arc<HandlerRevision>| {
            (cached.revision(), cached.runner(), cached.text()) == (revision, &runner, &settings)
        };
        if let Some(cached) = self.0.get(kind).filter(is_same) {
            return JobHandler { handler: Arc::clone(cached), pooled };
        }
        if self.0.len() >= MAX_HANDLERS {
            self.0.clear();
        }
        let handler = Arc::new(HandlerRevision::from_text(revision, runner, settings));
        self.0.insert(kind.clone(), Arc::clone(&handler));
        JobHandler { handler, pooled }
    }
}

impl From<v1::Welcome> for Welcome {
    fn from(welcome: v1::Welcome) -> Self {
        let v1::Welcome { kept, grace_ms, store } = welcome;
        Self { kept: convert_all(kept), grace_ms, store }
    }
}

impl From<v1::Finished> for ReportResponse {
    fn from(finished: v1::Finished) -> Self {
        let held = v1::Held { id: finished.id, delivery: finished.delivery }.into();
        let verdict = match finished.verdict() {
            v1::Verdict::Finished => ReportVerdict::Finished {
                state: v1::State::read(finished.state).unwrap_or(None),
                pushed: finished.pushed.into_iter().map(pushed).collect(),
            },
            v1::Verdict::NotFound => ReportVerdict::NotFound,
            v1::Verdict::Refused => {
                ReportVerdict::Refused(invalid(finished.problem.unwrap_or_default()))
            }
            v1::Verdict::Stale | v1::Verdict::Unspecified => ReportVerdict::Stale,
        };
        Self { held, verdict }
    }
}

fn pushed(pushed: v1::Pushed) -> Result<PushedFollowUp, Invalid> {
    match pushed.problem {
        None => Ok(PushedFollowUp { id: JobId(pushed.id), duplicate: pushed.duplicate }),
        Some(problem) => Err(invalid(problem)),
    }
}

/// Converts a problem to the core type; a code that only a newer server knows becomes `refused`.
fn invalid(problem: v1::Problem) -> Invalid {
    let code = Code::ALL.iter().find(|code| code.as_str() == problem.code);
    Invalid::new(code.copied().unwrap_or(Code::Refused), problem.field, problem.message)
}

impl From<Hello> for v1::Hello {
    fn from(hello: Hello) -> Self {
        Self {
            queues: hello.queues,
            kinds: hello.kinds,
            slots: hello.slots,
            name: hello.name,
            incarnation: hello.incarnation,
            version: hello.version,
            strict: hello.strict,
            held: convert_all(hello.held),
            runs_handlers: hello.runs_handlers,
            runners: hello.runners,
            versions: hello.versions,
        }
    }
}

impl From<WorkerNote> for v1::Note {
    fn from(note: WorkerNote) -> Self {
        let v1::Held { id, delivery } = note.held.into();
        Self { id, delivery, percent: note.percent, text: note.text }
    }
}

impl From<Outcome> for report::Outcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done { result } => {
                let (result, encoding) = bytes(result);
                Self::Done(v1::Done { result, encoding })
            }
            Outcome::Failed { error, detail, again } => {
                let (detail, encoding) = bytes(detail);
                let after_ms = match again {
                    RetryDirective::After(span) => Some(millis(span)),
                    RetryDirective::ByPolicy | RetryDirective::Never => None,
                };
                let never = again == RetryDirective::Never;
                Self::Failed(v1::Failed {
                    error: error.to_string(),
                    detail,
                    encoding,
                    after_ms,
                    never,
                })
            }
            Outcome::Snooze(span) => Self::SnoozeMs(millis(span)),
            Outcome::Cancel => Self::Cancelled(v1::Cancelled {}),
            Outcome::Interrupted => Self::Interrupted(v1::Interrupted {}),
            Outcome::Exhausted { limit, until } => {
                let end = Some(match until {
                    PauseEnd::After(span) => exhausted::End::AfterMs(millis(span)),
                    PauseEnd::At(time) => exhausted::End::UntilMs(time.as_millis()),
                });
                Self::Exhausted(v1::Exhausted { limit: limit.to_string(), end })
            }
        }
    }
}

fn bytes(payload: Option<Payload>) -> (Option<Bytes>, i32) {
    match payload {
        None => (None, v1::Encoding::Unspecified.into()),
        Some(Payload { encoding, bytes }) => {
            (Some(Bytes::from_owner(bytes)), v1::Encoding::from(encoding).into())
        }
    }
}

fn delivered_event(event: v1::ReceivedEvent) -> Result<DeliveredEvent, Invalid> {
    Ok(DeliveredEvent {
        name: Name::new("event.name", &event.name)?,
        sent_at: Time::from_millis(event.sent_at_ms),
        payload: event.payload.unwrap_or_default(),
        encoding: v1::Encoding::read(event.encoding).unwrap_or(Encoding::Bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(revision: u64, settings: &str) -> v1::Delivered {
        let (runner, settings) = ("http".to_owned(), settings.to_owned());
        let handler = Some(v1::Handled { revision, runner, settings, pooled: true });
        let (queue, kind) = ("mail".to_owned(), "send".to_owned());
        v1::Delivered { id: 7, delivery: 9, queue, kind, handler, ..v1::Delivered::default() }
    }

    #[test]
    fn jobs_of_one_revision_share_its_settings_and_a_new_one_wins() {
        let mut handlers = ReceivedHandlers::default();
        let jobs = vec![job(1, "{}"), job(1, "{}"), job(2, r#"{"a":1}"#)];
        let message = v1::ServerSays { jobs, ..v1::ServerSays::default() };
        let jobs = handlers.read(message).unwrap().jobs;
        let mut of = jobs.iter().map(|job| &job.handler.as_ref().unwrap().handler);
        let (first, second, third) = (of.next().unwrap(), of.next().unwrap(), of.next().unwrap());
        assert!(Arc::ptr_eq(first, second) && !Arc::ptr_eq(second, third));
        assert_eq!(third.settings().unwrap().get("a"), Some(&1.into()));
    }

    #[test]
    fn jobs_and_responses_round_trip() {
        let message = v1::ServerSays {
            jobs: vec![job(3, "{}")],
            finished: vec![v1::Finished {
                id: 1,
                delivery: 2,
                verdict: v1::Verdict::Refused.into(),
                problem: Some(v1::Problem {
                    code: Code::Malformed.as_str().to_owned(),
                    field: "outcome".to_owned(),
                    message: "missing".to_owned(),
                }),
                ..v1::Finished::default()
            }],
            lost: vec![v1::Held { id: 4, delivery: 5 }],
            ..v1::ServerSays::default()
        };
        let mut expected = message.clone();
        expected.jobs.iter_mut().for_each(|job| job.encoding = v1::Encoding::Json.into());
        assert_eq!(
            v1::ServerSays::from(ReceivedHandlers::default().read(message).unwrap()),
            expected
        );
    }

    #[test]
    fn outcomes_round_trip() {
        let detail = Some(Payload::json("{}"));
        for outcome in [
            Outcome::Done { result: None },
            Outcome::Done { result: Some(Payload::new(Encoding::Text, *b"x")) },
            Outcome::Failed {
                error: "e".into(),
                detail,
                again: RetryDirective::After(Span::from_secs(2)),
            },
            Outcome::Failed { error: "e".into(), detail: None, again: RetryDirective::Never },
            Outcome::Failed { error: "e".into(), detail: None, again: RetryDirective::ByPolicy },
            Outcome::Snooze(Span::from_secs(1)),
            Outcome::Cancel,
            Outcome::Interrupted,
            Outcome::Exhausted {
                limit: Name::new("limit", "tokens").unwrap(),
                until: PauseEnd::After(Span::from_secs(9)),
            },
            Outcome::Exhausted {
                limit: Name::new("limit", "tokens").unwrap(),
                until: PauseEnd::At(Time::from_millis(1_800_000_000_000)),
            },
        ] {
            let encoded = Some(outcome.clone().into());
            let report = v1::Report { outcome: encoded, ..v1::Report::default() };
            assert_eq!(report.read().unwrap().outcome, outcome);
        }
    }
}
