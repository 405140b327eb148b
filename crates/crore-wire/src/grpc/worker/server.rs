//! Server side: decodes messages of a worker, encodes messages of the server.

use crore_core::Invalid;

use super::super::{epoch_millis, v1};
use super::{convert_all, millis};
use crate::worker::{
    DeliveredEvent, DeliveryRef, Hello, JobDelivery, JobHandler, PushedFollowUp, ReportResponse,
    ReportVerdict, ServerMessage, Welcome, WorkerMessage, WorkerNote, WorkerReport,
};

impl From<v1::WorkerSays> for WorkerMessage {
    fn from(message: v1::WorkerSays) -> Self {
        Self {
            hello: message.hello.map(Into::into),
            reports: convert_all(message.finish),
            notes: convert_all(message.notes),
            slots: message.slots,
            drain: message.drain,
        }
    }
}

impl From<v1::Hello> for Hello {
    fn from(hello: v1::Hello) -> Self {
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

impl From<v1::Report> for WorkerReport {
    fn from(report: v1::Report) -> Self {
        let held = v1::Held { id: report.id, delivery: report.delivery }.into();
        Self { held, report: report.read() }
    }
}

impl From<v1::Note> for WorkerNote {
    fn from(note: v1::Note) -> Self {
        let held = v1::Held { id: note.id, delivery: note.delivery }.into();
        Self { held, percent: note.percent, text: note.text }
    }
}

impl From<ServerMessage> for v1::ServerSays {
    fn from(message: ServerMessage) -> Self {
        Self {
            welcome: message.welcome.map(Into::into),
            jobs: convert_all(message.jobs),
            finished: convert_all(message.finished),
            stop: convert_all(message.stop),
            lost: convert_all(message.lost),
            drain: message.drain,
            exit: message.exit,
        }
    }
}

impl From<Welcome> for v1::Welcome {
    fn from(welcome: Welcome) -> Self {
        let Welcome { kept, grace_ms, store } = welcome;
        Self { kept: convert_all(kept), grace_ms, store }
    }
}

impl From<JobDelivery> for v1::Delivered {
    fn from(job: JobDelivery) -> Self {
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
            pushed_at_ms: epoch_millis(job.pushed_at),
            due_ms: epoch_millis(job.due),
            lease_until_ms: epoch_millis(job.lease_until),
            timeout_ms: job.timeout.map_or(0, millis),
            labels: job.labels,
            trace: job.trace.unwrap_or_default(),
            handler: job.handler.map(Into::into),
            event: job.event.map(Into::into),
        }
    }
}

impl From<DeliveredEvent> for v1::ReceivedEvent {
    fn from(event: DeliveredEvent) -> Self {
        Self {
            name: event.name.to_string(),
            sent_at_ms: epoch_millis(event.sent_at),
            payload: Some(event.payload),
            encoding: v1::Encoding::from(event.encoding).into(),
        }
    }
}

impl From<JobHandler> for v1::Handled {
    fn from(JobHandler { handler, pooled }: JobHandler) -> Self {
        Self {
            revision: handler.revision(),
            runner: handler.runner().to_owned(),
            settings: handler.text().to_owned(),
            pooled,
        }
    }
}

impl From<ReportResponse> for v1::Finished {
    fn from(finished: ReportResponse) -> Self {
        let DeliveryRef { id, delivery } = finished.held;
        let mut message = Self { id: id.0, delivery: delivery.0, ..Self::default() };
        let verdict = match finished.verdict {
            ReportVerdict::Finished { state, pushed } => {
                message.state = state.map_or(0, |state| v1::State::from(state).into());
                message.pushed = convert_all(pushed);
                v1::Verdict::Finished
            }
            ReportVerdict::Stale => v1::Verdict::Stale,
            ReportVerdict::NotFound => v1::Verdict::NotFound,
            ReportVerdict::Refused(invalid) => {
                message.problem = Some((&invalid).into());
                v1::Verdict::Refused
            }
        };
        message.verdict = verdict.into();
        message
    }
}

impl From<Result<PushedFollowUp, Invalid>> for v1::Pushed {
    fn from(pushed: Result<PushedFollowUp, Invalid>) -> Self {
        match pushed {
            Ok(PushedFollowUp { id, duplicate }) => Self { id: id.0, duplicate, problem: None },
            Err(invalid) => Self { problem: Some((&invalid).into()), ..Self::default() },
        }
    }
}
