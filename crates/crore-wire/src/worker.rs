//! Messages between a worker and the server, in plain types.
//!
//! gRPC carries them across the network, see [`grpc`](crate::grpc); a worker in the server's own process is handed them
//! as they are.

mod delivered;
mod handler;

use std::task::{Context, Poll};

use crore_core::machine::{self, Outcome};
use crore_core::{Code, Delivery, Invalid, JobId, State};

pub use delivered::{Delivered, Handled};
pub use handler::HandlerRevision;

/// The session of a worker in the server's own process, as the worker uses it. To drop it ends the session: jobs that the
/// worker holds go to others.
pub trait Session: Send {
    /// Takes a message of the worker; it is processed when the session is next polled.
    fn send(&mut self, message: WorkerMessage);

    /// The next message to the worker. `None`, or an error: the session is over.
    fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<ServerMessage, SessionEnd>>>;
}

/// A delivery that a worker holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Held {
    /// The job.
    pub id: JobId,
    /// The number of the hand-over.
    pub delivery: Delivery,
}

/// Message from a worker. The first one has `hello`; any of the others may come together.
#[derive(Debug, Default)]
pub struct WorkerMessage {
    /// Identity of the worker, and the jobs that it asks for.
    pub hello: Option<Hello>,
    /// Reports about deliveries.
    pub reports: Vec<Report>,
    /// Progress and log lines.
    pub notes: Vec<Note>,
    /// New number of slots.
    pub slots: Option<u32>,
    /// The worker takes no more jobs, and ends the session when its jobs are done.
    pub drain: bool,
}

impl WorkerMessage {
    /// Bytes that the message holds, about.
    pub fn size(&self) -> usize {
        let reports = self.reports.iter().map(|report| match &report.report {
            Ok(report) => SMALL + report_size(report),
            Err(_) => SMALL,
        });
        let notes = self.notes.iter().map(|note| SMALL + note.text.len());
        reports.sum::<usize>() + notes.sum::<usize>()
    }
}

/// What the small fields of a report or a note take, about.
const SMALL: usize = 32;

fn report_size(report: &machine::Report) -> usize {
    let payload = match &report.outcome {
        Outcome::Done { result } => result.as_ref(),
        Outcome::Failed { detail, .. } => detail.as_ref(),
        Outcome::Snooze(_) | Outcome::Cancel | Outcome::Interrupted => None,
    };
    let error = match &report.outcome {
        Outcome::Failed { error, .. } => error.len(),
        _ => 0,
    };
    let follow_ups = report.on_done.iter().chain(&report.on_dead);
    let follow_ups = follow_ups.map(|job| SMALL + job.spec.payload.bytes.len());
    payload.map_or(0, |payload| payload.bytes.len()) + error + follow_ups.sum::<usize>()
}

/// Identity of a worker, and the jobs that it asks for. Nothing of it is checked yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hello {
    /// Queues to take jobs from, the first ones first if `strict`.
    pub queues: Vec<String>,
    /// Only these kinds; any kind, if there are none.
    pub kinds: Vec<String>,
    /// Maximum number of jobs at a time.
    pub slots: u32,
    /// Display name; the incarnation, if empty.
    pub name: String,
    /// Random text of the process. A worker that reconnects with the same one keeps its jobs.
    pub incarnation: String,
    /// Version of its program.
    pub version: String,
    /// Whether queues are taken in order instead of merged by priority, due time and id.
    pub strict: bool,
    /// Deliveries that it still holds after a broken connection.
    pub held: Vec<Held>,
    /// Whether it runs handlers: it takes jobs of every kind that has one, each with its [`Handled`].
    pub runs_handlers: bool,
    /// Runners that it brings; any, if there are none.
    pub runners: Vec<String>,
}

/// Report about one delivery.
#[derive(Debug)]
pub struct Report {
    /// The delivery.
    pub held: Held,
    /// How it went, or why the report cannot be read. A report that cannot be read is refused alone.
    pub report: Result<machine::Report, Invalid>,
}

/// Progress or a log line of a running delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The delivery.
    pub held: Held,
    /// Progress from 0 to 100; `None`: a log line.
    pub percent: Option<u32>,
    /// Text.
    pub text: String,
}

/// Message from the server. The first one has `welcome`; any of the others may come together. An empty message tells
/// that leases were renewed.
#[derive(Debug, Default)]
pub struct ServerMessage {
    /// Answer to the hello.
    pub welcome: Option<Welcome>,
    /// Jobs to run.
    pub jobs: Vec<Delivered>,
    /// Answers to reports, in their order.
    pub finished: Vec<Finished>,
    /// Deliveries whose jobs are asked to stop.
    pub stop: Vec<Held>,
    /// Deliveries that the worker no longer holds.
    pub lost: Vec<Held>,
    /// The server hands out no more jobs; it still takes reports.
    pub drain: bool,
}

impl ServerMessage {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        let Self { welcome, jobs, finished, stop, lost, drain } = self;
        welcome.is_none()
            && jobs.is_empty()
            && finished.is_empty()
            && stop.is_empty()
            && lost.is_empty()
            && !drain
    }
}

/// Answer to a hello.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Welcome {
    /// Deliveries that the worker keeps.
    pub kept: Vec<Held>,
    /// Time to reconnect after a broken connection, before its jobs are handed to others.
    pub grace_ms: u64,
}

/// Answer to a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// The delivery.
    pub held: Held,
    /// What became of the report.
    pub verdict: Verdict,
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It counts.
    Finished {
        /// State of the job; `None`: the job is gone.
        state: Option<State>,
        /// Its follow-ups, in order.
        pushed: Vec<Result<Pushed, Invalid>>,
    },
    /// The delivery does not count any more: its lease has ended, or it was reported before.
    Stale,
    /// There is no such job.
    NotFound,
    /// It breaks a rule; the worker still holds the delivery.
    Refused(Invalid),
}

/// A follow-up that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pushed {
    /// The job.
    pub id: JobId,
    /// Whether it was stored before, under the same unique key or client id.
    pub duplicate: bool,
}

/// Why the server ends a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEnd {
    /// Stable code, if the server has one for it.
    pub code: Option<Code>,
    /// The offending field, if there is one.
    pub field: Option<String>,
    /// Description for people.
    pub message: String,
    /// Whether to connect again may help.
    pub is_transient: bool,
}
