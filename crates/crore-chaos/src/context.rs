//! State that all callers of a run share: the recorder, the jobs they know, and pushes and reports still to be sent.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crore_core::job::ResultRetention;
use crore_core::{Code, Delivery, Encoding, JobId, Payload, Span};
use crore_testkit::SeededRng;
use crore_testkit::history::{PayloadHash, PendingCall, RecordedResponse, Recorder};
use crore_wire::Format;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::client::{ApiRequest, NO_RESPONSE, UNEXPECTED_RESPONSE};
use crate::draft::{JobDraft, value};
use crate::fault::ChaosFault;
use crate::time::instant;

/// The server's name in the history.
pub(crate) const NODE: &str = "server";
/// How the history marks the fetch of a push worker to which no job was posted.
pub(crate) const NOTHING_POSTED: &str = "nothing was posted";
/// Number of job ids that callers remember, to read and change the jobs.
const MAX_KNOWN_JOBS: usize = 500;

/// State that all callers of a run share.
#[derive(Debug)]
pub(crate) struct ChaosContext {
    pub(crate) recorder: Recorder,
    /// Whether the fault may poison the store: the disk fails writes that it first accepted.
    may_poison: bool,
    /// Number of answered calls.
    answered_calls: watch::Sender<u64>,
    /// Whether a server is running.
    server_running: watch::Sender<bool>,
    inner: Mutex<ChaosContextState>,
}

#[derive(Debug, Default)]
struct ChaosContextState {
    last_seq: u64,
    jobs_by_payload: HashMap<PayloadHash, PushedJob>,
    jobs_by_seq: HashMap<u64, PushedJob>,
    jobs: Vec<(JobId, PushedJob)>,
    held_deliveries: Vec<HeldDelivery>,
    pending_pushes: Vec<PendingPush>,
    anomalies: Vec<String>,
    /// Approximate number of unfinished jobs.
    unfinished: i64,
}

/// Properties of a job, known from its push.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PushedJob {
    pub(crate) lease: Option<Span>,
    pub(crate) keep: ResultRetention,
    pub(crate) priority: i32,
    encoding: Encoding,
}

/// A delivery that a worker holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldDelivery {
    pub(crate) id: JobId,
    pub(crate) delivery: Delivery,
    pub(crate) lease: Option<Span>,
}

/// A push with an idempotency key that was sent, perhaps several times, and not answered; it is repeated until it is.
#[derive(Debug)]
pub(crate) struct PendingPush {
    pub(crate) request: ApiRequest,
    pub(crate) format: Format,
    pub(crate) call: PendingCall,
    pub(crate) job: PushedJob,
}

impl ChaosContext {
    pub(crate) fn new(fault: ChaosFault) -> Self {
        let start = instant();
        let now = move || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let (answered_calls, server_running) = (watch::Sender::new(0), watch::Sender::new(false));
        let may_poison = matches!(
            fault,
            ChaosFault::Power | ChaosFault::PowerExt4 | ChaosFault::Full | ChaosFault::Fill
        );
        Self {
            recorder: Recorder::new(now),
            may_poison,
            answered_calls,
            server_running,
            inner: Mutex::default(),
        }
    }

    /// Records the answer of a call.
    pub(crate) fn record_answer(&self, call: PendingCall, response: RecordedResponse) {
        self.recorder.ok(call, None, response);
        self.answered_calls.send_modify(|count| *count += 1);
    }

    /// Waits until this many more calls are answered, or until the timeout.
    pub(crate) async fn wait_for_answers(&self, more: u64, at_most: Duration) {
        let mut answered = self.answered_calls.subscribe();
        let enough = *answered.borrow() + more;
        // A timeout ends the wait as well.
        let _ = timeout(at_most, answered.wait_for(|answered| *answered >= enough)).await;
    }

    /// Records that a server runs, or that it has ended.
    pub(crate) fn set_server_running(&self, running: bool) {
        self.server_running.send_replace(running);
    }

    /// Sleeps, at most until the server has ended.
    pub(crate) async fn sleep_while_running(&self, span: Duration) {
        let mut running = self.server_running.subscribe();
        // A timeout ends the wait as well.
        let _ = timeout(span, running.wait_for(|running| !running)).await;
    }

    /// The sequence number of the next job to push.
    pub(crate) fn next_seq(&self) -> u64 {
        let mut inner = self.inner();
        inner.last_seq += 1;
        inner.last_seq
    }

    /// Approximate number of unfinished jobs.
    pub(crate) fn unfinished(&self) -> i64 {
        self.inner().unfinished
    }

