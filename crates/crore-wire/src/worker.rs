//! Messages between a worker and the server, as plain types.
//!
//! gRPC carries them over the network, see [`grpc`](crate::grpc); a worker in the server's own process exchanges them
//! directly.

mod delivered;
mod handler;

use std::collections::BTreeMap;

use std::task::{Context, Poll};

use crore_core::machine::{self, Outcome};
use crore_core::{Code, Delivery, Invalid, JobId, State};

pub use delivered::{DeliveredEvent, JobDelivery, JobHandler};
pub use handler::HandlerRevision;

/// Session of a worker in the server's own process. Dropping it ends the session: the jobs that the worker holds are
/// delivered to others.
pub trait Session: Send {
    /// Queues a message of the worker, to be processed when the session is next polled.
    fn send(&mut self, message: WorkerMessage);

    /// The next message to the worker. `None` or an error ends the session.
    fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<ServerMessage, SessionEnd>>>;
}

/// A delivery that a worker holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryRef {
    /// The job.
    pub id: JobId,
    /// Number of the delivery.
    pub delivery: Delivery,
}

/// Message from a worker. The first message has `hello`; the other fields may be combined.
#[derive(Debug, Default)]
pub struct WorkerMessage {
    /// Identity of the worker, and the jobs that it requests.
    pub hello: Option<Hello>,
    /// Reports about deliveries.
    pub reports: Vec<WorkerReport>,
    /// Progress and log lines.
    pub notes: Vec<WorkerNote>,
    /// New number of slots.
    pub slots: Option<u32>,
    /// The worker accepts no more jobs, and ends the session when its jobs are done.
    pub drain: bool,
}

impl WorkerMessage {
    /// Approximate size of the message in bytes.
    pub fn size(&self) -> usize {
        let reports = self.reports.iter().map(|report| match &report.report {
            Ok(report) => FIXED_FIELDS_SIZE + report_size(report),
            Err(_) => FIXED_FIELDS_SIZE,
        });
        let notes = self.notes.iter().map(|note| FIXED_FIELDS_SIZE + note.text.len());
        reports.sum::<usize>() + notes.sum::<usize>()
    }
}

/// Approximate size of the fixed fields of a report or a note.
const FIXED_FIELDS_SIZE: usize = 32;

fn report_size(report: &machine::Report) -> usize {
    let payload = match &report.outcome {
        Outcome::Done { result } => result.as_ref(),
        Outcome::Failed { detail, .. } => detail.as_ref(),
        Outcome::Snooze(_) | Outcome::Cancel | Outcome::Interrupted | Outcome::Exhausted { .. } => {
            None
        }
    };
    let error = match &report.outcome {
        Outcome::Failed { error, .. } => error.len(),
        _ => 0,
    };
    let follow_ups = report.on_done.iter().chain(&report.on_dead);
    let follow_ups = follow_ups.map(|job| FIXED_FIELDS_SIZE + job.spec.payload.bytes.len());
    payload.map_or(0, |payload| payload.bytes.len()) + error + follow_ups.sum::<usize>()
}

/// Identity of a worker, and the jobs that it requests. Not validated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hello {
    /// Queues to take jobs from, in order if `strict`.
    pub queues: Vec<String>,
    /// Kinds to take; empty: any.
    pub kinds: Vec<String>,
    /// Maximum number of concurrent jobs.
    pub slots: u32,
    /// Display name; if empty, the incarnation.
    pub name: String,
    /// Random id of the process. A worker that reconnects with the same incarnation keeps its jobs.
    pub incarnation: String,
    /// Version of the worker's program.
    pub version: String,
    /// Whether queues are served in order instead of merged by priority, due time and id.
    pub strict: bool,
    /// Deliveries that the worker still holds after a broken connection.
    pub held: Vec<DeliveryRef>,
    /// Whether the worker runs handlers: it takes jobs of every kind that has one, each with its [`JobHandler`].
    pub runs_handlers: bool,
    /// Runners that the worker provides; empty: any.
    pub runners: Vec<String>,
    /// Version of each kind that the worker runs.
    pub versions: BTreeMap<String, String>,
}

/// Report about one delivery.
#[derive(Debug)]
pub struct WorkerReport {
    /// The delivery.
    pub held: DeliveryRef,
    /// The report, or why it is invalid. An invalid report is refused on its own.
    pub report: Result<machine::Report, Invalid>,
}

/// Progress or a log line of a running delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerNote {
    /// The delivery.
    pub held: DeliveryRef,
    /// Progress from 0 to 100; `None`: a log line.
    pub percent: Option<u32>,
    /// Text.
    pub text: String,
}

/// Message from the server. The first message has `welcome`; the other fields may be combined. An empty message
/// confirms that leases were renewed.
#[derive(Debug, Default)]
pub struct ServerMessage {
    /// Response to the hello.
    pub welcome: Option<Welcome>,
    /// Jobs to run.
    pub jobs: Vec<JobDelivery>,
    /// Results of reports, in order.
    pub finished: Vec<ReportResponse>,
    /// Deliveries whose jobs are asked to stop.
    pub stop: Vec<DeliveryRef>,
    /// Deliveries that the worker no longer holds.
    pub lost: Vec<DeliveryRef>,
    /// The server delivers no more jobs; it still accepts reports.
    pub drain: bool,
    /// An operator asks the worker to finish its jobs and exit; the server delivers no more jobs.
    pub exit: bool,
}

impl ServerMessage {
    /// Whether the message has no content.
    pub fn is_empty(&self) -> bool {
        let Self { welcome, jobs, finished, stop, lost, drain, exit } = self;
        welcome.is_none()
            && jobs.is_empty()
            && finished.is_empty()
            && stop.is_empty()
            && lost.is_empty()
            && !drain
            && !exit
    }
}

/// Response to a hello.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Welcome {
    /// Deliveries that the worker keeps.
    pub kept: Vec<DeliveryRef>,
    /// Time to reconnect after a broken connection before the jobs are delivered to others.
    pub grace_ms: u64,
    /// Identity of the server's store; empty: unknown. Job ids are unique only within a store.
    pub store: String,
}

/// Response to a report.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportResponse {
    /// The delivery.
    pub held: DeliveryRef,
    /// The result.
    pub verdict: ReportVerdict,
}

/// Result of a report.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportVerdict {
    /// The report was applied.
    Finished {
        /// New state of the job; `None` if it was removed.
        state: Option<State>,
        /// The pushed follow-ups, in order.
        pushed: Vec<Result<PushedFollowUp, Invalid>>,
    },
    /// The delivery no longer holds the lease: the lease expired, or the delivery was reported before.
    Stale,
    /// The job does not exist.
    NotFound,
    /// The report is invalid; the worker still holds the delivery.
    Refused(Invalid),
}

/// A stored follow-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushedFollowUp {
    /// The job.
    pub id: JobId,
    /// Whether a job with the same unique key or client id was stored before.
    pub duplicate: bool,
}

/// Why the server ends a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEnd {
    /// Stable code, if any.
    pub code: Option<Code>,
    /// The offending field, if any.
    pub field: Option<String>,
    /// Description.
    pub message: String,
    /// Whether reconnecting may help.
    pub is_transient: bool,
}
