//! The server's side: it reads what a worker says, and writes what the worker is told.

use crore_core::Invalid;

use super::super::{at, v1};
use super::{each, millis};
use crate::worker::{
    Delivered, Finished, Handled, Held, Hello, Note, Pushed, Report, ServerMessage, Verdict,
    Welcome, WorkerMessage,
};

impl From<v1::WorkerSays> for WorkerMessage {
    fn from(said: v1::WorkerSays) -> Self {
        Self {
            hello: said.hello.map(Into::into),
            reports: each(said.finish),
            notes: each(said.notes),
            slots: said.slots,
            drain: said.drain,
        }
    }
}

impl From<v1::Hello> for Hello {
    fn from(said: v1::Hello) -> Self {
        Self {
            queues: said.queues,
            kinds: said.kinds,
            slots: said.slots,
            name: said.name,
            incarnation: said.incarnation,
            version: said.version,
            strict: said.strict,
            held: each(said.held),
            runs_handlers: said.runs_handlers,
            runners: said.runners,
        }
    }
}

impl From<v1::Report> for Report {
    fn from(said: v1::Report) -> Self {
        let held = v1::Held { id: said.id, delivery: said.delivery }.into();
        Self { held, report: said.read() }
    }
}

impl From<v1::Note> for Note {
    fn from(said: v1::Note) -> Self {
        let held = v1::Held { id: said.id, delivery: said.delivery }.into();
        Self { held, percent: said.percent, text: said.text }
    }
}

impl From<ServerMessage> for v1::ServerSays {
    fn from(message: ServerMessage) -> Self {
        Self {
            welcome: message.welcome.map(Into::into),
            jobs: each(message.jobs),
            finished: each(message.finished),
            stop: each(message.stop),
            lost: each(message.lost),
            drain: message.drain,
        }
    }
}

impl From<Welcome> for v1::Welcome {
    fn from(welcome: Welcome) -> Self {
        Self { kept: each(welcome.kept), grace_ms: welcome.grace_ms }
    }
}

impl From<Delivered> for v1::Delivered {
    fn from(job: Delivered) -> Self {
        Self {
            id: job.id.0,
            delivery: job.delivery.0,
            queue: job.queue.to_string(),
            kind: job.kind.to_string(),
            payload: job.payload,
            encoding: v1::Encoding::from(job.encoding).into(),
            attempt: job.attempt,
            max_attempts: job.max_attempts.unwrap_or(0),
            priority: job.priority,
            pushed_at_ms: at(job.pushed_at),
            due_ms: at(job.due),
            lease_until_ms: at(job.lease_until),
            timeout_ms: job.timeout.map_or(0, millis),
            labels: job.labels,
            trace: job.trace.unwrap_or_default(),
            handler: job.handler.map(Into::into),
        }
    }
}

impl From<Handled> for v1::Handled {
    fn from(Handled { handler, pooled }: Handled) -> Self {
        Self {
            revision: handler.revision(),
            runner: handler.runner().to_owned(),
            settings: handler.text().to_owned(),
            pooled,
        }
    }
}

impl From<Finished> for v1::Finished {
    fn from(finished: Finished) -> Self {
        let Held { id, delivery } = finished.held;
        let mut said = Self { id: id.0, delivery: delivery.0, ..Self::default() };
        let verdict = match finished.verdict {
            Verdict::Finished { state, pushed } => {
                said.state = state.map_or(0, |state| v1::State::from(state).into());
                said.pushed = each(pushed);
                v1::Verdict::Finished
            }
            Verdict::Stale => v1::Verdict::Stale,
            Verdict::NotFound => v1::Verdict::NotFound,
            Verdict::Refused(invalid) => {
                said.problem = Some((&invalid).into());
                v1::Verdict::Refused
            }
        };
        said.verdict = verdict.into();
        said
    }
}

impl From<Result<Pushed, Invalid>> for v1::Pushed {
    fn from(pushed: Result<Pushed, Invalid>) -> Self {
        match pushed {
            Ok(Pushed { id, duplicate }) => Self { id: id.0, duplicate, problem: None },
            Err(invalid) => Self { problem: Some((&invalid).into()), ..Self::default() },
        }
    }
}