    /// Remembers a job that is about to be pushed.
    pub(crate) fn remember(&self, draft: &JobDraft) -> PushedJob {
        let spec = &draft.job.spec;
        let job = PushedJob {
            lease: spec.lease,
            keep: spec.keep,
            priority: spec.priority,
            encoding: spec.payload.encoding,
        };
        let mut inner = self.inner();
        inner.jobs_by_payload.insert(PayloadHash::of(&spec.payload), job);
        inner.jobs_by_seq.insert(draft.seq, job);
        job
    }

    /// Records that a job was pushed.
    pub(crate) fn record_pushed(&self, id: JobId, job: PushedJob) {
        let mut inner = self.inner();
        inner.unfinished += 1;
        if inner.jobs.len() < MAX_KNOWN_JOBS {
            inner.jobs.push((id, job));
        } else {
            let index = id.0 as usize % MAX_KNOWN_JOBS;
            inner.jobs[index] = (id, job);
        }
    }

    /// Records that a job has ended.
    pub(crate) fn record_ended(&self) {
        self.inner().unfinished -= 1;
    }

    /// The properties of the job with this payload.
    pub(crate) fn job_by_payload(&self, payload: PayloadHash) -> Option<PushedJob> {
        self.inner().jobs_by_payload.get(&payload).copied()
    }

    /// The payload of a posted job as it was pushed, and the job's properties.
    pub(crate) fn job_by_argument(&self, argument: &[u8]) -> Option<(PayloadHash, PushedJob)> {
        let text = msgpack_text(argument)?;
        let seq = text.split(':').next()?.parse().ok()?;
        let known = self.inner().jobs_by_seq.get(&seq).copied()?;
        let payload = match known.encoding {
            Encoding::Json => value(text, Format::Json),
            Encoding::Msgpack => value(text, Format::Msgpack),
            other => Payload::new(other, text.as_bytes()),
        };
        Some((PayloadHash::of(&payload), known))
    }

    /// A random job that was pushed.
    pub(crate) fn random_job(&self, rng: &mut SeededRng) -> Option<(JobId, PushedJob)> {
        let inner = self.inner();
        let n = u64::try_from(inner.jobs.len()).ok().filter(|n| *n > 0)?;
        inner.jobs.get(rng.below(n) as usize).copied()
    }

    /// Stores a delivery that any worker may report later, also after a restart.
    pub(crate) fn hold_delivery(&self, held: HeldDelivery) {
        self.inner().held_deliveries.push(held);
    }

    /// Takes the delivery that was stored first.
    pub(crate) fn take_held_delivery(&self) -> Option<HeldDelivery> {
        let mut inner = self.inner();
        if inner.held_deliveries.is_empty() { None } else { Some(inner.held_deliveries.remove(0)) }
    }

    /// Stores a push that was not answered.
    pub(crate) fn add_pending_push(&self, push: PendingPush) {
        self.inner().pending_pushes.push(push);
    }

    /// Takes a push that was not answered.
    pub(crate) fn take_pending_push(&self) -> Option<PendingPush> {
        self.inner().pending_pushes.pop()
    }

    /// Records an anomaly if no fault explains why this call was not answered.
    pub(crate) fn check_unanswered(&self, what: &str, why: &str) {
        let gave_up = why.contains(Code::Poisoned.as_str()) && !self.may_poison;
        if why == NO_RESPONSE || why.starts_with(UNEXPECTED_RESPONSE) || gave_up {
            self.add_anomaly(format!("{what}: {why}"));
        }
    }

    /// Records an anomaly that the checker cannot see in the history.
    pub(crate) fn add_anomaly(&self, what: String) {
        self.inner().anomalies.push(what);
    }

    /// All anomalies.
    pub(crate) fn anomalies(&self) -> Vec<String> {
        self.inner().anomalies.clone()
    }

    /// A poisoned lock is usable: every change inserts or removes whole entries.
    fn inner(&self) -> MutexGuard<'_, ChaosContextState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The text in a MessagePack argument, encoded as a string or as binary.
fn msgpack_text(argument: &[u8]) -> Option<&str> {
    let (length, rest) = match argument {
        [head @ 0xa0..=0xbf, rest @ ..] => (usize::from(head & 0x1f), rest),
        [0xd9 | 0xc4, n, rest @ ..] => (usize::from(*n), rest),
        [0xda | 0xc5, a, b, rest @ ..] => (usize::from(u16::from_be_bytes([*a, *b])), rest),
        _ => return None,
    };
    std::str::from_utf8(rest.get(..length)?).ok()
}
