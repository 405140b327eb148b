//! Results, derived from jobs: one for the end of a job, and one for each failed attempt that was retried, while the
//! job's history has it.

use crore_core::handler::all_items;
use crore_core::job::{Attempt, DeliveryEnd, EndReason, Lapse, ResultRetention};
use crore_core::{Delivery, Handler, Job, JobId, Payload, Span, State, Time};
use crore_wire::grpc::jobworkerp::data::{
    JobResult, JobResultData, JobResultId, ResultOutput, ResultStatus,
};
use serde_json::Value;

use super::job::{key, priority, timeout, to_job_id};
use super::policy::max_retries;
use super::translate::response_type;
use super::workers::{JobWorker, WorkerDirectory, worker_id};

/// The error with which a runner reports a timeout.
const TIMED_OUT: &str = "timed out";

/// Bits of a result's id that are derived from the delivery.
const BITS: u32 = 20;

/// The id of a result: the job's id, and 20 bits of the delivery. A job's history has at most ten deliveries,
/// and the low bits of delivery numbers start over when a server starts, so all their bits are mixed.
fn result_id(job: JobId, delivery: Delivery) -> Option<JobResultId> {
    let stirred = delivery.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS);
    let shifted = i64::try_from(job.0).ok()?.checked_mul(1 << BITS)?;
    Some(JobResultId { value: shifted | i64::try_from(stirred).ok()? })
}

/// The id of a result's job.
pub(super) const fn job_of(number: i64) -> i64 {
    number >> BITS
}

/// The result with which a job has ended; `None`: it has not ended, or belongs to no worker.
pub(super) fn last(job: &Job, workers: &WorkerDirectory, now: Time) -> Option<JobResult> {
    let owner = workers.worker_of(job)?;
    let row = rows(job).into_iter().next().filter(|row| row.is_last)?;
    Some(to_message(job, (&owner, workers.masked_argument(job)), row, now))
}

/// Results of a job that its worker stores, newest first.
pub(super) fn stored(job: &Job, workers: &WorkerDirectory, now: Time) -> Vec<JobResult> {
    let Some(owner) = workers.worker_of(job) else { return Vec::new() };
    let (success, failure) = flags(job, owner.handler);
    let is_stored = |row: &ResultRow<'_>| match job.live.state {
        State::Done if row.is_last => success,
        // A job that never ran has no result.
        _ => failure && row.attempt.is_some(),
    };
    let stored = rows(job).into_iter().filter(is_stored);
    let arg = workers.masked_argument(job);
    stored.map(|row| to_message(job, (&owner, arg.clone()), row, now)).collect()
}

/// Which results a worker stores: success, failure. For a deleted worker, what the job itself retains.
fn flags(job: &Job, handler: Option<&Handler>) -> (bool, bool) {
    match handler {
        Some(handler) => (handler.results.success, handler.results.failure),
        None => {
            (job.spec.keep != ResultRetention::Discard, job.spec.keep != ResultRetention::Discard)
        }
    }
}

/// One run, or an end without a run.
#[derive(Clone, Copy)]
struct ResultRow<'a> {
    attempt: Option<&'a Attempt>,
    /// Number of retries before this run.
    retried: u32,
    /// Whether the job ended with this run.
    is_last: bool,
}

/// All runs that succeeded or failed, newest first.
fn rows(job: &Job) -> Vec<ResultRow<'_>> {
    let mut before = job.live.attempt;
    if job.live.state == State::Running {
        before = before.saturating_sub(1);
    }
    let mut rows = Vec::new();
    let last = last_attempt(job);
    if job.live.state.has_ended() && last.is_none() {
        rows.push(ResultRow { attempt: None, retried: before, is_last: true });
    }
    for attempt in &job.live.history {
        let is_last = last == Some(attempt.delivery);
        // A stopped run counts, whatever it reported.
        let is_stopped = is_last && job.live.state == State::Cancelled;
        let counts = is_stopped || counts(job, attempt);
        before = before.saturating_sub(u32::from(counts));
        if counts || is_last {
            rows.push(ResultRow { attempt: Some(attempt), retried: before, is_last });
        }
    }
    rows
}

/// The delivery with which a job has ended. A job cancelled while waiting has none.
fn last_attempt(job: &Job) -> Option<Delivery> {
    let newest = job.live.history.first()?;
    let has_ended = match job.live.state {
        State::Done => newest.ended == DeliveryEnd::Done,
        State::Dead => job.live.why != Some(EndReason::Damaged),
        State::Cancelled => job.live.ended_at == Some(newest.ended_at),
        State::Waiting | State::Scheduled | State::Ready | State::Running => false,
    };
    has_ended.then_some(newest.delivery)
}

