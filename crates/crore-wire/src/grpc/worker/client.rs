//! The worker's side: it writes what the worker says, and reads what the worker is told.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use crore_core::machine::{Again, Outcome};
use crore_core::{Code, Encoding, Invalid, JobId, Name, Payload, Span, Time};

use super::super::v1::{self, report};
use super::{each, millis};
use crate::worker::{
    Delivered, Finished, Handled, HandlerRevision, Hello, Note, Pushed, ServerMessage, Verdict,
    Welcome,
};

/// Handlers to remember. Above it, all are forgotten and read again.
const MAX_HANDLERS: usize = 1024;

/// Handlers that came with jobs, so that each revision is parsed once. What comes with a job always wins.
#[derive(Debug, Default)]
pub struct Handlers(HashMap<Name, Arc<HandlerRevision>>);

impl Handlers {
    /// Reads a message of the server.
    pub fn read(&mut self, said: v1::ServerSays) -> Result<ServerMessage, Invalid> {
        let jobs =
            said.jobs.into_iter().map(|job| self.delivered(job)).collect::<Result<_, _>>()?;
        Ok(ServerMessage {
            welcome: said.welcome.map(Into::into),
            jobs,
            finished: each(said.finished),
            stop: each(said.stop),
            lost: each(said.lost),
            drain: said.drain,
        })
    }

    fn delivered(&mut self, said: v1::Delivered) -> Result<Delivered, Invalid> {
        let kind = Name::new("kind", &said.kind)?;
        let handler = said.handler.map(|handled| self.handled(&kind, handled));
        Ok(Delivered {
            id: JobId(said.id),
            delivery: crore_core::Delivery(said.delivery),
            queue: Name::new("queue", &said.queue)?,
            kind,
            payload: said.payload,
            // An encoding that only a newer server knows is bytes to an older worker.
            encoding: v1::Encoding::read(said.encoding).unwrap_or(Encoding::Bytes),
            attempt: said.attempt,
            max_attempts: (said.max_attempts > 0).then_some(said.max_attempts),
            priority: said.priority,
            pushed_at: Time::from_millis(said.pushed_at_ms),
            due: Time::from_millis(said.due_ms),
            lease_until: Time::from_millis(said.lease_until_ms),
            timeout: (said.timeout_ms > 0).then(|| Span::from_millis(said.timeout_ms)),
            labels: said.labels,
            trace: (!said.trace.is_empty()).then_some(said.trace),
            handler,
        })
    }

    fn handled(&mut self, kind: &Name, said: v1::Handled) -> Handled {
        let v1::Handled { revision, runner, settings, pooled } = said;
        let is_same = |known: &&Arc<HandlerRevision>| {
            (known.revision(), known.runner(), known.text()) == (revision, &runner, &settings)
        };
        if let Some(known) = self.0.get(kind).filter(is_same) {
            return Handled { handler: Arc::clone(known), pooled };
        }
        if self.0.len() >= MAX_HANDLERS {
            self.0.clear();
        }
        let handler = Arc::new(HandlerRevision::from_text(revision, runner, settings));
        self.0.insert(kind.clone(), Arc::clone(&handler));
        Handled { handler, pooled }
    }
}

impl From<v1::Welcome> for Welcome {
    fn from(said: v1::Welcome) -> Self {
        Self { kept: each(said.kept), grace_ms: said.grace_ms }
    }
}

impl From<v1::Finished> for Finished {
    fn from(said: v1::Finished) -> Self {
        let held = v1::Held { id: said.id, delivery: said.delivery }.into();
        let verdict = match said.verdict() {
            v1::Verdict::Finished => Verdict::Finished {
                state: v1::State::read(said.state).unwrap_or(None),
                pushed: said.pushed.into_iter().map(pushed).collect(),
            },
            v1::Verdict::NotFound => Verdict::NotFound,
            v1::Verdict::Refused => Verdict::Refused(invalid(said.problem.unwrap_or_default())),
            v1::Verdict::Stale | v1::Verdict::Unspecified => Verdict::Stale,
        };
        Self { held, verdict }
    }
}

fn pushed(said: v1::Pushed) -> Result<Pushed, Invalid> {
    match said.problem {
        None => Ok(Pushed { id: JobId(said.id), duplicate: said.duplicate }),
        Some(problem) => Err(invalid(problem)),
    }
}

/// A problem in the types of the rules; a code that only a newer server knows is `refused`.
fn invalid(said: v1::Problem) -> Invalid {
    let code = Code::ALL.iter().find(|code| code.as_str() == said.code);
    Invalid::new(code.copied().unwrap_or(Code::Refused), said.field, said.message)
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
            held: each(hello.held),
            runs_handlers: hello.runs_handlers,
            runners: hello.runners,
        }
    }
}

impl From<Note> for v1::Note {
    fn from(note: Note) -> Self {
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
                    Again::After(span) => Some(millis(span)),
                    Again::ByPolicy | Again::Never => None,
                };
                let never = again == Again::Never;
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
        let mut handlers = Handlers::default();
        let jobs = vec![job(1, "{}"), job(1, "{}"), job(2, r#"{"a":1}"#)];
        let said = v1::ServerSays { jobs, ..v1::ServerSays::default() };
        let jobs = handlers.read(said).unwrap().jobs;
        let mut of = jobs.iter().map(|job| &job.handler.as_ref().unwrap().handler);
        let (first, second, third) = (of.next().unwrap(), of.next().unwrap(), of.next().unwrap());
        assert!(Arc::ptr_eq(first, second) && !Arc::ptr_eq(second, third));
        assert_eq!(third.settings().unwrap().get("a"), Some(&1.into()));
    }

    #[test]
    fn jobs_and_answers_come_back_as_they_were() {
        let said = v1::ServerSays {
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
        let mut expected = said.clone();
        expected.jobs.iter_mut().for_each(|job| job.encoding = v1::Encoding::Json.into());
        assert_eq!(v1::ServerSays::from(Handlers::default().read(said).unwrap()), expected);
    }

    #[test]
    fn outcomes_come_back_as_they_were() {
        let detail = Some(Payload::json("{}"));
        for outcome in [
            Outcome::Done { result: None },
            Outcome::Done { result: Some(Payload::new(Encoding::Text, *b"x")) },
            Outcome::Failed { error: "e".into(), detail, again: Again::After(Span::from_secs(2)) },
            Outcome::Failed { error: "e".into(), detail: None, again: Again::Never },
            Outcome::Failed { error: "e".into(), detail: None, again: Again::ByPolicy },
            Outcome::Snooze(Span::from_secs(1)),
            Outcome::Cancel,
            Outcome::Interrupted,
        ] {
            let said = Some(outcome.clone().into());
            let report = v1::Report { outcome: said, ..v1::Report::default() };
            assert_eq!(report.read().unwrap().outcome, outcome);
        }
    }
}