/// Whether an attempt counts: one that was returned, or whose worker crashed, does not.
fn counts(job: &Job, attempt: &Attempt) -> bool {
    match attempt.ended {
        DeliveryEnd::Done
        | DeliveryEnd::Failed
        | DeliveryEnd::TimedOut
        | DeliveryEnd::Cancelled => true,
        DeliveryEnd::Lapsed => !matches!(job.spec.lapse, Lapse::Crash { .. }),
        DeliveryEnd::Snoozed | DeliveryEnd::Interrupted => false,
    }
}

fn to_message(
    job: &Job,
    (owner, arg): (&JobWorker<'_>, Vec<u8>),
    row: ResultRow<'_>,
    now: Time,
) -> JobResult {
    let status = if row.is_last { final_status(job) } else { ResultStatus::ErrorAndRetry };
    let items = match status {
        ResultStatus::Success => items(job, now),
        _ => vec![error_text(job, row.attempt).into_bytes()],
    };
    let ended_at = row.attempt.map(|attempt| attempt.ended_at).or(job.live.ended_at);
    let (success, failure) = flags(job, owner.handler);
    let data = JobResultData {
        job_id: to_job_id(job.id),
        worker_id: worker_id(owner.id),
        worker_name: owner.name.to_string(),
        arg,
        uniq_key: key(job.spec.unique.as_deref()),
        status: status.into(),
        output: Some(ResultOutput { items }),
        retried: row.retried,
        max_retry: max_retries(&job.spec.retry),
        priority: priority(job.spec.priority).into(),
        timeout: timeout(job.spec.timeout),
        enqueue_time: job.live.pushed_at.as_millis(),
        run_after_time: job.live.due.as_millis(),
        start_time: row.attempt.map_or(0, |attempt| attempt.started_at.as_millis()),
        end_time: ended_at.map_or(0, Time::as_millis),
        response_type: owner.handler.map_or(0, |handler| response_type(handler).into()),
        store_success: success,
        store_failure: failure,
    };
    let delivery = row.attempt.map_or(Delivery::NONE, |attempt| attempt.delivery);
    JobResult { id: result_id(job.id, delivery), data: Some(data) }
}

/// The final status of a job.
fn final_status(job: &Job) -> ResultStatus {
    let class = job.live.result.as_ref().and_then(|kept| class(&kept.payload));
    match (job.live.state, class.as_deref(), job.live.why) {
        (State::Done, ..) => ResultStatus::Success,
        (State::Cancelled, ..) => ResultStatus::Abort,
        (_, Some("fatal"), _) => ResultStatus::FatalError,
        (_, Some("aborted" | "stopped"), _) => ResultStatus::Abort,
        (_, Some("other"), _) => ResultStatus::OtherError,
        (_, Some("again"), _) | (_, _, Some(EndReason::Exhausted)) => ResultStatus::MaxRetry,
        _ => ResultStatus::OtherError,
    }
}

/// The class of a failure, as its runner reported it.
fn class(detail: &Payload) -> Option<String> {
    let detail: Value = serde_json::from_slice(&detail.bytes).ok()?;
    Some(detail.get("class")?.as_str()?.to_owned())
}

fn items(job: &Job, now: Time) -> Vec<Vec<u8>> {
    let items = job.result_at(now).map(|kept| all_items(&kept.payload)).unwrap_or_default();
    items.iter().map(|item| item.bytes.to_vec()).collect()
}

/// Whether a run timed out: ended by the engine, or reported earlier by its runner.
fn has_timed_out(attempt: &Attempt, timeout: Span) -> bool {
    let duration = attempt.ended_at.since(attempt.started_at);
    match attempt.ended {
        DeliveryEnd::TimedOut => true,
        DeliveryEnd::Failed => attempt.error.as_deref() == Some(TIMED_OUT) && duration >= timeout,
        _ => false,
    }
}

/// The error text of a run.
fn error_text(job: &Job, attempt: Option<&Attempt>) -> String {
    if let (Some(attempt), Some(timeout)) = (attempt, job.spec.timeout)
        && has_timed_out(attempt, timeout)
    {
        return format!("timeout error: \"timeout: {}ms\"", timeout.as_millis());
    }
    let error = attempt.and_then(|attempt| attempt.error.as_deref());
    let why = match job.live.why {
        Some(EndReason::Damaged) => "the job's record was damaged",
        Some(EndReason::DependencyBroken) => "a dependency of the job can no longer succeed",
        Some(EndReason::Expired) => "the job was not started by its deadline",
        _ if attempt.is_some() => "the job was stopped",
        _ => "the job was deleted before it ran",
    };
    error.unwrap_or(why).to_owned()
}
